// SPDX-License-Identifier: GPL-2.0-or-later
#include "carry.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "describe.h"
#include "print.h"

/// The rule's text without its comment, counters at 0. NULL = no memory.
static char *text_of(const struct policy_table *table, const struct policy_rule *rule) {
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
    text = print_rule(table, &bare);
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

/// Counts the statements with state. next: how many there are in the rules before; counted up.
static void count_statements(const struct policy_rule *rule, uint32_t next[CARRY_KIND_COUNT],
                             struct carry_rule *made) {
    memcpy(made->first, next, sizeof made->first);
    for (uint32_t i = 0; i < rule->count; i++) {
        switch (rule->statements[i].kind) {
        case POLICY_COUNTER:
            made->count[CARRY_COUNTERS]++;
            break;
        case POLICY_LOG:
            made->count[CARRY_LOGS]++;
            break;
        case POLICY_LIMIT:
            made->count[CARRY_LIMITS]++;
            break;
        case POLICY_QUOTA:
            made->count[CARRY_QUOTAS]++;
            break;
        default:
            break;
        }
    }
    for (int kind = 0; kind < CARRY_KIND_COUNT; kind++)
        next[kind] += made->count[kind];
}

/// Adds the rules of a chain. Returns 0 or -ENOMEM.
static int add_chain(struct carry_side *side, const struct policy_table *table,
                     const struct policy_chain *chain, uint32_t next[CARRY_KIND_COUNT]) {
    for (uint32_t i = 0; i < chain->count; i++) {
        const struct policy_rule *rule = &chain->rules[i];
        struct carry_rule *const made = &side->rules[side->rule_count++];

        *made = (struct carry_rule){
            .chain = chain_of(table, chain),
            .comment = rule->comment ? strdup(rule->comment) : NULL,
            .text = text_of(table, rule),
        };
        if (!made->chain || !made->text || (rule->comment && !made->comment))
            return -ENOMEM;
        count_statements(rule, next, made);
    }
    return 0;
}

int carry_side_make(struct carry_side *side, const struct loaded *loaded) {
    const struct policy *policy = &loaded->policy;
    uint32_t next[CARRY_KIND_COUNT] = {0};
    int result = 0;

    *side = (struct carry_side){
        .rules = calloc(loaded->compiled->rule_count + 1U, sizeof *side->rules),
        .counters = loaded->counted,
        .logged = loaded->logged,
        .limits = loaded->compiled->limits,
        .limit_words = loaded->flow.limit,
        .quota_words = loaded->flow.quota,
    };
    if (!side->rules)
        result = -ENOMEM;
    for (uint32_t i = 0; result == 0 && i < policy->table_count; i++) {
        const struct policy_table *table = &policy->tables[i];

        for (uint32_t j = 0; result == 0 && j < table->chain_count; j++)
            result = add_chain(side, table, &table->chains[j], next);
    }
    if (result < 0)
        carry_side_free(side);
    return result;
}

void carry_side_free(struct carry_side *side) {
    for (uint32_t i = 0; i < side->rule_count; i++) {
        free(side->rules[i].chain);
        free(side->rules[i].comment);
        free(side->rules[i].text);
    }
    free(side->rules);
    *side = (struct carry_side){0};
}

/// A rule by what it is looked for.
struct name {
    const char *chain;
    const char *word; // its comment, its text
    uint32_t rule;
};

static int compare_words(const struct name *a, const struct name *b) {
    const int chain = strcmp(a->chain, b->chain);

    return chain != 0 ? chain : strcmp(a->word, b->word);
}

/// By words; equals in the order of the rules.
static int compare_names(const void *left, const void *right) {
    const struct name *a = left, *b = right;
    const int words = compare_words(a, b);

    return words != 0 ? words : (a->rule > b->rule) - (a->rule < b->rule);
}

/// Names, sorted.
struct names {
    uint32_t count;
    struct name *all;
};

/// Names the rules that have no partner yet: by their comments, if they have one, or by their
/// texts.
/// - partners: of each rule, CARRY_NEW if it has none.
/// - Returns 0 or -ENOMEM with *names zeroed.
static int names_make(const struct carry_side *side, const uint32_t *partners, bool by_comment,
                      struct names *names) {
    *names = (struct names){.all = calloc(side->rule_count + 1U, sizeof *names->all)};
    if (!names->all)
        return -ENOMEM;
    for (uint32_t i = 0; i < side->rule_count; i++) {
        const struct carry_rule *rule = &side->rules[i];
        const char *word = by_comment ? rule->comment : rule->text;

        if (partners[i] == CARRY_NEW && word)
            names->all[names->count++] = (struct name){rule->chain, word, i};
    }
    qsort(names->all, names->count, sizeof *names->all, compare_names);
    return 0;
}

/// How many from a place on have the same words.
static uint32_t equals_at(const struct names *names, uint32_t at) {
    uint32_t end = at + 1;

    while (end < names->count && compare_words(&names->all[at], &names->all[end]) == 0)
        end++;
    return end - at;
}

/// Makes partners of the rules with the same words, the n-th of the n-th.
/// - only_unique: of those only that no other rule of the same side shares.
static void pair(const struct names *from, const struct names *to, bool only_unique,
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

/// Pairs rules by comments or by texts. Returns 0 or -ENOMEM.
static int pair_by(const struct carry *carry, bool by_comment, uint32_t *from_partners) {
    struct names from = {0}, to = {0};
    int result = names_make(carry->from, from_partners, by_comment, &from);

    if (result == 0)
        result = names_make(&carry->to_side, carry->origins, by_comment, &to);
    if (result == 0)
        pair(&from, &to, by_comment, from_partners, carry->origins);
    free(from.all);
    free(to.all);
    return result;
}

/// Partners of rules that have none. NULL = no memory.
static uint32_t *make_partners(uint32_t rules) {
    const size_t bytes = (rules + 1U) * sizeof(uint32_t);
    uint32_t *partners = malloc(bytes);

    static_assert(CARRY_NEW == UINT32_MAX, "all bits");
    return partners ? memset(partners, 0xff, bytes) : NULL;
}

/// Fills in origins and the figures. Returns 0 or -ENOMEM.
static int match(struct carry *carry) {
    uint32_t *partners = make_partners(carry->from->rule_count);
    int result = partners ? 0 : -ENOMEM;

    carry->origins = make_partners(carry->to_side.rule_count);
    if (!carry->origins)
        result = -ENOMEM;
    if (result == 0)
        result = pair_by(carry, true, partners);
    if (result == 0)
        result = pair_by(carry, false, partners);
    free(partners);
    if (result < 0)
        return result;
    for (uint32_t i = 0; i < carry->to_side.rule_count; i++)
        carry->kept += carry->origins[i] != CARRY_NEW;
    carry->added = carry->to_side.rule_count - carry->kept;
    carry->removed = carry->from->rule_count - carry->kept;
    return 0;
}

/// Calls a function for every statement of a kind in rules that stay, with its number before and
/// now: the n-th of the rule for the n-th.
static void each(const struct carry *carry, enum carry_kind kind,
                 void (*give)(const struct carry *carry, uint32_t from, uint32_t to, void *context),
                 void *context) {
    for (uint32_t i = 0; i < carry->to_side.rule_count; i++) {
        const struct carry_rule *to = &carry->to_side.rules[i], *from;

        if (carry->origins[i] == CARRY_NEW)
            continue;
        from = &carry->from->rules[carry->origins[i]];
        for (uint32_t n = 0; n < to->count[kind] && n < from->count[kind]; n++)
            give(carry, from->first[kind] + n, to->first[kind] + n, context);
    }
}

static bool limits_equal(const struct flow_limit *a, const struct flow_limit *b) {
    return a->nsecs == b->nsecs && a->rate == b->rate && a->size == b->size &&
           a->of_bytes == b->of_bytes;
}

static void give_limit(const struct carry *carry, uint32_t from, uint32_t to, void *now_ns) {
    const struct flow_limit *old = &carry->from->limits[from], *new = &carry->to_side.limits[to];
    struct flow_word *const word = carry->from->limit_words[from];
    struct flow_word **const place = &carry->to_side.limit_words[to];

    if (limits_equal(old, new))
        flow_share(place, word);
    else
        (*place)->empty_ns = flow_limit_refill(word, old, new, *(uint64_t *)now_ns);
}

static void give_quota(const struct carry *carry, uint32_t from, uint32_t to, void *none) {
    (void)none;
    flow_share(&carry->to_side.quota_words[to], carry->from->quota_words[from]);
}

int carry_begin(struct carry *carry, const struct carry_side *from, struct loaded *to,
                uint64_t now_ns) {
    int result;

    *carry = (struct carry){.from = from, .to = to};
    result = carry_side_make(&carry->to_side, to);
    if (result == 0)
        result = match(carry);
    if (result < 0) {
        carry_free(carry);
        return result;
    }
    each(carry, CARRY_LIMITS, give_limit, &now_ns);
    each(carry, CARRY_QUOTAS, give_quota, NULL);
    return 0;
}

static void give_counter(const struct carry *carry, uint32_t from, uint32_t to, void *counters) {
    carry->to->counted[to] = ((const struct flow_counter *)counters)[from];
}

static void give_logged(const struct carry *carry, uint32_t from, uint32_t to, void *logged) {
    carry->to->logged[to] = ((const uint64_t *)logged)[from];
}

void carry_end(const struct carry *carry, const struct flow_counter *counters,
               const uint64_t *logged) {
    each(carry, CARRY_COUNTERS, give_counter, (void *)counters);
    each(carry, CARRY_LOGS, give_logged, (void *)logged);
}

void carry_free(struct carry *carry) {
    carry_side_free(&carry->to_side);
    free(carry->origins);
    *carry = (struct carry){0};
}
