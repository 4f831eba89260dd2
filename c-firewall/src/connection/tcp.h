// SPDX-License-Identifier: GPL-2.0-or-later
// Connections of TCP (RFC 9293).
//
// Theory of operation: a client that means to deceive sends what its server does not take: another
// SYN, bytes that never arrive, ends that are none. So nothing that a client says alone changes
// where its stream begins: the server's SYN-ACK tells which SYN it took, and before that no byte is
// read but those on the SYN. Bytes that were seen are compared with all that come later, until the
// server has acknowledged them; from then on it takes no others. A packet that would complete a
// name that we can't see is Unreadable itself, and is not counted as seen.
#ifndef CONNECTION_TCP_H
#define CONNECTION_TCP_H

#include "connection/types.h"
#include "packet/packet.h"

/// Follows a TCP packet.
struct followed connection_tcp_follow(struct connections *connections, const struct packet *packet,
                                      const struct connection_input *input);

#endif
