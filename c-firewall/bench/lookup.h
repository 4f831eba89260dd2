// SPDX-License-Identifier: GPL-2.0-or-later
// Search for names among a million names of a policy, a quarter of which are wildcards. The names
// are the same in the Rust twin's benches/names/lookup.rs.
#ifndef BENCH_LOOKUP_H
#define BENCH_LOOKUP_H

#include <stdint.h>

struct lookups;

struct lookups *lookups_make(void);
void lookups_free(struct lookups *lookups);

/// Searches the next CASES_PACKETS names. Returns the number of names that were found.
uint32_t lookups_round(struct lookups *lookups);

#endif
