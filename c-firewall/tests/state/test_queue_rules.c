// SPDX-License-Identifier: GPL-2.0-or-later
#include "state/queue_rules.h"

#include <errno.h>

#include "test.h"

static void the_output_of_fwctl(void **state) {
    struct queue_rules queue_rules;

    (void)state;
    assert_int_equal(queue_rules_parse(&queue_rules,
                                       "{\"unfed\":\"3, 5-9\",\"plain\":true,"
                                       "\"bypass\":false,\"unknown\":\"nft failed\"}"),
                     0);
    assert_string_equal(queue_rules.unfed, "3, 5-9");
    assert_true(queue_rules.plain);
    assert_false(queue_rules.bypass);
    assert_string_equal(queue_rules.unknown, "nft failed");
}

static void other_output_is_refused(void **state) {
    const char *const texts[] = {
        "",
        "{",
        "[]",
        "null",
        "{\"unfed\":\"\",\"plain\":true,\"bypass\":false}",
        "{\"unfed\":3,\"plain\":true,\"bypass\":false,\"unknown\":\"\"}",
        "{\"unfed\":\"\",\"plain\":1,\"bypass\":false,\"unknown\":\"\"}",
    };
    struct queue_rules queue_rules;

    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        assert_int_equal(queue_rules_parse(&queue_rules, texts[i]), -EBADMSG);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_output_of_fwctl),
        cmocka_unit_test(other_output_is_refused),
    };

    return cmocka_run_group_tests_name("queue_rules", tests, NULL, NULL);
}
