// SPDX-License-Identifier: GPL-2.0-or-later
// Transfer of counters (also those of log statements), limits and quotas from a policy to its
// successor, for rules that both have. Two rules correspond if they have the same comment in the
// same chain of the same table, and this comment occurs once in each of the two chains. The
// remaining rules correspond if they have the same text in the same chain, apart from comments and
// the initial values of counters; of rules with equal texts, the n-th of one policy corresponds to
// the n-th of the other policy.
#ifndef RULESET_MIGRATION_H
#define RULESET_MIGRATION_H

#include <stdint.h>

#include "engine/flow.h"
#include "ruleset/load.h"

/// Kinds of statements with state: counters, logs, limits and quotas.
enum migration_kind {
    MIGRATION_COUNTERS,
    MIGRATION_LOGS,
    MIGRATION_LIMITS,
    MIGRATION_QUOTAS,
    MIGRATION_KIND_COUNT
};

/// Properties of a rule, by which the corresponding rule of another policy is found.
struct migration_rule {
    char *chain;   // name of the chain: "inet filter input"
    char *comment; // comment of the rule; NULL = none
    char *text;    // canonical text of the rule without its comment, with counters at 0
    // Number of the rule's statements of each kind. The statements of a kind are numbered from 0
    // through all rules of the policy, as by compile.
    uint8_t count[MIGRATION_KIND_COUNT];
};

/// Position of the next rule of a policy. Zeroed = the first rule.
struct migration_place {
    uint32_t table, chain, rule;
};

/// Rules of one of the two policies of a migration, in the policy's order.
struct migration_side {
    uint32_t rule_count;
    struct migration_rule *rules;
    uint32_t totals[MIGRATION_KIND_COUNT]; // number of statements of each kind in all rules
    // Size of each limit's bucket in nanoseconds, as in struct flow_limit; NULL = unknown.
    int64_t *limit_sizes;
};

/// Pairs of corresponding statements: the numbers in the old and in the new policy.
struct migration_pairs {
    uint32_t count;
    struct {
        uint32_t old, new;
    } * all;
};

/// Correspondence of two policies' rules and statements.
struct migration {
    struct migration_pairs pairs[MIGRATION_KIND_COUNT];
    uint32_t kept, added, removed;
};

/// State of limits and quotas of another process's policy, numbered in the order of its rules.
struct migration_states {
    // Number of tokens (nanoseconds) in each limit's bucket, at most the bucket's size.
    int64_t *tokens;
    uint64_t *used; // number of bytes that each quota has used
};

/// Describes a policy's rule at a position, so that it can be found in another policy. Advances the
/// position to the next rule.
/// - Returns 1, 0 at the end, or -ENOMEM with *rule zeroed.
int migration_next_rule(const struct loaded *loaded, struct migration_place *at,
                        struct migration_rule *rule);

/// Frees the texts of a described rule. A zeroed rule is allowed.
void migration_rule_free(struct migration_rule *rule);

/// Describes all rules of a policy. Returns 0 or -ENOMEM with *side zeroed.
int migration_side_make(struct migration_side *side, const struct loaded *loaded);

/// Frees the descriptions of rules. A zeroed side is allowed.
void migration_side_free(struct migration_side *side);

/// Finds the corresponding rules, and pairs their statements of each kind: the n-th of the old rule
/// with the n-th of the new rule.
/// - Returns 0 or -ENOMEM with *migration zeroed.
int migration_pair(struct migration *migration, const struct migration_side *from,
                   const struct migration_side *to);

/// Finds the corresponding rules, and sets their limits and quotas in `to`, which must not be in
/// use yet. Both policies then share the memory of these limits and quotas, so that packets count
/// in both until `to` replaces `from`. A limit with other parameters has its own memory, filled to
/// the same fraction as the old limit.
/// - now_ns: time by the clock of the limits.
/// - Returns 0 or -ENOMEM with *migration zeroed.
int migration_begin(struct migration *migration, const struct loaded *from, struct loaded *to,
                    uint64_t now_ns);

/// Sets the limits and quotas of the rules with a partner (a corresponding rule in another
/// process's policy) to their state in that process. All limits must be full before.
/// - sizes: sizes of the limits' buckets in the other process.
void migration_refill(const struct migration *migration, const int64_t *sizes,
                      const struct migration_states *states, struct loaded *to, uint64_t now_ns);

/// Sets the initial values of the counters and logs of rules with a partner (a corresponding rule
/// in the previous policy) to the final values in that policy.
/// - counters, logged: values of the previous policy.
void migration_end(const struct migration *migration, const struct flow_counter *counters,
                   const uint64_t *logged, struct loaded *to);

/// Frees a migration. A zeroed migration is allowed.
void migration_free(struct migration *migration);

#endif
