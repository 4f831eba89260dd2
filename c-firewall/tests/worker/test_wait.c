// SPDX-License-Identifier: GPL-2.0-or-later
#include "worker/wait.h"

#include "test.h"

#define US UINT64_C(1000)
#define START UINT64_C(5000000000)

enum { BATCH = 64, SPIN_US = 50, COALESCE_US = 60 };

static struct wait make_wait(void) {
    struct wait wait;

    wait_init(&wait, BATCH, SPIN_US, COALESCE_US, START);
    return wait;
}

/// Delivers full batches, each after an interval. Returns the time of the last batch.
static uint64_t run_batches(struct wait *wait, uint64_t now_ns, int count, uint64_t interval_ns) {
    for (int i = 0; i < count; i++) {
        now_ns += interval_ns;
        assert_int_equal(wait_next(wait, now_ns, BATCH), WAIT_AGAIN);
    }
    return now_ns;
}

static void a_full_batch_means_again_at_once(void **state) {
    struct wait wait = make_wait();

    (void)state;
    assert_int_equal(wait_next(&wait, START + 1000000 * US, BATCH), WAIT_AGAIN);
}

static void spins_until_the_budget_is_spent(void **state) {
    struct wait wait = make_wait();

    (void)state;
    assert_int_equal(wait_next(&wait, START + 100 * US, 1), WAIT_YIELD);
    assert_int_equal(wait_next(&wait, START + 120 * US, 0), WAIT_YIELD);
    assert_int_equal(wait_next(&wait, START + 150 * US - 1, 0), WAIT_YIELD);
    assert_int_equal(wait_next(&wait, START + 150 * US, 0), WAIT_POLL);
}

static void a_message_starts_the_budget_anew(void **state) {
    struct wait wait = make_wait();

    (void)state;
    assert_int_equal(wait_next(&wait, START + 100 * US, 1), WAIT_YIELD);
    assert_int_equal(wait_next(&wait, START + 149 * US, 1), WAIT_YIELD);
    assert_int_equal(wait_next(&wait, START + 198 * US, 0), WAIT_YIELD);
    assert_int_equal(wait_next(&wait, START + 199 * US, 0), WAIT_POLL);
}

/// Delivers one message, spins without result, and sleeps in poll for a duration. Returns the time
/// of waking.
static uint64_t poll_for(struct wait *wait, uint64_t now_ns, uint64_t slept_ns) {
    enum wait_action action = wait_next(wait, now_ns, 1);

    while (action == WAIT_YIELD)
        action = wait_next(wait, now_ns += US, 0);
    assert_int_equal(action, WAIT_POLL);
    now_ns += slept_ns;
    wait_woken(wait, now_ns);
    return now_ns;
}

static void long_sleeps_halve_the_budget_down_to_none(void **state) {
    struct wait wait = make_wait();
    const uint64_t budgets_ns[] = {25000, 12500, 6250, 3125, 1562, 0, 0};
    uint64_t now_ns = START;

    (void)state;
    for (size_t i = 0; i < sizeof budgets_ns / sizeof *budgets_ns; i++) {
        now_ns = poll_for(&wait, now_ns, SPIN_US * US + 1);
        assert_int_equal(wait.budget_ns, budgets_ns[i]);
    }
    assert_int_equal(wait_next(&wait, now_ns, 1), WAIT_POLL); // the worker does not spin
}

static void a_short_sleep_brings_the_budget_back(void **state) {
    struct wait wait = make_wait();
    uint64_t now_ns = START;

    (void)state;
    for (int i = 0; i < 10; i++)
        now_ns = poll_for(&wait, now_ns, 1000 * US);
    assert_int_equal(wait.budget_ns, 0);
    now_ns = poll_for(&wait, now_ns, SPIN_US * US - 1);
    assert_int_equal(wait.budget_ns, SPIN_US * US);
}

static void a_sleep_of_just_the_spin_time_changes_nothing(void **state) {
    struct wait wait = make_wait();
    uint64_t now_ns = poll_for(&wait, START, 1000 * US);

    (void)state;
    assert_int_equal(wait.budget_ns, 25 * US);
    poll_for(&wait, now_ns, SPIN_US * US);
    assert_int_equal(wait.budget_ns, 25 * US);
}

static void a_spin_that_found_something_brings_the_budget_back(void **state) {
    struct wait wait = make_wait();
    uint64_t now_ns = poll_for(&wait, START, 1000 * US);

    (void)state;
    assert_int_equal(wait.budget_ns, 25 * US);
    assert_int_equal(wait_next(&wait, now_ns, 1), WAIT_YIELD);
    assert_int_equal(wait_next(&wait, now_ns + 10 * US, 1), WAIT_YIELD);
    assert_int_equal(wait.budget_ns, SPIN_US * US);
}

static void without_spin_it_polls_at_once(void **state) {
    struct wait wait;

    (void)state;
    wait_init(&wait, BATCH, 0, COALESCE_US, START);
    assert_int_equal(wait_next(&wait, START, 1), WAIT_POLL);
    wait_woken(&wait, START + 1);
    assert_int_equal(wait_next(&wait, START + 1, 1), WAIT_POLL);
}

/// 64 packets in 640 us are exactly 100,000 packets per second, which is not yet a flood.
static void the_flood_begins_above_its_rate(void **state) {
    struct wait at = make_wait(), above = make_wait();
    uint64_t now_ns;

    (void)state;
    now_ns = run_batches(&at, START, 1, 640 * US);
    assert_int_equal(wait_next(&at, now_ns, 0), WAIT_YIELD);
    now_ns = run_batches(&above, START, 1, 640 * US - 1);
    assert_int_equal(wait_next(&above, now_ns, 0), WAIT_SLEEP);
}

static void fewer_messages_than_a_window_are_no_flood(void **state) {
    struct wait wait = make_wait();

    (void)state;
    assert_int_equal(wait_next(&wait, START + 1, WAIT_WINDOW_MESSAGES - 1), WAIT_YIELD);
    assert_int_equal(wait_next(&wait, START + 2, 1), WAIT_SLEEP);
}

static void the_flood_goes_on_while_sleeps_bring_messages(void **state) {
    struct wait wait = make_wait();
    uint64_t now_ns = run_batches(&wait, START, 2, 100 * US);

    (void)state;
    assert_int_equal(wait_next(&wait, now_ns, 0), WAIT_SLEEP);
    for (int i = 0; i < 100; i++) {
        now_ns += COALESCE_US * US;
        assert_int_equal(wait_next(&wait, now_ns, 20), WAIT_SLEEP);
    }
}

static void a_sleep_without_messages_ends_the_flood(void **state) {
    struct wait wait = make_wait();
    uint64_t now_ns = run_batches(&wait, START, 2, 100 * US);

    (void)state;
    assert_int_equal(wait_next(&wait, now_ns, 0), WAIT_SLEEP);
    now_ns += COALESCE_US * US;
    assert_int_equal(wait_next(&wait, now_ns, 0), WAIT_POLL); // 60 us exceed the spin budget
    now_ns += 10 * US;
    wait_woken(&wait, now_ns);
    assert_int_equal(wait_next(&wait, now_ns, 1), WAIT_YIELD);
}

static void a_falling_rate_ends_the_flood(void **state) {
    struct wait wait = make_wait();
    uint64_t now_ns = run_batches(&wait, START, 2, 100 * US);

    (void)state;
    now_ns = run_batches(&wait, now_ns, 1, 700 * US);
    assert_int_equal(wait_next(&wait, now_ns, 0), WAIT_YIELD);
}

/// With a batch of 1 every packet fills the batch, and only the next receive call finds the socket
/// empty.
static void a_batch_of_one_coalesces_too(void **state) {
    struct wait wait;
    uint64_t now_ns = START;

    (void)state;
    wait_init(&wait, 1, SPIN_US, COALESCE_US, START);
    for (int i = 0; i < WAIT_WINDOW_MESSAGES; i++)
        assert_int_equal(wait_next(&wait, now_ns += US, 1), WAIT_AGAIN);
    for (int i = 0; i < 10; i++) {
        assert_int_equal(wait_next(&wait, now_ns += US, 0), WAIT_SLEEP);
        assert_int_equal(wait_next(&wait, now_ns += COALESCE_US * US, 1), WAIT_AGAIN);
    }
}

static void without_coalescing_a_flood_spins(void **state) {
    struct wait wait;

    (void)state;
    wait_init(&wait, BATCH, SPIN_US, 0, START);
    run_batches(&wait, START, 2, 100 * US);
    assert_true(wait.flood);
    assert_int_equal(wait_next(&wait, START + 200 * US, 0), WAIT_YIELD);
}

static void the_clock_does_not_go_back(void **state) {
    const uint64_t first_ns = wait_clock();

    (void)state;
    assert_true(first_ns > 0);
    assert_true(wait_clock() >= first_ns);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_full_batch_means_again_at_once),
        cmocka_unit_test(spins_until_the_budget_is_spent),
        cmocka_unit_test(a_message_starts_the_budget_anew),
        cmocka_unit_test(long_sleeps_halve_the_budget_down_to_none),
        cmocka_unit_test(a_short_sleep_brings_the_budget_back),
        cmocka_unit_test(a_sleep_of_just_the_spin_time_changes_nothing),
        cmocka_unit_test(a_spin_that_found_something_brings_the_budget_back),
        cmocka_unit_test(without_spin_it_polls_at_once),
        cmocka_unit_test(the_flood_begins_above_its_rate),
        cmocka_unit_test(fewer_messages_than_a_window_are_no_flood),
        cmocka_unit_test(the_flood_goes_on_while_sleeps_bring_messages),
        cmocka_unit_test(a_sleep_without_messages_ends_the_flood),
        cmocka_unit_test(a_falling_rate_ends_the_flood),
        cmocka_unit_test(a_batch_of_one_coalesces_too),
        cmocka_unit_test(without_coalescing_a_flood_spins),
        cmocka_unit_test(the_clock_does_not_go_back),
    };

    return cmocka_run_group_tests_name("wait", tests, NULL, NULL);
}
