// SPDX-License-Identifier: GPL-2.0-or-later
// Reader of numbers and parts of a message, one after another. Reading past the end gives nothing,
// then and later on; the caller checks for it at the end.
#ifndef NAMES_CURSOR_H
#define NAMES_CURSOR_H

#include <stdbool.h>
#include <stdint.h>

/// Rest of a message.
struct names_cursor {
    const uint8_t *bytes; // borrowed
    uint32_t length;
    bool cut; // more was taken than there was: then nothing is left
};

/// Begins at the start of a message.
struct names_cursor names_cursor_begin(const uint8_t *bytes, uint32_t length);

/// Consumes so many bytes as a message of its own, which is cut if there are fewer.
struct names_cursor names_cursor_part(struct names_cursor *cursor, uint32_t bytes);

/// Consumes a big-endian number of up to 4 bytes; 0 if there are fewer.
uint32_t names_cursor_number(struct names_cursor *cursor, uint32_t bytes);

/// Consumes a TLS vector (RFC 8446, section 3.4): a length of so many bytes, and as many bytes as
/// it says.
struct names_cursor names_cursor_vector(struct names_cursor *cursor, uint32_t length_bytes);

#endif
