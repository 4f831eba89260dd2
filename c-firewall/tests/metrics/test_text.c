// SPDX-License-Identifier: GPL-2.0-or-later
#include "metrics/text.h"

#include <stdlib.h>

#include "metrics/plain.h"
#include "snapshots.h"
#include "test.h"

/// Compares a text with a vector, and frees it.
static void assert_vector(char *text, const char *name) {
    char *expected = snapshots_vector(name);

    assert_non_null(text);
    assert_string_equal(text, expected);
    free(expected);
    free(text);
}

static char *text_of(const struct snapshot *snapshot) {
    return metrics_text(snapshot, snapshots_counts(), 4096 * 7);
}

static void with_a_policy(void **state) {
    (void)state;
    assert_vector(text_of(snapshots_full()), "metrics.txt");
}

static void without_a_policy(void **state) {
    (void)state;
    assert_vector(text_of(snapshots_idle()), "metrics-idle.txt");
}

static void in_the_older_format(void **state) {
    char *text = text_of(snapshots_full());

    (void)state;
    assert_vector(metrics_plain(text), "metrics-plain.txt");
    free(text);
}

static void older_format_of_anything(void **state) {
    (void)state;
    for (const char *const *text = (const char *[]){"", "# HELP", "# HELP ", "# HELP a b",
                                                    "# TYPE a counter", "a 1", NULL};
         *text; text++)
        free(metrics_plain(*text));
}

static void the_accept_header_chooses(void **state) {
    (void)state;
    assert_false(metrics_plain_is_wanted(NULL));
    assert_false(metrics_plain_is_wanted(""));
    assert_false(metrics_plain_is_wanted("*/*"));
    assert_true(metrics_plain_is_wanted("text/plain"));
    assert_true(metrics_plain_is_wanted("text/plain;version=0.0.4, */*;q=0.1"));
    assert_false(metrics_plain_is_wanted("application/openmetrics-text;version=1.0.0"));
    assert_false(metrics_plain_is_wanted(
        "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(with_a_policy),
        cmocka_unit_test(without_a_policy),
        cmocka_unit_test(in_the_older_format),
        cmocka_unit_test(older_format_of_anything),
        cmocka_unit_test(the_accept_header_chooses),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
