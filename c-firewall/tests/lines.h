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

/// Reads the next line that is no comment, without its line end. Returns false at the end of the
/// file. Ends the test program if a line is too long.
bool lines_next(FILE *file, char line[static LINE_BYTES]);

/// Replaces the escapes \n \t \r \\ \xNN in a text by the bytes that they stand for, which may
/// include NUL. Returns the number of bytes.
size_t lines_unescape(char *text);

#endif
