// SPDX-License-Identifier: GPL-2.0-or-later
// Tests of policies' requirements, with vectors that both twins share.
#include "policy/requirement.h"

#include <stdio.h>
#include <string.h>

#include "engine.h"
#include "lines.h"
#include "test.h"
#include "vectors.h"

enum {
    WORDS_BYTES = 256,
};

// Learning sets that the rules in requirement.txt use.
#define SETS                                                                                       \
    "set cdn { type ipv4_addr; learn dns \"cdn.example\"; }\n"                                     \
    " set six { type ipv6_addr; learn dns \"cdn.example\"; }"

/// Writes a requirement to `text`, in the format of requirement.txt.
static void describe(const struct requirement *requirement, char text[static WORDS_BYTES]) {
    const struct {
        bool is_set;
        const char *name;
    } words[] = {
        {requirement->layer4, "layer4"},
        {requirement->uid_gid, "uid_gid"},
        {requirement->conntrack_state, "conntrack_state"},
        {requirement->conntrack_mark, "conntrack_mark"},
        {requirement->interface_names, "interface_names"},
        {requirement->learns, "learns"},
        {requirement->reject, "reject"},
    };
    int at = snprintf(text, WORDS_BYTES, "copy=%u", requirement->copy_bytes);

    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (words[i].is_set)
            at += snprintf(text + at, (size_t)(WORDS_BYTES - at), " %s", words[i].name);
}

static void vectors_require_as_expected(void **state) {
    FILE *file = vectors_open("requirement.txt");
    char line[LINE_BYTES], text[2 * LINE_BYTES], got[WORDS_BYTES];
    int vectors = 0;

    (void)state;
    for (; lines_next(file, line); vectors++) {
        const char *family = strtok(line, "\t"), *rules = strtok(NULL, "\t");
        const char *expected = strtok(NULL, "\t");
        struct engine engine;

        snprintf(text, sizeof text,
                 "table %s t {\n %s\n chain deep {\n meta skuid 1 drop\n }\n chain unused {\n jump "
                 "deep\n "
                 "}\n chain c {\n type filter hook input priority 0;\n %s\n }\n}\n",
                 family, SETS, rules);
        engine = engine_make(text, false);
        describe(compile_requirement(engine.compiled), got);
        if (strcmp(got, expected) != 0)
            print_error("%s\n", rules);
        assert_string_equal(got, expected);
        engine_free(&engine);
    }
    fclose(file);
    assert_true(vectors > 30);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(vectors_require_as_expected),
    };

    return cmocka_run_group_tests_name("requirement", tests, NULL, NULL);
}
