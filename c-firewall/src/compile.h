// SPDX-License-Identifier: GPL-2.0-or-later
// A policy to the form that decide walks: constants folded, names and jumps resolved, sets as
// lookups, rules that test one field against constants found by its value instead of one by one.
// What comes out never changes and is shared by all workers.
#ifndef COMPILE_H
#define COMPILE_H

#include <stdbool.h>
#include <stdint.h>

#include "answer.h"
#include "candidates.h"
#include "flow.h"
#include "log.h"
#include "policy.h"
#include "requirement.h"
#include "set.h"

enum {
    COMPILE_INDEXES_MAX = 3,    // of a chain
    COMPILE_INDEX_GAIN_MIN = 8, // rules that an index must spare a packet
    COMPILE_FAMILIES = 2,       // IPv4, IPv6
};

/// Where a rule, or one of its statements, stands in the policy.
struct compile_place {
    uint32_t table;     // into policy.tables
    uint32_t chain;     // into the table's chains
    uint32_t rule;      // into the chain's rules
    uint32_t statement; // into the rule's statements; 0 for a rule
};

/// What a statement has become.
enum compile_kind {
    COMPILE_NARROW,   // match: (field & mask) - low <= span
    COMPILE_WIDE,     // match: the same with wides[index]
    COMPILE_SET,      // match in sets[index]
    COMPILE_COUNTER,  // counters[index]
    COMPILE_LIMIT,    // limits[index]
    COMPILE_QUOTA,    // quotas[index]
    COMPILE_LOG,      // logs[index]
    COMPILE_MARK,     // (mark & mask) ^ low
    COMPILE_MARK_MAP, // what sets[index] gives
    COMPILE_VERDICT,  // code: enum policy_verdict; index: the chain of jump and goto
    COMPILE_REJECT,   // code: enum policy_reject_kind; index: its code
    COMPILE_VMAP,     // where sets[index] leads
};

/// What a set is asked for.
enum compile_shape {
    COMPILE_SHAPE_NARROW, // field & mask
    COMPILE_SHAPE_WIDE,   // wides[low]: its field, masked
    COMPILE_SHAPE_KEY,    // keys[low]
};

/// A statement. A rule's stand side by side, in their order, so that the n-th is the n-th of the
/// policy.
struct compile_op {
    uint8_t kind;  // enum compile_kind
    uint8_t field; // NARROW; shape NARROW
    uint8_t code;  // of sets: enum compile_shape
    bool negated;  // matches: holds if it does not hold, unless the field is missing
    uint32_t index;
    uint32_t mask, low, span;
};

/// What a match with a wide field compares.
struct compile_wide {
    enum policy_field field;
    uint32_t slot; // fields_wide_slot
    policy_value mask, low, span;
};

struct compile_rule {
    uint32_t first; // into ops
    uint32_t count;
    uint32_t needs; // of a packet, before the first statement: ANSWER_NEEDS_*
};

/// Rules of a chain that can only match if one field has certain values.
struct compile_index {
    enum policy_field field;
    uint32_t slot;                // fields_wide_slot
    struct candidates candidates; // to numbers of rules
};

struct compile_chain {
    uint32_t first_rule; // all rules of all chains are numbered through
    uint32_t rule_count;
    uint32_t first_index; // into indexes
    uint32_t index_count;
    uint32_t first_always; // into always: rules that are in no index
    uint32_t always_count;
    enum policy_verdict policy; // of a base chain
    struct compile_place place;
};

struct compile_settings {
    bool linear; // every rule is walked, as explain does; verdicts and counters are the same
    // The index of a network interface, 0 = there is none of this name. With NULL there are none.
    uint32_t (*interface_index)(const char *name, void *context);
    void *context;
    bool interfaces_must_exist; // fail if there is none; else its matches never hold
};

struct compile_counter {
    struct compile_place place;
    struct policy_counter start;
};

/// Base chains that see a packet, in the order in which they do.
struct compile_bases {
    uint32_t first; // into bases
    uint32_t count;
};

/// A compiled policy, for decide and flow; others ask the functions below.
struct compiled {
    struct requirement requirement;
    bool layer4[COMPILE_FAMILIES]; // requirement.layer4 of the base chains of a family
    uint64_t wanted;               // FIELDS_BIT of all fields that are looked at
    uint32_t op_count, wide_count, key_count, set_count, rule_count, chain_count, index_count;
    struct compile_op *ops;
    struct compile_wide *wides;
    struct policy_key *keys;
    struct set *sets;
    struct compile_rule *rules;
    struct compile_chain *chains;
    struct compile_index *indexes;
    uint32_t always_count;
    uint32_t *always; // numbers of rules, ascending within a chain
    struct compile_bases hooks[POLICY_HOOK_COUNT][COMPILE_FAMILIES];
    uint32_t base_count;
    uint32_t *bases; // numbers of chains
    uint32_t counter_count, log_count, limit_count, quota_count;
    struct compile_counter *counters;
    struct compile_place *logs;
    struct flow_limit *limits;
    struct flow_quota *quotas;
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

/// Where a counter stands. counter < compile_counters.
struct compile_place compile_counter_at(const struct compiled *compiled, uint32_t counter);

/// What a counter starts with. counter < compile_counters.
struct policy_counter compile_counter_start(const struct compiled *compiled, uint32_t counter);

/// How many log statements the policy has, numbered as counters are.
uint32_t compile_logs(const struct compiled *compiled);

/// Where a log statement stands. log < compile_logs.
struct compile_place compile_log_at(const struct compiled *compiled, uint32_t log);

/// Where a rule stands, as numbered in decide_outcome.rule; statement is 0.
struct compile_place compile_rule_at(const struct compiled *compiled, uint32_t rule);

/// Where a chain stands, as numbered in decide_outcome.chain; rule and statement are 0.
struct compile_place compile_chain_at(const struct compiled *compiled, uint32_t chain);

/// For compile and index: makes room for one more item, count being there. array: NULL for the
/// first. Returns the array, or NULL with the old one untouched.
void *compile_grow(void *array, uint32_t count, size_t size);

#endif
