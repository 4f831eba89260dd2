// SPDX-License-Identifier: GPL-2.0-or-later
// Pseudorandom numbers that are the same on every run and in both twins.
#ifndef RANDOM_H
#define RANDOM_H

#include <stdint.h>

/// State of a random number generator, Sebastiano Vigna's splitmix64.
struct random {
    uint64_t state;
};

uint64_t random_next(struct random *random);

/// Returns a number less than a bound, which must not be 0.
uint32_t random_below(struct random *random, uint32_t bound);

#endif
