// SPDX-License-Identifier: GPL-2.0-or-later
// Fuzzer of the parsers of names. Input: a byte that selects the parser, then the parser's input.
// Names must be complete or empty. A decided result for the first bytes of a stream must not change
// with later bytes, except that another protocol may become unreadable. No result may change with
// the division into segments. With TWINWALL_LINES set, prints a line for each input, to be compared
// with the Rust twin's.
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "names.h"

enum { SEGMENTS = 64 }; // maximum number of segments that the input's stream is divided into

/// Parses a copy of the data by the parser `what`, in a block of exactly its size, so that a
/// sanitizer detects reads beyond its end. Returns the result as a line, which the caller frees.
static char *ask(const char *what, const uint8_t *data, uint32_t length) {
    uint8_t *bytes = malloc(length ? length : 1);
    char *line;

    memcpy(bytes, data, length);
    line = names_ask(what, bytes, length);
    free(bytes);
    return line;
}

/// Returns true if a parser reads a stream, so that more bytes may follow.
static bool is_stream(const char *what) {
    return strcmp(what, "hello") == 0 || strcmp(what, "client") == 0 ||
           strcmp(what, "framed") == 0 || strcmp(what, "request") == 0 ||
           strcmp(what, "chunk") == 0;
}

/// Returns true if a stream that was read as another protocol than TLS, HTTP and DNS became
/// unreadable, because later bytes have a header field Host of HTTP.
/// - shorter, line: results for the first bytes, and for more bytes of the stream.
static bool becomes_unreadable(const char *shorter, const char *line) {
    return strstr(shorter, "\"state\":\"known\",\"protocol\":\"other\"") &&
           strstr(line, "\"state\":\"unreadable\",\"protocol\":\"other\"");
}

/// Returns true if a parser can read a stream in segments.
static bool is_in_segments(const char *what) {
    return strcmp(what, "client") == 0 || strcmp(what, "request") == 0;
}

/// Returns true if reading a stream in up to SEGMENTS segments has the same results as reading it
/// from its start after each segment.
/// - number: selects the number of segments.
static bool in_segments(const char *what, const uint8_t *data, uint32_t length, uint8_t number) {
    uint8_t *bytes = malloc(length ? length : 1);
    bool is_same;

    memcpy(bytes, data, length);
    is_same = names_is_same_in_segments(what, bytes, length, 1 + length / (1 + number % SEGMENTS));
    free(bytes);
    return is_same;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const char *what;
    char *line, *shorter;

    if (size == 0)
        return 0;
    what = names_asks[data[0] % NAMES_ASKS];
    line = ask(what, data + 1, (uint32_t)size - 1);
    if (getenv("TWINWALL_LINES"))
        puts(line);
    if (is_stream(what)) {
        shorter = ask(what, data + 1, data[size - 1] % (uint32_t)size);
        if (!strstr(shorter, "\"state\":\"undecided\"") && !becomes_unreadable(shorter, line) &&
            strcmp(shorter, line) != 0)
            abort();
        free(shorter);
    }
    if (is_in_segments(what) && !in_segments(what, data + 1, (uint32_t)size - 1, data[size - 1]))
        abort();
    free(line);
    return 0;
}
