// SPDX-License-Identifier: GPL-2.0-or-later
#include "explain/check.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "engine/compile.h"
#include "explain/describe.h"
#include "policy/advice.h"
#include "policy/parse/parse.h"
#include "policy/print.h"

enum {
    RULES_TOLD = 8, // maximum number of printed positions of rules that nft does not support
};

/// Returns true if a statement searches a set that learns addresses.
static bool asks_learnt(const struct policy_table *table,
                        const struct policy_statement *statement) {
    return statement->kind == POLICY_MATCH && statement->match->right == POLICY_RIGHT_NAMED &&
           policy_set_learns(&table->sets[statement->match->set]);
}

/// Returns true if a rule of a table matches a name, or an address learned from a name.
static bool reads_names(const struct policy_table *table, const struct policy_rule *rule) {
    for (uint32_t i = 0; i < rule->count; i++) {
        const struct policy_key *key = describe_key_of(&rule->statements[i]);

        if (asks_learnt(table, &rule->statements[i]))
            return true;
        for (uint32_t j = 0; key && j < key->count; j++)
            if (policy_field_facts(key->fields[j])->part == POLICY_PART_NAMES)
                return true;
    }
    return false;
}

/// Writes the positions of those rules of a chain that nft does not support, but no more than
/// RULES_TOLD of all chains.
/// - told: in/out: number of rules so far, in all chains, that nft does not support.
static void put_chain(FILE *out, const struct policy *policy, const struct policy_table *table,
                      const struct policy_chain *chain, uint32_t *told) {
    for (uint32_t i = 0; i < chain->count; i++) {
        const struct policy_place place = chain->rules[i].place;

        if (!reads_names(table, &chain->rules[i]) || ++*told > RULES_TOLD)
            continue;
        fprintf(out, "%s%s:%u", *told == 1 ? "only Twinwall decides: " : ", ",
                policy->files[place.file], place.line);
    }
}

/// Writes the positions of the first RULES_TOLD rules that nft does not support, and the number of
/// the remaining rules. Writes nothing if nft supports all rules.
static void put_rules(FILE *out, const struct policy *policy) {
    uint32_t told = 0;

    for (uint32_t i = 0; i < policy->table_count; i++)
        for (uint32_t j = 0; j < policy->tables[i].chain_count; j++)
            put_chain(out, policy, &policy->tables[i], &policy->tables[i].chains[j], &told);
    if (told > RULES_TOLD)
        fprintf(out, " and %u more", told - RULES_TOLD);
    if (told > 0)
        putc('\n', out);
}

/// Returns the report on a valid policy, which the caller frees; NULL if there is no memory.
static char *summary(const struct policy *policy) {
    char *text = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);

    if (!out)
        return NULL;
    fputs("ok\n", out);
    put_rules(out, policy);
    if (fclose(out) == 0)
        return text;
    free(text);
    return NULL;
}

/// Prints a text, and frees it. Returns 0, or -ENOMEM with failure filled in if it is NULL.
static int print(char *text, struct failure *failure) {
    if (!text) {
        failure_set_start(failure, "malloc", ENOMEM);
        return -ENOMEM;
    }
    fputs(text, stdout);
    free(text);
    return 0;
}

static void put_line(const char *text) { puts(text); }

static void warn(const char *text) { log_warn("%s", text); }

int check_run(const struct options *options) {
    // `check` does not look up interfaces: the firewall does so when it loads the policy.
    const struct compile_settings settings = {0};
    struct policy policy = {0};
    struct compiled *compiled = NULL;
    struct failure failure;
    int result = parse_file(options->policy, &policy, &failure);

    if (result == 0)
        result = compile_policy(&policy, &settings, &compiled, &failure);
    if (result == 0)
        result = print(options->print ? print_policy(&policy) : summary(&policy), &failure);
    if (result == 0 && !options->print) {
        advice_report(&policy, put_line);
        fflush(stdout);
        advice_advise(&policy, warn);
    }
    compile_free(compiled);
    policy_free(&policy);
    return result < 0 ? log_fail(&failure) : LOG_EXIT_STOPPED;
}
