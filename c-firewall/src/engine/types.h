// SPDX-License-Identifier: GPL-2.0-or-later
// What deciding takes and gives: a packet, an outcome, a step of a walk.
#ifndef ENGINE_TYPES_H
#define ENGINE_TYPES_H

#include <stdbool.h>
#include <stdint.h>

#include "names/types.h"
#include "packet/packet.h"
#include "packet/verdict.h"
#include "policy/policy.h"

/// Position of a rule, or of one of its statements, in the policy.
struct compile_place {
    uint32_t table;     // into policy.tables
    uint32_t chain;     // into the table's chains
    uint32_t rule;      // into the chain's rules
    uint32_t statement; // into the rule's statements; 0 for a rule
};

struct decide_settings {
    enum verdict default_verdict;   // --default: VERDICT_ACCEPT or VERDICT_DROP
    bool malformed_open;            // --fail malformed=open
    bool truncated_open;            // --fail truncated=open
    bool malformed_by_policy;       // --malformed policy
    enum verdict undecided_verdict; // --undecided: VERDICT_ACCEPT or VERDICT_DROP
    bool unknown_open;              // --fail unknown=open
};

/// Packet with its metadata from the kernel.
struct decide_input {
    const struct packet *packet; // as packet_parse filled it in
    enum packet_status status;
    bool truncated;       // the netlink message did not fit its slot: nothing else is looked at
    uint8_t hook;         // enum policy_hook
    uint8_t nfproto;      // NFPROTO_IPV4, NFPROTO_IPV6; 0 = as the packet's version says
    uint32_t length;      // bytes of the packet in the kernel
    uint32_t mark;        // 0 = none
    uint32_t iif;         // interface index; 0 = none
    uint32_t oif;         // interface index; 0 = none
    policy_value iifname; // as POLICY_IFNAME; 0 = none
    policy_value oifname; // as POLICY_IFNAME; 0 = none
    bool has_uid;
    bool has_gid;
    uint32_t uid;
    uint32_t gid;
    bool has_ct_state;
    uint32_t ct_state; // as POLICY_CT_STATE
    bool has_ct_mark;
    uint32_t ct_mark;
    const struct names *names; // what its client has shown; NULL = the packet has no names
    uint32_t host_number;      // of names' host among the policy's, as hostnames_resolve gives it
    uint32_t alpn_bits;        // of the protocols that it offers, likewise
    bool refused;    // the policy has refused its connection: it is dropped, no rule looks at it
    uint64_t now_ns; // of a clock that doesn't go back
};

enum {
    DECIDE_LOGS_MAX = 8, // log statements that an outcome names
};

/// Origin of the verdict.
enum decide_by {
    DECIDE_BY_RULE,       // outcome.rule
    DECIDE_BY_POLICY,     // of the base chain outcome.chain
    DECIDE_BY_DEFAULT,    // no base chain sees the packet, or there is no policy
    DECIDE_BY_FAIL,       // the --fail mode
    DECIDE_BY_UNDECIDED,  // --undecided: a rule reads what the client has not shown yet
    DECIDE_BY_CONNECTION, // the policy has refused its connection before
};

struct decide_outcome {
    enum verdict verdict;        // VERDICT_ACCEPT, VERDICT_DROP or VERDICT_REJECT
    enum decide_by by;           // after several base chains: that of the last
    uint32_t rule;               // BY_RULE: for compile_rule_at
    uint32_t chain;              // BY_RULE, BY_POLICY: the chain, for compile_chain_at
    bool mark_set;               // a rule set the mark, perhaps to the value that it had
    uint32_t mark;               // as the rules left it
    struct policy_reject reject; // of VERDICT_REJECT: what to answer
    bool undecidable;            // BY_FAIL: the bytes that a rule reads were not copied
    bool undecided;              // BY_UNDECIDED, BY_FAIL: a rule reads a name that is not known
    bool read_names;             // a rule looked at a name that is known, or at that there is none
    uint32_t log_count;          // log statements passed
    // The first of them, for compile_log_at.
    uint32_t logs[DECIDE_LOGS_MAX];
};

/// How far a packet got in a rule.
enum decide_why {
    DECIDE_HELD,      // every statement held
    DECIDE_DIFFERS,   // a match or map: the key's fields have the values of the step
    DECIDE_MISSING,   // a match or map: the packet does not have a field
    DECIDE_BEYOND,    // a field is beyond the captured bytes: the rule may hold or not
    DECIDE_UNKNOWN,   // a name is not known yet, or can't be read: the rule may hold or not
    DECIDE_LIMIT,     // the limit did not let it through
    DECIDE_QUOTA,     // the quota did not let it through
    DECIDE_NO_ANSWER, // the rule is for packets of another kind (dependency.h)
};

/// One rule of a walk.
struct decide_step {
    struct compile_place place; // statement: the one that did not hold; their count with HELD
    uint32_t depth;             // jumps and gotos taken on the way here
    enum decide_why why;
    bool may; // what is not known decides whether the rule holds, or whether the packet comes to it
    enum policy_field missing; // MISSING, BEYOND, UNKNOWN
    uint32_t values_count;     // DIFFERS
    policy_value values[POLICY_KEY_FIELDS_MAX];
    bool has_verdict; // the rule ended with a verdict (of its own, of its vmap) or a reject
    enum policy_verdict verdict; // with has_verdict; POLICY_DROP for a reject
};

/// Listener of a walk.
struct decide_recorder {
    void (*chain)(void *context, struct compile_place chain, uint32_t depth); // is entered
    void (*rule)(void *context, const struct decide_step *step);              // has been walked
    void *context;
};

#endif
