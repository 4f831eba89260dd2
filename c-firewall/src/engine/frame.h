// SPDX-License-Identifier: GPL-2.0-or-later
// Position of a packet in a policy: the current chain, its rules in their order, and the rules to
// return to.
#ifndef ENGINE_FRAME_H
#define ENGINE_FRAME_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/compiled.h"
#include "engine/fields.h"
#include "engine/flow.h"
#include "engine/marks.h"
#include "engine/types.h"

enum {
    // Maximum number of rule lists of a chain: a list for each index, and a list of the rules
    // without an index.
    FRAME_LISTS_MAX = COMPILE_INDEXES_MAX + 1,
};

#define FRAME_NO_RULE UINT32_MAX

/// A list of rule numbers that is being evaluated.
struct frame_list {
    const uint32_t *at, *end;
};

/// A chain that is being evaluated. Its lists contain the numbers of the rules that are left; the
/// lowest number is next.
struct frame {
    uint32_t chain;
    uint32_t count;
    struct frame_list lists[FRAME_LISTS_MAX];
};

/// State of a walk along several ways, for a rule that led to another chain. All 0, except aside,
/// for a rule that certainly leads there.
struct frame_fork {
    // True if a way may continue after the rule, however the ways through the other chain end.
    bool joins;
    // True if the rule may lead to the other chain by goto: then the end of the other chain is also
    // the end of the rule's chain.
    bool is_goto;
    bool aside;    // true if, after the rule, the packet may be accepted on another way
    uint32_t next; // index in set.leads of the rule's next possible target; 0 = only one target
    // marks: marks on the ways that continue after the rule, apart from the way through the end of
    // the other chain. held: marks on the ways on which the rule holds.
    mark_set marks, held;
};

/// Rule that led to another chain, and after which the evaluation continues when that chain has
/// ended.
struct frame_waiting {
    uint32_t chain;
    uint32_t rule; // rule that led to the other chain
    uint32_t way;
    struct frame_fork fork; // state of the rule in a walk along several ways (ways.h)
};

/// State of a packet's evaluation by the policy.
struct walk {
    const struct compiled *compiled;
    struct flow *flow;
    struct flow_counters *counters;
    const struct decide_input *input;
    const struct decide_recorder *recorder; // recorder; NULL = none
    struct decide_outcome *outcome;
    struct fields fields;
    struct frame frame; // current chain
    enum compile_reach reach;
    uint32_t way;   // number of jumps and gotos on the way to the current chain
    uint32_t stuck; // index in its rule of the statement with an unknown result that ended a walk
    uint32_t depth; // number of entries in stack
    struct frame_waiting stack[POLICY_WAY_MAX];
};

/// Enters a chain at its first rule, and reports the chain to the recorder, if there is one.
void frame_enter_newly(struct walk *walk, uint32_t chain);

/// Returns the next rule of the current chain, and removes the rule from the frame's lists.
/// FRAME_NO_RULE at the chain's end.
uint32_t frame_next_rule(struct frame *frame);

/// Continues after a rule that led to another chain: enters the rule's chain again, and skips its
/// rules up to and including this rule.
void frame_go_back(struct walk *walk, const struct frame_waiting *waiting);

/// Leaves the current chain: continues after the rule of the last open jump. Returns false if no
/// jump is open.
bool frame_leave(struct walk *walk);

/// Pushes a rule onto the walk's stack, to continue after it later. There is room: parse refuses
/// paths of more than POLICY_WAY_MAX chains.
void frame_remember(struct walk *walk, uint32_t rule, struct frame_fork fork);

enum policy_verdict frame_end_by_rule(struct walk *walk, enum policy_verdict verdict,
                                      uint32_t rule);

/// Returns the verdict at the end of a base chain.
enum policy_verdict frame_policy(const struct compiled *compiled, uint32_t base);

enum policy_verdict frame_end_by_policy(struct walk *walk, uint32_t base);

#endif
