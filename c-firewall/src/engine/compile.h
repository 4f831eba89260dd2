// SPDX-License-Identifier: GPL-2.0-or-later
// Compilation of a policy into the form that decide evaluates: constants are folded, names and
// jumps are resolved, sets become lookups, and rules that compare one field with constants are
// found by the field's value. The result never changes, and all workers share it.
#ifndef ENGINE_COMPILE_H
#define ENGINE_COMPILE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/log.h"
#include "engine/compiled.h"
#include "policy/policy.h"
#include "policy/requirement.h"

struct compile_settings {
    // True if every rule is evaluated, without indexes, as explain needs. Outcomes and counters
    // stay the same.
    bool linear;
    // Returns the index of a network interface; 0 = there is none with this name. NULL = there are
    // no interfaces.
    uint32_t (*interface_index)(const char *name, void *context);
    void *context;
    // True if a missing interface is an error; otherwise no packet's interface is equal to it.
    bool interfaces_must_exist;
};

/// Compiles a policy that parse has checked.
/// - The policy is not needed afterwards.
/// - compiled: out: compiled policy.
/// - Returns 0, or -errno with failure filled in, *compiled untouched: -EINVAL (code
///   LOG_EXIT_USAGE, "FILE:LINE:COLUMN: …") for a missing interface that must exist, and for more
///   than 32 ALPN protocols; -ENOMEM.
int compile_policy(const struct policy *policy, const struct compile_settings *settings,
                   struct compiled **compiled, struct failure *failure);

/// Frees what compile_policy has created. NULL is allowed.
void compile_free(struct compiled *compiled);

const struct requirement *compile_requirement(const struct compiled *compiled);

/// Returns the number of counter statements in the policy. They are numbered in the policy's order:
/// tables, chains, rules, statements.
uint32_t compile_counters(const struct compiled *compiled);

/// Returns the position of a counter in the policy.
/// - counter: less than compile_counters.
struct compile_place compile_counter_at(const struct compiled *compiled, uint32_t counter);

/// Returns the initial value of a counter.
/// - counter: less than compile_counters.
struct policy_counter compile_counter_start(const struct compiled *compiled, uint32_t counter);

/// Returns the number of log statements in the policy. They are numbered like counters.
uint32_t compile_logs(const struct compiled *compiled);

/// Returns the position of a log statement in the policy.
/// - log: less than compile_logs.
struct compile_place compile_log_at(const struct compiled *compiled, uint32_t log);

/// Returns the position of a rule in the policy, by the number in decide_outcome.rule; statement is
/// 0.
struct compile_place compile_rule_at(const struct compiled *compiled, uint32_t rule);

/// Returns the position of a chain in the policy, by the number in decide_outcome.chain; rule and
/// statement are 0.
struct compile_place compile_chain_at(const struct compiled *compiled, uint32_t chain);

#endif
