// SPDX-License-Identifier: GPL-2.0-or-later
#include "state/reload.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/counts.h"
#include "events/events.h"
#include "ruleset/migration.h"
#include "state/report.h"
#include "state/state.h"
#include "worker/wait.h"

#define NS_PER_MS UINT64_C(1000000)
#define CURE "`fwctl upgrade` starts anew without losing a packet"

/// Fails if the policy needs packet data that the queues do not provide, or a right that the
/// process no longer has.
static int check(const struct state *state, const struct requirement *requirement,
                 struct failure *failure) {
    const struct queue_settings *queue = &state->workers.all[0].settings;
    const bool by_mark = state->options->conntrack == OPTIONS_CONNTRACK_MARK;

    if (requirement->uid_gid && !queue->uid_gid)
        failure_set(
            failure, LOG_EXIT_USAGE,
            "the policy uses meta skuid or meta skgid, which the queues do not give: " CURE);
    else if ((requirement->conntrack_state || requirement->conntrack_mark) && !by_mark &&
             !queue->conntrack)
        failure_set(failure, LOG_EXIT_USAGE,
                    "the policy uses ct state or ct mark, which the queues do not give: " CURE);
    else if (requirement_reads_names(requirement) && !queue->names)
        failure_set(failure, LOG_EXIT_USAGE,
                    "the policy reads names, for which the queues make no room: " CURE);
    else if (requirement->reject && state->reject.raw4 < 0)
        failure_set(failure, LOG_EXIT_CAPABILITY,
                    "the policy rejects, for which CAP_NET_RAW was missing at the start: add "
                    "it, and " CURE);
    else
        return 0;
    return -EINVAL;
}

/// Loads the next policy while the old policy decides. Returns 0, or -errno with failure filled in
/// and *next freed.
static int load_next(const struct state *state, struct loaded *next, struct failure *failure) {
    int result;

    *next = (struct loaded){0};
    if (!state->options->policy) {
        failure_set(failure, LOG_EXIT_USAGE, "there is no policy to read: start with --policy");
        return -EINVAL;
    }
    result = load(next, state->options, failure);
    if (result == 0)
        result = check(state, load_requirement(next), failure);
    if (result == 0)
        result = load_learn(next, state->options, state->loaded, failure);
    if (result < 0)
        load_free(next);
    next->generation = state->loaded->generation + 1;
    return result;
}

static void free_sources(struct evaluation_source **sources, uint32_t count) {
    for (uint32_t i = 0; sources && i < count; i++)
        evaluate_source_free(sources[i]);
    free(sources);
}

/// Creates an evaluation source for each worker. Returns NULL if there is no memory.
static struct evaluation_source **make_sources(struct loaded *loaded, uint32_t count) {
    struct evaluation_source **sources = calloc(count, sizeof(struct evaluation_source *));

    for (uint32_t i = 0; sources && i < count; i++) {
        sources[i] = evaluate_source_make(loaded);
        if (!sources[i]) {
            free_sources(sources, count);
            return NULL;
        }
    }
    return sources;
}

/// Sets the next policy for all workers, and transfers the counters. Afterwards *next holds the old
/// policy.
static void swap(struct state *state, struct loaded **next, const struct migration *migration,
                 struct tally *tally, struct evaluation_source **sources) {
    struct loaded *const old = state->loaded;

    events_policy(state->events, (*next)->generation, &(*next)->policy, (*next)->compiled);
    state_lock(state);
    workers_swap(&state->workers, sources);
    // After workers_swap all workers have changed, so that the old policy's counters are final.
    for (uint32_t i = 0; i < state->workers.count; i++)
        tally_add(tally, &sources[i]->counters);
    migration_end(migration, tally->counters, tally->logged, *next);
    state->loaded = *next;
    state->reload_error[0] = '\0';
    *next = old;
    state_unlock(state);
}

/// Objects that a reload creates and frees.
struct replacement {
    struct loaded *next; // next policy; after the change, the old policy
    struct migration migration;
    struct tally tally;
    struct evaluation_source **sources;
};

static int prepare(struct state *state, struct replacement *replacement, struct failure *failure) {
    int result;

    replacement->next = calloc(1, sizeof *replacement->next);
    result = replacement->next ? load_next(state, replacement->next, failure) : -ENOMEM;
    if (result < 0 && replacement->next)
        return result;
    if (result == 0)
        result = migration_begin(&replacement->migration, state->loaded, replacement->next,
                                 wait_clock());
    if (result == 0)
        result = tally_make(&replacement->tally, state->loaded);
    if (result == 0)
        replacement->sources = make_sources(replacement->next, state->workers.count);
    if (result == 0 && !replacement->sources)
        result = -ENOMEM;
    if (result < 0)
        failure_set_start(failure, "calloc", -result);
    return result;
}

static void release(struct state *state, struct replacement *replacement) {
    free_sources(replacement->sources, state->workers.count);
    tally_free(&replacement->tally);
    migration_free(&replacement->migration);
    if (replacement->next)
        load_free(replacement->next);
    free(replacement->next);
}

void reload_refuse(struct state *state, const struct failure *failure) {
    const struct events_facts facts = {.text = failure->text};

    state_lock(state);
    memcpy(state->reload_error, failure->text, sizeof state->reload_error);
    state_unlock(state);
    counts_add(COUNT_RELOADS_FAILED, 1);
    events_tell(state->events, EVENTS_RELOAD_FAILED, &facts);
    log_error("reload: %s: the policy stays as it was", failure->text);
}

static void tell(struct state *state, const struct reload_result *result) {
    const struct events_facts facts = {
        .figures = {result->generation, result->rules, result->kept, result->added,
                    result->removed},
    };

    events_tell(state->events, EVENTS_RELOAD, &facts);
}

int reload(struct state *state, struct reload_result *result, struct failure *failure) {
    const uint64_t began_ns = wait_clock();
    struct replacement replacement = {0};
    const int prepared = prepare(state, &replacement, failure);

    if (prepared != 0) {
        reload_refuse(state, failure);
        release(state, &replacement);
        return prepared;
    }
    swap(state, &replacement.next, &replacement.migration, &replacement.tally, replacement.sources);
    *result = (struct reload_result){
        .generation = state->loaded->generation,
        .rules = state->loaded->compiled->rule_count,
        .kept = replacement.migration.kept,
        .added = replacement.migration.added,
        .removed = replacement.migration.removed,
        .milliseconds = (wait_clock() - began_ns) / NS_PER_MS,
    };
    events_drain(state->events); // after events_drain no event needs the old policy
    release(state, &replacement);
    counts_add(COUNT_RELOADS, 1);
    tell(state, result);
    log_info("reload: policy %u: %u rules, %u kept, %u added, %u removed", result->generation,
             result->rules, result->kept, result->added, result->removed);
    return 0;
}
