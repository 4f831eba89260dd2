// SPDX-License-Identifier: GPL-2.0-or-later
#include "control/request.h"

#include <stdio.h>
#include <string.h>

#include "lines.h"
#include "options/options.h"
#include "test.h"

static const char *const names[] = {"status", "stats", "rules", "reload",      "log",
                                    "drain",  "tail",  "proof", "connections", "upgrade"};

/// Writes the result of parsing a line to `text`, in the format of the vectors.
static void describe(const char *line, size_t length, char *text, size_t size) {
    struct control_request request;
    struct failure failure;

    if (control_request_parse(line, length, &request, &failure) < 0) {
        snprintf(text, size, "error %s", failure.text);
        return;
    }
    snprintf(text, size,
             "%s level=%s seconds=%u verdicts=0x%02x packets=%d backend=%s undecided=%d from=%ju",
             names[request.command], request.has_level ? log_level_name(request.level) : "-",
             request.seconds, request.verdicts, request.packets,
             options_backend_name(request.backend), request.undecided, (uintmax_t)request.from);
}

/// Tests each line `REQUEST => RESULT` of the vectors.
static void reads_what_the_vectors_say(void **state) {
    FILE *file = fopen("../tests/corpus/vectors/control-requests.txt", "re");
    char line[LINE_BYTES];
    int count = 0;

    (void)state;
    assert_non_null(file);
    while (lines_next(file, line)) {
        char *arrow = strstr(line, " => ");
        char found[LINE_BYTES];

        if (!arrow)
            fail_msg("not understood: %s", line);
        *arrow = '\0';
        describe(line, lines_unescape(line), found, sizeof found);
        if (strcmp(found, arrow + strlen(" => ")) != 0)
            fail_msg("%s: %s", line, found);
        count++;
    }
    fclose(file);
    assert_true(count > 40);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(reads_what_the_vectors_say)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
