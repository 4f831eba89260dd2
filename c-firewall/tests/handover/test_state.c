// SPDX-License-Identifier: GPL-2.0-or-later
#include "handover/state.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "handover/counted.h"
#include "test.h"
#include "vectors.h"

/// Returns the value of a line of the vectors; NULL if the line has another key.
static const char *value_of(char *line, const char *key) {
    const size_t length = strlen(key);

    line[strcspn(line, "\n")] = '\0';
    if (strncmp(line, key, length) != 0 || line[length] != ' ')
        return NULL;
    return line + length + 1;
}

static void check(const char *line, const char *expect) {
    struct failure failure = {.text = ""};
    struct handover state;
    int result;

    handover_init(&state);
    result = handover_state_parse(line, &state, &failure);
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

static void relative_paths_of_options_become_absolute(void **state) {
    const struct options options = {.control = "control", .events = "unix:sink"};
    char folder[PATH_MAX], expected[PATH_MAX + sizeof "unix:/sink"];
    char *values[HANDOVER_FD_COUNT] = {NULL};

    (void)state;
    assert_non_null(getcwd(folder, sizeof folder));
    assert_int_equal(handover_values(&options, values), 0);
    snprintf(expected, sizeof expected, "%s/control", folder);
    assert_string_equal(values[HANDOVER_CONTROL], expected);
    snprintf(expected, sizeof expected, "unix:%s/sink", folder);
    assert_string_equal(values[HANDOVER_EVENTS], expected);
    for (int i = 0; i < HANDOVER_FD_COUNT; i++)
        free(values[i]);
}

static void numbers_go_where_their_names_say(void **state) {
    static const char line[] =
        "{\"ok\":true,\"version\":2,\"pid\":1,\"generation\":1,\"counts\":[\"later\",\"stalls\"],"
        "\"stats\":[\"bytes\",\"received\",\"later\"],"
        "\"queues\":[{\"queue\":3,\"copy_bytes\":1,\"flags\":2}]}";
    static const uint64_t words[] = {1, 2, 3, 4, 5, 6};
    struct handover told;
    struct failure failure;

    (void)state;
    handover_init(&told);
    assert_int_equal(handover_state_parse(line, &told, &failure), 0);
    assert_int_equal(told.queues[0].handover.fd, -1);
    assert_int_equal(told.count_places.of[0], HANDOVER_UNKNOWN);
    assert_int_equal(told.count_places.of[1], COUNT_STALLS);
    assert_int_equal(handover_counted_states_bytes(&told), sizeof words);
    assert_int_equal(handover_counted_make_states(&told), 0);
    assert_null(handover_counted_parse_states((const uint8_t *)words, &told));
    assert_int_equal(told.counts[COUNT_STALLS], 2);
    assert_int_equal(told.queues[0].stalled, 3);
    assert_int_equal(told.queues[0].stats.bytes, 4);
    assert_int_equal(told.queues[0].stats.received, 5);
    handover_free(&told);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_are_taken_and_printed_as_the_vectors_say),
        cmocka_unit_test(relative_paths_of_options_become_absolute),
        cmocka_unit_test(numbers_go_where_their_names_say),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
