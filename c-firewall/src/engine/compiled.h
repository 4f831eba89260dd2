// SPDX-License-Identifier: GPL-2.0-or-later
// The form of a policy that decide walks. It never changes and is shared by all workers.
#ifndef ENGINE_COMPILED_H
#define ENGINE_COMPILED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/candidates.h"
#include "engine/hostnames.h"
#include "engine/learned.h"
#include "engine/lookup.h"
#include "engine/set.h"
#include "engine/types.h"
#include "policy/policy.h"
#include "policy/requirement.h"

#define FLOW_LIMIT_SIZE_MAX (INT64_MAX / 4) // nanoseconds: 73 years

enum {
    COMPILE_INDEXES_MAX = 3,    // of a chain
    COMPILE_INDEX_GAIN_MIN = 8, // rules that an index must spare a packet
    COMPILE_FAMILIES = 2,       // IPv4, IPv6
};

/// Parameters of a limit, in the terms of nft_limit.c.
struct flow_limit {
    uint64_t nsecs; // of its unit
    uint64_t rate;  // a unit
    int64_t size;   // tokens_max: nanoseconds that a full bucket is worth
    int64_t cost;   // of a packet, in nanoseconds; not of bytes
    bool of_bytes;
    bool over;
};

/// Parameters of a quota, in the terms of nft_quota.c.
struct flow_quota {
    uint64_t bytes;
    uint64_t used; // to begin with
    bool over;
};

/// Compiled statement.
enum compile_kind {
    COMPILE_NARROW,   // match: (field & mask) - low <= span
    COMPILE_WIDE,     // match: the same with wides[index]
    COMPILE_SET,      // match in sets[index]
    COMPILE_LEARNED,  // match with the addresses that learning[index] has; the last of the matches
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

/// Kind of lookup in a set.
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
    bool negated;  // matches: holds if the comparison does not, but never without the field
    uint32_t index;
    uint32_t mask, low, span;
};

/// Operands of a match of a wide field.
struct compile_wide {
    enum policy_field field;
    uint32_t slot; // fields_wide_slot
    policy_value mask, low, span;
};

/// A set that learns addresses.
struct compile_learning {
    uint32_t set;        // of sets: its own, which is empty
    uint64_t identity;   // what learned knows it by: the same for all sets that say the same
    bool is_ipv6;        // its addresses are
    struct lookup names; // the numbers of the names whose addresses it learns
};

struct compile_rule {
    uint32_t first; // into ops
    uint32_t count;
    uint32_t needs; // what a packet must be before the first statement: DEPENDENCY_NEEDS_*
};

/// Rules of a chain that can only match if one field has certain values.
struct compile_index {
    enum policy_field field;
    uint32_t slot;                // fields_wide_slot
    struct candidates candidates; // to numbers of rules
};

/// By which fields of a packet the rules of a chain are found. A field beyond the captured bytes
/// finds none.
enum compile_reach {
    COMPILE_WHOLE,       // by all
    COMPILE_UNNAMED,     // by those that are no names
    COMPILE_BEYOND_COPY, // by those that are neither names nor behind the IP header
    COMPILE_NONE,        // by none: every rule is walked
    COMPILE_REACH_COUNT
};

/// How the rules of a chain are found.
struct compile_finder {
    uint32_t first_index; // into indexes
    uint32_t index_count;
    uint32_t first_always; // into always: rules that are in no index
    uint32_t always_count;
};

struct compile_chain {
    uint32_t first_rule; // rules are numbered across all chains
    uint32_t rule_count;
    struct compile_finder finders[COMPILE_REACH_COUNT];
    enum policy_verdict policy; // of a base chain
    struct compile_place place;
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
    uint64_t wanted;           // FIELDS_BIT of all fields that are looked at
    struct host_numbers hosts; // the names of hosts, and protocols of ALPN
    uint32_t op_count, wide_count, key_count, set_count, rule_count, chain_count, index_count;
    struct compile_op *ops;
    struct compile_wide *wides;
    struct policy_key *keys;
    struct set *sets;
    struct compile_rule *rules;
    struct compile_chain *chains;
    struct compile_index *indexes;
    uint32_t learning_count;
    struct compile_learning *learning; // at most 32
    struct learned *learned;           // what they have learnt; NULL = nothing, ever
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

/// For compile and index: makes room for one more item, count being there. array: NULL for the
/// first. Returns the array, or NULL with the old one untouched.
void *compiled_grow(void *array, uint32_t count, size_t size);

#endif
