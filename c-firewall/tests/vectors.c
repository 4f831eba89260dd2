// SPDX-License-Identifier: GPL-2.0-or-later
#include "vectors.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "lines.h"

#define FOLDER "../tests/corpus/vectors/"

static void die(const char *what, const char *which) {
    fprintf(stderr, "vectors: %s: %s\n", what, which);
    exit(EXIT_FAILURE);
}

FILE *vectors_open(const char *name) {
    char path[256];
    FILE *file;

    snprintf(path, sizeof path, FOLDER "%s", name);
    file = fopen(path, "r");
    if (!file)
        die("can't be opened", path);
    return file;
}

static void append(struct vector *vector, uint8_t byte, size_t count) {
    uint8_t *grown = realloc(vector->bytes, vector->length + count);

    if (!grown)
        die("no memory", vector->name);
    memset(grown + vector->length, byte, count);
    vector->bytes = grown;
    vector->length += count;
}

static void append_hex(struct vector *vector, const char *digits) {
    for (; *digits; digits++) {
        unsigned int byte;

        if (isspace((unsigned char)*digits))
            continue;
        if (sscanf(digits, "%2x", &byte) != 1 || !isxdigit((unsigned char)digits[1]))
            die("bad hex", vector->name);
        append(vector, (uint8_t)byte, 1);
        digits++;
    }
}

static void append_text(struct vector *vector, char *text) {
    const size_t length = lines_unescape(text);

    for (size_t i = 0; i < length; i++)
        append(vector, (uint8_t)text[i], 1);
}

static void take_line(struct vector *vector, char *line) {
    const size_t keyword = strcspn(line, " ");
    char *value = line[keyword] ? line + keyword + 1 : line + keyword;
    unsigned int byte;
    size_t count;

    line[keyword] = '\0';
    if (strcmp(line, "name") == 0)
        snprintf(vector->name, sizeof vector->name, "%s", value);
    else if (strcmp(line, "ask") == 0)
        snprintf(vector->ask, sizeof vector->ask, "%s", value);
    else if (strcmp(line, "text") == 0)
        append_text(vector, value);
    else if (strcmp(line, "hex") == 0)
        append_hex(vector, value);
    else if (strcmp(line, "hexrepeat") == 0 && sscanf(value, "%2x %zu", &byte, &count) == 2)
        append(vector, (uint8_t)byte, count);
    else if (strcmp(line, "original") == 0 && sscanf(value, "%zu", &count) == 1)
        vector->original = count;
    else if (strcmp(line, "received") == 0 && sscanf(value, "%zu", &count) == 1)
        vector->received = count;
    else if (strcmp(line, "expect") == 0)
        snprintf(vector->expect, sizeof vector->expect, "%s", value);
    else
        die("a line is not understood in", vector->name);
}

int vectors_next(FILE *file, struct vector *vector) {
    char *line = NULL;
    size_t size = 0;

    free(vector->bytes);
    *vector = (struct vector){.original = SIZE_MAX, .received = SIZE_MAX};
    while (vector->expect[0] == '\0' && getline(&line, &size, file) >= 0) {
        line[strcspn(line, "\n")] = '\0';
        if (line[0] != '\0' && line[0] != '#')
            take_line(vector, line);
    }
    free(line);
    if (vector->original == SIZE_MAX)
        vector->original = vector->length;
    if (vector->received == SIZE_MAX)
        vector->received = vector->length;
    return vector->expect[0] != '\0';
}
