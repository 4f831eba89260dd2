// SPDX-License-Identifier: GPL-2.0-or-later
// What a client of TCP speaks, and the names in it.
#ifndef NAMES_CLIENT_H
#define NAMES_CLIENT_H

#include <stdbool.h>
#include <stdint.h>

#include "names/hello.h"
#include "names/record.h"
#include "names/types.h"

/// Reads a client's first bytes, be they TLS, HTTP or something else.
/// - bytes: in order from the stream's first, as far as they came.
/// - whole: no more will be kept, so what is not readable yet never will be.
/// - scratch: where a ClientHello of several records is put together.
/// - names: always filled in whole. Fields are empty unless it is NAMES_KNOWN.
/// - Returns names->state: NAMES_UNDECIDED while it can be either or bytes are missing
///   (NAMES_UNREADABLE with whole); NAMES_KNOWN with the protocol NAMES_OTHER if it is neither, and
///   nothing that came begins as a field Host of HTTP does (NAMES_UNREADABLE then).
enum names_state names_client_read(const uint8_t *bytes, uint32_t length, bool whole,
                                   uint8_t scratch[static NAMES_HELLO_BYTES_MAX],
                                   struct names *names);

/// Whether names_client_read would say NAMES_UNDECIDED again, so that nothing need be read again: a
/// hello whose length is known is not there yet, or a line of a request.
/// - names: as names_client_read left them, with NAMES_UNDECIDED.
/// - head: the stream's first NAMES_RECORD_HEAD_BYTES bytes, of which there are so many.
/// - added: what came since, so many bytes.
/// - end: how many bytes of the stream came; more will be kept.
bool names_client_waits(const struct names *names,
                        const uint8_t head[static NAMES_RECORD_HEAD_BYTES], const uint8_t *added,
                        uint32_t length, uint32_t end);

#endif
