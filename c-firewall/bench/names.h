// SPDX-License-Identifier: GPL-2.0-or-later
// Packets of clients that show names, through all that a worker does with them but its queue: they
// are parsed, put into their connections, and decided. Those of the Rust twin's benches/names.
#ifndef BENCH_NAMES_H
#define BENCH_NAMES_H

#include <stdint.h>

enum { NAMED_CASE_COUNT = 8 };

struct step_list;

/// Clients that all send the same.
struct named_case {
    const char *name;
    // Bytes that each client has sent before; the same clients continue then. NULL = nothing.
    void (*before)(struct step_list *list);
    void (*each)(struct step_list *list);
};

struct named_subject;

extern const struct named_case named_cases[NAMED_CASE_COUNT];

struct named_subject *names_make(const struct named_case *named_case);
void names_free(struct named_subject *subject);

/// Sends the packets of so many clients. Returns the number of accepted packets.
uint32_t names_round(struct named_subject *subject);

#endif
