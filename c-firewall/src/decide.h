// SPDX-License-Identifier: GPL-2.0-or-later
// From what a packet is to what happens with it. No system call, no allocation; all state is in
// flow.
#ifndef DECIDE_H
#define DECIDE_H

#include <stdbool.h>
#include <stdint.h>

#include "compile.h"
#include "flow.h"
#include "packet.h"
#include "policy.h"
#include "verdict.h"

struct decide_settings {
    enum verdict default_verdict; // --default: VERDICT_ACCEPT or VERDICT_DROP
    bool malformed_open;          // --fail malformed=open
    bool truncated_open;          // --fail truncated=open
    bool malformed_by_policy;     // --malformed policy
};

/// A packet and what the kernel tells of it.
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
    uint64_t now_ns; // of a clock that doesn't go back
};

enum {
    DECIDE_LOGS_MAX = 8, // log statements that an outcome names
};

/// What gave the verdict.
enum decide_by {
    DECIDE_BY_RULE,    // outcome.rule
    DECIDE_BY_POLICY,  // of the base chain outcome.chain
    DECIDE_BY_DEFAULT, // no base chain sees the packet, or there is no policy
    DECIDE_BY_FAIL,    // the --fail mode
};

struct decide_outcome {
    enum verdict verdict;        // VERDICT_ACCEPT, VERDICT_DROP or VERDICT_REJECT
    enum decide_by by;           // after several base chains: that of the last
    uint32_t rule;               // BY_RULE: for compile_rule_at
    uint32_t chain;              // BY_RULE, BY_POLICY: the chain, for compile_chain_at
    bool mark_set;               // a rule set the mark, be it to what it was
    uint32_t mark;               // as the rules left it
    struct policy_reject reject; // of VERDICT_REJECT: what to answer
    bool undecidable;            // BY_FAIL: cut before what the policy reads
    uint32_t log_count;          // log statements passed
    // The first of them, for compile_log_at.
    uint32_t logs[DECIDE_LOGS_MAX];
};

/// How far a packet came in a rule.
enum decide_why {
    DECIDE_HELD,      // every statement held
    DECIDE_DIFFERS,   // a match or map: the key's fields have the values of the step
    DECIDE_MISSING,   // a match or map: a field is missing
    DECIDE_LIMIT,     // the limit did not let it through
    DECIDE_QUOTA,     // the quota did not let it through
    DECIDE_NO_ANSWER, // the rule is for packets of another kind (answer.h)
};

/// One rule of a walk.
struct decide_step {
    struct compile_place place; // statement: the one that did not hold; their count with HELD
    uint32_t depth;             // jumps and gotos taken on the way here
    enum decide_why why;
    enum policy_field missing; // MISSING
    uint32_t values_count;     // DIFFERS
    policy_value values[POLICY_KEY_FIELDS_MAX];
    bool has_verdict; // the rule ended with a verdict (of its own, of its vmap) or a reject
    enum policy_verdict verdict; // with has_verdict; POLICY_DROP for a reject
};

/// Who listens to a walk.
struct decide_recorder {
    void (*chain)(void *context, struct compile_place chain, uint32_t depth); // is entered
    void (*rule)(void *context, const struct decide_step *step);              // has been walked
    void *context;
};

/// The verdict for a packet without a policy: --default for PACKET_OK and PACKET_CUT, the --fail
/// modes (accept if open, drop if closed) for malformed and truncated ones.
/// - truncated: the netlink message did not fit its slot; status is not looked at then.
enum verdict decide(const struct decide_settings *settings, enum packet_status status,
                    bool truncated);

/// What happens with a packet.
/// - compiled: NULL = no policy, decide holds; flow and counters may be NULL then.
/// - counters: of the calling thread.
/// - Always fills in outcome. The --fail modes decide about truncated packets, malformed ones
///   unless settings->malformed_by_policy, and cut ones if the policy reads layer 4.
void decide_packet(const struct decide_settings *settings, const struct compiled *compiled,
                   struct flow *flow, struct flow_counters *counters,
                   const struct decide_input *input, struct decide_outcome *outcome);

/// Does what decide_packet does and tells of every rule on the way. compiled: of a policy that
/// was compiled with settings.linear, else rules that can't match are left out.
void decide_trace(const struct decide_settings *settings, const struct compiled *compiled,
                  struct flow *flow, struct flow_counters *counters,
                  const struct decide_input *input, struct decide_outcome *outcome,
                  const struct decide_recorder *recorder);

#endif
