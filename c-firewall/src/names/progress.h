// SPDX-License-Identifier: GPL-2.0-or-later
// Progress of the parsers in a message that is incomplete. With it they continue after the part
// that they have read, so that a client can't multiply their work by sending a message in many
// segments.
#ifndef NAMES_PROGRESS_H
#define NAMES_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

#include "names/body.h"
#include "names/hello.h"

/// Progress in a message; zeroed, it is its start. Offsets count from the message's first byte. It
/// follows from the received bytes alone.
struct names_progress {
    uint32_t place; // offset after the last complete record, or start of the first incomplete line
    // TLS: number of received bytes below which the message stays incomplete; 0 = unknown.
    uint32_t wanted;
    // TLS: number of bytes of the handshake, after the last complete record, that come before the
    // message.
    uint32_t skipped;
    // TLS: number of bytes of the message in complete records, and its header as far as they
    // contain it.
    uint32_t joined;
    uint8_t head[NAMES_HELLO_HEADER_BYTES];
    // HTTP: offset of the first byte that was not searched for the end of the word or line before
    // it.
    uint32_t searched;
    // HTTP: start of the first line; true if it begins like a request; true if it is complete.
    uint32_t line;
    bool has_begun;
    bool has_line;
    bool is_perhaps; // HTTP: true if it is a request only if a field Host follows
    bool has_host;   // HTTP: true if there was a field Host; offset and length of its value
    uint32_t host;
    uint32_t host_bytes;
    struct names_body body; // HTTP: kind of body after the header
};

#endif
