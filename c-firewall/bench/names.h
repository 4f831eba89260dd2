// SPDX-License-Identifier: GPL-2.0-or-later
// Benchmark of packets of clients that show names. It does the same as a worker, except for the
// queue: packets are parsed, followed in their connections, and decided. The packets of the Rust
// twin's benches/names are the same, except for some filler bytes.
#ifndef BENCH_NAMES_H
#define BENCH_NAMES_H

#include <stdint.h>

enum { NAMED_CASE_COUNT = 8 };

struct step_list;

/// Benchmark case in which all clients send the same packets.
struct named_case {
    const char *name;
    // Appends the packets of each client's connection before the measurement, in both directions;
    // NULL = none. With NULL, each round has new clients. Otherwise all rounds have the same
    // clients.
    void (*before)(struct step_list *list);
    void (*each)(struct step_list *list);
};

struct named_subject;

extern const struct named_case named_cases[NAMED_CASE_COUNT];

struct named_subject *names_make(const struct named_case *named_case);
void names_free(struct named_subject *subject);

/// Decides the packets of CASES_PACKETS clients. Returns the number of accepted packets.
uint32_t names_round(struct named_subject *subject);

#endif
