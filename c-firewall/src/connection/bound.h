// SPDX-License-Identifier: GPL-2.0-or-later
// How much passes on a connection that is undecided. A client that shows no name, or not all of it,
// would get as much as it likes.
#ifndef CONNECTION_BOUND_H
#define CONNECTION_BOUND_H

#include "connection/types.h"
#include "packet/packet.h"

/// Counts a packet that was followed, if its connection is undecided. One that has more bytes than
/// may pass each way is unreadable.
struct followed bound_pass(struct connections *connections, const struct packet *packet,
                           struct followed followed);

#endif
