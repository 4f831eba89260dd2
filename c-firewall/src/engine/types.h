// SPDX-License-Identifier: GPL-2.0-or-later
// Types of a decision: its input, its outcome, and the steps of a walk (the evaluation of the rules
// for a packet).
#ifndef ENGINE_TYPES_H
#define ENGINE_TYPES_H

#include <stdbool.h>
#include <stdint.h>

#include "names/types.h"
#include "packet/packet.h"
#include "packet/verdict.h"
#include "policy/policy.h"

/// Position of a chain, a rule or a statement in the policy.
struct compile_place {
    uint32_t table;     // index in policy.tables
    uint32_t chain;     // index in the table's chains
    uint32_t rule;      // index in the chain's rules
    uint32_t statement; // index in the rule's statements; 0 in the position of a rule or chain
};

struct decide_settings {
    // Verdict of --default, if there is no policy, or no base chain for the packet: VERDICT_ACCEPT
    // or VERDICT_DROP.
    enum verdict default_verdict;
    bool malformed_open;            // true for --fail malformed=open
    bool truncated_open;            // true for --fail truncated=open
    bool malformed_by_policy;       // true if rules decide malformed packets (--malformed policy)
    enum verdict undecided_verdict; // verdict of --undecided: VERDICT_ACCEPT or VERDICT_DROP
    bool unknown_open;              // true for --fail unknown=open
};

/// A packet with its metadata from the kernel.
struct decide_input {
    const struct packet *packet; // result of packet_parse
    enum packet_status status;
    // True if the netlink message did not fit its slot of the receive buffer: other fields are
    // ignored.
    bool truncated;
    uint8_t hook;    // hook: enum policy_hook
    uint8_t nfproto; // protocol: NFPROTO_IPV4 or NFPROTO_IPV6; 0 = the packet's version decides
    uint32_t length; // length of the packet in the kernel, in bytes
    uint32_t mark;   // mark of the packet; 0 = none
    uint32_t iif;    // index of the interface at which it arrived; 0 = none
    uint32_t oif;    // index of the interface by which it leaves; 0 = none
    policy_value iifname; // name of the interface at which it arrived, as POLICY_IFNAME; 0 = none
    policy_value oifname; // name of the interface by which it leaves, as POLICY_IFNAME; 0 = none
    bool has_uid;
    bool has_gid;
    uint32_t uid;
    uint32_t gid;
    bool has_ct_state;
    uint32_t ct_state; // connection state, as POLICY_CT_STATE
    bool has_ct_mark;
    uint32_t ct_mark;
    // Names that the client of the packet's connection has sent; NULL = the packet has no names.
    const struct names *names;
    uint32_t host_number; // number of the host name in the policy (hostnames_resolve)
    uint32_t alpn_bits;   // bits of the offered protocols in the policy (hostnames_resolve)
    // True if the policy has refused the packet's connection: the packet is dropped without
    // evaluating rules.
    bool refused;
    uint64_t now_ns; // time of the decision by a monotonic clock
};

enum {
    DECIDE_LOGS_MAX = 8, // maximum number of log statements in an outcome
};

/// Origin of the verdict.
enum decide_by {
    DECIDE_BY_RULE,       // the rule outcome.rule
    DECIDE_BY_POLICY,     // policy of the base chain outcome.chain
    DECIDE_BY_DEFAULT,    // no base chain applies to the packet, or there is no policy
    DECIDE_BY_FAIL,       // a --fail mode
    DECIDE_BY_UNDECIDED,  // --undecided: a rule reads a name that the client has not shown yet
    DECIDE_BY_CONNECTION, // the policy had refused the connection before
};

struct decide_outcome {
    enum verdict verdict; // verdict: VERDICT_ACCEPT, VERDICT_DROP or VERDICT_REJECT
    // Origin of the verdict; if several base chains had a verdict, origin of the last one.
    enum decide_by by;
    uint32_t rule; // number of the rule that decided the packet (compile_rule_at)
    // Number of the chain whose rule or policy decided the packet (compile_chain_at).
    uint32_t chain;
    bool mark_set;               // true if a rule set the mark, perhaps to the same value
    uint32_t mark;               // mark after the rules
    struct policy_reject reject; // reply to send, if the verdict is VERDICT_REJECT
    // True if --fail or --undecided decided, and a rule reads bytes that were not copied.
    bool undecidable;
    // True if --undecided or --fail decided, and a rule reads a name that is not known yet, or is
    // unreadable.
    bool undecided;
    // True if the names are known, and a rule read one of them, present or not. A rule that an
    // index skipped counts if its evaluation would have read one.
    bool read_names;
    uint32_t log_count; // number of log statements that were executed
    // Numbers of the executed log statements, but only of the first DECIDE_LOGS_MAX. compile_log_at
    // returns a number's position.
    uint32_t logs[DECIDE_LOGS_MAX];
};

/// Result of a rule or statement: it held, or the reason why it did not hold or is unknown.
enum decide_why {
    DECIDE_HELD, // every statement held
    // A match or map did not hold: decide_step.values has the values of the key's fields.
    DECIDE_DIFFERS,
    DECIDE_MISSING, // a match or map did not hold: the packet does not have a field
    DECIDE_BEYOND,  // a field is beyond the captured bytes: it is unknown whether the rule holds
    // A name is not known yet or is unreadable, or the mark has several possible values: it is
    // unknown whether the rule holds.
    DECIDE_UNKNOWN,
    DECIDE_LIMIT,     // a limit did not hold
    DECIDE_QUOTA,     // a quota did not hold
    DECIDE_NO_ANSWER, // the packet does not meet the rule's conditions (dependency.h)
};

/// Evaluation of one rule.
struct decide_step {
    // Position of the rule. Its field statement is the index of the statement that did not hold or
    // whose result is unknown, or the number of statements if why is DECIDE_HELD. It is 0 if a
    // condition of the rule (dependency.h) is not met or unknown.
    struct compile_place place;
    uint32_t depth; // number of jumps and gotos on the way to the rule
    enum decide_why why;
    // True if it depends on an unknown value whether the rule holds, or whether the packet reaches
    // it. False if the rule certainly does not hold.
    bool may;
    // Field that is missing (MISSING), not copied (BEYOND) or unknown (UNKNOWN), or that has
    // several possible values (DIFFERS with values_count 0).
    enum policy_field missing;
    uint32_t values_count; // number of values, for DIFFERS; 0 if the field missing has several
    policy_value values[POLICY_KEY_FIELDS_MAX];
    // True if the rule ended with a verdict (of its own, or of its verdict map) or a reject.
    bool has_verdict;
    // Verdict of the rule or of its verdict map, if has_verdict; POLICY_DROP for a reject.
    enum policy_verdict verdict;
};

/// Recorder of a walk: receives the chains and rules that are evaluated.
struct decide_recorder {
    // Called when a chain is entered.
    void (*chain)(void *context, struct compile_place chain, uint32_t depth);
    // Called when a rule has been evaluated.
    void (*rule)(void *context, const struct decide_step *step);
    void *context;
};

#endif
