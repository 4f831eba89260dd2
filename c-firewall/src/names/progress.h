// SPDX-License-Identifier: GPL-2.0-or-later
// Progress of the parsers in an incomplete message. It lets a parser continue after the part that
// it has read. Therefore a client can't multiply the work by sending a message in many segments.
#ifndef NAMES_PROGRESS_H
#define NAMES_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

#include "names/body.h"
#include "names/hello.h"

/// Progress in a message; zeroes mean the message's start. Offsets count from the start of the
/// parser's bytes. A parser that starts again with zeroes finds the same result.
struct names_progress {
    // TLS: offset after the last complete record. HTTP: start of the first incomplete line.
    uint32_t place;
    // TLS: number of the stream's bytes that must be received before the message or the next record
    // can be complete; 0 = unknown.
    uint32_t wanted;
    // TLS: number of the previous message's bytes after the last complete record. They are skipped.
    uint32_t skipped;
    // TLS: number of bytes of the message in complete records.
    uint32_t joined;
    // TLS: header of the message, as far as complete records contain it.
    uint8_t head[NAMES_HELLO_HEADER_BYTES];
    // HTTP: offset of the first byte that was not searched yet for the end of the current word or
    // line.
    uint32_t searched;
    uint32_t line;          // HTTP: offset of the first byte that is no space or line end
    bool has_begun;         // HTTP: true if the first line that is not empty begins like a request
    bool has_line;          // HTTP: true if the first line that is not empty is complete
    bool is_perhaps;        // HTTP: true if the message is a request only if a field Host follows
    bool has_host;          // HTTP: true if a field Host was read
    uint32_t host;          // HTTP: offset of the value of the field Host
    uint32_t host_bytes;    // HTTP: length of the value of the field Host
    struct names_body body; // HTTP: kind of body, from the header fields so far
};

#endif
