// SPDX-License-Identifier: GPL-2.0-or-later
#include "names/record.h"

#include <string.h>

#include "names/blank.h"
#include "names/cursor.h"

enum {
    HEADER_BYTES = 5, // size of a record's header (content type, version and length) in bytes
    // Maximum size of a record without its header: 2^14 bytes, and 256 bytes that encryption may
    // add in TLS 1.3.
    RECORD_BYTES_MAX = (1 << 14) + 256,
    CHANGE_CIPHER_SPEC = 20, // lowest content type of records
    ALERT = 21,
    HANDSHAKE = 22,
    APPLICATION_DATA = 23,
    HEARTBEAT = 24, // highest content type of records
    MAJOR = 3,      // upper byte of the record version in SSL 3 and TLS
    // Lowest upper byte of a record version that no server accepts: Go's crypto/tls accepts a first
    // record of any version below 16.0.
    MAJOR_END = 16,
};

static uint32_t min(uint32_t a, uint32_t b) { return a < b ? a : b; }

enum names_state names_record_begins(const uint8_t *bytes, uint32_t length) {
    if (length == 0)
        return NAMES_UNDECIDED;
    if (bytes[0] < CHANGE_CIPHER_SPEC || bytes[0] > HEARTBEAT)
        return NAMES_NONE;
    if (length == 1)
        return NAMES_UNDECIDED;
    return bytes[1] < MAJOR_END ? NAMES_KNOWN : NAMES_NONE;
}

/// Consumes a handshake record, or its received part.
/// - fragment: out: received bytes of the record's contents.
/// - length: out: length of the contents in bytes, as the header states it.
/// - Returns NAMES_KNOWN if the record's header is complete, NAMES_UNDECIDED if not,
///   NAMES_UNREADABLE if the record is no handshake record or malformed.
static enum names_state consume(struct names_cursor *stream, struct names_cursor *fragment,
                                uint32_t *length) {
    struct names_cursor header;

    if ((stream->length > 0 && stream->bytes[0] != HANDSHAKE) ||
        (stream->length > 1 && stream->bytes[1] != MAJOR))
        return NAMES_UNREADABLE;
    header = names_cursor_part(stream, HEADER_BYTES);
    names_cursor_part(&header, 3);
    *length = names_cursor_number(&header, 2);
    if (header.cut)
        return NAMES_UNDECIDED;
    if (*length > RECORD_BYTES_MAX)
        return NAMES_UNREADABLE;
    *fragment = names_cursor_part(stream, min(*length, stream->length));
    return NAMES_KNOWN;
}

/// Skips a record that may come between two ClientHellos: early data (RFC 8446, section 4.2.10), or
/// a record without effect (change_cipher_spec, alert). Returns true if the stream begins with such
/// a record or a part of it.
static bool pass_over(struct names_cursor *stream) {
    uint32_t length;

    if (stream->length == 0 || (stream->length > 1 && stream->bytes[1] != MAJOR) ||
        (stream->bytes[0] != CHANGE_CIPHER_SPEC && stream->bytes[0] != ALERT &&
         stream->bytes[0] != APPLICATION_DATA))
        return false;
    names_cursor_part(stream, 3);
    length = names_cursor_number(stream, 2);
    names_cursor_part(stream, length);
    return true;
}

/// Adds received handshake bytes to the progress: counts the bytes that belong to the message, and
/// stores those of the message's header.
static void count(struct names_progress *progress, struct names_cursor bytes) {
    const uint32_t skipped = min(bytes.length, progress->skipped);
    const uint32_t length = bytes.length - skipped;

    for (uint32_t i = 0; i < length && progress->joined + i < sizeof progress->head; i++)
        progress->head[progress->joined + i] = bytes.bytes[skipped + i];
    progress->skipped -= skipped;
    progress->joined += length;
}

/// Returns the length of a message and its header in bytes. The header must be complete.
static uint32_t message_bytes(const struct names_progress *progress) {
    struct names_cursor header = names_cursor_begin(progress->head, sizeof progress->head);

    names_cursor_number(&header, 1);
    return NAMES_HELLO_HEADER_BYTES + names_cursor_number(&header, 3);
}

/// Returns the number of the stream's bytes up to the end of the message or of the incomplete
/// record at `progress->place`, whichever comes first; 0 if the message's length is unknown.
/// - ahead: progress that includes the received bytes of that record.
/// - length: length of that record's contents.
static uint32_t wanted(const struct names_progress *progress, const struct names_progress *ahead,
                       uint32_t length) {
    if (ahead->joined < NAMES_HELLO_HEADER_BYTES)
        return 0;
    return progress->place + HEADER_BYTES +
           min(length, progress->skipped + message_bytes(ahead) - progress->joined);
}

/// Scans the records after those that were complete in an earlier call: adds their contents to the
/// progress until the message is complete or unreadable, or bytes are missing.
/// - has_others: true if other records may come between handshake records; they are skipped.
/// - Returns NAMES_KNOWN if more bytes would not change the result, NAMES_UNDECIDED if bytes are
///   missing, NAMES_UNREADABLE if a record before the end of the message is malformed or not
///   allowed there.
static enum names_state scan(const uint8_t *bytes, uint32_t length, bool has_others,
                             struct names_progress *progress) {
    struct names_cursor stream =
        names_cursor_begin(bytes + progress->place, length - progress->place);
    struct names_cursor fragment = names_cursor_begin(NULL, 0);

    progress->wanted = 0;
    for (;;) {
        struct names_progress ahead = *progress;
        uint32_t record;

        if (!has_others || !pass_over(&stream)) {
            const enum names_state state = consume(&stream, &fragment, &record);

            if (state != NAMES_KNOWN)
                return state;
            count(&ahead, fragment);
            if (names_hello_is_settled(ahead.head, ahead.joined)) {
                *progress = ahead;
                return NAMES_KNOWN;
            }
            if (fragment.length < record) {
                progress->wanted = wanted(progress, &ahead, record);
                return NAMES_UNDECIDED;
            }
        }
        if (stream.cut)
            return NAMES_UNDECIDED;
        ahead.place = length - stream.length;
        *progress = ahead;
    }
}

/// Appends bytes to scratch, as many as fit. Returns the number of appended bytes.
/// - gathered: number of bytes in scratch before the call.
static uint32_t append(uint8_t scratch[static NAMES_HELLO_BYTES_MAX], uint32_t gathered,
                       const struct names_cursor *bytes) {
    const uint32_t room = NAMES_HELLO_BYTES_MAX - gathered;
    const uint32_t length = bytes->length < room ? bytes->length : room;

    memcpy(scratch + gathered, bytes->bytes, length);
    return length;
}

/// Copies the received contents of handshake records to scratch, one after another, up to a record
/// that is malformed or not allowed. Bytes that don't fit are left out. Returns the number of bytes
/// in scratch.
/// - has_others: true if other records may come between handshake records; they are skipped.
static uint32_t gather(const uint8_t *bytes, uint32_t length, bool has_others,
                       uint8_t scratch[static NAMES_HELLO_BYTES_MAX]) {
    struct names_cursor stream = names_cursor_begin(bytes, length);
    struct names_cursor fragment = names_cursor_begin(NULL, 0);
    uint32_t gathered = 0, record;

    for (;;) {
        while (has_others && pass_over(&stream)) {
        }
        if (consume(&stream, &fragment, &record) != NAMES_KNOWN)
            return gathered;
        gathered += append(scratch, gathered, &fragment);
    }
}

/// Parses the records of the first ClientHello into names, whose fields must be empty.
static enum names_state parse_records(const uint8_t *bytes, uint32_t length,
                                      uint8_t scratch[static NAMES_HELLO_BYTES_MAX],
                                      struct names_progress *progress, struct names *names) {
    const enum names_state state = scan(bytes, length, false, progress);

    if (state != NAMES_KNOWN)
        return state;
    if (progress->place == 0)
        return names_hello_parse(bytes + HEADER_BYTES, length - HEADER_BYTES, NAMES_TLS, names);
    length = gather(bytes, length, false, scratch);
    return names_hello_parse(scratch, length, NAMES_TLS, names);
}

enum names_state names_record_parse(const uint8_t *bytes, uint32_t length, bool whole,
                                    uint8_t scratch[static NAMES_HELLO_BYTES_MAX],
                                    struct names_progress *progress, struct names *names) {
    enum names_state state;

    names_blank_fill(NAMES_UNDECIDED, NAMES_TLS, names);
    state = parse_records(bytes, length, scratch, progress, names);
    return names_blank_finish(state, whole, names);
}

/// Parses the second message of a handshake as a ClientHello.
/// - handshake: bytes of the handshake, from its first message on.
/// - Returns NAMES_UNDECIDED if no byte follows the first message, NAMES_NONE if the second message
///   is no ClientHello, otherwise the result of names_hello_parse.
static enum names_state parse_behind(const uint8_t *handshake, uint32_t length,
                                     struct names *names) {
    struct names_cursor message = names_cursor_begin(handshake, length);

    names_cursor_number(&message, 1);
    names_cursor_vector(&message, 3);
    if (message.cut || message.length == 0)
        return NAMES_UNDECIDED;
    if (message.bytes[0] != NAMES_HELLO_CLIENT_HELLO)
        return NAMES_NONE;
    return names_hello_parse(message.bytes, message.length, NAMES_TLS, names);
}

enum names_state names_record_parse_second(const uint8_t *bytes, uint32_t length,
                                           uint8_t scratch[static NAMES_HELLO_BYTES_MAX],
                                           struct names_progress *progress, struct names *names) {
    struct names_progress first = {0};
    enum names_state state;

    if (progress->place == 0) {
        scan(bytes, length, true, &first);
        progress->skipped = message_bytes(&first);
    }
    state = scan(bytes, length, true, progress);
    if (state != NAMES_KNOWN)
        return state;
    length = gather(bytes, length, true, scratch);
    return parse_behind(scratch, length, names);
}

bool names_record_is_alone(const uint8_t head[static NAMES_RECORD_HEAD_BYTES], uint32_t came) {
    struct names_cursor header = names_cursor_begin(head + 3, NAMES_RECORD_HEAD_BYTES - 3);
    const uint32_t record = names_cursor_number(&header, 2);
    uint32_t hello;

    names_cursor_part(&header, 1);
    hello = NAMES_HELLO_HEADER_BYTES + names_cursor_number(&header, 3);
    return hello == record && HEADER_BYTES + record == came;
}
