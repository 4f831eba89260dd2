// SPDX-License-Identifier: GPL-2.0-or-later
#include "base/log.h"

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
    assert_string_equal(failure.text,
                        "recvmmsg: Cannot allocate memory: the ledger above shows the losses");
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

static void levels_have_names(void **state) {
    static const char *const names[] = {"error", "warning", "info", "debug"};

    (void)state;
    for (int i = 0; i < LOG_LEVEL_COUNT; i++)
        assert_string_equal(log_level_name((enum log_level)i), names[i]);
}

/// Logs a line at every level.
static void print_all(void) {
    log_error("of %s", "a");
    log_warn("of %s", "b");
    log_info("of %s", "c");
    log_debug("of %s", "d");
}

static void a_level_lets_its_own_lines_and_those_before_through(void **state) {
    static const char *const expected[] = {
        "error: of a\n",
        "error: of a\nwarning: of b\n",
        "error: of a\nwarning: of b\ninfo: of c\n",
        "error: of a\nwarning: of b\ninfo: of c\ndebug: of d\n",
    };

    (void)state;
    assert_int_equal(log_level(), LOG_INFO);
    for (int i = 0; i < LOG_LEVEL_COUNT; i++) {
        struct capture capture;

        log_set_level((enum log_level)i);
        assert_int_equal(log_level(), i);
        capture_begin(&capture, stderr);
        print_all();
        assert_string_equal(capture_end(&capture), expected[i]);
    }
    log_set_level(LOG_INFO);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_failure_has_a_code_and_a_text),
        cmocka_unit_test(a_call_that_failed_at_start),
        cmocka_unit_test(a_call_that_failed_while_running),
        cmocka_unit_test(a_long_text_is_cut),
        cmocka_unit_test(fail_prints_one_line_and_gives_the_code),
        cmocka_unit_test(warn_prints_one_line),
        cmocka_unit_test(levels_have_names),
        cmocka_unit_test(a_level_lets_its_own_lines_and_those_before_through),
    };

    return cmocka_run_group_tests_name("log", tests, NULL, NULL);
}
