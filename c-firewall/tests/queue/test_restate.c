// SPDX-License-Identifier: GPL-2.0-or-later
// The verdict that gives a packet back to the kernel, and its place among other verdicts.
#include "queue/restate.h"

#include <linux/netfilter.h>
#include <stdlib.h>

#include "test.h"

static const uint8_t payload[QUEUE_RESTATED_PAYLOAD_MAX + 1] = {0x45, 1, 2, 3, 4};

static struct verdict_run run_at(uint32_t place) {
    return (struct verdict_run){
        .kernel = NF_ACCEPT,
        .has_mark = true,
        .mark = 0x0a0b0c0d,
        .first_id = 0x104,
        .last_id = 0x104,
        .count = 1,
        .is_restated = true,
        .restated = {.place = place, .checksum = 0x1234},
    };
}

static void the_message_has_the_mark_and_the_packet(void **state) {
    static const uint8_t expected[] = {
        52, 0, 0,  0, 1,    3, 1,    0,    0, 0, 0, 0, 0, 0, 0, 0, 0,  0,  1,  2,  //
        12, 0, 2,  0, 0,    0, 0,    1,    0, 0, 1, 4, 8, 0, 3, 0, 10, 11, 12, 13, //
        9,  0, 10, 0, 0x45, 1, 0x12, 0x34, 4, 0, 0, 0,
    };
    const struct verdict_run run = run_at(2);
    uint8_t *buffer = malloc(QUEUE_RESTATED_BYTES);

    (void)state;
    assert_int_equal(queue_restate_build(0x102, &run, payload, 5, buffer), sizeof expected);
    assert_memory_equal(buffer, expected, sizeof expected);
    free(buffer);
}

static void a_packet_that_does_not_fit_is_no_message(void **state) {
    const struct verdict_run last = run_at(3), beyond = run_at(4);
    uint8_t *buffer = malloc(QUEUE_RESTATED_BYTES);

    (void)state;
    assert_int_equal(queue_restate_build(1, &last, payload, 5, buffer), 52);
    assert_int_equal(queue_restate_build(1, &beyond, payload, 5, buffer), 0);
    assert_int_equal(queue_restate_build(1, &last, payload, 1, buffer), 0);
    assert_int_equal(queue_restate_build(1, &last, payload, QUEUE_RESTATED_PAYLOAD_MAX, buffer),
                     QUEUE_RESTATED_BYTES);
    assert_int_equal(queue_restate_build(1, &last, payload, QUEUE_RESTATED_PAYLOAD_MAX + 1, buffer),
                     0);
    free(buffer);
}

static void a_datagram_has_packets_among_other_verdicts(void **state) {
    const struct verdict_restated restated = {.index = 2, .bytes = 60, .place = 16, .checksum = 1};
    struct verdict_batch *batch = calloc(1, sizeof *batch);

    (void)state;
    verdict_batch_begin(batch, VERDICT_DROP);
    verdict_batch_add(batch, 1, VERDICT_ACCEPT, 0);
    verdict_batch_add(batch, 2, VERDICT_ACCEPT, 0);
    verdict_batch_restate(batch, 3, VERDICT_ACCEPT, 0, &restated);
    verdict_batch_restate(batch, 4, VERDICT_ACCEPT, 0, &restated);
    verdict_batch_add(batch, 5, VERDICT_ACCEPT, 0);
    verdict_batch_add(batch, 6, VERDICT_DROP, 0);
    assert_int_equal(batch->count, 5);
    assert_int_equal(batch->runs[1].restated.index, 2);
    assert_int_equal(verdict_batch_rest(batch, 0), 0);
    assert_int_equal(verdict_batch_rest(batch, 2), 2);
    assert_int_equal(verdict_batch_rest(batch, 9), 5);
    assert_true(queue_restate_is_among(batch->runs, 5));
    assert_true(queue_restate_is_among(batch->runs, 2));
    assert_false(queue_restate_is_among(batch->runs, 1));
    assert_false(queue_restate_is_among(batch->runs + 3, 2));
    batch->sent = 5;
    assert_int_equal(verdict_batch_rest(batch, 9), 0);
    batch->sent = 1;
    verdict_batch_withhold(batch);
    assert_false(batch->runs[1].is_restated);
    assert_int_equal(batch->runs[1].kernel, verdict_kernel(VERDICT_DROP, 0));
    free(batch);
}

static void long_packets_have_datagrams_of_their_own(void **state) {
    static const uint32_t lengths[] = {VERDICT_RESTATED_TOGETHER - 1000, 1000, 1,
                                       VERDICT_RESTATED_TOGETHER + 1, 1};
    static const size_t counts[] = {2, 1, 1, 2};
    struct verdict_batch *batch = calloc(1, sizeof *batch);

    (void)state;
    verdict_batch_begin(batch, VERDICT_DROP);
    for (uint32_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        const struct verdict_restated restated = {.index = i, .bytes = lengths[i]};

        verdict_batch_restate(batch, i + 1, VERDICT_ACCEPT, 0, &restated);
    }
    verdict_batch_add(batch, 6, VERDICT_ACCEPT, 0);
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        assert_int_equal(verdict_batch_rest(batch, 9), counts[i]);
        batch->sent += counts[i];
    }
    assert_false(verdict_batch_unsent(batch));
    free(batch);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_message_has_the_mark_and_the_packet),
        cmocka_unit_test(a_packet_that_does_not_fit_is_no_message),
        cmocka_unit_test(a_datagram_has_packets_among_other_verdicts),
        cmocka_unit_test(long_packets_have_datagrams_of_their_own),
    };

    return cmocka_run_group_tests_name("queue_restate", tests, NULL, NULL);
}
