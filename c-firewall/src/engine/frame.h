// SPDX-License-Identifier: GPL-2.0-or-later
// A packet on its way through a policy: the chain at hand, its rules in their order, and where to
// go on after it.
#ifndef ENGINE_FRAME_H
#define ENGINE_FRAME_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/compiled.h"
#include "engine/fields.h"
#include "engine/flow.h"
#include "engine/types.h"

enum {
    FRAME_LISTS_MAX = COMPILE_INDEXES_MAX + 1, // of rules to be walked in one chain
};

#define FRAME_NO_RULE UINT32_MAX

/// A list of numbers of rules that is being walked.
struct frame_list {
    const uint32_t *at, *end;
};

/// A chain that is being walked: its next rule is the lowest of all lists' next.
struct frame {
    uint32_t chain;
    uint32_t count;
    struct frame_list lists[FRAME_LISTS_MAX];
};

/// State of a walk along several ways for a rule that led to another chain. All 0 for one that
/// leads there for certain.
struct frame_fork {
    bool joins;   // a way goes on behind the rule, however those through the chain end
    bool is_goto; // the rule only may lead there, and the chain's end is that of its own chain, too
    bool aside;   // behind the rule a way that may be accepted is elsewhere
    uint32_t next; // which of the places where its vmap may lead comes next; 0 = none
};

/// Return address of a walk: the rule after the one that led to another chain.
struct frame_waiting {
    uint32_t chain;
    uint32_t rule; // that led there
    uint32_t way;
    struct frame_fork fork; // for ways alone
};

/// A packet on its way through the policy.
struct walk {
    const struct compiled *compiled;
    struct flow *flow;
    struct flow_counters *counters;
    const struct decide_input *input;
    const struct decide_recorder *recorder; // NULL = none
    struct decide_outcome *outcome;
    struct fields fields;
    struct frame frame; // the chain at hand
    enum compile_reach reach;
    uint32_t way;   // jumps and gotos taken on the way there
    uint32_t stuck; // the statement that could not be told, where a walk has ended by it
    uint32_t depth; // chains to return from
    struct frame_waiting stack[POLICY_WAY_MAX];
};

/// Enters a chain from another one, or as the first.
void frame_enter_newly(struct walk *walk, uint32_t chain);

/// The next rule of the chain at hand, or FRAME_NO_RULE.
uint32_t frame_next_rule(struct frame *frame);

/// Goes on after a rule that led to another chain.
void frame_go_back(struct walk *walk, const struct frame_waiting *waiting);

/// Goes on after the rule that jumped here. Returns false if there is none.
bool frame_leave(struct walk *walk);

/// Notes where to go on after a return. There is room: parse refuses ways of more than
/// POLICY_WAY_MAX chains.
void frame_remember(struct walk *walk, uint32_t rule, struct frame_fork fork);

enum policy_verdict frame_end_by_rule(struct walk *walk, enum policy_verdict verdict,
                                      uint32_t rule);

enum policy_verdict frame_end_by_policy(struct walk *walk, uint32_t base);

#endif
