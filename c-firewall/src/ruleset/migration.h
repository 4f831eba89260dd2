// SPDX-License-Identifier: GPL-2.0-or-later
// Carries what a policy has counted and used up over to the policy that replaces it, for the rules
// that stay. A rule stays if the new policy has one with the same comment in the same chain of the
// same table, provided that each of the two chains has that comment once. Else it stays if there is
// one with the same text, apart from comments and the numbers that counters start with: of equal
// texts, the n-th is taken for the n-th.
#ifndef RULESET_MIGRATION_H
#define RULESET_MIGRATION_H

#include <stdint.h>

#include "engine/flow.h"
#include "ruleset/load.h"

/// Kinds of statements with state.
enum migration_kind {
    MIGRATION_COUNTERS,
    MIGRATION_LOGS,
    MIGRATION_LIMITS,
    MIGRATION_QUOTAS,
    MIGRATION_KIND_COUNT
};

/// What a rule is recognised by.
struct migration_rule {
    char *chain;   // "inet filter input"
    char *comment; // NULL = none
    char *text;    // canonical, without comment, counters at 0
    // How many statements of each kind it has: in the order of rules they are numbered as compile
    // numbers them.
    uint8_t count[MIGRATION_KIND_COUNT];
};

/// Next rule of a policy, in its order. A zeroed one is the first.
struct migration_place {
    uint32_t table, chain, rule;
};

/// The rules of a policy, in its order.
struct migration_side {
    uint32_t rule_count;
    struct migration_rule *rules;
    uint32_t totals[MIGRATION_KIND_COUNT]; // of all of them
    int64_t *limit_sizes; // of each limit, as in struct flow_limit; NULL = not told
};

/// Statements of rules that stay, by their numbers before and now.
struct migration_pairs {
    uint32_t count;
    struct {
        uint32_t old, new;
    } * all;
};

/// State that moves from one policy to another.
struct migration {
    struct migration_pairs pairs[MIGRATION_KIND_COUNT];
    uint32_t kept, added, removed;
};

/// The state of limits and quotas of another process' policy, numbered as its rules are.
struct migration_states {
    int64_t *tokens; // of each limit, at most its size
    uint64_t *used;  // of each quota
};

/// Describes the rule of a policy at a place, and goes to the next.
/// - Returns 1, 0 if there is none left, or -ENOMEM with *rule zeroed.
int migration_next_rule(const struct loaded *loaded, struct migration_place *at,
                        struct migration_rule *rule);

/// Frees the texts. A zeroed one is fine.
void migration_rule_free(struct migration_rule *rule);

/// Describes all rules of a policy. Returns 0 or -ENOMEM with *side zeroed.
int migration_side_make(struct migration_side *side, const struct loaded *loaded);

/// A zeroed one is fine.
void migration_side_free(struct migration_side *side);

/// Finds the rules that stay, and pairs their statements: the n-th of a rule with the n-th.
/// - Returns 0 or -ENOMEM with *migration zeroed.
int migration_pair(struct migration *migration, const struct migration_side *from,
                   const struct migration_side *to);

/// Finds the rules that stay and gives `to`, which nobody uses yet, their limits and quotas: the
/// same words in memory, so that what others take meanwhile counts. A limit with other figures
/// starts as full as the old one is.
/// - now_ns: of the clock that limits go by.
/// - Returns 0 or -ENOMEM with *migration zeroed.
int migration_begin(struct migration *migration, const struct loaded *from, struct loaded *to,
                    uint64_t now_ns);

/// Sets the limits of rules that stay, which begin full, as full as another process' were, and
/// their quotas as used.
/// - sizes: of its limits.
void migration_refill(const struct migration *migration, const int64_t *sizes,
                      const struct migration_states *states, struct loaded *to, uint64_t now_ns);

/// Starts the counters and logs of rules that stay at what they had counted in the end.
/// - counters, logged: of the policy before.
void migration_end(const struct migration *migration, const struct flow_counter *counters,
                   const uint64_t *logged, struct loaded *to);

/// A zeroed one is fine.
void migration_free(struct migration *migration);

#endif
