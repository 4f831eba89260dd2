// SPDX-License-Identifier: GPL-2.0-or-later
// Detection of a TLS server's request for a second ClientHello (HelloRetryRequest, RFC 8446,
// section 4.1.4), and check that the second ClientHello has the same names as the first.
//
// Theory of operation: a server that requests another ClientHello uses the name in the second. So a
// name is final once the server's first message is known not to be such a request, or the second
// ClientHello has arrived. Until then the client's bytes after its ClientHello are kept and read,
// too: they may contain the second ClientHello before the server has requested it.
#ifndef CONNECTION_RETRY_H
#define CONNECTION_RETRY_H

#include <stdbool.h>
#include <stdint.h>

#include "connection/segment.h"
#include "connection/types.h"

/// Returns true if a server may request a second ClientHello after a ClientHello with these names.
bool retry_can(const struct names *names);

/// Compares a server's first bytes with the start of a HelloRetryRequest. A difference shows that
/// the server sends no HelloRetryRequest: `may_retry` becomes false.
void retry_hear(struct connection *connection, const struct segment *segment);

/// Settles a connection (see `lifetime_settle`) if it is in the list Settling, its names are final,
/// its server has acknowledged the bytes that they were read from, and no part of another DNS query
/// is stored.
void retry_settle(struct connections *connections, uint32_t slot, uint64_t now_ns);

/// Reads the bytes after the first ClientHello up to the first gap: a second ClientHello must have
/// the same names.
struct followed retry_parse(struct connections *connections, uint32_t slot, uint64_t now_ns);

#endif
