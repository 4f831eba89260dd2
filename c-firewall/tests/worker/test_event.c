// SPDX-License-Identifier: GPL-2.0-or-later
// Tests of the event ring: wanted events, their content, a wrapped and a full ring, both ends at
// the same time, and waking the consumer.
#include "worker/event.h"

#include <pthread.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/counts.h"
#include "engine.h"
#include "test.h"

enum { RACE_PACKETS = 200000 };

static struct event_bell bell;
static struct event_ring ring;

static int make_ring(void **state) {
    (void)state;
    bell = (struct event_bell){.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
    return event_ring_make(&ring, 5, &bell);
}

static int free_ring(void **state) {
    (void)state;
    event_ring_free(&ring);
    return close(bell.fd);
}

/// Stores an event for a packet with a mark, which identifies the event.
static void note(uint32_t mark) {
    const struct packet packet = {0};
    struct decide_input input = engine_input(&packet, PACKET_OK);
    const struct decide_outcome outcome = {.verdict = VERDICT_DROP};

    input.mark = mark;
    event_note(&ring, 1, 0x0800, &input, &outcome);
}

static void only_what_is_wanted_is_noted(void **state) {
    struct decide_outcome outcome = {.verdict = VERDICT_ACCEPT};

    (void)state;
    assert_false(event_wanted(&ring, PACKET_OK, false, &outcome));
    atomic_store(&ring.wanted, EVENT_DROP | EVENT_LOGGED | EVENT_ANOMALY);
    assert_false(event_wanted(&ring, PACKET_OK, false, &outcome));
    assert_false(event_wanted(&ring, PACKET_BEYOND_COPY, false, &outcome));
    assert_true(event_wanted(&ring, PACKET_OK, true, &outcome));
    assert_true(event_wanted(&ring, PACKET_TCP_SHORT, false, &outcome));
    outcome.log_count = 1;
    assert_true(event_wanted(&ring, PACKET_OK, false, &outcome));
    outcome = (struct decide_outcome){.verdict = VERDICT_ACCEPT, .undecidable = true};
    assert_true(event_wanted(&ring, PACKET_BEYOND_COPY, false, &outcome));
    outcome = (struct decide_outcome){.verdict = VERDICT_DROP};
    assert_true(event_wanted(&ring, PACKET_OK, false, &outcome));
    outcome.verdict = VERDICT_REJECT;
    assert_false(event_wanted(&ring, PACKET_OK, false, &outcome));
    atomic_store(&ring.wanted, EVENT_ACCEPT);
    outcome.verdict = VERDICT_ACCEPT;
    assert_true(event_wanted(&ring, PACKET_OK, false, &outcome));
}

static void no_class_is_a_verdicts(void **state) {
    struct decide_outcome outcome = {.verdict = VERDICT_DROP, .log_count = 1};

    (void)state;
    for (int verdict = 0; verdict < VERDICT_COUNT; verdict++) {
        atomic_store(&ring.wanted, 1U << verdict);
        assert_int_equal(event_wanted(&ring, PACKET_OK, true, &outcome), verdict == VERDICT_DROP);
    }
    atomic_store(&ring.wanted, EVENT_LOGGED | EVENT_ANOMALY);
    for (int verdict = 0; verdict < VERDICT_COUNT; verdict++) {
        outcome = (struct decide_outcome){.verdict = (enum verdict)verdict};
        assert_false(event_wanted(&ring, PACKET_OK, false, &outcome));
    }
}

static void a_record_has_all_of_input_outcome_and_packet(void **state) {
    uint8_t bytes[EVENT_PACKET_BYTES + 40];
    struct packet packet = {.bytes = bytes, .captured = sizeof bytes, .original = 5000};
    struct decide_input input;
    const struct decide_outcome outcome = {
        .verdict = VERDICT_REJECT,
        .by = DECIDE_BY_RULE,
        .rule = 3,
        .chain = 4,
        .log_count = 2,
        .logs = {6, 7},
    };
    const struct event *event;
    struct packet taken;

    (void)state;
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)(i * 7);
    packet.has_ports = true;
    packet.source_port = 99;
    input = engine_input(&packet, PACKET_BEYOND_COPY);
    input.mark = 8;
    input.iif = 9;
    input.oif = 10;
    input.has_uid = true;
    input.uid = 11;
    input.has_gid = true;
    input.gid = 12;
    input.has_ct_state = true;
    input.ct_state = 13;
    input.has_ct_mark = true;
    input.ct_mark = 14;
    input.hook = POLICY_FORWARD;
    event_note(&ring, 15, 0x86dd, &input, &outcome);
    memset(bytes, 0, sizeof bytes);
    event = event_peek(&ring);
    assert_non_null(event);
    assert_int_equal(event->queue, 5);
    assert_int_equal(event->generation, 15);
    assert_int_equal(event->ethertype, 0x86dd);
    assert_int_equal(event->status, PACKET_BEYOND_COPY);
    assert_int_equal(event->length, 5000);
    assert_int_equal(event->hook, POLICY_FORWARD);
    assert_int_equal(event->mark, 8);
    assert_int_equal(event->iif, 9);
    assert_int_equal(event->oif, 10);
    assert_true(event->has_uid && event->uid == 11 && event->has_gid && event->gid == 12);
    assert_true(event->has_ct_state && event->ct_state == 13);
    assert_true(event->has_ct_mark && event->ct_mark == 14);
    assert_memory_equal(&event->outcome, &outcome, sizeof outcome);
    assert_true(event->time_ns > UINT64_C(1700000000000000000));
    taken = event_packet(event);
    assert_int_equal(taken.captured, EVENT_PACKET_BYTES);
    assert_int_equal(taken.source_port, 99);
    for (size_t i = 0; i < taken.captured; i++)
        assert_int_equal(taken.bytes[i], (uint8_t)(i * 7));
    event_drop(&ring);
    assert_null(event_peek(&ring));
}

static void a_full_ring_keeps_what_it_has_and_counts(void **state) {
    const uint64_t lost = counts_get(COUNT_EVENTS_LOST);
    uint32_t expected = 0;

    (void)state;
    // The ring wraps several times, so that its slots are used again.
    for (uint32_t mark = 0; mark < 3 * EVENT_RING_RECORDS; mark++) {
        note(mark);
        if (mark < 2 * EVENT_RING_RECORDS) {
            assert_int_equal(event_peek(&ring)->mark, expected++);
            event_drop(&ring);
        }
    }
    assert_int_equal(counts_get(COUNT_EVENTS_LOST) - lost, 0);
    for (int i = 0; i < 5; i++)
        note(UINT32_MAX);
    assert_int_equal(counts_get(COUNT_EVENTS_LOST) - lost, 5);
    for (uint32_t i = 0; i < EVENT_RING_RECORDS; i++) {
        assert_int_equal(event_peek(&ring)->mark, expected++);
        event_drop(&ring);
    }
    assert_null(event_peek(&ring));
    note(1);
    assert_int_equal(event_peek(&ring)->mark, 1);
    event_drop(&ring);
}

static void *produce(void *argument) {
    (void)argument;
    for (uint32_t mark = 1; mark <= RACE_PACKETS; mark++)
        note(mark);
    return NULL;
}

/// While one thread stores events and another reads them, events arrive complete and in order, and
/// lost events are counted.
static void both_ends_at_once(void **state) {
    const uint64_t lost = counts_get(COUNT_EVENTS_LOST);
    uint32_t last = 0;
    uint64_t seen = 0;
    pthread_t producer;

    (void)state;
    assert_int_equal(pthread_create(&producer, NULL, produce, NULL), 0);
    while (last < RACE_PACKETS && seen + counts_get(COUNT_EVENTS_LOST) - lost < RACE_PACKETS) {
        const struct event *event = event_peek(&ring);

        if (!event)
            continue;
        assert_true(event->mark > last);
        last = event->mark;
        event_drop(&ring);
        seen++;
    }
    pthread_join(producer, NULL);
    assert_null(event_peek(&ring));
    assert_int_equal(seen + counts_get(COUNT_EVENTS_LOST) - lost, RACE_PACKETS);
    assert_true(seen >= EVENT_RING_RECORDS);
}

static void only_a_sleeper_is_woken_and_once(void **state) {
    eventfd_t woken = 0;

    (void)state;
    atomic_store(&bell.asleep, true);
    event_flush(&ring); // no event was stored since the last flush
    note(1);
    assert_int_equal(eventfd_read(bell.fd, &woken), -1);
    event_flush(&ring);
    note(2);
    event_flush(&ring);
    assert_int_equal(eventfd_read(bell.fd, &woken), 0);
    assert_int_equal(woken, 1);
    assert_false(atomic_load(&bell.asleep));
    note(3);
    event_flush(&ring);
    assert_int_equal(eventfd_read(bell.fd, &woken), -1);
}

static void a_ring_without_a_bell_wants_nothing(void **state) {
    const struct decide_outcome outcome = {.verdict = VERDICT_DROP};
    struct event_ring none;

    (void)state;
    assert_int_equal(event_ring_make(&none, 0, NULL), 0);
    assert_false(event_wanted(&none, PACKET_EMPTY, true, &outcome));
    assert_null(event_peek(&none));
    event_flush(&none);
    event_ring_free(&none);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(only_what_is_wanted_is_noted, make_ring, free_ring),
        cmocka_unit_test_setup_teardown(no_class_is_a_verdicts, make_ring, free_ring),
        cmocka_unit_test_setup_teardown(a_record_has_all_of_input_outcome_and_packet, make_ring,
                                        free_ring),
        cmocka_unit_test_setup_teardown(a_full_ring_keeps_what_it_has_and_counts, make_ring,
                                        free_ring),
        cmocka_unit_test_setup_teardown(both_ends_at_once, make_ring, free_ring),
        cmocka_unit_test_setup_teardown(only_a_sleeper_is_woken_and_once, make_ring, free_ring),
        cmocka_unit_test(a_ring_without_a_bell_wants_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
