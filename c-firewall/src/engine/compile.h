// SPDX-License-Identifier: GPL-2.0-or-later
// Compiles a policy to the form that decide walks: constants are folded, names and jumps resolved,
// sets become lookups, and rules that test one field against constants are found by its value
// instead of one by one. The result never changes, and all workers share it.
#ifndef ENGINE_COMPILE_H
#define ENGINE_COMPILE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/log.h"
#include "engine/compiled.h"
#include "policy/policy.h"
#include "policy/requirement.h"

struct compile_settings {
    bool linear; // every rule is walked, as explain does; verdicts and counters are the same
    // The index of a network interface, 0 = there is none of this name. With NULL there are none.
    uint32_t (*interface_index)(const char *name, void *context);
    void *context;
    bool interfaces_must_exist; // fail if there is none; else its matches never hold
};

/// Compiles a policy that parse has checked.
/// - The policy is not needed afterwards.
/// - Returns 0, or -errno with failure filled in, *compiled untouched: -EINVAL (code
///   LOG_EXIT_USAGE, "FILE:LINE:COLUMN: …") for an interface that must exist, -ENOMEM.
int compile_policy(const struct policy *policy, const struct compile_settings *settings,
                   struct compiled **compiled, struct failure *failure);

/// Frees what compile_policy made; NULL too.
void compile_free(struct compiled *compiled);

const struct requirement *compile_requirement(const struct compiled *compiled);

/// How many counter statements the policy has. They are numbered in the policy's order: tables,
/// chains, rules, statements.
uint32_t compile_counters(const struct compiled *compiled);

/// Position of a counter in the policy's text. counter < compile_counters.
struct compile_place compile_counter_at(const struct compiled *compiled, uint32_t counter);

/// Initial value of a counter. counter < compile_counters.
struct policy_counter compile_counter_start(const struct compiled *compiled, uint32_t counter);

/// How many log statements the policy has, numbered as counters are.
uint32_t compile_logs(const struct compiled *compiled);

/// Position of a log statement in the policy's text. log < compile_logs.
struct compile_place compile_log_at(const struct compiled *compiled, uint32_t log);

/// Position of a rule in the policy's text, with the number of decide_outcome.rule; statement is 0.
struct compile_place compile_rule_at(const struct compiled *compiled, uint32_t rule);

/// Position of a chain in the policy's text, with the number of decide_outcome.chain; rule and
/// statement are 0.
struct compile_place compile_chain_at(const struct compiled *compiled, uint32_t chain);

#endif
