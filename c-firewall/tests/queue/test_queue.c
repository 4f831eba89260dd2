// SPDX-License-Identifier: GPL-2.0-or-later
#include "queue/attribute.h"
#include "queue/frame.h"
#include "queue/queue.h"

#include <errno.h>
#include <string.h>

#include "messages.h"
#include "test.h"

enum {
    TYPE_AT = 4, // offsets in messages_full
    FIRST_LENGTH_AT = 20,
    FIRST_TYPE_AT = 22,
};

static void a_truncated_message_gives_its_id_only(void **state) {
    struct queue_packet packet;

    (void)state;
    assert_int_equal(queue_frame(messages_full, 31, &packet), QUEUE_PARSED_PACKET);
    assert_true(packet.truncated);
    assert_int_equal(packet.id, 0x01020304);
    assert_int_equal(packet.ethertype, 0x86dd);
    assert_int_equal(packet.hook, 2);
    assert_int_equal(packet.mark, 0);
    assert_int_equal(packet.uid, QUEUE_UNKNOWN);
    assert_null(packet.payload);
    assert_int_equal(packet.original_bytes, 0);
    assert_int_equal(queue_frame(messages_full, 30, &packet), QUEUE_PARSED_MALFORMED);
}

/// A message that MSG_TRUNC marks is truncated, regardless of nlmsg_len.
static void truncated_takes_the_first_attribute_only(void **state) {
    uint8_t message[sizeof messages_full];
    struct queue_packet packet;

    (void)state;
    assert_int_equal(queue_truncated(messages_full, sizeof messages_full, &packet),
                     QUEUE_PARSED_PACKET);
    assert_true(packet.truncated);
    memcpy(message, messages_full, sizeof message);
    message[FIRST_TYPE_AT] = 2;
    assert_int_equal(queue_truncated(message, sizeof message, &packet), QUEUE_PARSED_MALFORMED);
    memcpy(message, messages_full, sizeof message);
    message[FIRST_LENGTH_AT] = 10;
    assert_int_equal(queue_truncated(message, sizeof message, &packet), QUEUE_PARSED_MALFORMED);
    message[FIRST_LENGTH_AT] = sizeof message - 19; // after the end
    assert_int_equal(queue_truncated(message, sizeof message, &packet), QUEUE_PARSED_MALFORMED);
    memcpy(message, messages_full, sizeof message);
    message[TYPE_AT] = 1; // a verdict, not a packet
    assert_int_equal(queue_truncated(message, sizeof message, &packet), QUEUE_PARSED_MALFORMED);
}

static void a_whole_frame_clears_truncated(void **state) {
    struct queue_packet packet = {.truncated = true};

    (void)state;
    assert_int_equal(queue_frame(messages_full, sizeof messages_full, &packet),
                     QUEUE_PARSED_PACKET);
    assert_false(packet.truncated);
}

static void an_error_is_a_refusal_whatever_its_sign(void **state) {
    uint8_t message[36] = {36, 0, 0, 0, 2};
    struct queue_packet packet;

    (void)state;
    assert_int_equal(queue_frame(message, sizeof message, &packet), QUEUE_PARSED_IGNORED);
    memcpy(message + 16, &(int32_t){-ENOENT}, 4);
    assert_int_equal(queue_frame(message, sizeof message, &packet), -ENOENT);
    memcpy(message + 16, &(int32_t){ENOENT}, 4);
    assert_int_equal(queue_frame(message, sizeof message, &packet), -ENOENT);
    memcpy(message + 16, &(int32_t){INT32_MIN}, 4);
    assert_int_equal(queue_frame(message, sizeof message, &packet), INT32_MIN);
}

static void attributes_tell_the_original_length(void **state) {
    struct queue_extras extras = {.cap_len = 1};

    (void)state;
    assert_int_equal(queue_check_attributes(messages_full, &extras), 0);
    assert_int_equal(extras.cap_len, 256);
    assert_int_equal(extras.ct_info, 2);
    assert_true(extras.has_ct_mark);
    assert_int_equal(extras.ct_mark, 0x11223344);
}

static void bad_attributes_leave_it(void **state) {
    uint8_t message[sizeof messages_full];
    struct queue_extras extras = {.cap_len = 1};

    (void)state;
    memcpy(message, messages_full, sizeof message);
    message[sizeof message - 8] = 9; // the last attribute ends one byte after the message
    assert_int_equal(queue_check_attributes(message, &extras), -EBADMSG);
    message[sizeof message - 8] = 3; // length smaller than the attribute's header
    assert_int_equal(queue_check_attributes(message, &extras), -EBADMSG);
    message[sizeof message - 8] = 4; // then a length of 0, which is no attribute
    message[sizeof message - 4] = 0;
    assert_int_equal(queue_check_attributes(message, &extras), -EBADMSG);
    memcpy(message, messages_full, sizeof message);
    message[0] = sizeof message - 7; // one byte of the last attribute
    assert_int_equal(queue_check_attributes(message, &extras), -EBADMSG);
    memcpy(message, messages_full, sizeof message);
    message[FIRST_TYPE_AT] = 50; // no packet header
    assert_int_equal(queue_check_attributes(message, &extras), -EBADMSG);
    assert_int_equal(extras.cap_len, 1);
}

static void values_of_fixed_size_have_just_that(void **state) {
    (void)state;
    assert_true(queue_attribute_fits(1, 7));
    assert_false(queue_attribute_fits(1, 6));
    assert_false(queue_attribute_fits(1, 8));
    assert_true(queue_attribute_fits(13, 4));
    assert_false(queue_attribute_fits(13, 5));
    assert_true(queue_attribute_fits(10, 0));
    assert_true(queue_attribute_fits(10, 65531));
    assert_true(queue_attribute_fits(22, 3)); // an attribute that the headers don't have yet
    assert_true(queue_attribute_fits(0x3fff, 0));
}

static void a_connection_without_a_mark_has_mark_0(void **state) {
    static const uint8_t status[] = {8, 0, 3, 0, 0, 0, 0, 1};
    static const uint8_t twice[] = {8, 0, 8, 0, 0, 0, 0, 1, 8, 0, 8, 0, 0, 0, 0, 2};
    static const uint8_t beyond[] = {9, 0, 3, 0, 0, 0, 0, 1};
    static const uint8_t small[] = {7, 0, 8, 0, 0, 0, 1, 0};
    uint32_t mark = 7;

    (void)state;
    assert_int_equal(queue_conntrack_mark(status, sizeof status, &mark), 0);
    assert_int_equal(mark, 0);
    assert_int_equal(queue_conntrack_mark(twice, sizeof twice, &mark), 0);
    assert_int_equal(mark, 2);
    assert_int_equal(queue_conntrack_mark(beyond, sizeof beyond, &mark), -EBADMSG);
    assert_int_equal(queue_conntrack_mark(small, sizeof small, &mark), -EBADMSG);
    assert_int_equal(queue_conntrack_mark(status, 3, &mark), -EBADMSG);
    assert_int_equal(mark, 2);
}

static void closing_nothing_is_safe(void **state) {
    struct queue queue = {0};

    (void)state;
    queue_close(&queue);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_truncated_message_gives_its_id_only),
        cmocka_unit_test(truncated_takes_the_first_attribute_only),
        cmocka_unit_test(a_whole_frame_clears_truncated),
        cmocka_unit_test(an_error_is_a_refusal_whatever_its_sign),
        cmocka_unit_test(attributes_tell_the_original_length),
        cmocka_unit_test(bad_attributes_leave_it),
        cmocka_unit_test(values_of_fixed_size_have_just_that),
        cmocka_unit_test(a_connection_without_a_mark_has_mark_0),
        cmocka_unit_test(closing_nothing_is_safe),
    };

    return cmocka_run_group_tests_name("queue", tests, NULL, NULL);
}
