// SPDX-License-Identifier: GPL-2.0-or-later
#include "worker/tracked.h"

#include "test.h"

static void it_is_said_when_enough_have_none(void **state) {
    struct tracked_watch watch = {0};

    (void)state;
    assert_int_equal(tracked_look(&watch, 1, true, 0, 0), TRACKED_UNKNOWN);
    assert_int_equal(tracked_look(&watch, 1, true, 9, 9), TRACKED_UNKNOWN);
    assert_int_equal(tracked_look(&watch, 1, true, 9, 10), TRACKED_MISSING);
    assert_string_equal(tracked_name(TRACKED_MISSING), "missing");
    assert_null(tracked_name(TRACKED_UNKNOWN));
}

static void one_that_has_a_state_is_enough(void **state) {
    struct tracked_watch watch = {0};

    (void)state;
    tracked_look(&watch, 1, true, 0, 0);
    assert_int_equal(tracked_look(&watch, 1, true, 100, 100), TRACKED_MISSING);
    assert_int_equal(tracked_look(&watch, 1, true, 101, 100), TRACKED_SEEN);
    // Later packets may lack a state, because packets without a connection have none.
    assert_int_equal(tracked_look(&watch, 1, true, 200, 199), TRACKED_SEEN);
    assert_string_equal(tracked_name(TRACKED_SEEN), "seen");
}

static void another_policy_begins_anew(void **state) {
    struct tracked_watch watch = {0};

    (void)state;
    tracked_look(&watch, 1, true, 0, 0);
    tracked_look(&watch, 1, true, 50, 40);
    assert_int_equal(tracked_look(&watch, 2, false, 60, 40), TRACKED_UNKNOWN);
    assert_int_equal(tracked_look(&watch, 2, false, 90, 40), TRACKED_UNKNOWN);
    assert_int_equal(tracked_look(&watch, 3, true, 90, 40), TRACKED_UNKNOWN);
    assert_int_equal(tracked_look(&watch, 3, true, 100, 50), TRACKED_MISSING);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_is_said_when_enough_have_none),
        cmocka_unit_test(one_that_has_a_state_is_enough),
        cmocka_unit_test(another_policy_begins_anew),
    };

    return cmocka_run_group_tests_name("tracked", tests, NULL, NULL);
}
