// SPDX-License-Identifier: GPL-2.0-or-later
// A policy to the form that decide walks: constants folded, names and jumps resolved, sets as
// lookups, rules that test one field against constants found by its value instead of one by one.
// What comes out never changes and is shared by all workers.
#ifndef COMPILE_H
#define COMPILE_H

#include <stdbool.h>
#include <stdint.h>

#include "log.h"
#include "policy.h"

enum {
    COMPILE_LENGTH_BYTES = 1,   // copied so that the kernel tells a packet's length
    COMPILE_IPV4_BYTES = 20,    // for fields of the IPv4 header
    COMPILE_IPV6_BYTES = 40,    // for fields of the fixed IPv6 header
    COMPILE_IPV4_L4_BYTES = 80, // for layer 4 behind the longest IPv4 header
    COMPILE_ALL_BYTES = 128,    // for layer 4 behind IPv6 extension headers, and for reject
};

/// What a policy can ever read or do.
struct requirement {
    uint32_t copy_bytes;  // of a packet; 0 = metadata only
    bool layer4;          // reads behind the network header: a packet cut there can't be decided
    bool uid_gid;         // meta skuid, meta skgid
    bool conntrack_state; // ct state
    bool conntrack_mark;  // ct mark
    bool interface_names; // iifname, oifname
    bool reject;          // answers can be asked for
};

struct compile_settings {
    bool linear; // every rule is walked, as explain does; verdicts and counters are the same
    // The index of a network interface, 0 = there is none of this name. With NULL there are none.
    uint32_t (*interface_index)(const char *name, void *context);
    void *context;
    bool interfaces_must_exist; // fail if there is none; else its matches never hold
};

/// Where a rule, or one of its statements, stands in the policy.
struct compile_place {
    uint32_t table;     // into policy.tables
    uint32_t chain;     // into the table's chains
    uint32_t rule;      // into the chain's rules
    uint32_t statement; // into the rule's statements; 0 for a rule
};

struct compiled;

/// Compiles a policy that parse has checked.
/// - The policy is not needed afterwards.
/// - Returns 0, or -errno with failure filled in, *compiled untouched: -EINVAL (code
///   LOG_EXIT_USAGE, "FILE:LINE:COLUMN: …") for a limit beyond what the kernel takes or an
///   interface that must exist, -ENOMEM.
int compile_policy(const struct policy *policy, const struct compile_settings *settings,
                   struct compiled **compiled, struct failure *failure);

/// Frees what compile_policy made; NULL too.
void compile_free(struct compiled *compiled);

const struct requirement *compile_requirement(const struct compiled *compiled);

/// How many counter statements the policy has. They are numbered in the policy's order: tables,
/// chains, rules, statements.
uint32_t compile_counters(const struct compiled *compiled);

/// Where a counter stands. counter < compile_counters.
struct compile_place compile_counter_at(const struct compiled *compiled, uint32_t counter);

/// What a counter starts with. counter < compile_counters.
struct policy_counter compile_counter_start(const struct compiled *compiled, uint32_t counter);

/// How many log statements the policy has, numbered as counters are.
uint32_t compile_logs(const struct compiled *compiled);

/// Where a log statement stands. log < compile_logs.
struct compile_place compile_log_at(const struct compiled *compiled, uint32_t log);

/// Where a rule stands, as numbered in decide_outcome.rule.
struct compile_place compile_rule_at(const struct compiled *compiled, uint32_t rule);

/// Where a chain stands, as numbered in decide_outcome.chain; rule and statement are 0.
struct compile_place compile_chain_at(const struct compiled *compiled, uint32_t chain);

#endif
