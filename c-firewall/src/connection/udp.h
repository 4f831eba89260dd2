// SPDX-License-Identifier: GPL-2.0-or-later
// UDP connections: QUIC at any port except that of DNS (RFC 9000, RFC 9001, RFC 9369), and DNS
// queries, each of which is independent.
//
// Theory of operation: a server finds the connection of a packet by the packet's connection id, and
// ignores the packet's source, and the firewall can't know which packets it accepted. So Initial
// packets with the connection id of another connection are unreadable. The CRYPTO frames of all
// Initial packets between two ends are one stream, whatever their connection id: after Retry a
// client sends the same bytes again, and different bytes for the same position are an evasion. A
// server may remember connections that the firewall has forgotten: for a while such a connection is
// unreadable. A DNS server also reads queries that look like QUIC, so QUIC is recognised at other
// ports only, even if the server began with a packet of QUIC. At the DNS port a long header of QUIC
// is an unreadable query, because it has more than one question.
#ifndef CONNECTION_UDP_H
#define CONNECTION_UDP_H

#include "connection/types.h"
#include "packet/packet.h"

/// Updates the QUIC connection of a UDP packet, or reads the packet's DNS query. Returns whether
/// the packet has names or is denied, and the slot of its connection.
struct followed connection_udp_follow(struct connections *connections, const struct packet *packet,
                                      const struct connection_input *input);

/// Returns true if a UDP packet goes to port 53, or begins like a long header of a supported QUIC
/// version. Two adjacent bytes may differ, because the kernel may write a checksum there later.
bool connection_udp_decides(const struct packet *packet);

#endif
