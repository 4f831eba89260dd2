// SPDX-License-Identifier: GPL-2.0-or-later
#include "base/counts.h"

static uint64_t counts[COUNT_COUNT];

void counts_add(enum count count, uint64_t amount) {
    __atomic_add_fetch(&counts[count], amount, __ATOMIC_RELAXED);
}

uint64_t counts_get(enum count count) { return __atomic_load_n(&counts[count], __ATOMIC_RELAXED); }
