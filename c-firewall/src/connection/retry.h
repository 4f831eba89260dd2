// SPDX-License-Identifier: GPL-2.0-or-later
// Whether a server of TLS asks its client for another ClientHello (HelloRetryRequest, RFC 8446,
// section 4.1.4), and that this names the same.
//
// Theory of operation: a server that asks for another hello serves what that one names. So a name
// is final once the server's first message is seen to be no such request, or the other hello is
// there. Until then, what the client sends behind its hello is kept and read, too: it may hold the
// other hello before the server has asked for it.
#ifndef CONNECTION_RETRY_H
#define CONNECTION_RETRY_H

#include <stdbool.h>
#include <stdint.h>

#include "connection/segment.h"
#include "connection/types.h"

/// Whether a server may ask for another hello than the one that shows these names.
bool retry_can(const struct names *names);

/// Reads a server's bytes: one that differs from a HelloRetryRequest shows that there is
/// none.
void retry_hear(struct connection *connection, const struct segment *segment);

/// Moves a connection to its final list if its names can't change any more.
void retry_settle(struct connections *connections, uint32_t slot, uint64_t now_ns);

/// Reads what is there behind a hello without a gap: another one must name the same.
struct followed retry_read(struct connections *connections, uint32_t slot, uint64_t now_ns);

#endif
