// SPDX-License-Identifier: GPL-2.0-or-later
// Captures the output to stderr or stdout, for comparison.
#ifndef CAPTURE_H
#define CAPTURE_H

#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct capture {
    FILE *stream;
    int saved;  // copy of the stream's original descriptor
    FILE *file; // file that replaces the stream
    char text[4096];
};

static inline void capture_begin(struct capture *capture, FILE *stream) {
    fflush(stream);
    capture->stream = stream;
    capture->saved = dup(fileno(stream));
    capture->file = tmpfile();
    dup2(fileno(capture->file), fileno(stream));
}

/// Ends the capture. Returns the captured text.
static inline const char *capture_end(struct capture *capture) {
    size_t length;

    fflush(capture->stream);
    dup2(capture->saved, fileno(capture->stream));
    close(capture->saved);
    rewind(capture->file);
    length = fread(capture->text, 1, sizeof capture->text - 1, capture->file);
    capture->text[length] = '\0';
    fclose(capture->file);
    return capture->text;
}

#endif
