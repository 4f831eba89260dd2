// SPDX-License-Identifier: GPL-2.0-or-later
// Names looked up among a million of a policy, a quarter of them wildcards; those of the Rust
// twin's benches/names/lookup.rs.
#ifndef BENCH_LOOKUP_H
#define BENCH_LOOKUP_H

#include <stdint.h>

struct lookups;

struct lookups *lookups_make(void);
void lookups_free(struct lookups *lookups);

/// Looks up the next names. Returns their number.
uint32_t lookups_round(struct lookups *lookups);

#endif
