// SPDX-License-Identifier: GPL-2.0-or-later
#include "base/output.h"

#include <string.h>

#include "capture.h"
#include "test.h"

static void printing_flushes(void **state) {
    struct capture capture;

    (void)state;
    capture_begin(&capture, stdout);
    output_print(strdup("a report\n"));
    assert_string_equal(capture_end(&capture), "a report\n");
}

static void a_missing_report_is_a_warning(void **state) {
    struct capture capture;

    (void)state;
    capture_begin(&capture, stderr);
    output_print(NULL);
    assert_string_equal(capture_end(&capture), "warning: there is no memory for a report\n");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(printing_flushes),
        cmocka_unit_test(a_missing_report_is_a_warning),
    };

    return cmocka_run_group_tests_name("output", tests, NULL, NULL);
}
