// SPDX-License-Identifier: GPL-2.0-or-later
// Parsed policy: types only, no I/O. rules/policy/GRAMMAR.md specifies each part.
//
// Every value of every type is one number of up to 128 bits: the field's bytes on the wire as a
// big-endian number. An interface name is its 16 bytes, NUL-padded, as a big-endian number, so that
// "eth*" is a range of numbers like 10.0.0.0/8. A host name is its number in policy.hostnames.
#ifndef POLICY_POLICY_H
#define POLICY_POLICY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "policy/hostname.h"
#include "spec/field.h"

enum {
    POLICY_NAME_BYTES = 128,   // maximum size of a name or a string, with the final NUL
    POLICY_KEY_FIELDS_MAX = 5, // maximum number of fields of a concatenation
    // Maximum number of chains on a path of jumps and gotos (NFT_JUMP_STACK_SIZE).
    POLICY_WAY_MAX = 16,
    POLICY_INCLUDE_DEPTH_MAX = 16, // maximum number of nested files, with the policy file
    // Maximum nesting depth of $NAME: the value of a definition may contain $NAME of another
    // definition.
    POLICY_DEFINE_DEPTH_MAX = 64,
    POLICY_BRACE_DEPTH_MAX = 16,   // maximum nesting depth of braces in a set
    POLICY_TEXT_MAX = 32 << 20,    // maximum size of a policy with all its files, in bytes
    POLICY_TOKENS_MAX = 16 << 20,  // maximum number of tokens, after $NAME is replaced
    POLICY_LEARNING_MAX = 32,      // maximum number of sets that learn addresses from DNS replies
    POLICY_ELEMENTS_MAX = 2 << 20, // maximum number of elements of all sets together
    POLICY_RULES_MAX = 1 << 20,    // maximum number of rules of all chains together
    // Burst of a limit of packets without `burst` (NFT_LIMIT_PKT_BURST_DEFAULT).
    POLICY_LIMIT_BURST_PACKETS = 5,
};

/// Position in the policy text of a part of the policy. policy_equal ignores it.
struct policy_place {
    uint32_t file;   // index of the file in policy.files
    uint32_t line;   // line number, from 1
    uint32_t column; // column in bytes, from 1
};

typedef unsigned __int128 policy_value;

enum policy_family { POLICY_IP, POLICY_IP6, POLICY_INET, POLICY_FAMILY_COUNT };

/// Values of enum nf_inet_hooks (linux/netfilter.h).
enum policy_hook {
    POLICY_PREROUTING,
    POLICY_INPUT,
    POLICY_FORWARD,
    POLICY_OUTPUT,
    POLICY_POSTROUTING,
    POLICY_HOOK_COUNT
};

/// Key of a match or a set: fields whose values are compared together, in the order of the text.
struct policy_key {
    uint32_t count; // number of fields: 1..POLICY_KEY_FIELDS_MAX
    enum policy_field fields[POLICY_KEY_FIELDS_MAX];
};

struct policy_range {
    policy_value low, high; // range of values, low <= high; both ends are included
};

enum policy_verdict {
    POLICY_ACCEPT,
    POLICY_DROP,
    POLICY_CONTINUE,
    POLICY_RETURN,
    POLICY_JUMP,
    POLICY_GOTO,
};

struct policy_target {
    enum policy_verdict verdict;
    char chain[POLICY_NAME_BYTES]; // name of the target chain for jump and goto, else ""
    // Index of the target chain for jump and goto in the table's chains; set by parse.
    uint32_t chain_index;
    // Place of the chain's name for jump and goto, otherwise of the verdict's word.
    struct policy_place place;
};

/// Elements of a set or map, in the order of the text. ranges has count * fields entries: the
/// fields of the first element, then of the second, …
struct policy_elements {
    uint32_t fields; // number of fields of each element's key
    uint32_t count;
    struct policy_range *ranges;
    struct policy_target *targets; // verdicts of a verdict map, one per element; else NULL
    uint32_t *marks;               // marks of a map to marks, one per element; else NULL
    struct policy_place *places;   // places of the elements in the policy text, one per element
};

enum policy_maps_to { POLICY_SET, POLICY_VERDICT_MAP, POLICY_MARK_MAP };

/// File of host names that a set includes by `file`, with the counts of its lines and names.
struct policy_listed_file {
    // Path relative to the folder of the policy's first file; the unchanged path if the file lies
    // outside this folder.
    char *path;
    uint32_t file;     // index of the file in policy.files
    bool with_parents; // true for `with parents`: a line `*.x` also adds x itself
    uint32_t lines;
    uint32_t names; // number of names and wildcards that were added, with repetitions
    uint32_t local; // number of skipped names of the machine itself, such as localhost
    // Number of lines of which a part is not in a known format. Comments and empty lines are not
    // counted.
    uint32_t left_out;
    uint32_t first_left_out; // number of the first line that `left_out` counts, from 1; 0 = none
};

/// Host names of a set that were read from files.
struct policy_listed {
    uint32_t file_count;
    struct policy_listed_file *files;
    uint32_t count;
    // Numbers of the names in policy.hostnames, in the order of the files; a name may be repeated.
    uint32_t *ids;
};

/// A named set or map.
struct policy_set {
    char name[POLICY_NAME_BYTES];
    char comment[POLICY_NAME_BYTES]; // comment of the set; "" = none
    struct policy_place place;
    enum policy_maps_to maps_to;
    bool is_typeof;        // true if the set is declared with typeof; key then has its fields
    struct policy_key key; // fields, if is_typeof
    enum policy_type types[POLICY_KEY_FIELDS_MAX];
    bool interval;
    bool constant;
    bool auto_merge;
    struct policy_elements elements;
    struct policy_listed listed; // names from files, for a set of host names
    // Names whose addresses the set learns from DNS replies; none = it learns none.
    struct policy_elements learned;
};

/// Comparison of a match.
enum policy_op {
    POLICY_EQ,
    POLICY_NE,
    POLICY_LT, // less than the value range.low; GT, LE and GE use this single value, too
    POLICY_GT,
    POLICY_LE,
    POLICY_GE,
    POLICY_BITS_ANY, // at least one of the bits is set: (field & range.low) != 0
};

/// Right side of a match (a range of values, a named set, or a set in braces), or the map of a
/// lookup (`map`, `vmap`).
enum policy_right { POLICY_RIGHT_RANGE, POLICY_RIGHT_NAMED, POLICY_RIGHT_LITERAL };

struct policy_match {
    struct policy_key key;
    // True if the match compares (field & mask); the key then has one field, and op is EQ or NE.
    bool masked;
    policy_value mask;
    enum policy_op op;
    enum policy_right right;
    struct policy_range range;        // range of values, for RIGHT_RANGE
    uint32_t set;                     // index in the table's sets, for RIGHT_NAMED; set by parse
    struct policy_elements elements;  // elements in braces, for RIGHT_LITERAL
    char set_name[POLICY_NAME_BYTES]; // name of the set, for RIGHT_NAMED
};

struct policy_counter {
    uint64_t packets, bytes; // initial numbers of packets and bytes of the counter
};

struct policy_limit {
    bool over;
    bool of_bytes;   // true if the limit counts bytes, false if it counts packets
    uint64_t rate;   // number of packets or bytes per unit of time; at least 1
    uint64_t unit_s; // length of the unit of time in seconds: 1, 60, 3600, 86400 or 604800
    uint64_t burst;  // burst in packets or bytes; 0 = no burst, for bytes only
};

struct policy_quota {
    bool over;
    uint64_t bytes;
    uint64_t used;
};

struct policy_log {
    char prefix[POLICY_NAME_BYTES]; // prefix of the log line; "" = none
    // Level: 0 emerg .. 7 debug; 4 = warn, the default.
    uint8_t level;
};

enum policy_reject_kind {
    POLICY_REJECT_TCP_RESET,
    POLICY_REJECT_ICMP,   // ICMP error of type 3 (destination unreachable), with this code
    POLICY_REJECT_ICMPV6, // ICMPv6 error of type 1 (destination unreachable), with this code
    // ICMP error for an IPv4 packet, ICMPv6 error for an IPv6 packet; code: enum policy_icmpx.
    POLICY_REJECT_ICMPX,
};

/// Values of enum nft_reject_inet_code (linux/netfilter/nf_tables.h).
enum policy_icmpx {
    POLICY_ICMPX_NO_ROUTE,
    POLICY_ICMPX_PORT_UNREACHABLE,
    POLICY_ICMPX_HOST_UNREACHABLE,
    POLICY_ICMPX_ADMIN_PROHIBITED,
};

struct policy_reject {
    enum policy_reject_kind kind;
    uint8_t code;
};

/// New value of the packet's mark: (mark & keep) ^ toggle; with a map, the mark that the map holds
/// for the key.
struct policy_mark_set {
    bool has_map;
    uint32_t keep, toggle;
    struct policy_match map; // lookup in a map to marks: right is NAMED or LITERAL, op is EQ
};

enum policy_statement_kind {
    POLICY_MATCH,
    POLICY_COUNTER,
    POLICY_LIMIT,
    POLICY_QUOTA,
    POLICY_LOG,
    POLICY_MARK_SET,
    POLICY_VERDICT,
    POLICY_REJECT,
    POLICY_VMAP,
};

struct policy_statement {
    enum policy_statement_kind kind;
    struct policy_place place;
    union {
        // Match, for MATCH; lookup in a verdict map, for VMAP: right is NAMED or LITERAL, op is EQ.
        struct policy_match *match;
        struct policy_counter counter;
        struct policy_limit limit;
        struct policy_quota quota;
        struct policy_log *log;
        struct policy_mark_set *mark_set;
        struct policy_target *target; // target, for VERDICT
        struct policy_reject reject;
    };
};

struct policy_rule {
    struct policy_place place; // place of the rule's first token
    char *comment;             // comment of the rule; NULL = none
    uint32_t count;
    struct policy_statement *statements;
};

struct policy_chain {
    char name[POLICY_NAME_BYTES];
    char comment[POLICY_NAME_BYTES]; // comment of the chain; "" = none
    struct policy_place place;
    bool is_base;
    enum policy_hook hook; // hook of a base chain; priority and policy belong to base chains, too
    int32_t priority;
    enum policy_verdict policy; // policy of the chain: POLICY_ACCEPT or POLICY_DROP
    // Index of the chain's declaration among those of all base chains in the complete text, from 0.
    uint32_t declared;
    uint32_t count;
    struct policy_rule *rules;
};

struct policy_table {
    enum policy_family family;
    char name[POLICY_NAME_BYTES];
    char comment[POLICY_NAME_BYTES]; // comment of the table; "" = none
    uint32_t set_count;
    struct policy_set *sets;
    uint32_t chain_count;
    struct policy_chain *chains;
};

/// A policy. It owns everything that it points to; hostnames can have further owners.
struct policy {
    bool flush;
    uint32_t file_count;
    // Paths of all files that were read, as they appear in messages; [0] is the policy file itself.
    char **files;
    uint32_t table_count;
    struct policy_table *tables;
    struct hostnames *hostnames; // host names, which the compiled policy shares; NULL = none
};

/// Each returns the name of a hook or a family in the language.
const char *policy_hook_name(enum policy_hook hook);
const char *policy_family_name(enum policy_family family);

/// Fills in the types of a key's fields.
void policy_key_types(const struct policy_key *key, enum policy_type types[POLICY_KEY_FIELDS_MAX]);

/// Returns true if two matches of one table are equal.
/// - hostnames: host names of the policy.
bool policy_same_match(const struct hostnames *hostnames, const struct policy_match *a,
                       const struct policy_match *b);

/// Returns true if two policies are equal. Ignores places, and the list of the policy's files.
bool policy_equal(const struct policy *a, const struct policy *b);

/// Each frees the memory that a part of a policy owns, but not the part itself. policy_free_match
/// frees the match as well, and allows NULL.
void policy_free_elements(struct policy_elements *elements);
void policy_free_listed(struct policy_listed *listed);

/// Returns true if a set is declared with `learn`: it holds addresses from DNS replies instead of
/// elements.
bool policy_set_learns(const struct policy_set *set);
void policy_free_match(struct policy_match *match);
void policy_free_statement(struct policy_statement *statement);
void policy_free_rule(struct policy_rule *rule);

/// Frees everything that a policy owns, but not the policy itself. A zeroed policy is allowed.
void policy_free(struct policy *policy);

#endif
