// SPDX-License-Identifier: GPL-2.0-or-later
#include "ruleset/migration.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "policy/print.h"

#define NOBODY UINT32_MAX

/// Returns the rule's text without its comment, with counters at 0. NULL = no memory.
static char *text_of(const struct policy *policy, const struct policy_table *table,
                     const struct policy_rule *rule) {
    struct policy_rule bare = {
        .count = rule->count,
        .statements = malloc((rule->count + 1U) * sizeof *bare.statements),
    };
    char *text;

    if (!bare.statements)
        return NULL;
    for (uint32_t i = 0; i < rule->count; i++) {
        bare.statements[i] = rule->statements[i];
        if (bare.statements[i].kind == POLICY_COUNTER)
            bare.statements[i].counter = (struct policy_counter){0};
    }
    text = print_rule(policy, table, &bare);
    free(bare.statements);
    return text;
}

static char *chain_of(const struct policy_table *table, const struct policy_chain *chain) {
    char *text = NULL;

    if (asprintf(&text, "%s %s %s", policy_family_name(table->family), table->name, chain->name) <
        0)
        return NULL;
    return text;
}

/// Counts a rule's statements with state. A uint8_t holds each count: a rule has at most
/// PARSE_STATEMENTS_MAX statements.
static void count_statements(const struct policy_rule *rule, struct migration_rule *made) {
    for (uint32_t i = 0; i < rule->count; i++) {
        switch (rule->statements[i].kind) {
        case POLICY_COUNTER:
            made->count[MIGRATION_COUNTERS]++;
            break;
        case POLICY_LOG:
            made->count[MIGRATION_LOGS]++;
            break;
        case POLICY_LIMIT:
            made->count[MIGRATION_LIMITS]++;
            break;
        case POLICY_QUOTA:
            made->count[MIGRATION_QUOTAS]++;
            break;
        default:
            break;
        }
    }
}

void migration_rule_free(struct migration_rule *rule) {
    free(rule->chain);
    free(rule->comment);
    free(rule->text);
    *rule = (struct migration_rule){0};
}

int migration_next_rule(const struct loaded *loaded, struct migration_place *at,
                        struct migration_rule *rule) {
    const struct policy *policy = &loaded->policy;

    *rule = (struct migration_rule){0};
    while (at->table < policy->table_count) {
        const struct policy_table *table = &policy->tables[at->table];
        const struct policy_chain *chain;
        const struct policy_rule *next;

        if (at->chain == table->chain_count) {
            *at = (struct migration_place){.table = at->table + 1};
            continue;
        }
        chain = &table->chains[at->chain];
        if (at->rule == chain->count) {
            *at = (struct migration_place){.table = at->table, .chain = at->chain + 1};
            continue;
        }
        next = &chain->rules[at->rule++];
        count_statements(next, rule);
        rule->chain = chain_of(table, chain);
        rule->comment = next->comment ? strdup(next->comment) : NULL;
        rule->text = text_of(&loaded->policy, table, next);
        if (rule->chain && rule->text && (!next->comment || rule->comment))
            return 1;
        migration_rule_free(rule);
        return -ENOMEM;
    }
    return 0;
}

int migration_side_make(struct migration_side *side, const struct loaded *loaded) {
    struct migration_place at = {0};
    int result;

    // Allocates one element more than needed, so that the result is not NULL for 0 rules.
    *side = (struct migration_side){
        .rules = calloc(loaded->compiled->rule_count + 1U, sizeof *side->rules)};
    if (!side->rules)
        return -ENOMEM;
    while ((result = migration_next_rule(loaded, &at, &side->rules[side->rule_count])) > 0) {
        for (int kind = 0; kind < MIGRATION_KIND_COUNT; kind++)
            side->totals[kind] += side->rules[side->rule_count].count[kind];
        side->rule_count++;
    }
    if (result < 0)
        migration_side_free(side);
    return result;
}

void migration_side_free(struct migration_side *side) {
    for (uint32_t i = 0; i < side->rule_count; i++)
        migration_rule_free(&side->rules[i]);
    free(side->rules);
    free(side->limit_sizes);
    *side = (struct migration_side){0};
}

/// Search key of a rule: its chain, and its comment or its text.
struct name {
    const char *chain;
    const char *word; // comment or text of the rule
    uint32_t rule;
};

static int compare_words(const struct name *a, const struct name *b) {
    const int chain = strcmp(a->chain, b->chain);

    return chain != 0 ? chain : strcmp(a->word, b->word);
}

/// Orders keys by their words (chain, and comment or text), and keys with equal words by the order
/// of the rules.
static int compare_names(const void *left, const void *right) {
    const struct name *a = left, *b = right;
    const int words = compare_words(a, b);

    return words != 0 ? words : (a->rule > b->rule) - (a->rule < b->rule);
}

/// Sorted search keys of rules.
struct rule_names {
    uint32_t count;
    struct name *all;
};

/// Creates the sorted search keys of rules without a partner (a corresponding rule in the other
/// policy): by their comments (then rules without a comment have no key), or by their texts. Equal
/// keys stay in the order of the rules.
/// - partners: partner of each rule; NOBODY = none.
/// - Returns 0 or -ENOMEM with *names zeroed.
static int make_names(const struct migration_side *side, const uint32_t *partners, bool by_comment,
                      struct rule_names *names) {
    *names = (struct rule_names){.all = calloc(side->rule_count + 1U, sizeof *names->all)};
    if (!names->all)
        return -ENOMEM;
    for (uint32_t i = 0; i < side->rule_count; i++) {
        const struct migration_rule *rule = &side->rules[i];
        const char *word = by_comment ? rule->comment : rule->text;

        if (partners[i] == NOBODY && word)
            names->all[names->count++] = (struct name){rule->chain, word, i};
    }
    qsort(names->all, names->count, sizeof *names->all, compare_names);
    return 0;
}

/// Returns the length of the run of equal keys that begins at the index `at`. Keys are equal if
/// they have the same chain, and the same comment or text.
static uint32_t equals_at(const struct rule_names *names, uint32_t at) {
    uint32_t end = at + 1;

    while (end < names->count && compare_words(&names->all[at], &names->all[end]) == 0)
        end++;
    return end - at;
}

/// Pairs the rules of two policies that have the same words (chain, and comment or text). If
/// several rules have them, pairs the n-th rule with the n-th.
/// - only_unique: true to pair only rules whose words no other rule of the same policy has.
/// - from_partners, to_partners: in/out: partner of each rule of the two policies; new pairs are
///   added.
static void join(const struct rule_names *from, const struct rule_names *to, bool only_unique,
                 uint32_t *from_partners, uint32_t *to_partners) {
    uint32_t i = 0, j = 0;

    while (i < from->count && j < to->count) {
        const int order = compare_words(&from->all[i], &to->all[j]);
        const uint32_t olds = equals_at(from, i), news = equals_at(to, j);
        const uint32_t both = olds < news ? olds : news;

        for (uint32_t n = 0; order == 0 && n < both && (!only_unique || (olds == 1 && news == 1));
             n++) {
            from_partners[from->all[i + n].rule] = to->all[j + n].rule;
            to_partners[to->all[j + n].rule] = from->all[i + n].rule;
        }
        i += order <= 0 ? olds : 0;
        j += order >= 0 ? news : 0;
    }
}

/// Pairs rules by comments or by texts.
/// - by_comment: true = by comments that occur once in each of the two chains; false = by texts.
/// - partners, origins: in/out: partner of each rule of `from`, and of each rule of `to`; new pairs
///   are added.
/// - Returns 0 or -ENOMEM.
static int pair_by(const struct migration_side *from, const struct migration_side *to,
                   bool by_comment, uint32_t *partners, uint32_t *origins) {
    struct rule_names olds = {0}, news = {0};
    int result = make_names(from, partners, by_comment, &olds);

    if (result == 0)
        result = make_names(to, origins, by_comment, &news);
    if (result == 0)
        join(&olds, &news, by_comment, partners, origins);
    free(olds.all);
    free(news.all);
    return result;
}

/// Allocates an array with the partner of each rule: the corresponding rule of the other policy.
/// All entries are NOBODY. Returns NULL if there is no memory.
static uint32_t *make_partners(uint32_t rules) {
    const size_t bytes = (rules + 1U) * sizeof(uint32_t);
    uint32_t *partners = malloc(bytes);

    static_assert(NOBODY == UINT32_MAX, "all bits");
    return partners ? memset(partners, 0xff, bytes) : NULL;
}

/// Returns, for each rule of `to`, the index of the corresponding rule of `from`; NOBODY = none.
/// Returns NULL if there is no memory.
static uint32_t *make_origins(const struct migration_side *from, const struct migration_side *to) {
    uint32_t *partners = make_partners(from->rule_count);
    uint32_t *origins = make_partners(to->rule_count);
    int result = partners && origins ? 0 : -ENOMEM;

    if (result == 0)
        result = pair_by(from, to, true, partners, origins);
    if (result == 0)
        result = pair_by(from, to, false, partners, origins);
    free(partners);
    if (result == 0)
        return origins;
    free(origins);
    return NULL;
}

/// Number of a rule's first statement of each kind, counted from 0 through all rules of the policy.
struct first {
    uint32_t of[MIGRATION_KIND_COUNT];
};

/// Returns, for each rule, the number of its first statement of each kind, counted from 0 through
/// all rules of the policy. Returns NULL if there is no memory.
static struct first *make_firsts(const struct migration_side *side) {
    struct first *firsts = calloc(side->rule_count + 1U, sizeof *firsts);

    for (uint32_t i = 0; firsts && i < side->rule_count; i++)
        for (int kind = 0; kind < MIGRATION_KIND_COUNT; kind++)
            firsts[i + 1].of[kind] = firsts[i].of[kind] + side->rules[i].count[kind];
    return firsts;
}

/// Adds the pairs of statements of two corresponding rules to the migration.
/// - olds, news: number of the rule's first statement of each kind.
static void add_pairs(struct migration *migration, const struct migration_rule *old,
                      const struct first *olds, const struct migration_rule *new,
                      const struct first *news) {
    for (int kind = 0; kind < MIGRATION_KIND_COUNT; kind++) {
        struct migration_pairs *const pairs = &migration->pairs[kind];

        for (uint32_t n = 0; n < old->count[kind] && n < new->count[kind]; n++) {
            pairs->all[pairs->count].old = olds->of[kind] + n;
            pairs->all[pairs->count++].new = news->of[kind] + n;
        }
    }
}

/// Allocates memory for the maximum number of pairs. Returns 0 or -ENOMEM.
static int make_room(struct migration *migration, const struct migration_side *to) {
    for (int kind = 0; kind < MIGRATION_KIND_COUNT; kind++) {
        struct migration_pairs *const pairs = &migration->pairs[kind];

        pairs->all = calloc(to->totals[kind] + 1U, sizeof *pairs->all);
        if (!pairs->all)
            return -ENOMEM;
    }
    return 0;
}

int migration_pair(struct migration *migration, const struct migration_side *from,
                   const struct migration_side *to) {
    uint32_t *origins = make_origins(from, to);
    struct first *olds = make_firsts(from), *news = make_firsts(to);
    int result = origins && olds && news ? 0 : -ENOMEM;

    *migration = (struct migration){0};
    if (result == 0)
        result = make_room(migration, to);
    for (uint32_t i = 0; result == 0 && i < to->rule_count; i++) {
        const uint32_t origin = origins[i];

        if (origin == NOBODY)
            continue;
        migration->kept++;
        add_pairs(migration, &from->rules[origin], &olds[origin], &to->rules[i], &news[i]);
    }
    migration->added = to->rule_count - migration->kept;
    migration->removed = from->rule_count - migration->kept;
    free(origins);
    free(olds);
    free(news);
    if (result < 0)
        migration_free(migration);
    return result;
}

static bool limits_equal(const struct flow_limit *a, const struct flow_limit *b) {
    return a->nsecs == b->nsecs && a->rate == b->rate && a->size == b->size &&
           a->of_bytes == b->of_bytes;
}

/// Makes the limits and quotas of the rules with a partner (a corresponding rule in the old policy)
/// share the memory of the partner's limits and quotas. A limit with other parameters has its own
/// memory, and is filled to the same fraction as the old limit. `to` must not be in use yet.
static void share_words(const struct migration *migration, const struct loaded *from,
                        struct loaded *to, uint64_t now_ns) {
    const struct migration_pairs *limits = &migration->pairs[MIGRATION_LIMITS];
    const struct migration_pairs *quotas = &migration->pairs[MIGRATION_QUOTAS];

    for (uint32_t i = 0; i < limits->count; i++) {
        struct flow_word *const word = from->flow.limit[limits->all[i].old];
        struct flow_word **const place = &to->flow.limit[limits->all[i].new];
        const struct flow_limit *of = &from->compiled->limits[limits->all[i].old];
        const struct flow_limit *limit = &to->compiled->limits[limits->all[i].new];

        if (limits_equal(of, limit))
            flow_share(place, word);
        else
            flow_limit_fill(*place, limit, flow_limit_tokens(word, of, now_ns), of->size, now_ns);
    }
    for (uint32_t i = 0; i < quotas->count; i++)
        flow_share(&to->flow.quota[quotas->all[i].new], from->flow.quota[quotas->all[i].old]);
}

int migration_begin(struct migration *migration, const struct loaded *from, struct loaded *to,
                    uint64_t now_ns) {
    struct migration_side olds = {0}, news = {0};
    int result = migration_side_make(&olds, from);

    *migration = (struct migration){0};
    if (result == 0)
        result = migration_side_make(&news, to);
    if (result == 0)
        result = migration_pair(migration, &olds, &news);
    if (result == 0)
        share_words(migration, from, to, now_ns);
    migration_side_free(&olds);
    migration_side_free(&news);
    return result;
}

void migration_refill(const struct migration *migration, const int64_t *sizes,
                      const struct migration_states *states, struct loaded *to, uint64_t now_ns) {
    const struct migration_pairs *limits = &migration->pairs[MIGRATION_LIMITS];
    const struct migration_pairs *quotas = &migration->pairs[MIGRATION_QUOTAS];

    for (uint32_t i = 0; i < limits->count; i++) {
        const uint32_t old = limits->all[i].old, new = limits->all[i].new;

        if (states->tokens[old] < sizes[old]) // a full limit needs no change
            flow_limit_fill(to->flow.limit[new], &to->compiled->limits[new], states->tokens[old],
                            sizes[old], now_ns);
    }
    for (uint32_t i = 0; i < quotas->count; i++)
        __atomic_store_n(&to->flow.quota[quotas->all[i].new]->used,
                         states->used[quotas->all[i].old], __ATOMIC_RELAXED);
}

void migration_end(const struct migration *migration, const struct flow_counter *counters,
                   const uint64_t *logged, struct loaded *to) {
    const struct migration_pairs *pairs = &migration->pairs[MIGRATION_COUNTERS];
    const struct migration_pairs *logs = &migration->pairs[MIGRATION_LOGS];

    for (uint32_t i = 0; i < pairs->count; i++)
        to->counted[pairs->all[i].new] = counters[pairs->all[i].old];
    for (uint32_t i = 0; i < logs->count; i++)
        to->logged[logs->all[i].new] = logged[logs->all[i].old];
}

void migration_free(struct migration *migration) {
    for (int kind = 0; kind < MIGRATION_KIND_COUNT; kind++)
        free(migration->pairs[kind].all);
    *migration = (struct migration){0};
}
