// SPDX-License-Identifier: GPL-2.0-or-later
// Protocol of a TCP client, and the names in it.
#ifndef NAMES_CLIENT_H
#define NAMES_CLIENT_H

#include <stdbool.h>
#include <stdint.h>

#include "names/hello.h"
#include "names/progress.h"
#include "names/types.h"

/// Reads a client's first bytes: TLS, HTTP or another protocol.
/// - bytes: received bytes, in order from the stream's first.
/// - whole: true if no more bytes will be kept: then missing bytes make the names unreadable.
/// - scratch: buffer for joining a ClientHello of several records.
/// - progress: progress in fewer of these bytes, or zeroed; updated.
/// - names: all fields are set; empty unless the state is NAMES_KNOWN.
/// - Returns names->state: NAMES_UNDECIDED while the protocol is unknown or bytes are missing
///   (NAMES_UNREADABLE with whole); NAMES_KNOWN with the protocol NAMES_OTHER if it is neither TLS
///   nor HTTP (NAMES_UNREADABLE if a line begins like the HTTP field Host).
enum names_state names_client_read(const uint8_t *bytes, uint32_t length, bool whole,
                                   uint8_t scratch[static NAMES_HELLO_BYTES_MAX],
                                   struct names_progress *progress, struct names *names);

/// Returns true if names_client_read would return NAMES_UNDECIDED again, because a record, or a
/// line of a request, is still incomplete.
/// - names: result of names_client_read, with NAMES_UNDECIDED.
/// - progress: progress of names_client_read.
/// - added: bytes received since then; length of them.
/// - end: number of received bytes of the stream; more will be kept.
bool names_client_waits(const struct names *names, const struct names_progress *progress,
                        const uint8_t *added, uint32_t length, uint32_t end);

#endif
