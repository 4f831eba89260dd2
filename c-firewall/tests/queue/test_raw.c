// SPDX-License-Identifier: GPL-2.0-or-later
#include "queue/raw.h"

#include <stdlib.h>
#include <string.h>

#include "messages.h"
#include "test.h"

static void vectors_parse_as_expected(void **state) {
    (void)state;
    messages_assert_vectors(queue_raw_parse, NULL);
}

static void every_field_is_taken(void **state) {
    (void)state;
    messages_assert_full(queue_raw_parse);
}

static void what_is_not_told_is_unknown_or_none(void **state) {
    static const uint8_t message[] = {32, 0, 0, 0, 0,  3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
                                      2,  0, 0, 0, 11, 0, 1, 0, 0, 0, 0, 9, 8, 0, 1, 0};
    struct queue_packet packet;

    (void)state;
    assert_int_equal(queue_raw_parse(message, sizeof message, &packet), QUEUE_PARSED_PACKET);
    assert_int_equal(packet.id, 9);
    assert_int_equal(packet.uid, QUEUE_UNKNOWN);
    assert_int_equal(packet.gid, QUEUE_UNKNOWN);
    assert_int_equal(packet.mark, 0);
    assert_int_equal(packet.original_bytes, 0);
    assert_null(packet.payload);
}

static void a_message_may_lie_in_any_alignment(void **state) {
    uint8_t bytes[sizeof messages_full + 3];

    (void)state;
    for (size_t shift = 1; shift <= 3; shift++) {
        struct queue_packet packet;

        memcpy(bytes + shift, messages_full, sizeof messages_full);
        assert_int_equal(queue_raw_parse(bytes + shift, sizeof messages_full, &packet),
                         QUEUE_PARSED_PACKET);
        assert_int_equal(packet.original_bytes, 256);
    }
}

static void each_run_is_a_message(void **state) {
    static const uint8_t expected[] = {
        // a batch verdict on the gap up to id 0x100: drop
        32, 0, 0, 0, 3, 3, 1, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2, //
        12, 0, 2, 0, 0, 0, 0, 0, 0, 0, 1, 0,                         //
        // a batch verdict up to id 0x102: accept
        32, 0, 0, 0, 3, 3, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2, //
        12, 0, 2, 0, 0, 0, 0, 1, 0, 0, 1, 2,                         //
        // a verdict for id 0x103: drop
        32, 0, 0, 0, 1, 3, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2, //
        12, 0, 2, 0, 0, 0, 0, 0, 0, 0, 1, 3,                         //
        // a verdict for id 0x104: accept with mark 0x0a0b0c0d
        40, 0, 0, 0, 1, 3, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2, //
        12, 0, 2, 0, 0, 0, 0, 1, 0, 0, 1, 4, 8, 0, 3, 0, 10, 11, 12, 13};
    struct verdict_batch *batch = calloc(1, sizeof *batch);
    uint8_t buffer[4 * QUEUE_VERDICT_BYTES];

    (void)state;
    verdict_batch_begin(batch, VERDICT_DROP);
    verdict_batch_add(batch, 0x101, VERDICT_ACCEPT, 0);
    verdict_batch_add(batch, 0x102, VERDICT_ACCEPT, 0);
    verdict_batch_add(batch, 0x103, VERDICT_DROP, 0);
    verdict_batch_add(batch, 0x104, VERDICT_MARK, 0x0a0b0c0d);
    assert_int_equal(queue_raw_build_verdicts(0x102, batch->runs, batch->count, buffer),
                     sizeof expected);
    assert_memory_equal(buffer, expected, sizeof expected);
    free(batch);
}

static void assert_request(enum queue_request request, const uint8_t *expected, size_t length) {
    const struct queue_settings settings = {
        .number = 0x102, .copy_bytes = 128, .queue_length = 131072};
    uint8_t buffer[QUEUE_REQUEST_BYTES];

    memset(buffer, 0xff, sizeof buffer);
    assert_int_equal(
        queue_raw_build_request(&settings, 5, request, request != QUEUE_UNBIND, buffer), length);
    assert_memory_equal(buffer, expected, length);
}

static void requests_are_as_the_kernel_reads_them(void **state) {
    static const uint8_t bind[] = {28, 0, 0, 0, 2, 3, 5, 0, 0, 0, 0, 0, 0, 0,
                                   0,  0, 0, 0, 1, 2, 8, 0, 1, 0, 1, 0, 0, 0};
    static const uint8_t length[] = {28, 0, 0, 0, 2, 3, 5, 0, 0, 0, 0, 0, 0, 0,
                                     0,  0, 0, 0, 1, 2, 8, 0, 3, 0, 0, 2, 0, 0};
    static const uint8_t flags[] = {36, 0, 0, 0, 2, 3, 5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
                                    1,  2, 8, 0, 5, 0, 0, 0, 0, 5, 8, 0, 4, 0, 0, 0, 0, 15};
    static const uint8_t mode[] = {32, 0, 0, 0, 2, 3, 5, 0, 0, 0, 0, 0,   0, 0, 0, 0,
                                   0,  0, 1, 2, 9, 0, 2, 0, 0, 0, 0, 128, 2, 0, 0, 0};
    // Request to unbind the queue; without NLM_F_ACK.
    static const uint8_t unbind[] = {28, 0, 0, 0, 2, 3, 1, 0, 0, 0, 0, 0, 0, 0,
                                     0,  0, 0, 0, 1, 2, 8, 0, 1, 0, 2, 0, 0, 0};

    (void)state;
    assert_request(QUEUE_BIND, bind, sizeof bind);
    assert_request(QUEUE_LENGTH, length, sizeof length);
    assert_request(QUEUE_FLAGS, flags, sizeof flags);
    assert_request(QUEUE_MODE, mode, sizeof mode);
    assert_request(QUEUE_UNBIND, unbind, sizeof unbind);
}

static void copying_nothing_asks_for_metadata(void **state) {
    const struct queue_settings settings = {.copy_bytes = 0};
    uint8_t buffer[QUEUE_REQUEST_BYTES];

    (void)state;
    queue_raw_build_request(&settings, 0, QUEUE_MODE, true, buffer);
    assert_int_equal(buffer[28], 1); // NFQNL_COPY_META
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(vectors_parse_as_expected),
        cmocka_unit_test(every_field_is_taken),
        cmocka_unit_test(what_is_not_told_is_unknown_or_none),
        cmocka_unit_test(a_message_may_lie_in_any_alignment),
        cmocka_unit_test(each_run_is_a_message),
        cmocka_unit_test(requests_are_as_the_kernel_reads_them),
        cmocka_unit_test(copying_nothing_asks_for_metadata),
    };

    return cmocka_run_group_tests_name("queue_raw", tests, NULL, NULL);
}
