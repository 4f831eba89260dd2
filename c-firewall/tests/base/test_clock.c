// SPDX-License-Identifier: GPL-2.0-or-later
#include "base/clock.h"

#include "test.h"

#define TIME_MS UINT64_C(1700000000123)

static void the_time_is_in_milliseconds(void **state) {
    (void)state;
    assert_in_range(clock_unix_ms(), TIME_MS, 10 * TIME_MS);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_time_is_in_milliseconds),
    };

    return cmocka_run_group_tests_name("clock", tests, NULL, NULL);
}
