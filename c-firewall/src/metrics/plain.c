// SPDX-License-Identifier: GPL-2.0-or-later
#include "metrics/plain.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/// Suffix of sample names by type, and the type's name in the older format.
static const struct {
    const char *type;
    const char *suffix;
    const char *plain;
} types[] = {{"counter", "_total", "counter"}, {"info", "_info", "gauge"}, {"gauge", "", "gauge"}};

enum { TYPE_COUNT = sizeof types / sizeof *types };

bool metrics_plain_is_wanted(const char *accept) {
    return accept && strstr(accept, "text/plain") &&
           !strstr(accept, "application/openmetrics-text");
}

static bool begins(const char *line, const char *word) {
    return strncmp(line, word, strlen(word)) == 0;
}

/// The line behind this one.
static const char *next_line(const char *line) {
    const char *end = strchr(line, '\n');

    return end ? end + 1 : line + strlen(line);
}

/// Which of the types a family has, of which this is the TYPE line: its last word.
static int type_of(const char *line) {
    const size_t length = strcspn(line, "\n");
    const char *space = memrchr(line, ' ', length);
    const char *word = space ? space + 1 : line;
    const size_t word_length = (size_t)(line + length - word);

    for (int i = 0; i < TYPE_COUNT; i++)
        if (strlen(types[i].type) == word_length && strncmp(word, types[i].type, word_length) == 0)
            return i;
    return TYPE_COUNT - 1;
}

/// Prints a HELP line with the name of the samples, and a TYPE line, which follows it.
static void put_family(FILE *out, const char *help) {
    const int type = type_of(next_line(help));
    const char *name = help + strlen("# HELP ");
    const int name_length = (int)strcspn(name, " \n");
    const char *text = name + name_length;

    fprintf(out, "# HELP %.*s%s%.*s\n", name_length, name, types[type].suffix,
            (int)strcspn(text, "\n"), text);
    fprintf(out, "# TYPE %.*s%s %s\n", name_length, name, types[type].suffix, types[type].plain);
}

char *metrics_plain(const char *openmetrics) {
    char *text = NULL;
    size_t length;
    FILE *out = open_memstream(&text, &length);
    bool failed;

    if (!out)
        return NULL;
    for (const char *line = openmetrics; *line; line = next_line(line)) {
        if (begins(line, "# HELP "))
            put_family(out, line);
        else if (!begins(line, "# "))
            fwrite(line, 1, (size_t)(next_line(line) - line), out);
    }
    failed = ferror(out);
    if (fclose(out) == 0 && !failed)
        return text;
    free(text);
    return NULL;
}
