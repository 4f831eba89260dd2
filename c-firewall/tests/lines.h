// SPDX-License-Identifier: GPL-2.0-or-later
// Reads files of ../tests/corpus/vectors that are not blocks of bytes: line by line, without
// comments.
#ifndef LINES_H
#define LINES_H

#include <stdbool.h>
#include <stdio.h>

enum {
    LINE_BYTES = 1024,
};

/// Reads the next line that is no comment into line, without its end. Whether there was one. Ends
/// the test program on a line that is too long.
bool lines_next(FILE *file, char line[static LINE_BYTES]);

/// Replaces \n \t \r \\ \xNN in a text by what they stand for; there may be a NUL among it. Returns
/// the number of bytes.
size_t lines_unescape(char *text);

#endif
