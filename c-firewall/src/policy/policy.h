// SPDX-License-Identifier: GPL-2.0-or-later
// The policy as parsed: types only, no I/O. rules/policy/GRAMMAR.md says what each part means.
//
// Every value of every type is one number of up to 128 bits, the way the field reads on the wire
// (big endian) taken as a number; an interface name is its 16 bytes, NUL-padded, read as a big
// endian number, so that "eth*" is a range of numbers as 10.0.0.0/8 is. The name of a host is its
// number in policy.hostnames.
#ifndef POLICY_POLICY_H
#define POLICY_POLICY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "policy/hostname.h"
#include "spec/field.h"

enum {
    POLICY_NAME_BYTES = 128,        // of a name, a string, with the final NUL
    POLICY_KEY_FIELDS_MAX = 5,      // of a concatenation
    POLICY_WAY_MAX = 16,            // chains in one way (NFT_JUMP_STACK_SIZE)
    POLICY_INCLUDE_DEPTH_MAX = 16,  // nested files
    POLICY_DEFINE_DEPTH_MAX = 64,   // nested uses of $NAME
    POLICY_BRACE_DEPTH_MAX = 16,    // nested braces of a set
    POLICY_TEXT_MAX = 32 << 20,     // bytes of the text with all includes
    POLICY_TOKENS_MAX = 16 << 20,   // after $NAME is replaced
    POLICY_LEARNING_MAX = 32,       // sets that learn
    POLICY_ELEMENTS_MAX = 2 << 20,  // of all sets together
    POLICY_RULES_MAX = 1 << 20,     // of all chains together
    POLICY_LIMIT_BURST_PACKETS = 5, // without `burst` (NFT_LIMIT_PKT_BURST_DEFAULT)
};

/// Position of a part in the text. Not part of a policy's identity.
struct policy_place {
    uint32_t file;   // index into policy.files
    uint32_t line;   // from 1
    uint32_t column; // from 1, in bytes
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

/// Fields put together, in order.
struct policy_key {
    uint32_t count; // 1..POLICY_KEY_FIELDS_MAX
    enum policy_field fields[POLICY_KEY_FIELDS_MAX];
};

struct policy_range {
    policy_value low, high; // low <= high; both included
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
    char chain[POLICY_NAME_BYTES]; // of jump and goto, else ""
    uint32_t chain_index;          // of jump and goto, into the table's chains; filled in by parse
    struct policy_place place;     // of the word, or of the chain's name
};

/// Elements, in the order written. ranges has count * fields entries: the fields of the first
/// element, of the second, …
struct policy_elements {
    uint32_t fields; // of a key
    uint32_t count;
    struct policy_range *ranges;
    struct policy_target *targets; // of a verdict map: count of them, else NULL
    uint32_t *marks;               // of a map to marks: count of them, else NULL
    struct policy_place *places;   // count of them
};

enum policy_maps_to { POLICY_SET, POLICY_VERDICT_MAP, POLICY_MARK_MAP };

/// A file of names of hosts, as it was read.
struct policy_listed_file {
    char *path;        // as the policy's first file would write it
    uint32_t file;     // index into policy.files
    bool with_parents; // `*.x` stands for x, too
    uint32_t lines;
    uint32_t names;          // that were taken
    uint32_t local;          // names of the machine itself, which were skipped
    uint32_t left_out;       // lines that are none of names
    uint32_t first_left_out; // the first of them, from 1; 0 = none
};

/// Elements of a set from files.
struct policy_listed {
    uint32_t file_count;
    struct policy_listed_file *files;
    uint32_t count;
    uint32_t *ids; // numbers of names, in the order read, some perhaps twice
};

/// A named set or map.
struct policy_set {
    char name[POLICY_NAME_BYTES];
    char comment[POLICY_NAME_BYTES]; // "" = none
    struct policy_place place;
    enum policy_maps_to maps_to;
    bool is_typeof;        // written with typeof: key holds the fields
    struct policy_key key; // if is_typeof
    enum policy_type types[POLICY_KEY_FIELDS_MAX];
    bool interval;
    bool constant;
    bool auto_merge;
    struct policy_elements elements;
    struct policy_listed listed; // of a set of names of hosts
    // Names of hosts, whose addresses the set learns from answers of DNS; none = it learns none.
    struct policy_elements learned;
};

/// How a match compares.
enum policy_op {
    POLICY_EQ,
    POLICY_NE,
    POLICY_LT, // with the one value range.low
    POLICY_GT,
    POLICY_LE,
    POLICY_GE,
    POLICY_BITS_ANY, // of bit masks: (field & range.low) != 0
};

/// Right side of a match, or set of a lookup.
enum policy_right { POLICY_RIGHT_RANGE, POLICY_RIGHT_NAMED, POLICY_RIGHT_LITERAL };

struct policy_match {
    struct policy_key key;
    bool masked; // key is one field; compare (field & mask); op is EQ or NE
    policy_value mask;
    enum policy_op op;
    enum policy_right right;
    struct policy_range range;       // RIGHT_RANGE
    uint32_t set;                    // RIGHT_NAMED: index into the table's sets; filled in by parse
    struct policy_elements elements; // RIGHT_LITERAL
    char set_name[POLICY_NAME_BYTES]; // RIGHT_NAMED
};

struct policy_counter {
    uint64_t packets, bytes; // what it starts with
};

struct policy_limit {
    bool over;
    bool of_bytes;   // else of packets
    uint64_t rate;   // a unit; at least 1
    uint64_t unit_s; // seconds: 1, 60, 3600, 86400, 604800
    uint64_t burst;  // packets, or bytes
};

struct policy_quota {
    bool over;
    uint64_t bytes;
    uint64_t used;
};

struct policy_log {
    char prefix[POLICY_NAME_BYTES]; // "" = none
    uint8_t level;                  // 0 emerg .. 7 debug; 4 = warn, the default
};

enum policy_reject_kind {
    POLICY_REJECT_TCP_RESET,
    POLICY_REJECT_ICMP,   // code of ICMP type 3
    POLICY_REJECT_ICMPV6, // code of ICMPv6 type 1
    POLICY_REJECT_ICMPX,  // code is an enum policy_icmpx
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

/// The new mark is (mark & keep) ^ toggle; with a map, what it finds.
struct policy_mark_set {
    bool has_map;
    uint32_t keep, toggle;
    struct policy_match map; // key, right NAMED or LITERAL, op EQ
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
        struct policy_match *match; // MATCH; VMAP: key, right NAMED or LITERAL, op EQ
        struct policy_counter counter;
        struct policy_limit limit;
        struct policy_quota quota;
        struct policy_log *log;
        struct policy_mark_set *mark_set;
        struct policy_target *target; // VERDICT
        struct policy_reject reject;
    };
};

struct policy_rule {
    struct policy_place place; // of its first token
    char *comment;             // NULL = none
    uint32_t count;
    struct policy_statement *statements;
};

struct policy_chain {
    char name[POLICY_NAME_BYTES];
    char comment[POLICY_NAME_BYTES]; // "" = none
    struct policy_place place;
    bool is_base;
    enum policy_hook hook; // of a base chain, as are priority and policy
    int32_t priority;
    enum policy_verdict policy; // POLICY_ACCEPT or POLICY_DROP
    uint32_t declared;          // its number among the base chains of the whole text, from 0
    uint32_t count;
    struct policy_rule *rules;
};

struct policy_table {
    enum policy_family family;
    char name[POLICY_NAME_BYTES];
    char comment[POLICY_NAME_BYTES]; // "" = none
    uint32_t set_count;
    struct policy_set *sets;
    uint32_t chain_count;
    struct policy_chain *chains;
};

/// A policy. Owns all that it points to.
struct policy {
    bool flush;
    uint32_t file_count;
    char **files; // paths as they appear in messages; [0] is the one given
    uint32_t table_count;
    struct policy_table *tables;
    struct hostnames *hostnames; // of hosts, which what is compiled shares; NULL = none
};

/// The name of a hook, a family, a type, as in the language.
const char *policy_hook_name(enum policy_hook hook);
const char *policy_family_name(enum policy_family family);

/// Fills in the types of a key's fields.
void policy_key_types(const struct policy_key *key, enum policy_type types[POLICY_KEY_FIELDS_MAX]);

/// Whether two policies say the same; places and file names do not count.
bool policy_equal(const struct policy *a, const struct policy *b);

/// Frees what a part owns, not the part itself. policy_free_match frees the match as well, and
/// takes NULL.
void policy_free_elements(struct policy_elements *elements);
void policy_free_listed(struct policy_listed *listed);

/// Whether a set has the addresses that are learnt for it, and no elements.
bool policy_set_learns(const struct policy_set *set);
void policy_free_match(struct policy_match *match);
void policy_free_statement(struct policy_statement *statement);
void policy_free_rule(struct policy_rule *rule);

/// Frees all that a policy owns. A zeroed one is fine.
void policy_free(struct policy *policy);

#endif
