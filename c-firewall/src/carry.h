// SPDX-License-Identifier: GPL-2.0-or-later
// What a policy has counted and used up, carried over to the one that takes its place: for the
// rules that stay. A rule stays if there is one with the same comment in the same chain of the same
// table, provided that either chain has that comment once; or else if there is one with the same
// text there, comments and the numbers that counters start with aside, the n-th of equals for the
// n-th.
#ifndef CARRY_H
#define CARRY_H

#include <stdint.h>

#include "flow.h"
#include "load.h"

/// What has state, in the order of a rule's statements.
enum carry_kind { CARRY_COUNTERS, CARRY_LOGS, CARRY_LIMITS, CARRY_QUOTAS, CARRY_KIND_COUNT };

/// A rule as it is known again.
struct carry_rule {
    char *chain;                      // "inet filter input"
    char *comment;                    // NULL = none
    char *text;                       // canonical, without comment, counters at 0
    uint32_t first[CARRY_KIND_COUNT]; // of its statements, into the arrays of struct carry_side
    uint32_t count[CARRY_KIND_COUNT];
};

/// The rules of a policy, in its order, with their state, which is numbered as compile numbers it.
struct carry_side {
    uint32_t rule_count;
    struct carry_rule *rules; // its own; what follows is borrowed
    const struct flow_counter *counters;
    const uint64_t *logged;
    const struct flow_limit *limits;
    struct flow_word **limit_words;
    struct flow_word **quota_words;
};

/// What goes over from one policy to another.
struct carry {
    const struct carry_side *from;
    struct loaded *to;
    struct carry_side to_side;
    uint32_t *origins; // of each rule of `to`: the rule of `from`, or CARRY_NEW
    uint32_t kept, added, removed;
};

#define CARRY_NEW UINT32_MAX

/// Describes a policy, which lives longer. Counters and logs stand at what they began with.
/// - Returns 0 or -ENOMEM with *side zeroed.
int carry_side_make(struct carry_side *side, const struct loaded *loaded);

/// Frees the rules. Zeroed it can be given as well.
void carry_side_free(struct carry_side *side);

/// Finds the rules that stay and gives `to`, which nobody uses yet, their limits and quotas: the
/// very words, so that what others take meanwhile counts; a limit with other figures is as full as
/// it was.
/// - from and to live longer.
/// - now_ns: of the clock that limits go by.
/// - Returns 0 or -ENOMEM with *carry zeroed.
int carry_begin(struct carry *carry, const struct carry_side *from, struct loaded *to,
                uint64_t now_ns);

/// Has the counters and logs of rules that stay begin at what they had counted in the end.
/// - counters, logged: of `from`.
void carry_end(const struct carry *carry, const struct flow_counter *counters,
               const uint64_t *logged);

/// Frees what carry_begin made. Zeroed it can be given as well.
void carry_free(struct carry *carry);

#endif
