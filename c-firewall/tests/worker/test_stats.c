// SPDX-License-Identifier: GPL-2.0-or-later
#include "worker/stats.h"

#include "test.h"

/// Returns a reading of a worker that has received and accepted a number of packets.
static struct stats_reading make_reading(uint64_t received, uint32_t offered) {
    return (struct stats_reading){
        .received_before = received,
        .figures = {.offered = offered},
        .known = true,
        .after = {.received = received, .verdicts = {[VERDICT_ACCEPT] = received}},
    };
}

static struct ledger make_ledger(const struct stats_reading *reading, uint64_t in_flight,
                                 bool fail_open) {
    struct ledger ledger;

    ledger_make(reading, 3, in_flight, fail_open, &ledger);
    return ledger;
}

static void assert_difference(const struct ledger *ledger, uint64_t difference) {
    assert_int_equal(ledger->difference, difference);
    assert_int_equal(ledger->reconciled, difference == 0);
}

static void counters_lie_on_lines_of_their_own(void **state) {
    (void)state;
    assert_int_equal(_Alignof(struct stats), 128);
    assert_int_equal(sizeof(struct stats) % 128, 0);
}

static void a_snapshot_has_every_counter(void **state) {
    struct stats live = {0}, snapshot = {0};

    (void)state;
    stats_add(&live.received, 1);
    stats_add(&live.without_id, 2);
    stats_add(&live.netlink, 11);
    stats_add(&live.bytes, 3);
    stats_add(&live.verdicts[VERDICT_REQUEUE], 4);
    stats_add(&live.malformed[PACKET_ICMPV6_SHORT], 5);
    stats_add(&live.beyond_copy, 6);
    stats_add(&live.truncated, 7);
    stats_add(&live.overruns, 8);
    stats_add(&live.refused, 9);
    stats_add(&live.refused, 1);
    stats_snapshot(&live, &snapshot);
    assert_memory_equal(&live, &snapshot, offsetof(struct stats, refused) + sizeof live.refused);
    assert_int_equal(snapshot.refused, 10);
    assert_int_equal(stats_received(&live), 3);
}

static void what_adds_up_reconciles(void **state) {
    const struct stats_reading reading = make_reading(1000, 1000);
    const struct ledger ledger = make_ledger(&reading, 0, false);

    (void)state;
    assert_difference(&ledger, 0);
    assert_int_equal(ledger.number, 3);
    assert_int_equal(ledger.offered, 1000);
    assert_int_equal(ledger.stats.received, 1000);
    assert_int_equal(ledger.unseen, 0);
    assert_int_equal(ledger.lost, 0);
}

static void known_losses_are_no_difference(void **state) {
    struct stats_reading reading = make_reading(1000, 1200);
    struct ledger ledger;

    (void)state;
    reading.figures.user_drop = 200;
    reading.figures.queue_full = 7;
    ledger = make_ledger(&reading, 0, false);
    assert_difference(&ledger, 0);
    assert_int_equal(ledger.lost, 207);
    assert_int_equal(ledger.offered, 1200);
}

static void a_full_queue_may_have_given_ids(void **state) {
    struct stats_reading reading = make_reading(1000, 1007);
    struct ledger ledger;

    (void)state;
    reading.figures.queue_full = 7;
    ledger = make_ledger(&reading, 0, false);
    assert_difference(&ledger, 0);
    assert_int_equal(ledger.offered, 1007);
    assert_int_equal(ledger.lost, 7);
    reading.figures.queue_full = 5;
    ledger = make_ledger(&reading, 0, false);
    assert_int_equal(ledger.unseen, 2);
    assert_difference(&ledger, 2);
}

static void waiting_packets_are_accounted_for(void **state) {
    struct stats_reading reading = make_reading(1000, 1010);
    struct ledger ledger;

    (void)state;
    reading.figures.waiting = 10;
    ledger = make_ledger(&reading, 0, false);
    assert_difference(&ledger, 0);
    reading.figures.waiting = 9;
    ledger = make_ledger(&reading, 0, false);
    assert_difference(&ledger, 1);
    assert_int_equal(ledger.unseen, 1);
}

static void unseen_packets_passed_if_fail_is_open(void **state) {
    struct stats_reading reading = make_reading(1000, 1500);
    struct ledger open, closed;

    (void)state;
    reading.figures.waiting = 100;
    open = make_ledger(&reading, 0, true);
    closed = make_ledger(&reading, 0, false);
    assert_int_equal(open.unseen, 400);
    assert_difference(&open, 0);
    assert_int_equal(closed.unseen, 400);
    assert_difference(&closed, 400);
}

static void a_batch_may_be_in_flight_while_running(void **state) {
    struct stats_reading reading = make_reading(1000, 1000);
    struct ledger ledger;

    (void)state;
    reading.after.verdicts[VERDICT_ACCEPT] = 936;
    ledger = make_ledger(&reading, 64, false);
    assert_difference(&ledger, 0);
    ledger = make_ledger(&reading, 63, false);
    assert_difference(&ledger, 1);
    ledger = make_ledger(&reading, 0, false);
    assert_difference(&ledger, 64);
}

static void verdicts_of_all_kinds_count(void **state) {
    struct stats_reading reading = make_reading(6, 6);
    struct ledger ledger;

    (void)state;
    for (int i = 0; i < VERDICT_COUNT; i++)
        reading.after.verdicts[i] = 1;
    ledger = make_ledger(&reading, 0, false);
    assert_difference(&ledger, 0);
}

static void more_verdicts_than_packets_are_a_difference_at_exit(void **state) {
    struct stats_reading reading = make_reading(1000, 1000);
    struct ledger ledger;

    (void)state;
    reading.after.verdicts[VERDICT_DROP] = 2;
    ledger = make_ledger(&reading, 0, false);
    assert_difference(&ledger, 2);
    ledger = make_ledger(&reading, 64, false); // answered after `received` was read
    assert_difference(&ledger, 0);
}

static void more_received_before_than_offered_is_a_difference(void **state) {
    struct stats_reading reading = make_reading(1000, 990);
    struct ledger ledger;

    (void)state;
    ledger = make_ledger(&reading, 0, false);
    assert_difference(&ledger, 10);
    assert_int_equal(ledger.offered, 990);
    reading.received_before = 990; // the other packets came while the kernel's figures were read
    ledger = make_ledger(&reading, 0, false);
    assert_difference(&ledger, 0);
}

static void messages_without_an_id_were_received(void **state) {
    struct stats_reading reading = make_reading(1000, 1003);
    struct ledger ledger;

    (void)state;
    reading.after.without_id = 3;
    reading.after.netlink = 9; // six of them have a packet
    reading.received_before = 1003;
    ledger = make_ledger(&reading, 0, false);
    assert_difference(&ledger, 0);
    assert_int_equal(ledger.offered, 1003);
}

static void the_kernels_count_wraps(void **state) {
    const uint64_t received = (UINT64_C(3) << 32) + 5;
    struct stats_reading reading = make_reading(received, 5);
    struct ledger ledger = make_ledger(&reading, 0, false);

    (void)state;
    assert_difference(&ledger, 0);
    assert_int_equal(ledger.offered, received);

    // The kernel's count has wrapped; the received packets are still less than 2^32.
    reading = make_reading((UINT64_C(1) << 32) - 10, 6);
    reading.figures.waiting = 16;
    ledger = make_ledger(&reading, 0, false);
    assert_difference(&ledger, 0);
    assert_int_equal(ledger.offered, (UINT64_C(1) << 32) + 6);

    // The received packets have passed 2^32; the kernel's count was read before it wrapped.
    reading = make_reading((UINT64_C(1) << 32) + 10, UINT32_MAX);
    reading.received_before = UINT32_MAX;
    ledger = make_ledger(&reading, 0, false);
    assert_difference(&ledger, 0);
    assert_int_equal(ledger.offered, UINT32_MAX);
}

static void user_drop_counts_into_the_wrap(void **state) {
    struct stats_reading reading = make_reading(UINT64_C(4000000000), 705032704);
    struct ledger ledger;

    (void)state;
    reading.figures.user_drop = 1000000000;
    ledger = make_ledger(&reading, 0, false);
    assert_difference(&ledger, 0);
    assert_int_equal(ledger.offered, UINT64_C(5000000000));
}

static void most_of_the_ids_may_be_unseen(void **state) {
    struct stats_reading reading = make_reading(1000, 4000000000);
    const struct ledger ledger = make_ledger(&reading, 0, true);

    (void)state;
    assert_difference(&ledger, 0);
    assert_int_equal(ledger.unseen, 4000000000 - 1000);
    assert_int_equal(ledger.offered, 4000000000);
}

/// A ledger does not reconcile if the kernel's figures could not be read. With zeros as figures it
/// would: with fail-open most of 2^32 packets would count as unseen, and unseen packets are
/// allowed.
static void figures_that_could_not_be_read_do_not_reconcile(void **state) {
    struct stats_reading reading = make_reading(20000000, 0);
    struct ledger ledger, sum = {.known = true, .reconciled = true};

    (void)state;
    reading.known = false;
    ledger = make_ledger(&reading, 0, true);
    assert_false(ledger.known);
    assert_false(ledger.reconciled);
    assert_int_equal(ledger.difference, 0);
    assert_int_equal(ledger.unseen, 0);
    assert_int_equal(ledger.offered, 0);
    ledger_add(&sum, &ledger);
    assert_false(sum.known);
    assert_false(sum.reconciled);
}

static void a_sum_adds_everything(void **state) {
    struct stats_reading reading = make_reading(1000, 1210);
    struct ledger one, two, sum = {.known = true, .reconciled = true};

    (void)state;
    reading.figures.user_drop = 200;
    reading.figures.queue_full = 5;
    reading.figures.waiting = 4;
    reading.after.beyond_copy = 8;
    one = make_ledger(&reading, 0, false);
    reading = make_reading(50, 50);
    two = make_ledger(&reading, 0, false);
    ledger_add(&sum, &two);
    assert_true(sum.reconciled);
    ledger_add(&sum, &one);
    assert_int_equal(sum.stats.received, 1050);
    assert_int_equal(sum.stats.verdicts[VERDICT_ACCEPT], 1050);
    assert_int_equal(sum.stats.beyond_copy, 8);
    assert_int_equal(sum.offered, 1260);
    assert_int_equal(sum.waiting, 4);
    assert_int_equal(sum.queue_full, 5);
    assert_int_equal(sum.user_drop, 200);
    assert_int_equal(sum.lost, 205);
    assert_int_equal(sum.unseen, 1);
    assert_difference(&sum, 1);
}

static void what_the_guard_answered_is_not_missed(void **state) {
    struct stats_reading reading = make_reading(100, 107);
    struct ledger ledger, sum = {.known = true, .reconciled = true};

    (void)state;
    reading.stalled = 7;
    reading.unreceived = true;
    ledger = make_ledger(&reading, 0, false);
    assert_int_equal(ledger.stalled, 7);
    assert_int_equal(ledger.unseen, 0);
    assert_difference(&ledger, 0);
    reading.stalled = 5;
    ledger = make_ledger(&reading, 0, false);
    assert_int_equal(ledger.unseen, 2);
    assert_difference(&ledger, 2);
    // After the stalled packets were received, they no longer explain missing packets.
    reading.unreceived = false;
    ledger = make_ledger(&reading, 0, false);
    assert_int_equal(ledger.stalled, 5);
    assert_int_equal(ledger.unseen, 7);
    assert_difference(&ledger, 7);
    ledger_add(&sum, &ledger);
    ledger_add(&sum, &ledger);
    assert_int_equal(sum.stalled, 10);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counters_lie_on_lines_of_their_own),
        cmocka_unit_test(a_snapshot_has_every_counter),
        cmocka_unit_test(what_adds_up_reconciles),
        cmocka_unit_test(what_the_guard_answered_is_not_missed),
        cmocka_unit_test(known_losses_are_no_difference),
        cmocka_unit_test(a_full_queue_may_have_given_ids),
        cmocka_unit_test(waiting_packets_are_accounted_for),
        cmocka_unit_test(unseen_packets_passed_if_fail_is_open),
        cmocka_unit_test(a_batch_may_be_in_flight_while_running),
        cmocka_unit_test(verdicts_of_all_kinds_count),
        cmocka_unit_test(more_verdicts_than_packets_are_a_difference_at_exit),
        cmocka_unit_test(more_received_before_than_offered_is_a_difference),
        cmocka_unit_test(messages_without_an_id_were_received),
        cmocka_unit_test(the_kernels_count_wraps),
        cmocka_unit_test(user_drop_counts_into_the_wrap),
        cmocka_unit_test(most_of_the_ids_may_be_unseen),
        cmocka_unit_test(figures_that_could_not_be_read_do_not_reconcile),
        cmocka_unit_test(a_sum_adds_everything),
    };

    return cmocka_run_group_tests_name("stats", tests, NULL, NULL);
}
