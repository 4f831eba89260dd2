// SPDX-License-Identifier: GPL-2.0-or-later
#include "state/snapshot.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "engine/compile.h"
#include "engine/learned.h"
#include "explain/describe.h"
#include "state/state.h"
#include "worker/wait.h"

#define NS_PER_MS UINT64_C(1000000)

/// Allocates an array of objects that hold struct stats. Returns NULL if there is no memory.
static void *make_aligned(uint32_t count, size_t size) {
    return aligned_alloc(STATS_ALIGN, count * size);
}

static int copy_queues(const struct state *state, struct snapshot *snapshot) {
    const struct workers *workers = &state->workers;

    snapshot->ledgers = make_aligned(workers->count, sizeof *snapshot->ledgers);
    snapshot->stalled = calloc(workers->count, sizeof *snapshot->stalled);
    if (!snapshot->ledgers || !snapshot->stalled)
        return -ENOMEM;
    snapshot->ledger_count = workers->count;
    for (uint32_t i = 0; i < workers->count; i++) {
        worker_ledger(&workers->all[i], &snapshot->ledgers[i]);
        snapshot->stalled[i] = snapshot->ledgers[i].stalled;
    }
    return 0;
}

/// Returns the text that `print` writes for a place of the policy; NULL if there is no memory.
static char *text_of(void (*print)(FILE *, const struct policy *, struct compile_place),
                     const struct policy *policy, struct compile_place place) {
    char *text = NULL;
    size_t length;
    FILE *out = open_memstream(&text, &length);

    if (!out)
        return NULL;
    print(out, policy, place);
    fclose(out);
    return text;
}

static void print_table(FILE *out, const struct policy *policy, struct compile_place place) {
    const struct policy_table *table = &policy->tables[place.table];

    fprintf(out, "%s %s", policy_family_name(table->family), table->name);
}

static void print_chain(FILE *out, const struct policy *policy, struct compile_place place) {
    fputs(policy->tables[place.table].chains[place.chain].name, out);
}

/// Copies a rule without its counts. Returns 0 or -ENOMEM.
static int copy_rule(const struct policy *policy, struct compile_place place,
                     struct snapshot_rule *rule) {
    const char *comment = describe_rule(policy, place)->comment;
    const uint32_t statements = describe_rule(policy, place)->count;

    *rule = (struct snapshot_rule){
        .rule = text_of(describe_place, policy, place),
        .table = text_of(print_table, policy, place),
        .chain = text_of(print_chain, policy, place),
        .text = text_of(describe_rule_text, policy, place),
        .comment = comment ? strdup(comment) : NULL,
        .counters = calloc(statements + 1U, sizeof *rule->counters),
        .logs = calloc(statements + 1U, sizeof *rule->logs),
    };
    return rule->rule && rule->table && rule->chain && rule->text && (rule->comment || !comment) &&
                   rule->counters && rule->logs
               ? 0
               : -ENOMEM;
}

static bool is_of_rule(struct compile_place statement, struct compile_place rule) {
    return statement.table == rule.table && statement.chain == rule.chain &&
           statement.rule == rule.rule;
}

/// Copies the rules with their counts. The tally's counters and logs are in the order of the rules,
/// so that those of a rule follow those of the rule before it. Returns 0 or -ENOMEM.
static int copy_rules(const struct tally *tally, struct snapshot *snapshot) {
    const struct compiled *compiled = tally->compiled;
    uint32_t counter = 0, log = 0;

    snapshot->rules = calloc(snapshot->rule_count + 1U, sizeof *snapshot->rules);
    if (!snapshot->rules)
        return -ENOMEM;
    for (uint32_t i = 0; i < snapshot->rule_count; i++) {
        const struct compile_place place = compile_rule_at(compiled, i);
        struct snapshot_rule *const rule = &snapshot->rules[i];

        if (copy_rule(tally->policy, place, rule) < 0)
            return -ENOMEM;
        for (; counter < compile_counters(compiled) &&
               is_of_rule(compile_counter_at(compiled, counter), place);
             counter++)
            rule->counters[rule->counter_count++] = (struct snapshot_counter){
                .statement = compile_counter_at(compiled, counter).statement,
                .packets = tally->counters[counter].packets,
                .bytes = tally->counters[counter].bytes,
            };
        for (; log < compile_logs(compiled) && is_of_rule(compile_log_at(compiled, log), place);
             log++)
            rule->logs[rule->log_count++] = (struct snapshot_log){
                .statement = compile_log_at(compiled, log).statement,
                .packets = tally->logged[log],
            };
    }
    return 0;
}

static int copy_policy(const struct state *state, bool with_rules, struct snapshot *snapshot) {
    const struct loaded *loaded = state->loaded;
    struct tally tally;
    int result;

    if (!loaded->compiled)
        return 0;
    snapshot->generation = loaded->generation;
    snapshot->loaded_ms = loaded->loaded_ms;
    snapshot->policy_file = state->options->policy;
    snapshot->chain_count = loaded->compiled->chain_count;
    snapshot->rule_count = loaded->compiled->rule_count;
    snapshot->requirement = *load_requirement(loaded);
    snapshot->tracked = state->tracked;
    if (loaded->compiled->learned)
        snapshot->learned = learned_count(loaded->compiled->learned, wait_clock());
    if (!with_rules)
        return 0;
    result = state_tally(state, &tally);
    if (result == 0)
        result = copy_rules(&tally, snapshot);
    tally_free(&tally);
    return result;
}

/// Fills in a zeroed snapshot under the lock. Returns 0 or -ENOMEM.
static int copy_state(const struct state *state, bool with_rules, struct snapshot *snapshot) {
    int result;

    snapshot->time_ms = clock_unix_ms();
    snapshot->started_ms = state->started_ms;
    snapshot->uptime_ms = (wait_clock() - state->started_ns) / NS_PER_MS;
    snapshot->options = state->options;
    snapshot->contract = &state->contract;
    snapshot->guard_ended = state->guard_ended;
    if (state->reload_error[0] != '\0') {
        snapshot->reload_error = strdup(state->reload_error);
        if (!snapshot->reload_error)
            return -ENOMEM;
    }
    result = copy_queues(state, snapshot);
    return result < 0 ? result : copy_policy(state, with_rules, snapshot);
}

int snapshot_take(struct state *state, bool with_rules, struct snapshot *snapshot) {
    int result;

    *snapshot = (struct snapshot){0};
    state_lock(state);
    result = copy_state(state, with_rules, snapshot);
    state_unlock(state);
    if (result < 0)
        snapshot_free(snapshot);
    return result;
}

void snapshot_free(struct snapshot *snapshot) {
    for (uint32_t i = 0; snapshot->rules && i < snapshot->rule_count; i++) {
        const struct snapshot_rule *rule = &snapshot->rules[i];

        free(rule->rule);
        free(rule->table);
        free(rule->chain);
        free(rule->text);
        free(rule->comment);
        free(rule->counters);
        free(rule->logs);
    }
    free(snapshot->rules);
    free(snapshot->ledgers);
    free(snapshot->stalled);
    free(snapshot->reload_error);
    *snapshot = (struct snapshot){0};
}
