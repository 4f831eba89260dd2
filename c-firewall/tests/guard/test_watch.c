// SPDX-License-Identifier: GPL-2.0-or-later
#include "guard/watch.h"

#include "test.h"

/// Returns the kernel's counters of a queue to which `offered` packets were sent, of which
/// `waiting` wait.
static struct queue_figures figures(uint32_t offered, uint32_t waiting) {
    return (struct queue_figures){.offered = offered, .waiting = waiting};
}

/// Calls `look` `looks` times with the same counters. Checks that no call before the last one
/// reports due packets, and returns the result of the last call.
/// - id: out: as for guard_watch_look.
static bool due_at_last(struct guard_watch *watch, const struct queue_figures *found, int looks,
                        uint32_t *id) {
    for (int i = 1; i < looks; i++)
        assert_false(guard_watch_look(watch, found, NULL, id));
    return guard_watch_look(watch, found, NULL, id);
}

static void a_deadline_without_an_answer_is_a_stall(void **state) {
    const struct queue_figures before = figures(105, 5), after = figures(105, 0);
    struct guard_watch watch = {0};
    uint32_t id = 0;
    bool begins;

    (void)state;
    assert_true(due_at_last(&watch, &before, GUARD_WATCH_LOOKS + 1, &id));
    assert_int_equal(id, 105);
    assert_int_equal(guard_watch_settled(&watch, &before, &after, &begins), 5);
    assert_true(begins);
    assert_false(due_at_last(&watch, &after, 10, &id));
}

static void who_answers_or_has_nothing_to_do_does_not_stall(void **state) {
    struct guard_watch watch = {0};
    const struct queue_figures idle = figures(100, 0);
    uint32_t id;

    (void)state;
    assert_false(due_at_last(&watch, &idle, 10, &id));
    // Between two looks the firewall answers one packet and one comes, so the number of waiting
    // packets stays the same.
    for (uint32_t i = 0; i < 20; i++) {
        const struct queue_figures busy = figures(110 + i, 10);

        assert_false(guard_watch_look(&watch, &busy, NULL, &id));
    }
}

static void packets_that_came_later_are_due_later(void **state) {
    struct guard_watch watch = {0};
    struct queue_figures found = figures(100, 0), after;
    uint32_t id = 0;
    bool begins;

    (void)state;
    assert_false(guard_watch_look(&watch, &found, NULL, &id));
    // From now on, one packet comes before each look.
    for (int i = 0; i < GUARD_WATCH_LOOKS; i++) {
        found.offered++;
        found.waiting++;
        assert_false(guard_watch_look(&watch, &found, NULL, &id));
    }
    for (uint32_t i = 1; i < 5; i++) {
        found.offered++;
        found.waiting++;
        assert_true(guard_watch_look(&watch, &found, NULL, &id));
        assert_int_equal(id, 100 + i);
        after = found;
        after.waiting--;
        assert_int_equal(guard_watch_settled(&watch, &found, &after, &begins), 1);
        assert_int_equal(begins, i == 1);
        found = after;
    }
}

static void after_progress_it_is_another_stall(void **state) {
    struct guard_watch watch = {0};
    struct queue_figures found = figures(5, 5), after = figures(5, 0);
    uint32_t id;
    bool begins;

    (void)state;
    assert_true(due_at_last(&watch, &found, GUARD_WATCH_LOOKS + 1, &id));
    guard_watch_settled(&watch, &found, &after, &begins);
    found = figures(8, 2); // the firewall answered one of three packets
    assert_true(due_at_last(&watch, &found, GUARD_WATCH_LOOKS + 1, &id));
    after = figures(9, 0); // one packet arrived meanwhile, and was answered as well
    assert_int_equal(guard_watch_settled(&watch, &found, &after, &begins), 3);
    assert_true(begins);
}

static void what_is_dropped_meanwhile_was_not_answered(void **state) {
    struct guard_watch watch = {0};
    uint32_t id = 0;

    (void)state;
    for (uint32_t i = 0; i <= GUARD_WATCH_LOOKS; i++) {
        const struct queue_figures full = {
            .offered = 100 + 50 * i, .user_drop = 50 * i, .waiting = 20};

        assert_int_equal(guard_watch_look(&watch, &full, NULL, &id), i == GUARD_WATCH_LOOKS);
    }
    assert_int_equal(id, 100);
}

static void what_passes_unseen_was_not_answered_while_the_head_stays(void **state) {
    struct guard_watch watch = {0};
    const uint32_t head = 81, other = 82;
    uint32_t id = 0;

    (void)state;
    for (uint32_t i = 0; i <= GUARD_WATCH_LOOKS; i++) {
        const struct queue_figures full = figures(100 + 50 * i, 20);

        assert_int_equal(guard_watch_look(&watch, &full, &head, &id), i == GUARD_WATCH_LOOKS);
    }
    assert_int_equal(id, 100);
    for (uint32_t i = 0; i < 10; i++) {
        const struct queue_figures full = figures(1000 + 50 * i, 20);

        assert_false(guard_watch_look(&watch, &full, i % 2 ? &head : &other, &id));
    }
}

static void counts_wrap(void **state) {
    struct guard_watch watch = {0};
    const struct queue_figures before = figures(3, 8), after = figures(4, 2);
    uint32_t id;
    bool begins;

    (void)state;
    assert_true(due_at_last(&watch, &before, GUARD_WATCH_LOOKS + 1, &id));
    assert_int_equal(id, 3);
    assert_int_equal(guard_watch_settled(&watch, &before, &after, &begins), 7);
}

static void who_did_not_run_can_not_judge(void **state) {
    struct guard_watch watch = {0};
    const struct queue_figures found = figures(5, 5);
    uint32_t id;

    (void)state;
    assert_false(due_at_last(&watch, &found, GUARD_WATCH_LOOKS, &id));
    guard_watch_forget(&watch);
    assert_true(due_at_last(&watch, &found, GUARD_WATCH_LOOKS + 1, &id));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_deadline_without_an_answer_is_a_stall),
        cmocka_unit_test(who_answers_or_has_nothing_to_do_does_not_stall),
        cmocka_unit_test(packets_that_came_later_are_due_later),
        cmocka_unit_test(after_progress_it_is_another_stall),
        cmocka_unit_test(what_is_dropped_meanwhile_was_not_answered),
        cmocka_unit_test(what_passes_unseen_was_not_answered_while_the_head_stays),
        cmocka_unit_test(counts_wrap),
        cmocka_unit_test(who_did_not_run_can_not_judge),
    };

    return cmocka_run_group_tests_name("guard_watch", tests, NULL, NULL);
}
