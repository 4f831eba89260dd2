// SPDX-License-Identifier: GPL-2.0-or-later
#include "names/dns.h"

#include <string.h>

#include "names/blank.h"
#include "names/cursor.h"
#include "names/hello.h"
#include "names/host.h"
#include "names/record.h"

enum {
    // Size of ID and flags in the header, in bytes. The bit QR is ignored, because some servers
    // ignore it in a query.
    ID_AND_FLAGS_BYTES = 4,
    // Size of the rest of the header after the number of questions, in bytes: three 16-bit counts.
    COUNTS_BYTES = 6,
    // Maximum length of a label in bytes; a higher value is a compression pointer, or reserved.
    LABEL_BYTES_MAX = 63,
    LENGTH_BYTES = 2, // size of the length field before a message over TCP, in bytes
    // Maximum length of a message over TCP: together with its length field, it must fit into the
    // stored bytes of a stream.
    MESSAGE_BYTES_MAX = NAMES_HELLO_BYTES_MAX - LENGTH_BYTES,
};

/// Reads the labels of a name into names->host. Returns false in four cases: bytes are missing; a
/// length byte is reserved, or a compression pointer, because no name precedes the first question;
/// a label contains a dot, which would look like two labels; the name is too long.
static bool parse_name(struct names_cursor *message, struct names *names) {
    uint8_t text[NAMES_HOST_BYTES + 1];
    uint32_t bytes = 0;

    for (;;) {
        const uint32_t length = names_cursor_number(message, 1);
        struct names_cursor label;

        if (length > LABEL_BYTES_MAX)
            return false;
        label = names_cursor_part(message, length);
        if (label.cut)
            return false;
        if (length == 0)
            break;
        if (memchr(label.bytes, '.', length) || length >= sizeof text - bytes)
            return false;
        memcpy(text + bytes, label.bytes, length);
        text[bytes + length] = '.';
        bytes += length + 1;
    }
    return bytes == 0 || names_host_fold(text, bytes, names);
}

/// Parses a message into names, whose fields must be empty. Returns NAMES_KNOWN; NAMES_UNDECIDED if
/// bytes of the header or the question are missing; NAMES_UNREADABLE if there is not exactly one
/// question, or its name is malformed.
static enum names_state parse_message(const uint8_t *message, uint32_t length,
                                      struct names *names) {
    struct names_cursor left = names_cursor_begin(message, length);
    uint32_t questions;

    names_cursor_part(&left, ID_AND_FLAGS_BYTES);
    questions = names_cursor_number(&left, 2);
    if (!left.cut && questions != 1)
        return NAMES_UNREADABLE;
    names_cursor_part(&left, COUNTS_BYTES);
    if (!parse_name(&left, names))
        return left.cut ? NAMES_UNDECIDED : NAMES_UNREADABLE;
    names->dns_type = (uint16_t)names_cursor_number(&left, 2);
    names_cursor_number(&left, 2);
    return left.cut ? NAMES_UNDECIDED : NAMES_KNOWN;
}

enum names_state names_dns_query(const uint8_t *message, uint32_t length, struct names *names) {
    enum names_state state;

    names_blank_fill(NAMES_UNDECIDED, NAMES_DNS, names);
    state = parse_message(message, length, names);
    return names_blank_finish(state, true, names);
}

/// Parses the received part of an incomplete message. Returns NAMES_UNREADABLE if the number of
/// questions, a length byte or a complete label makes the message unreadable, otherwise
/// NAMES_UNDECIDED.
static enum names_state parse_part(const struct names_cursor *part, struct names *names) {
    enum names_state state;

    names_blank_fill(NAMES_UNDECIDED, NAMES_DNS, names);
    state = parse_message(part->bytes, part->length, names);
    if (state == NAMES_KNOWN)
        state = NAMES_UNDECIDED;
    return names_blank_finish(state, false, names);
}

enum names_state names_dns_framed(const uint8_t *bytes, uint32_t length, struct names *names,
                                  uint32_t *taken) {
    struct names_cursor stream = names_cursor_begin(bytes, length);
    const uint32_t message_bytes = names_cursor_number(&stream, LENGTH_BYTES);

    *taken = 0;
    names_blank_fill(NAMES_UNDECIDED, NAMES_DNS, names);
    if (message_bytes > MESSAGE_BYTES_MAX || names_record_begins(bytes, length) == NAMES_KNOWN)
        return names_blank_finish(NAMES_UNREADABLE, false, names);
    if (stream.cut)
        return NAMES_UNDECIDED;
    if (message_bytes > stream.length)
        return parse_part(&stream, names);
    if (names_dns_query(stream.bytes, message_bytes, names) == NAMES_KNOWN)
        *taken = LENGTH_BYTES + message_bytes;
    return names->state;
}
