// SPDX-License-Identifier: GPL-2.0-or-later
// TLS records to the ClientHello in them.
// Format: RFC 8446, section 5.1.
#ifndef NAMES_RECORD_H
#define NAMES_RECORD_H

#include <stdbool.h>
#include <stdint.h>

#include "names/hello.h"
#include "names/types.h"

enum {
    NAMES_RECORD_HEAD_BYTES = 9, // of a record's header, and that of the handshake message in it
};

/// Whether a stream begins as TLS does, to some server: with a content type and a version.
/// - Returns NAMES_KNOWN if it does, NAMES_UNDECIDED if more bytes are needed to tell, NAMES_NONE
/// if
///   it does not.
enum names_state names_record_begins(const uint8_t *bytes, uint32_t length);

/// Reads the ClientHello that a stream of TLS begins with, in however many records.
/// - bytes: the client's first bytes in order, as far as they came.
/// - whole: no more will be kept, so what is not readable yet never will be.
/// - scratch: where a hello of several records is put together.
/// - names: always filled in whole. Fields are empty unless it is NAMES_KNOWN.
/// - Returns names->state: NAMES_UNDECIDED if bytes are missing (NAMES_UNREADABLE with whole),
///   NAMES_UNREADABLE if a record is no handshake or is malformed, else what names_hello_read says.
enum names_state names_record_read(const uint8_t *bytes, uint32_t length, bool whole,
                                   uint8_t scratch[static NAMES_HELLO_BYTES_MAX],
                                   struct names *names);

/// Reads the ClientHello that follows the one that a stream of TLS begins with, as a server asks
/// for it (HelloRetryRequest).
/// - bytes: the client's bytes from its first one, with a ClientHello that is whole.
/// - scratch: where the handshake is put together.
/// - names: with NAMES_KNOWN those of the second hello, else anything.
/// - Returns NAMES_KNOWN if it is there, NAMES_UNDECIDED if it may follow, NAMES_NONE if another
///   message stands in its place, NAMES_UNREADABLE if a record or the hello is.
enum names_state names_record_read_second(const uint8_t *bytes, uint32_t length,
                                          uint8_t scratch[static NAMES_HELLO_BYTES_MAX],
                                          struct names *names);

/// Whether a stream of which nothing can be told yet still has not enough of its first record.
/// - head: the stream's first NAMES_RECORD_HEAD_BYTES bytes.
/// - came: how many bytes of the stream came.
bool names_record_waits(const uint8_t head[static NAMES_RECORD_HEAD_BYTES], uint32_t came);

/// Whether a stream with a whole ClientHello is one record that has nothing else, so that
/// names_record_read_second would say NAMES_UNDECIDED.
/// - head: the stream's first NAMES_RECORD_HEAD_BYTES bytes.
/// - came: how many bytes of the stream came.
bool names_record_is_alone(const uint8_t head[static NAMES_RECORD_HEAD_BYTES], uint32_t came);

#endif
