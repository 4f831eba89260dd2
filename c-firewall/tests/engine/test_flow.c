// SPDX-License-Identifier: GPL-2.0-or-later
// Compares limits with the arithmetic of nft_limit.c. Tests quotas and counters, also with several
// threads.
#include "engine/flow.h"

#include <pthread.h>

#include "engine.h"
#include "test.h"

enum {
    THREADS = 4,
};

#define SECOND 1000000000ULL

/// Returns a policy with one limit, one quota, two counters and a log statement.
static struct engine made(void) {
    return engine_make("table ip t {\n chain c {\n limit rate 1/second counter packets 7 bytes 8\n "
                       "quota 9 bytes used 3 bytes counter log\n }\n}\n",
                       false);
}

/// State of a limit of the kernel, which is evaluated like nft_limit_eval.
struct kernel {
    uint64_t last;
    uint64_t tokens;
    uint64_t most;
    bool over;
};

static bool kernel_holds(struct kernel *kernel, uint64_t cost, uint64_t now) {
    uint64_t tokens = kernel->tokens + now - kernel->last;

    if (tokens > kernel->most)
        tokens = kernel->most;
    kernel->last = now;
    kernel->tokens = tokens >= cost ? tokens - cost : tokens;
    return (tokens >= cost) != kernel->over;
}

/// Compares a limit with the kernel's for packets at random times. Returns the number of packets
/// for which the limit held.
/// - of_bytes: true for a limit of bytes, false for a limit of packets.
/// - over: true for a limit that holds for the packets above the rate.
static int compare(struct random *random, bool of_bytes, bool over) {
    static const uint64_t units[] = {1, 60, 3600};
    const uint64_t nsecs = units[random_below(random, 3)] * SECOND;
    const uint64_t rate = 1 + random_below(random, of_bytes ? 5000 : 50);
    const uint64_t burst = random_below(random, 10) + !of_bytes;
    const uint64_t most = of_bytes ? nsecs * (rate + burst) / rate : nsecs / rate * burst;
    const struct flow_limit limit = {
        .nsecs = nsecs,
        .rate = rate,
        .size = (int64_t)most,
        .cost = (int64_t)(nsecs / rate),
        .of_bytes = of_bytes,
        .over = over,
    };
    struct engine engine = made();
    uint64_t now = random_next(random) % (1ULL << 50);
    struct kernel kernel = {now, most, most, over};
    int held = 0;

    for (int i = 0; i < 200; i++) {
        const uint32_t bytes = random_below(random, 1500);
        const uint64_t cost = of_bytes ? nsecs * bytes / rate : nsecs / rate;
        const bool holds = flow_limit_holds(&engine.flow, 0, &limit, bytes, now);

        assert_int_equal(holds, kernel_holds(&kernel, cost, now));
        held += holds;
        now += random_next(random) % (2 * nsecs / rate * (of_bytes ? 700 : 1));
    }
    engine_free(&engine);
    return held;
}

static void limits_hold_as_in_the_kernel(void **state) {
    struct random random = {3};
    int held = 0;

    (void)state;
    for (int round = 0; round < 500; round++)
        held += compare(&random, round % 2 == 1, round % 3 == 1);
    assert_in_range(held, 20000, 80000);
}

static void a_clock_that_begins_at_0_or_goes_back_does_no_harm(void **state) {
    const struct flow_limit limit = {
        .nsecs = SECOND,
        .rate = 1,
        .size = 2 * SECOND,
        .cost = SECOND,
    };
    static const struct {
        uint64_t now_ns;
        bool holds;
    } asked[] = {{0, true},           {0, true},  {0, false},         {SECOND, true},
                 {SECOND / 2, false}, {0, false}, {2 * SECOND, true}, {UINT64_MAX, true}};
    struct engine engine = made();

    (void)state;
    for (size_t i = 0; i < sizeof asked / sizeof *asked; i++)
        assert_int_equal(flow_limit_holds(&engine.flow, 0, &limit, 1, asked[i].now_ns),
                         asked[i].holds);
    engine_free(&engine);
}

static void packets_that_cost_more_than_a_word_do_not_fit(void **state) {
    const struct flow_limit limit = {
        .nsecs = 604800 * SECOND,
        .rate = 1,
        .size = FLOW_LIMIT_SIZE_MAX,
        .of_bytes = true,
    };
    struct engine engine = made();

    (void)state;
    assert_true(flow_limit_holds(&engine.flow, 0, &limit, UINT32_MAX, 0));
    assert_false(flow_limit_holds(&engine.flow, 0, &limit, 1, 0));
    assert_true(flow_limit_holds(&engine.flow, 0, &limit, 0, 0));
    engine_free(&engine);
}

static void quotas_hold_until_they_are_exceeded(void **state) {
    (void)state;
    for (int over = 0; over <= 1; over++) {
        const struct flow_quota quota = {.bytes = 9, .used = 3, .over = over};
        struct engine engine = made();

        // 3 bytes are used at the start, so that 6 bytes are left. Later packets exceed the quota,
        // but their bytes are counted.
        assert_int_equal(flow_quota_holds(&engine.flow, 0, &quota, 5), !over);
        assert_int_equal(flow_quota_holds(&engine.flow, 0, &quota, 1), !over);
        assert_int_equal(flow_quota_holds(&engine.flow, 0, &quota, 1), over);
        assert_int_equal(flow_quota_holds(&engine.flow, 0, &quota, 0), over);
        engine_free(&engine);
    }
}

static const struct flow_limit shared_limit = {
    .nsecs = SECOND,
    .rate = 1,
    .size = 1000 * SECOND,
    .cost = SECOND,
};
static const struct flow_quota shared_quota = {.bytes = 3 + 2000, .used = 3};

/// Argument of a thread: the shared state. Results: how often its limit and its quota held.
struct share {
    struct flow *flow;
    int limited;
    int used;
};

static void *take(void *argument) {
    struct share *share = argument;

    for (int i = 0; i < 1000; i++) {
        share->limited += flow_limit_holds(share->flow, 0, &shared_limit, 1, 5);
        share->used += flow_quota_holds(share->flow, 0, &shared_quota, 1);
    }
    return NULL;
}

static void threads_share_a_limit_and_a_quota_to_the_last_token(void **state) {
    struct engine engine = made();
    struct share shares[THREADS];
    pthread_t threads[THREADS];
    int limited = 0, used = 0;

    (void)state;
    for (int i = 0; i < THREADS; i++) {
        shares[i] = (struct share){.flow = &engine.flow};
        assert_int_equal(pthread_create(&threads[i], NULL, take, &shares[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        limited += shares[i].limited;
        used += shares[i].used;
    }
    assert_int_equal(limited, 1000);
    assert_int_equal(used, 2000);
    engine_free(&engine);
}

static void counters_are_the_workers_own_and_are_summed(void **state) {
    struct engine engine = made();
    struct flow_counters other;
    struct flow_counter sum = {0};

    (void)state;
    assert_int_equal(flow_counters_make(&other, engine.compiled), 0);
    flow_count(&engine.counters, 1, 100);
    flow_count(&engine.counters, 1, UINT32_MAX);
    flow_count(&other, 1, 5);
    flow_log(&other, 0);
    flow_sum(&engine.counters, 1, &sum);
    flow_sum(&other, 1, &sum);
    assert_int_equal(sum.packets, 3);
    assert_int_equal(sum.bytes, 105 + (uint64_t)UINT32_MAX);
    assert_int_equal(engine_counter(&engine, 0).packets, 0);
    assert_int_equal(flow_logged(&engine.counters, 0), 0);
    assert_int_equal(flow_logged(&other, 0), 1);
    flow_counters_free(&other);
    engine_free(&engine);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(limits_hold_as_in_the_kernel),
        cmocka_unit_test(a_clock_that_begins_at_0_or_goes_back_does_no_harm),
        cmocka_unit_test(packets_that_cost_more_than_a_word_do_not_fit),
        cmocka_unit_test(quotas_hold_until_they_are_exceeded),
        cmocka_unit_test(threads_share_a_limit_and_a_quota_to_the_last_token),
        cmocka_unit_test(counters_are_the_workers_own_and_are_summed),
    };

    return cmocka_run_group_tests_name("flow", tests, NULL, NULL);
}
