// SPDX-License-Identifier: GPL-2.0-or-later
#include "base/object.h"

#include <stdlib.h>

#include "test.h"

/// Checks the line of a JSON object whose only member is `text`.
static void check_text(const char *text, const char *expected) {
    json_t *object = json_object();
    char *line;

    object_put_string(object, "text", text);
    line = object_line(object);
    assert_string_equal(line, expected);
    free(line);
}

static void control_characters_are_escaped_in_capitals(void **state) {
    (void)state;
    check_text("a\x1f\x7f\"\\/\n", "{\"text\":\"a\\u001F\x7f\\\"\\\\/\\n\"}\n");
}

static void what_is_no_utf8_becomes_question_marks(void **state) {
    (void)state;
    check_text("gr\xc3\xbc\xc3\x9f", "{\"text\":\"gr\xc3\xbc\xc3\x9f\"}\n");
    check_text("gr\xc3\xbc\xff", "{\"text\":\"gr???\"}\n");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(control_characters_are_escaped_in_capitals),
        cmocka_unit_test(what_is_no_utf8_becomes_question_marks),
    };

    return cmocka_run_group_tests_name("object", tests, NULL, NULL);
}
