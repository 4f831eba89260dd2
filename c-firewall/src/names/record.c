// SPDX-License-Identifier: GPL-2.0-or-later
#include "names/record.h"

#include <string.h>

#include "names/blank.h"
#include "names/cursor.h"

enum {
    HEADER_BYTES = 5,       // size of a record's content type, version and length
    HELLO_HEADER_BYTES = 4, // size of a handshake message's type and length
    // Maximum size of a record without its header: 2^14, and the expansion that protection may add
    // in TLS 1.3.
    RECORD_BYTES_MAX = (1 << 14) + 256,
    CHANGE_CIPHER_SPEC = 20, // lowest content type
    ALERT = 21,
    HANDSHAKE = 22,
    APPLICATION_DATA = 23,
    HEARTBEAT = 24, // highest content type
    MAJOR = 3,      // upper byte of the version of TLS and SSL 3
    // First upper byte that no server accepts: Go's crypto/tls reads a first record of any version
    // below 16.0.
    MAJOR_END = 16,
};

enum names_state names_record_begins(const uint8_t *bytes, uint32_t length) {
    if (length == 0)
        return NAMES_UNDECIDED;
    if (bytes[0] < CHANGE_CIPHER_SPEC || bytes[0] > HEARTBEAT)
        return NAMES_NONE;
    if (length == 1)
        return NAMES_UNDECIDED;
    return bytes[1] < MAJOR_END ? NAMES_KNOWN : NAMES_NONE;
}

/// Consumes a record, or the received part of it.
/// - fragment: out: received bytes of its contents.
/// - Returns NAMES_KNOWN if its header is complete, NAMES_UNDECIDED if not, NAMES_UNREADABLE if it
///   is no handshake or malformed.
static enum names_state take(struct names_cursor *stream, struct names_cursor *fragment) {
    struct names_cursor header;
    uint32_t length;

    if ((stream->length > 0 && stream->bytes[0] != HANDSHAKE) ||
        (stream->length > 1 && stream->bytes[1] != MAJOR))
        return NAMES_UNREADABLE;
    header = names_cursor_part(stream, HEADER_BYTES);
    names_cursor_part(&header, 3);
    length = names_cursor_number(&header, 2);
    if (header.cut)
        return NAMES_UNDECIDED;
    if (length > RECORD_BYTES_MAX)
        return NAMES_UNREADABLE;
    *fragment = names_cursor_part(stream, length < stream->length ? length : stream->length);
    return NAMES_KNOWN;
}

/// Appends bytes to the joined ones, as many as fit. Returns their number.
static uint32_t append(uint8_t scratch[static NAMES_HELLO_BYTES_MAX], uint32_t gathered,
                       const struct names_cursor *bytes) {
    const uint32_t room = NAMES_HELLO_BYTES_MAX - gathered;
    const uint32_t length = bytes->length < room ? bytes->length : room;

    memcpy(scratch + gathered, bytes->bytes, length);
    return length;
}

/// Joins the contents of records in scratch, until the ClientHello is complete or scratch is full.
/// - Returns NAMES_KNOWN if more bytes would not change the result, NAMES_UNDECIDED if bytes are
///   missing, NAMES_UNREADABLE if a record before the end of the ClientHello is malformed.
/// - gathered: out: number of bytes in scratch.
static enum names_state gather(const uint8_t *bytes, uint32_t length,
                               uint8_t scratch[static NAMES_HELLO_BYTES_MAX], uint32_t *gathered) {
    struct names_cursor stream = names_cursor_begin(bytes, length);
    struct names_cursor fragment = names_cursor_begin(NULL, 0);

    *gathered = 0;
    for (;;) {
        const enum names_state state = take(&stream, &fragment);

        if (state != NAMES_KNOWN)
            return state;
        *gathered += append(scratch, *gathered, &fragment);
        if (names_hello_is_settled(scratch, *gathered))
            return NAMES_KNOWN;
    }
}

/// Reads records into empty fields.
static enum names_state read_records(const uint8_t *bytes, uint32_t length,
                                     uint8_t scratch[static NAMES_HELLO_BYTES_MAX],
                                     struct names *names) {
    struct names_cursor stream = names_cursor_begin(bytes, length);
    struct names_cursor fragment = names_cursor_begin(NULL, 0);
    enum names_state state = take(&stream, &fragment);
    uint32_t gathered;

    if (state != NAMES_KNOWN)
        return state;
    if (names_hello_is_settled(fragment.bytes, fragment.length) || stream.length == 0)
        return names_hello_read(fragment.bytes, fragment.length, NAMES_TLS, names);
    state = gather(bytes, length, scratch, &gathered);
    if (state != NAMES_KNOWN)
        return state;
    return names_hello_read(scratch, gathered, NAMES_TLS, names);
}

enum names_state names_record_read(const uint8_t *bytes, uint32_t length, bool whole,
                                   uint8_t scratch[static NAMES_HELLO_BYTES_MAX],
                                   struct names *names) {
    enum names_state state;

    names_blank_fill(NAMES_UNDECIDED, NAMES_TLS, names);
    state = read_records(bytes, length, scratch, names);
    return names_blank_finish(state, whole, names);
}

/// Skips records that may come between two hellos: early data (RFC 8446, section 4.2.10), and
/// records without effect.
static void pass_over(struct names_cursor *stream) {
    while (stream->length > 1 && stream->bytes[1] == MAJOR &&
           (stream->bytes[0] == CHANGE_CIPHER_SPEC || stream->bytes[0] == ALERT ||
            stream->bytes[0] == APPLICATION_DATA)) {
        uint32_t length;

        names_cursor_part(stream, 3);
        length = names_cursor_number(stream, 2);
        names_cursor_part(stream, length);
    }
}

/// Reads the second message of a handshake.
static enum names_state read_behind(const uint8_t *handshake, uint32_t length,
                                    struct names *names) {
    struct names_cursor message = names_cursor_begin(handshake, length);

    names_cursor_number(&message, 1);
    names_cursor_vector(&message, 3);
    if (message.cut || message.length == 0)
        return NAMES_UNDECIDED;
    if (message.bytes[0] != NAMES_HELLO_CLIENT_HELLO)
        return NAMES_NONE;
    return names_hello_read(message.bytes, message.length, NAMES_TLS, names);
}

enum names_state names_record_read_second(const uint8_t *bytes, uint32_t length,
                                          uint8_t scratch[static NAMES_HELLO_BYTES_MAX],
                                          struct names *names) {
    struct names_cursor stream = names_cursor_begin(bytes, length);
    struct names_cursor fragment = names_cursor_begin(NULL, 0);
    uint32_t gathered = 0;

    for (;;) {
        enum names_state state;

        pass_over(&stream);
        state = take(&stream, &fragment);
        if (state == NAMES_UNDECIDED)
            return read_behind(scratch, gathered, names);
        if (state != NAMES_KNOWN)
            return state;
        gathered += append(scratch, gathered, &fragment);
    }
}

bool names_record_waits(const uint8_t head[static NAMES_RECORD_HEAD_BYTES], uint32_t came) {
    struct names_cursor header = names_cursor_begin(head + 3, NAMES_RECORD_HEAD_BYTES - 3);
    const uint32_t record = names_cursor_number(&header, 2);
    const bool is_settled = names_hello_is_settled(header.bytes, header.length);
    uint32_t hello;

    names_cursor_part(&header, 1);
    hello = HELLO_HEADER_BYTES + names_cursor_number(&header, 3);
    return head[0] == HANDSHAKE && head[1] == MAJOR && record <= RECORD_BYTES_MAX && !is_settled &&
           came < HEADER_BYTES + (hello < record ? hello : record);
}

bool names_record_is_alone(const uint8_t head[static NAMES_RECORD_HEAD_BYTES], uint32_t came) {
    struct names_cursor header = names_cursor_begin(head + 3, NAMES_RECORD_HEAD_BYTES - 3);
    const uint32_t record = names_cursor_number(&header, 2);
    uint32_t hello;

    names_cursor_part(&header, 1);
    hello = HELLO_HEADER_BYTES + names_cursor_number(&header, 3);
    return hello == record && HEADER_BYTES + record == came;
}
