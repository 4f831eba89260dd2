// SPDX-License-Identifier: GPL-2.0-or-later
// Connections of UDP: QUIC at any port but that of DNS (RFC 9000, RFC 9001, RFC 9369), and queries
// of DNS, each of which stands alone.
//
// Theory of operation: a server keeps what it was sent under any connection id, and nothing tells
// us which it took; it passes over where it came from. So Initial packets with the connection id of
// another connection can't be read. And the CRYPTO frames of all Initial packets between two ends
// are one stream, whatever connection id they have: Retry makes a client send the same bytes again,
// and other bytes for one place are an evasion. What we have forgotten, a server may remember: for
// a while such a connection is Unreadable. A server of DNS reads a query in whatever looks like
// QUIC, so that is looked for at other ports only: as DNS each of its long headers has more than
// one question.
#ifndef CONNECTION_UDP_H
#define CONNECTION_UDP_H

#include "connection/types.h"
#include "packet/packet.h"

/// Follows a UDP packet.
struct followed connection_udp_follow(struct connections *connections, const struct packet *packet,
                                      const struct connection_input *input);

#endif
