// SPDX-License-Identifier: GPL-2.0-or-later
#include "handover/counted.h"

#include <endian.h>
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum {
    WORD_BYTES = sizeof(uint64_t),
};

uint64_t handover_counted_states_bytes(const struct handover *of) {
    const uint64_t queues = (uint64_t)of->queue_count * (1U + of->stat_places.count);

    return WORD_BYTES * (of->count_places.count + queues + of->side.totals[MIGRATION_LIMITS] +
                         of->side.totals[MIGRATION_QUOTAS]);
}

uint64_t handover_counted_sums_bytes(const struct handover *of) {
    return WORD_BYTES *
           (of->side.totals[MIGRATION_LOGS] + UINT64_C(2) * of->side.totals[MIGRATION_COUNTERS]);
}

static int write_queue(struct handover_memory *memory, const struct worker *worker) {
    struct stats stats;
    const uint64_t *words = (const uint64_t *)&stats;
    int result =
        handover_memory_append_number(memory, __atomic_load_n(&worker->stalled, __ATOMIC_RELAXED));

    stats_snapshot(&worker->stats, &stats);
    for (size_t i = 0; result == 0 && i < STATS_WORDS; i++)
        result = handover_memory_append_number(memory, words[i]);
    return result;
}

int handover_counted_write_states(struct handover_memory *memory, const struct state *state,
                                  uint64_t now_ns) {
    const struct loaded *loaded = state->loaded;
    int result = 0;

    for (int i = 0; result == 0 && i < COUNT_COUNT; i++)
        result = handover_memory_append_number(memory, counts_get((enum count)i));
    for (uint32_t i = 0; result == 0 && i < state->workers.count; i++)
        result = write_queue(memory, &state->workers.all[i]);
    if (result < 0 || !loaded->compiled)
        return result;
    for (uint32_t i = 0; result == 0 && i < loaded->flow.limits; i++)
        result = handover_memory_append_number(
            memory, (uint64_t)flow_limit_tokens(loaded->flow.limit[i], &loaded->compiled->limits[i],
                                                now_ns));
    for (uint32_t i = 0; result == 0 && i < loaded->flow.quotas; i++)
        result = handover_memory_append_number(
            memory, __atomic_load_n(&loaded->flow.quota[i]->used, __ATOMIC_RELAXED));
    return result;
}

int handover_counted_write_sums(struct handover_memory *memory, const struct state *state) {
    const struct loaded *loaded = state->loaded;
    const struct workers *workers = &state->workers;
    int result = 0;

    if (!loaded->compiled)
        return 0;
    for (uint32_t i = 0; result == 0 && i < compile_logs(loaded->compiled); i++) {
        uint64_t logged = loaded->logged[i];

        for (uint32_t j = 0; j < workers->count; j++)
            logged += flow_logged(&workers->all[j].source->counters, i);
        result = handover_memory_append_number(memory, logged);
    }
    for (uint32_t i = 0; result == 0 && i < compile_counters(loaded->compiled); i++) {
        struct flow_counter sum = loaded->counted[i];

        for (uint32_t j = 0; j < workers->count; j++)
            flow_sum(&workers->all[j].source->counters, i, &sum);
        result = handover_memory_append_number(memory, sum.packets);
        if (result == 0)
            result = handover_memory_append_number(memory, sum.bytes);
    }
    return result;
}

/// Parses a number at *bytes, and advances *bytes past it.
static uint64_t decode_number(const uint8_t **bytes) {
    uint64_t word;

    memcpy(&word, *bytes, sizeof word);
    *bytes += sizeof word;
    return le64toh(word);
}

/// Parses counters from *bytes, and stores each counter whose name this process knows in `ours`.
/// Returns false if a counter exceeds INT64_MAX.
/// - places: index in `ours` of each counter; HANDOVER_UNKNOWN if its name is unknown.
static bool decode_known(const uint8_t **bytes, const struct handover_places *places,
                         uint64_t *ours) {
    for (uint32_t i = 0; i < places->count; i++) {
        const uint64_t word = decode_number(bytes);

        if (word > INT64_MAX)
            return false;
        if (places->of[i] != HANDOVER_UNKNOWN)
            ours[places->of[i]] = word;
    }
    return true;
}

int handover_counted_make_states(struct handover *taken) {
    // One element more than needed, so that the result is not NULL for 0 elements.
    taken->states.tokens =
        calloc(taken->side.totals[MIGRATION_LIMITS] + 1U, sizeof *taken->states.tokens);
    taken->states.used =
        calloc(taken->side.totals[MIGRATION_QUOTAS] + 1U, sizeof *taken->states.used);
    return taken->states.tokens && taken->states.used ? 0 : -ENOMEM;
}

const char *handover_counted_parse_states(const uint8_t *bytes, struct handover *taken) {
    if (!decode_known(&bytes, &taken->count_places, taken->counts))
        return "counts";
    for (uint32_t i = 0; i < taken->queue_count; i++) {
        struct worker_handover *const queue = &taken->queues[i];

        queue->stalled = decode_number(&bytes);
        if (queue->stalled > INT64_MAX)
            return "stalled";
        if (!decode_known(&bytes, &taken->stat_places, (uint64_t *)&queue->stats))
            return "stats";
    }
    for (uint32_t i = 0; i < taken->side.totals[MIGRATION_LIMITS]; i++) {
        const uint64_t tokens = decode_number(&bytes);

        if (tokens > (uint64_t)taken->side.limit_sizes[i])
            return "limits";
        taken->states.tokens[i] = (int64_t)tokens;
    }
    for (uint32_t i = 0; i < taken->side.totals[MIGRATION_QUOTAS]; i++) {
        taken->states.used[i] = decode_number(&bytes);
        // A quota in a policy's text has at most this number of bytes, too.
        if (taken->states.used[i] > INT64_MAX)
            return "quotas";
    }
    return NULL;
}

void handover_counted_parse_sums(const uint8_t *bytes, const struct handover *taken,
                                 struct flow_counter *counters, uint64_t *logged) {
    for (uint32_t i = 0; i < taken->side.totals[MIGRATION_LOGS]; i++)
        logged[i] = decode_number(&bytes);
    for (uint32_t i = 0; i < taken->side.totals[MIGRATION_COUNTERS]; i++) {
        counters[i].packets = decode_number(&bytes);
        counters[i].bytes = decode_number(&bytes);
    }
}
