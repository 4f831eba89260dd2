// SPDX-License-Identifier: GPL-2.0-or-later
// Limit of the bytes that pass on an undecided connection. Without it, a client that sends no name,
// or an incomplete one, would get unlimited data.
#ifndef CONNECTION_BOUND_H
#define CONNECTION_BOUND_H

#include "connection/types.h"
#include "packet/packet.h"

/// Counts the bytes of a followed packet if its connection is undecided. The connection becomes
/// unreadable if more bytes than the limit have passed in a direction.
struct followed bound_pass(struct connections *connections, const struct packet *packet,
                           struct followed followed);

#endif
