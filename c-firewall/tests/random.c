// SPDX-License-Identifier: GPL-2.0-or-later
#include "random.h"

uint64_t random_next(struct random *random) {
    uint64_t number = random->state += 0x9e3779b97f4a7c15ULL;

    number = (number ^ (number >> 30)) * 0xbf58476d1ce4e5b9ULL;
    number = (number ^ (number >> 27)) * 0x94d049bb133111ebULL;
    return number ^ (number >> 31);
}

uint32_t random_below(struct random *random, uint32_t bound) {
    return (uint32_t)(random_next(random) >> 32) % bound;
}
