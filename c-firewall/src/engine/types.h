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
    bool malformed_by_policy;       // true if rules decide malformed IP packets (--malformed)
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
    uint8_t hook;    // hook of netfilter that queued the packet: enum policy_hook
    uint8_t nfproto; // protocol: NFPROTO_IPV4 or NFPROTO_IPV6; 0 = the packet's version decides
    uint32_t length; // length of the packet in the kernel, in bytes
    uint32_t mark;   // mark of the packet; 0 = none
    uint32_t iif;    // index of the interface at which the packet arrived; 0 = none
    uint32_t oif;    // index of the interface by which the packet leaves; 0 = none
    policy_value iifname; // name of the packet's input interface, as POLICY_IFNAME; 0 = none
    policy_value oifname; // name of the packet's output interface, as POLICY_IFNAME; 0 = none
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
    // Number in the policy of the host name that the client has sent, or of the nearest wildcard
    // above it (hostnames_resolve); 0 = the policy has neither, or the name is not known.
    uint32_t host_number;
    uint32_t alpn_bits; // bits of the ALPN protocols that the client offers (hostnames_resolve)
    // True if the policy has refused the packet's connection. Then no rule is evaluated, and the
    // packet is dropped, unless --fail decides it as truncated or malformed.
    bool refused;
    uint64_t now_ns; // time of the decision by a monotonic clock
};

enum {
    DECIDE_LOGS_MAX = 8, // maximum number of log statements that an outcome lists
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
    bool mark_set;               // true if a rule set the mark, perhaps to the value that it had
    uint32_t mark;               // mark of the packet after the rules
    struct policy_reject reject; // reply to send, if the verdict is VERDICT_REJECT
    // True if --fail or --undecided decided, and a rule reads bytes that were not copied.
    bool undecidable;
    // True if --undecided or --fail decided, and a rule reads a name that is not known yet, or is
    // unreadable.
    bool undecided;
    // True if the names are known, and a rule read one of them, present or not. A rule that an
    // index skipped counts if its evaluation would have read one. The exceptions are at note_names
    // (walk.c).
    bool read_names;
    uint32_t log_count; // number of log statements that were executed
    // Numbers of the executed log statements, but only of the first DECIDE_LOGS_MAX. compile_log_at
    // returns a number's position.
    uint32_t logs[DECIDE_LOGS_MAX];
};

/// Result of a rule or statement: it held, or the reason why it did not hold or is unknown.
enum decide_why {
    DECIDE_HELD, // the statement held, or all statements of the rule held
    // A match or map did not hold for the values of its key's fields (decide_step.values).
    DECIDE_DIFFERS,
    DECIDE_MISSING, // a match or map did not hold: the packet does not have a field of its key
    DECIDE_BEYOND,  // a field is beyond the captured bytes: it is unknown whether the rule holds
    // A name is not known yet or is unreadable, or the mark has several possible values: it is
    // unknown whether the rule holds.
    DECIDE_UNKNOWN,
    DECIDE_LIMIT,     // a limit did not hold
    DECIDE_QUOTA,     // a quota did not hold
    DECIDE_NO_ANSWER, // the packet does not meet the rule's conditions (dependency.h)
};

/// Result of the evaluation of one rule, for a recorder (struct decide_recorder).
struct decide_step {
    // Position of the rule. Its field statement is the index of the statement that did not hold or
    // whose result is unknown, or the number of statements if why is DECIDE_HELD. It is 0 if why
    // results from a condition of the rule (dependency.h).
    struct compile_place place;
    uint32_t depth; // number of jumps and gotos on the way to the rule
    enum decide_why why;
    // True if it depends on an unknown value whether the rule holds, or whether the packet reaches
    // it. False if the rule certainly does not hold.
    bool may;
    // Field that is missing (MISSING), not copied (BEYOND) or unknown (UNKNOWN), or that has
    // several possible values (DIFFERS with values_count 0).
    enum policy_field missing;
    uint32_t values_count; // number of values, for DIFFERS; 0 if a field may have several values
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
