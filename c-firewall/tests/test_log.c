// SPDX-License-Identifier: GPL-2.0-or-later
#include "log.h"

#include <errno.h>
#include <string.h>

#include "capture.h"
#include "test.h"

static void a_failure_has_a_code_and_a_text(void **state) {
    struct failure failure;

    (void)state;
    failure_set(&failure, LOG_EXIT_OWNED, "queue %d is owned: stop it", 7);
    assert_int_equal(failure.code, 5);
    assert_string_equal(failure.text, "queue 7 is owned: stop it");
}

static void a_call_that_failed_at_start(void **state) {
    struct failure failure;

    (void)state;
    failure_set_start(&failure, "eventfd", EMFILE);
    assert_int_equal(failure.code, 1);
    assert_string_equal(failure.text,
                        "eventfd: Too many open files: this is not a fault of the command line, "
                        "please report it");
}

static void a_call_that_failed_while_running(void **state) {
    struct failure failure;

    (void)state;
    failure_set_running(&failure, "recvmmsg", ENOMEM);
    assert_int_equal(failure.code, 1);
    assert_string_equal(failure.text, "recvmmsg: Cannot allocate memory: the ledger above tells "
                                      "what was lost");
}

static void a_long_text_is_cut(void **state) {
    char text[2 * LOG_TEXT_BYTES];
    struct failure failure;

    (void)state;
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    failure_set(&failure, LOG_EXIT_USAGE, "%s", text);
    assert_int_equal(strlen(failure.text), LOG_TEXT_BYTES - 1);
}

static void fail_prints_one_line_and_gives_the_code(void **state) {
    const struct failure failure = {.code = LOG_EXIT_BUFFER, .text = "cause: cure"};
    struct capture capture;
    int code;

    (void)state;
    capture_begin(&capture, stderr);
    code = log_fail(&failure);
    assert_string_equal(capture_end(&capture), "error: cause: cure\n");
    assert_int_equal(code, 6);
}

static void warn_prints_one_line(void **state) {
    struct capture capture;

    (void)state;
    capture_begin(&capture, stderr);
    log_warn("the receive buffer is %u of %u bytes", 1U, 2U);
    assert_string_equal(capture_end(&capture), "warning: the receive buffer is 1 of 2 bytes\n");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_failure_has_a_code_and_a_text),
        cmocka_unit_test(a_call_that_failed_at_start),
        cmocka_unit_test(a_call_that_failed_while_running),
        cmocka_unit_test(a_long_text_is_cut),
        cmocka_unit_test(fail_prints_one_line_and_gives_the_code),
        cmocka_unit_test(warn_prints_one_line),
    };

    return cmocka_run_group_tests_name("log", tests, NULL, NULL);
}
