// SPDX-License-Identifier: GPL-2.0-or-later
#include "handover_state.h"

#include <stdlib.h>
#include <string.h>

#include "test.h"
#include "vectors.h"

/// The value of a line of the vectors; NULL: it has another key.
static const char *value_of(char *line, const char *key) {
    const size_t length = strlen(key);

    line[strcspn(line, "\n")] = '\0';
    if (strncmp(line, key, length) != 0 || line[length] != ' ')
        return NULL;
    return line + length + 1;
}

static void check(const char *line, const char *expect) {
    struct handover state = {.channel = {.fd = -1}, .fds = {-1, -1, -1}};
    struct failure failure = {.text = ""};
    const int result = handover_state_parse(line, &state, &failure);

    if (strcmp(expect, "same") == 0) {
        char *printed = handover_state_print(&state);

        assert_int_equal(result, 0);
        assert_int_equal(strlen(printed), strlen(line) + 1);
        assert_memory_equal(printed, line, strlen(line));
        free(printed);
    } else if (strcmp(expect, "ok") == 0) {
        assert_int_equal(result, 0);
    } else {
        assert_true(result < 0);
        assert_string_equal(failure.text, expect);
    }
    handover_free(&state);
}

static void lines_are_taken_and_printed_as_the_vectors_say(void **state) {
    FILE *file = vectors_open("handover.txt");
    char *line = NULL, *judged = NULL;
    size_t room = 0;
    int vectors = 0;

    (void)state;
    while (getline(&line, &room, file) > 0) {
        const char *told = value_of(line, "state");
        const char *expect = value_of(line, "expect");

        if (told) {
            free(judged);
            judged = strdup(told);
        } else if (expect) {
            check(judged, expect);
            vectors++;
        }
    }
    assert_true(vectors > 20);
    free(judged);
    free(line);
    fclose(file);
}

static void statements_are_numbered_through(void **state) {
    static const char line[] =
        "{\"ok\":true,\"version\":1,\"pid\":1,\"generation\":1,\"queues\":[{\"queue\":3,"
        "\"copy_bytes\":1,\"flags\":2,\"stalled\":4,\"stats\":{\"received\":5}}],\"rules\":["
        "{\"chain\":\"a\",\"text\":\"b\",\"counters\":[[1,2],[3,4]],\"quotas\":[7]},"
        "{\"chain\":\"a\",\"text\":\"c\",\"counters\":[[5,6]],\"quotas\":[8],\"logs\":[9]}]}";
    struct handover told = {.channel = {.fd = -1}, .fds = {-1, -1, -1}};
    struct failure failure;

    (void)state;
    assert_int_equal(handover_state_parse(line, &told, &failure), 0);
    assert_int_equal(told.queues[0].stats.received, 5);
    assert_int_equal(told.queues[0].given.fd, -1);
    assert_int_equal(told.side.rules[1].first[CARRY_COUNTERS], 2);
    assert_int_equal(told.side.rules[1].count[CARRY_COUNTERS], 1);
    assert_int_equal(told.side.rules[1].first[CARRY_QUOTAS], 1);
    assert_int_equal(told.counters[2].packets, 5);
    assert_int_equal(told.counters[2].bytes, 6);
    assert_int_equal(told.side.quota_words[1]->used, 8);
    assert_int_equal(told.logged[0], 9);
    handover_free(&told);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_are_taken_and_printed_as_the_vectors_say),
        cmocka_unit_test(statements_are_numbered_through),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
