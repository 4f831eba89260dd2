// SPDX-License-Identifier: GPL-2.0-or-later
// Cursor over a message: it reads numbers and parts one after another. A read past the end returns
// nothing, as do all later ones; callers check for it once, at the end.
#ifndef NAMES_CURSOR_H
#define NAMES_CURSOR_H

#include <stdbool.h>
#include <stdint.h>

/// Unread rest of a message.
struct names_cursor {
    const uint8_t *bytes; // borrowed bytes
    uint32_t length;
    // True if a read asked for more bytes than were left. Then no bytes are left.
    bool cut;
};

/// Returns a cursor at the start of a message.
struct names_cursor names_cursor_begin(const uint8_t *bytes, uint32_t length);

/// Consumes bytes as a message of their own, which is cut if there are too few.
struct names_cursor names_cursor_part(struct names_cursor *cursor, uint32_t bytes);

/// Consumes a big-endian number of up to 4 bytes; returns 0 if there are too few.
uint32_t names_cursor_number(struct names_cursor *cursor, uint32_t bytes);

/// Consumes a TLS vector (RFC 8446, section 3.4): a length with this number of bytes, and as many
/// bytes as it says.
struct names_cursor names_cursor_vector(struct names_cursor *cursor, uint32_t length_bytes);

#endif
