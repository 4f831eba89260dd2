// SPDX-License-Identifier: GPL-2.0-or-later
#include "engine/flow.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
    CACHE_LINE_BYTES = 64,
};

/// Allocates zeroed memory in complete cache lines, so that workers share no line.
static void *make_lines(size_t bytes) {
    const size_t lines = bytes / CACHE_LINE_BYTES + 1;
    void *made = aligned_alloc(CACHE_LINE_BYTES, lines * CACHE_LINE_BYTES);

    if (made)
        memset(made, 0, lines * CACHE_LINE_BYTES);
    return made;
}

static void word_drop(struct flow_word *word) {
    if (word && --word->users == 0)
        free(word);
}

static void words_free(struct flow_word **words, uint32_t count) {
    for (uint32_t i = 0; words && i < count; i++)
        word_drop(words[i]);
    free(words);
}

/// Allocates zeroed words (states of limits or quotas) with one user each, in separate cache lines.
/// Returns NULL if there is no memory.
static struct flow_word **words_make(uint32_t count) {
    struct flow_word **words = calloc(count + 1U, sizeof(struct flow_word *));

    for (uint32_t i = 0; words && i < count; i++) {
        words[i] = make_lines(sizeof **words);
        if (!words[i]) {
            words_free(words, count);
            return NULL;
        }
        words[i]->users = 1;
    }
    return words;
}

int flow_make(struct flow *flow, const struct compiled *compiled) {
    *flow = (struct flow){
        .limits = compiled->limit_count,
        .limit = words_make(compiled->limit_count),
        .quotas = compiled->quota_count,
        .quota = words_make(compiled->quota_count),
    };
    if (!flow->limit || !flow->quota) {
        flow_free(flow);
        return -ENOMEM;
    }
    // Sets each bucket to full: its filling began so long ago that it is full at any clock time.
    for (uint32_t i = 0; i < flow->limits; i++)
        flow->limit[i]->empty_ns = INT64_MIN / 2;
    for (uint32_t i = 0; i < flow->quotas; i++)
        flow->quota[i]->used = compiled->quotas[i].used;
    return 0;
}

void flow_free(struct flow *flow) {
    words_free(flow->limit, flow->limits);
    words_free(flow->quota, flow->quotas);
    *flow = (struct flow){0};
}

void flow_share(struct flow_word **place, struct flow_word *word) {
    word->users++;
    word_drop(*place);
    *place = word;
}

int flow_counters_make(struct flow_counters *counters, const struct compiled *compiled) {
    *counters = (struct flow_counters){
        .counters = compiled->counter_count,
        .counter = make_lines(compiled->counter_count * sizeof *counters->counter),
        .logs = compiled->log_count,
        .logged = make_lines(compiled->log_count * sizeof *counters->logged),
    };
    if (!counters->counter || !counters->logged) {
        flow_counters_free(counters);
        return -ENOMEM;
    }
    return 0;
}

void flow_counters_free(struct flow_counters *counters) {
    free(counters->counter);
    free(counters->logged);
    *counters = (struct flow_counters){0};
}

/// Adds to a number that only this thread writes.
static void add(uint64_t *number, uint64_t more) {
    __atomic_store_n(number, __atomic_load_n(number, __ATOMIC_RELAXED) + more, __ATOMIC_RELAXED);
}

void flow_count(struct flow_counters *counters, uint32_t counter, uint32_t bytes) {
    add(&counters->counter[counter].packets, 1);
    add(&counters->counter[counter].bytes, bytes);
}

void flow_log(struct flow_counters *counters, uint32_t log) { add(&counters->logged[log], 1); }

void flow_sum(const struct flow_counters *counters, uint32_t counter, struct flow_counter *sum) {
    sum->packets += __atomic_load_n(&counters->counter[counter].packets, __ATOMIC_RELAXED);
    sum->bytes += __atomic_load_n(&counters->counter[counter].bytes, __ATOMIC_RELAXED);
}

uint64_t flow_logged(const struct flow_counters *counters, uint32_t log) {
    return __atomic_load_n(&counters->logged[log], __ATOMIC_RELAXED);
}

/// Returns the cost of a packet in nanoseconds of a limit's bucket.
static int64_t limit_cost(const struct flow_limit *limit, uint32_t bytes) {
    unsigned __int128 cost;

    if (!limit->of_bytes)
        return limit->cost;
    cost = (unsigned __int128)limit->nsecs * bytes / limit->rate;
    return cost < FLOW_LIMIT_SIZE_MAX ? (int64_t)cost : FLOW_LIMIT_SIZE_MAX;
}

bool flow_limit_holds(struct flow *flow, uint32_t index, const struct flow_limit *limit,
                      uint32_t bytes, uint64_t now_ns) {
    const int64_t cost = limit_cost(limit, bytes);
    const int64_t now = (int64_t)(now_ns & INT64_MAX);
    int64_t *const empty_ns = &flow->limit[index]->empty_ns;
    int64_t seen = __atomic_load_n(empty_ns, __ATOMIC_RELAXED);

    // The number of tokens is the time since the bucket was empty in nanoseconds, at most its size.
    for (;;) {
        const int64_t full = now - limit->size;
        const int64_t empty = seen > full ? seen : full;

        if (now - empty < cost)
            return limit->over;
        if (__atomic_compare_exchange_n(empty_ns, &seen, empty + cost, true, __ATOMIC_RELAXED,
                                        __ATOMIC_RELAXED))
            return !limit->over;
    }
}

int64_t flow_limit_tokens(const struct flow_word *word, const struct flow_limit *limit,
                          uint64_t now_ns) {
    const int64_t now = (int64_t)(now_ns & INT64_MAX);
    const int64_t since = now - __atomic_load_n(&word->empty_ns, __ATOMIC_RELAXED);
    const int64_t tokens = since < limit->size ? since : limit->size;

    return tokens > 0 ? tokens : 0;
}

void flow_limit_fill(struct flow_word *word, const struct flow_limit *limit, int64_t tokens,
                     int64_t size, uint64_t now_ns) {
    const int64_t now = (int64_t)(now_ns & INT64_MAX);

    if (limit->size != size)
        tokens = size > 0 ? (int64_t)((__int128)tokens * limit->size / size) : 0;
    __atomic_store_n(&word->empty_ns, now - tokens, __ATOMIC_RELAXED);
}

bool flow_quota_holds(struct flow *flow, uint32_t index, const struct flow_quota *quota,
                      uint32_t bytes) {
    const uint64_t used = __atomic_add_fetch(&flow->quota[index]->used, bytes, __ATOMIC_RELAXED);

    return (used > quota->bytes) == quota->over;
}
