// SPDX-License-Identifier: GPL-2.0-or-later
// TCP connections (RFC 9293).
//
// Theory of operation: a deceptive client sends packets that its server ignores: a second SYN,
// bytes that never arrive, a false FIN or RST. So a client's packets alone never change the start
// of its stream: the server's SYN-ACK shows which SYN it accepted, and before that only the bytes
// on the SYN are read. Stored bytes are compared with all later bytes for the same position until
// the server has acknowledged them; after that the server accepts no other bytes. So bytes that the
// server has acknowledged before the firewall has seen them stay unknown. A packet that would
// complete a name and can't be read is itself unreadable, and its bytes are not recorded as seen.
#ifndef CONNECTION_TCP_H
#define CONNECTION_TCP_H

#include "connection/types.h"
#include "packet/packet.h"

/// Updates the connection of a TCP packet, and reads the names in a client's data. Returns whether
/// the packet has names or is denied, and the slot of its connection.
struct followed connection_tcp_follow(struct connections *connections, const struct packet *packet,
                                      const struct connection_input *input);

#endif
