// SPDX-License-Identifier: GPL-2.0-or-later
// Tests the sequence numbers of a server that sends more than they can count.
#include "connection/opening.h"

#include "test.h"

enum {
    BEGUN = 5000,
    LENGTH = 1000, // length of a segment's data
};

static struct segment segment(uint32_t sequence, uint32_t acknowledged) {
    return (struct segment){
        .is_low = true,
        .source_port = 443,
        .destination_port = 40000,
        .flags = SEGMENT_ACK,
        .sequence = sequence,
        .acknowledged = acknowledged,
        .length = LENGTH,
    };
}

static void the_last_bytes_before_the_numbers_repeat_can_be_acknowledged(void **state) {
    struct connection connection = {
        .confirmed = true,
        .server_begun = BEGUN,
        .server_end = (uint32_t)BEGUN - LENGTH,
    };
    const struct segment latest = segment(0, BEGUN - 1);
    const struct segment crossing = segment(BEGUN - LENGTH / 2, 0);
    const struct segment behind = segment(BEGUN + LENGTH / 2, 0);

    (void)state;
    assert_false(opening_is_acknowledging(&connection, &latest));
    assert_true(opening_hear(&connection, &crossing));
    assert_true(opening_is_acknowledging(&connection, &latest));
    assert_true(opening_hear(&connection, &behind));
    assert_true(opening_is_acknowledging(&connection, &latest));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_last_bytes_before_the_numbers_repeat_can_be_acknowledged),
    };

    return cmocka_run_group_tests_name("opening", tests, NULL, NULL);
}
