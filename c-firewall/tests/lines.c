// SPDX-License-Identifier: GPL-2.0-or-later
#include "lines.h"

#include <stdlib.h>
#include <string.h>

bool lines_next(FILE *file, char line[static LINE_BYTES]) {
    do {
        if (!fgets(line, LINE_BYTES, file))
            return false;
        if (!strchr(line, '\n')) {
            fprintf(stderr, "too long a line: %s\n", line);
            exit(EXIT_FAILURE);
        }
    } while (*line == '#');
    line[strcspn(line, "\n")] = '\0';
    return true;
}

size_t lines_unescape(char *text) {
    char *to = text;

    for (const char *from = text; *from; from++) {
        char digits[3] = "";

        if (*from != '\\') {
            *to++ = *from;
            continue;
        }
        switch (*++from) {
        case 'n':
            *to++ = '\n';
            break;
        case 't':
            *to++ = '\t';
            break;
        case 'r':
            *to++ = '\r';
            break;
        case 'x':
            memcpy(digits, from + 1, 2);
            *to++ = (char)strtol(digits, NULL, 16);
            from += 2;
            break;
        default:
            *to++ = *from;
        }
    }
    *to = '\0';
    return (size_t)(to - text);
}
