// SPDX-License-Identifier: GPL-2.0-or-later
// Limit of the bytes that pass on an undecided connection. Without it, a client that sends no name,
// or an incomplete one, would get unlimited data.
#ifndef CONNECTION_BOUND_H
#define CONNECTION_BOUND_H

#include "connection/types.h"
#include "packet/packet.h"

/// Counts a packet's data bytes if the names of its connection are undecided. The names become
/// unreadable if more than `undecided_bytes` have passed in the packet's direction.
/// - followed: result for the packet so far.
/// - Returns the result for the packet.
struct followed bound_pass(struct connections *connections, const struct packet *packet,
                           struct followed followed);

#endif
