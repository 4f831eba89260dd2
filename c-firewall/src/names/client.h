// SPDX-License-Identifier: GPL-2.0-or-later
// Detection of a TCP client's protocol (TLS, HTTP or another protocol), and the names in its first
// bytes.
#ifndef NAMES_CLIENT_H
#define NAMES_CLIENT_H

#include <stdbool.h>
#include <stdint.h>

#include "names/hello.h"
#include "names/progress.h"
#include "names/types.h"

/// Parses a client's first bytes: TLS, HTTP or another protocol.
/// - bytes: received bytes, in order from the stream's first byte.
/// - whole: true if no more bytes will be stored. Then missing bytes make the names unreadable.
/// - scratch: buffer for joining a ClientHello of several records.
/// - progress: in: progress of an earlier call with fewer of these bytes, or zeroed; out: new
///   progress.
/// - names: out: all fields are set. Unless the state is NAMES_KNOWN, they are empty, except state
///   and protocol.
/// - Returns names->state: NAMES_UNDECIDED while the protocol is unknown or bytes are missing
///   (NAMES_UNREADABLE with whole); NAMES_KNOWN with the protocol NAMES_OTHER if the bytes are
///   neither TLS nor HTTP (NAMES_UNREADABLE if a line begins like the HTTP field Host); otherwise
///   the result of names_record_parse or names_http_parse.
enum names_state names_client_parse(const uint8_t *bytes, uint32_t length, bool whole,
                                    uint8_t scratch[static NAMES_HELLO_BYTES_MAX],
                                    struct names_progress *progress, struct names *names);

/// Returns true if added bytes complete no TLS record and no HTTP line, so that names_client_parse
/// would return NAMES_UNDECIDED again. Returns false if this is unknown.
/// - names: result of names_client_parse; its state is NAMES_UNDECIDED.
/// - progress: progress of names_client_parse.
/// - added: bytes received since that call; length: their number.
/// - end: number of received bytes of the stream. It must be less than the maximum number of stored
///   bytes, so that `whole` would be false.
bool names_client_waits(const struct names *names, const struct names_progress *progress,
                        const uint8_t *added, uint32_t length, uint32_t end);

#endif
