// SPDX-License-Identifier: GPL-2.0-or-later
// Policies and packets of the micro-benchmarks, which are the same in the Rust twin's
// benches/cases.
#ifndef BENCH_CASES_H
#define BENCH_CASES_H

#include <stdint.h>

#include "engine/decide.h"

enum {
    CASES_PACKETS = 512, // number of packets in a round
    CASES_PACKET_BYTES = 40,
    CASE_COUNT = 7,
};

/// Factor that scatters numbers over 32 bits: about 2^32 / golden ratio, odd, so that its multiples
/// differ.
#define CASES_STRIDE 2654435761U

struct case_text;

/// Case of a benchmark: a policy with `size` rules or elements.
struct policy_case {
    const char *name;
    void (*make)(struct case_text *text, uint32_t size);
    uint32_t size;
};

/// Packets that are to be decided.
struct case_load {
    uint8_t bytes[CASES_PACKETS][CASES_PACKET_BYTES];
    struct packet packets[CASES_PACKETS];
    struct decide_input inputs[CASES_PACKETS];
};

/// Compiled policy with its state.
struct case_subject {
    struct compiled *compiled;
    struct flow flow;
    struct flow_counters counters;
};

extern const struct policy_case cases[CASE_COUNT];

/// Returns the input of a decision: a packet that arrived at eth0, with hook input and ct state
/// new.
struct decide_input cases_input(const struct packet *packet, enum packet_status status);

/// Creates the packets that all policies decide.
void cases_make_load(struct case_load *load);

/// Compiles a policy, which must be valid.
struct case_subject cases_compile(const char *text);
struct case_subject cases_make_subject(const struct policy_case *policy_case);
void cases_free_subject(struct case_subject *subject);

/// Decides a packet.
void cases_decide(struct case_subject *subject, const struct decide_input *input,
                  struct decide_outcome *outcome);

/// Decides all packets. Returns the number of accepted packets.
uint32_t cases_decide_all(struct case_subject *subject, const struct case_load *load);

#endif
