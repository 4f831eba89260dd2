// SPDX-License-Identifier: GPL-2.0-or-later
// UDP connections: QUIC at any port except that of DNS (RFC 9000, RFC 9001, RFC 9369), and DNS
// queries, each of which is independent.
//
// Theory of operation: a server stores packets under any connection id, and the firewall can't know
// which ones it accepted; the server ignores their source. So Initial packets with the connection
// id of another connection are unreadable. And the CRYPTO frames of all Initial packets between two
// ends are one stream, for any connection id: after Retry a client sends the same bytes again, and
// different bytes for the same position are an evasion. A server may remember connections that the
// firewall has forgotten: for a while such a connection is Unreadable. A DNS server also reads
// queries that look like QUIC, so QUIC is recognised at other ports only, also if the server began
// with a packet of QUIC: read as DNS, each of its long headers has more than one question.
#ifndef CONNECTION_UDP_H
#define CONNECTION_UDP_H

#include "connection/types.h"
#include "packet/packet.h"

/// Follows a UDP packet.
struct followed connection_udp_follow(struct connections *connections, const struct packet *packet,
                                      const struct connection_input *input);

#endif
