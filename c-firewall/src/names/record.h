// SPDX-License-Identifier: GPL-2.0-or-later
// TLS records with a ClientHello. Format: RFC 8446, section 5.1.
#ifndef NAMES_RECORD_H
#define NAMES_RECORD_H

#include <stdbool.h>
#include <stdint.h>

#include "names/hello.h"
#include "names/progress.h"
#include "names/types.h"

enum {
    // Size of the headers of a record and of the handshake message in it.
    NAMES_RECORD_HEAD_BYTES = 9,
};

/// Checks whether a stream begins like TLS, for the most lenient server: with a content type and a
/// version.
/// - Returns NAMES_KNOWN if it does, NAMES_UNDECIDED if bytes are missing, NAMES_NONE if it does
///   not.
enum names_state names_record_begins(const uint8_t *bytes, uint32_t length);

/// Reads the ClientHello at the start of a TLS stream, from one or more records.
/// - bytes: the client's received bytes, in order from the first.
/// - whole: true if no more bytes will be kept: then missing bytes make the names unreadable.
/// - scratch: buffer for joining a hello of several records.
/// - progress: progress in fewer of these bytes, or zeroed; updated.
/// - names: all fields are set; empty unless the state is NAMES_KNOWN.
/// - Returns names->state: NAMES_UNDECIDED if bytes are missing (NAMES_UNREADABLE with whole);
///   NAMES_UNREADABLE if a record is no handshake or is malformed; otherwise the result of
///   names_hello_read.
enum names_state names_record_read(const uint8_t *bytes, uint32_t length, bool whole,
                                   uint8_t scratch[static NAMES_HELLO_BYTES_MAX],
                                   struct names_progress *progress, struct names *names);

/// Reads the second ClientHello of a TLS stream, which answers a server's HelloRetryRequest.
/// - bytes: the client's bytes from the first; the first ClientHello must be complete.
/// - scratch: buffer for joining the handshake.
/// - progress: progress in the second message with fewer of these bytes, or zeroed; updated.
/// - names: names of the second hello if NAMES_KNOWN is returned; otherwise unspecified.
/// - Returns NAMES_KNOWN if there is a second hello, NAMES_UNDECIDED if it may follow, NAMES_NONE
///   if another message comes in its place, NAMES_UNREADABLE if a record or the hello is malformed.
enum names_state names_record_read_second(const uint8_t *bytes, uint32_t length,
                                          uint8_t scratch[static NAMES_HELLO_BYTES_MAX],
                                          struct names_progress *progress, struct names *names);

/// Returns true if a stream consists of one record with only a complete ClientHello, so that
/// names_record_read_second would return NAMES_UNDECIDED.
/// - head: the stream's first NAMES_RECORD_HEAD_BYTES bytes.
/// - came: number of received bytes of the stream.
bool names_record_is_alone(const uint8_t head[static NAMES_RECORD_HEAD_BYTES], uint32_t came);

#endif
