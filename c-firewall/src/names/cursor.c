// SPDX-License-Identifier: GPL-2.0-or-later
#include "names/cursor.h"

struct names_cursor names_cursor_begin(const uint8_t *bytes, uint32_t length) {
    return (struct names_cursor){.bytes = bytes, .length = length};
}

struct names_cursor names_cursor_part(struct names_cursor *cursor, uint32_t bytes) {
    struct names_cursor part = {.bytes = cursor->bytes, .length = bytes, .cut = cursor->cut};

    if (bytes > cursor->length) {
        cursor->length = 0;
        cursor->cut = true;
        return *cursor;
    }
    if (bytes > 0)
        cursor->bytes += bytes;
    cursor->length -= bytes;
    return part;
}

uint32_t names_cursor_number(struct names_cursor *cursor, uint32_t bytes) {
    const struct names_cursor taken = names_cursor_part(cursor, bytes);
    uint32_t number = 0;

    for (uint32_t i = 0; i < taken.length; i++)
        number = number << 8 | taken.bytes[i];
    return number;
}

struct names_cursor names_cursor_vector(struct names_cursor *cursor, uint32_t length_bytes) {
    const uint32_t length = names_cursor_number(cursor, length_bytes);

    return names_cursor_part(cursor, length);
}
