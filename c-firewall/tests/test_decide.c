// SPDX-License-Identifier: GPL-2.0-or-later
#include "decide.h"

#include "test.h"

static void default_is_for_ok_and_cut(void **state) {
    const struct decide_settings accept = {.default_verdict = VERDICT_ACCEPT};
    const struct decide_settings drop = {.default_verdict = VERDICT_DROP, .fail_open = true};

    (void)state;
    assert_int_equal(decide(&accept, PACKET_OK, false), VERDICT_ACCEPT);
    assert_int_equal(decide(&accept, PACKET_CUT, false), VERDICT_ACCEPT);
    assert_int_equal(decide(&drop, PACKET_OK, false), VERDICT_DROP);
    assert_int_equal(decide(&drop, PACKET_CUT, false), VERDICT_DROP);
}

static void fail_mode_is_for_malformed(void **state) {
    const struct decide_settings closed = {.default_verdict = VERDICT_ACCEPT};
    const struct decide_settings open = {.default_verdict = VERDICT_DROP, .fail_open = true};

    (void)state;
    for (int status = PACKET_EMPTY; status < PACKET_STATUS_COUNT; status++) {
        assert_int_equal(decide(&closed, (enum packet_status)status, false), VERDICT_DROP);
        assert_int_equal(decide(&open, (enum packet_status)status, false), VERDICT_ACCEPT);
    }
}

static void fail_mode_is_for_truncated_whatever_the_status(void **state) {
    const struct decide_settings closed = {.default_verdict = VERDICT_ACCEPT};
    const struct decide_settings open = {.default_verdict = VERDICT_DROP, .fail_open = true};

    (void)state;
    for (int status = PACKET_OK; status < PACKET_STATUS_COUNT; status++) {
        assert_int_equal(decide(&closed, (enum packet_status)status, true), VERDICT_DROP);
        assert_int_equal(decide(&open, (enum packet_status)status, true), VERDICT_ACCEPT);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(default_is_for_ok_and_cut),
        cmocka_unit_test(fail_mode_is_for_malformed),
        cmocka_unit_test(fail_mode_is_for_truncated_whatever_the_status),
    };

    return cmocka_run_group_tests_name("decide", tests, NULL, NULL);
}
