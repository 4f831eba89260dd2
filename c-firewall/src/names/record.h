// SPDX-License-Identifier: GPL-2.0-or-later
// Parser of TLS records that contain a ClientHello. Format: RFC 8446, section 5.1.
#ifndef NAMES_RECORD_H
#define NAMES_RECORD_H

#include <stdbool.h>
#include <stdint.h>

#include "names/hello.h"
#include "names/progress.h"
#include "names/types.h"

enum {
    // Total size of a record's header and the header of a handshake message in the record, in
    // bytes.
    NAMES_RECORD_HEAD_BYTES = 9,
};

/// Checks whether a stream begins like TLS for the most lenient server: with a content type and a
/// version.
/// - Returns NAMES_KNOWN if it does, NAMES_UNDECIDED if bytes are missing, NAMES_NONE if it does
///   not.
enum names_state names_record_begins(const uint8_t *bytes, uint32_t length);

/// Parses the ClientHello at the start of a TLS stream, in one or more records.
/// - bytes: received bytes of the client, in order from the stream's first byte.
/// - whole: true if no more bytes will be stored. Then missing bytes make the names unreadable.
/// - scratch: buffer for joining a ClientHello that comes in several records.
/// - progress: in: progress of an earlier call with fewer of these bytes, or zeroed; out: new
///   progress.
/// - names: out: all fields are set. Unless the state is NAMES_KNOWN, they are empty, except state
///   and protocol.
/// - Returns names->state: NAMES_UNDECIDED if bytes are missing (NAMES_UNREADABLE with whole);
///   NAMES_UNREADABLE if a record before the end of the ClientHello is no handshake record or is
///   malformed; otherwise the result of names_hello_parse.
enum names_state names_record_parse(const uint8_t *bytes, uint32_t length, bool whole,
                                    uint8_t scratch[static NAMES_HELLO_BYTES_MAX],
                                    struct names_progress *progress, struct names *names);

/// Parses the second ClientHello of a TLS stream; it answers a server's HelloRetryRequest.
/// - bytes: received bytes of the client, from the stream's first byte. The first ClientHello must
///   be complete.
/// - scratch: buffer for joining the handshake.
/// - progress: in: progress in the second message of an earlier call with fewer of these bytes, or
///   zeroed; out: new progress.
/// - names: out: names of the second ClientHello if NAMES_KNOWN is returned; otherwise unspecified.
/// - Returns NAMES_KNOWN if there is a second ClientHello, NAMES_UNDECIDED if it may follow,
///   NAMES_NONE if another message comes in its place, NAMES_UNREADABLE if a record is malformed or
///   not allowed, or the second ClientHello is malformed.
enum names_state names_record_parse_second(const uint8_t *bytes, uint32_t length,
                                           uint8_t scratch[static NAMES_HELLO_BYTES_MAX],
                                           struct names_progress *progress, struct names *names);

/// Returns true if a stream that begins with a ClientHello consists of one record, which contains
/// only this ClientHello. names_record_parse_second would then return NAMES_UNDECIDED.
/// - head: the stream's first NAMES_RECORD_HEAD_BYTES bytes.
/// - came: number of received bytes of the stream.
bool names_record_is_alone(const uint8_t head[static NAMES_RECORD_HEAD_BYTES], uint32_t came);

#endif
