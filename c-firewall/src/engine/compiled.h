// SPDX-License-Identifier: GPL-2.0-or-later
// Compiled policy, which decide evaluates. It never changes, and all workers share it.
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

// Maximum size of a limit's bucket in nanoseconds: 73 years.
#define FLOW_LIMIT_SIZE_MAX (INT64_MAX / 4)

enum {
    COMPILE_INDEXES_MAX = 3, // maximum number of indexes of a finder (compile_finder)
    // Minimum number of rules per packet whose evaluation an index must save; otherwise the index
    // is not created.
    COMPILE_INDEX_GAIN_MIN = 8,
    COMPILE_FAMILIES = 2, // number of IP families: IPv4, IPv6
};

/// Parameters of a limit, in the terms of nft_limit.c.
struct flow_limit {
    uint64_t nsecs; // length of the limit's unit in nanoseconds
    uint64_t rate;  // maximum number of packets or bytes per unit of time
    int64_t size;   // size of the bucket in nanoseconds (tokens_max)
    int64_t cost;   // cost of a packet in nanoseconds; unused for limits of bytes
    bool of_bytes;
    bool over;
};

/// Parameters of a quota, in the terms of nft_quota.c.
struct flow_quota {
    uint64_t bytes;
    uint64_t used; // number of bytes that count as used when the quota is created, from the text
    bool over;
};

/// Kind of a compiled statement.
enum compile_kind {
    COMPILE_NARROW, // match of a narrow field: (field & mask) - low <= span, in unsigned arithmetic
    COMPILE_WIDE,   // match of a wide field, by wides[index], like that of a narrow field
    COMPILE_SET,    // match of a key in the set sets[index]
    COMPILE_LEARNED,  // match with the learned addresses of learning[index]; the last kind of match
    COMPILE_COUNTER,  // counter: counters[index]
    COMPILE_LIMIT,    // limit: limits[index]
    COMPILE_QUOTA,    // quota: quotas[index]
    COMPILE_LOG,      // log statement: logs[index]
    COMPILE_MARK,     // sets the packet's mark to (mark & mask) ^ low
    COMPILE_MARK_MAP, // sets the packet's mark to a value of the map sets[index]
    COMPILE_VERDICT,  // verdict; code: enum policy_verdict; index: target chain of jump and goto
    COMPILE_REJECT,   // reject; code: enum policy_reject_kind; index: code of the ICMP error
    COMPILE_VMAP,     // verdict of the map sets[index]
};

/// Kind of key of a lookup in a set.
enum compile_shape {
    COMPILE_SHAPE_NARROW, // narrow field: the key is field & mask
    COMPILE_SHAPE_WIDE,   // wide field: the key is field & mask, with the operands in wides[low]
    COMPILE_SHAPE_KEY,    // several fields, which keys[low] lists
};

/// Compiled statement. A rule's compiled statements are adjacent, and in the same number and order
/// as in the policy's rule.
struct compile_op {
    uint8_t kind;  // kind of the statement: enum compile_kind
    uint8_t field; // field, for the kind NARROW and for the shape NARROW
    uint8_t code;  // for sets and maps: enum compile_shape; otherwise as in enum compile_kind
    // For matches: true if the match holds when its comparison does not. It never holds without the
    // field.
    bool negated;
    uint32_t index;
    uint32_t mask, low, span;
};

/// Operands of a match of a wide field, or of a lookup by a wide field, which uses neither low nor
/// span.
struct compile_wide {
    enum policy_field field;
    uint32_t slot; // index of the field among the wide fields (fields_wide_slot)
    policy_value mask, low, span;
};

/// Set of the kernel that corresponds to a set of the policy: it has the same table and name.
struct compile_kernel_set {
    enum policy_family family;
    bool is_ipv6; // true if the set's addresses are IPv6
    char table[POLICY_NAME_BYTES];
    char name[POLICY_NAME_BYTES];
};

/// Set that learns addresses from DNS answers.
struct compile_learning {
    // Number of the set in sets. That entry of sets is empty, because the addresses are in learned.
    uint32_t set;
    // Identity of the set in learned: a hash of its table, name, type and names. A reload with the
    // same set keeps it.
    uint64_t identity;
    // Corresponding set of the kernel, to which the addresses are added with --stage.
    struct compile_kernel_set kernel;
    struct lookup names; // lookup of the names whose addresses the set learns, by their numbers
};

struct compile_rule {
    uint32_t first; // index in ops of the rule's first statement
    uint32_t count;
    // Conditions of this rule on a packet (DEPENDENCY_NEEDS_*), checked before the rule's first
    // statement, and the flag DEPENDENCY_READS_NAMES.
    uint32_t needs;
    // Index in the rule of the first statement that reads a name; DEPENDENCY_NO_NAMES if none does.
    uint32_t names_at;
};

/// Index of a chain by one field: finds the rules that can match a packet with a certain value of
/// this field.
struct compile_index {
    enum policy_field field;
    uint32_t slot; // index of the field among the wide fields; FIELDS_WIDE_COUNT if it is narrow
    struct candidates candidates; // lookup from the field's value to numbers of rules
};

/// Set of a packet's fields whose indexes can be used to find rules. Fields beyond the captured
/// bytes and unknown names are not in the set.
enum compile_reach {
    COMPILE_WHOLE,   // the indexes of all fields can be used
    COMPILE_UNNAMED, // the indexes of all fields except names can be used
    // Only the indexes of IP header fields and metadata can be used: neither names nor fields after
    // the IP header.
    COMPILE_BEYOND_COPY,
    COMPILE_NONE, // no index can be used: every rule is evaluated
    COMPILE_REACH_COUNT
};

/// Finder of the rules to evaluate in a chain: indexes, and the rules that are in no index.
struct compile_finder {
    uint32_t first_index; // position in indexes of the finder's first index
    uint32_t index_count;
    uint32_t first_always; // position in always of the first rule that is in no index
    uint32_t always_count;
    // Position in readers of the first rule that may read names although an index skips it.
    uint32_t first_reader;
    uint32_t reader_count;
};

struct compile_chain {
    uint32_t first_rule; // number of the first rule; rules are numbered across all chains
    uint32_t rule_count;
    struct compile_finder finders[COMPILE_REACH_COUNT];
    enum policy_verdict policy; // verdict of a base chain for packets that reach its end
    struct compile_place place;
};

struct compile_counter {
    struct compile_place place;
    struct policy_counter start;
};

/// Base chains for a hook and a family, in the order of their evaluation.
struct compile_bases {
    uint32_t first; // index of the hook's first base chain in bases
    uint32_t count;
};

/// A compiled policy. The functions of compile return the positions of its rules, chains, counters
/// and log statements.
struct compiled {
    struct requirement requirement;
    uint64_t wanted;           // bits (FIELDS_BIT) of all fields that the policy reads
    struct host_numbers hosts; // host names and ALPN protocols of the policy
    uint32_t op_count, wide_count, key_count, set_count, rule_count, chain_count, index_count;
    struct compile_op *ops;
    struct compile_wide *wides;
    struct policy_key *keys;
    struct set *sets;
    struct compile_rule *rules;
    struct compile_chain *chains;
    struct compile_index *indexes;
    uint32_t learning_count;
    struct compile_learning *learning; // sets that learn addresses from DNS answers, at most 32
    // Table of learned addresses, shared with the previous and the next policy; NULL until a policy
    // that learns is loaded.
    struct learned *learned;
    uint32_t always_count;
    // Numbers of the rules that are in no index of a finder, ascending within each finder.
    uint32_t *always;
    uint32_t reader_count;
    // Numbers of rules that may read names although an index of a finder skips them, ascending
    // within each finder. Of rules that begin alike (index.c), the later rules may be left out.
    uint32_t *readers;
    struct compile_bases hooks[POLICY_HOOK_COUNT][COMPILE_FAMILIES];
    uint32_t base_count;
    uint32_t *bases; // numbers of the base chains, in groups by hook and family
    uint32_t counter_count, log_count, limit_count, quota_count;
    struct compile_counter *counters;
    struct compile_place *logs;
    struct flow_limit *limits;
    struct flow_quota *quotas;
};

/// Grows an array of count items, so that it has room for one more item. Returns the array, or NULL
/// with the old array untouched.
/// - array: array that this function has returned; NULL for the first item.
/// - size: size of an item in bytes.
void *compiled_grow(void *array, uint32_t count, size_t size);

#endif
