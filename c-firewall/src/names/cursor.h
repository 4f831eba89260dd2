// SPDX-License-Identifier: GPL-2.0-or-later
// Cursor over a message: reads numbers and parts one after another. After a read past the end, all
// reads return nothing. Therefore callers need to check for it only once, after the last read.
#ifndef NAMES_CURSOR_H
#define NAMES_CURSOR_H

#include <stdbool.h>
#include <stdint.h>

/// Unread rest of a message.
struct names_cursor {
    const uint8_t *bytes; // unread bytes, borrowed from the message
    uint32_t length;
    // True if a read requested more bytes than were left. The rest is then empty.
    bool cut;
};

/// Returns a cursor at the start of a message.
struct names_cursor names_cursor_begin(const uint8_t *bytes, uint32_t length);

/// Consumes a number of bytes, and returns a cursor over them. If too few bytes are left, both
/// cursors are empty and cut.
struct names_cursor names_cursor_part(struct names_cursor *cursor, uint32_t bytes);

/// Consumes and returns a big-endian number of up to 4 bytes. Returns 0 if too few bytes are left.
uint32_t names_cursor_number(struct names_cursor *cursor, uint32_t bytes);

/// Consumes a TLS vector (RFC 8446, section 3.4): a length field, and as many bytes as it states.
/// Returns a cursor over these bytes.
/// - length_bytes: size of the length field.
struct names_cursor names_cursor_vector(struct names_cursor *cursor, uint32_t length_bytes);

#endif
