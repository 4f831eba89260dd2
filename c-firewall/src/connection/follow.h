// SPDX-License-Identifier: GPL-2.0-or-later
// Finds the connection of a packet, and the names that the connection's client has sent so far.
//
// Theory of operation: while the policy reads names, each packet to decide passes through `follow`
// once, in the order of the queue. The packets of both ends must come through the same queue.
// `table` finds the packet's connection by its addresses, protocol and ports; a packet that may
// open a connection gets a slot of the table (`opening` for TCP, `udp` for QUIC; DNS over UDP needs
// none). `tcp` and `udp` then extract the client's bytes and store them in `stream`, which orders
// them by their position and detects different bytes for the same position. The parsers of names/
// read the stream up to its first gap. Their result is undecided while bytes are missing; once the
// names are known, they hold for all later packets of the connection. On a TCP connection with
// several DNS queries or HTTP requests (`queries`, `requests`) the names are those of the query or
// request that a packet completes or repeats.
//
// The memory is allocated at the start and bounded: slots in `table`, blocks of bytes in `pool`.
// `lifetime` moves a connection from list to list (opening, silent, showing, settling, known,
// closing; datagrams for UDP), each with a timeout. If the table is full, an old connection of a
// client with many connections is removed (`share` counts the connections of each client). If the
// pool is full, the oldest connection with incomplete names is removed, or the oldest one in the
// list settling is settled early. A TCP packet in the middle of an unknown connection has
// unreadable names. The bytes of a TCP client are kept until the server has acknowledged them,
// because only the bytes that the server accepted matter.
#ifndef CONNECTION_FOLLOW_H
#define CONNECTION_FOLLOW_H

#include <stdbool.h>
#include <stdint.h>

#include "connection/types.h"
#include "packet/packet.h"

/// Allocates all memory for connections; nothing allocates afterwards.
/// - Returns 0, or -ENOMEM with nothing to free.
int connection_make(struct connections *connections, const struct connection_settings *settings);
void connection_free(struct connections *connections);

/// Updates the connection of a packet. Returns the connection's slot, and the packet's kind:
/// FOLLOWED_NONE (neither TCP nor UDP), FOLLOWED_NAMES (in any state, also undecided) or
/// FOLLOWED_DENIED. Must be called for the packets of both directions, in the order of the queue.
struct followed connection_follow(struct connections *connections, const struct packet *packet,
                                  const struct connection_input *input);

/// Moves to the next DNS query (over TCP) or HTTP request of those that decide the packet followed
/// last. The policy must have accepted the packet with the names of the previous query or request.
/// Returns false if none is left.
bool connection_next(struct connections *connections);

/// Returns the names of the packet followed last, if its kind is FOLLOWED_NAMES.
const struct names *connection_names(const struct connections *connections,
                                     const struct followed *followed);

/// Returns the cache in which the engine stores its numbers for the names of a packet's connection;
/// NULL if the slot is CONNECTION_SLOT_NONE.
struct connection_cache *connection_cache(struct connections *connections,
                                          const struct followed *followed);

/// Records that a policy refused a packet for the names of its connection: while that policy is in
/// use, the connection is denied. A packet with the slot CONNECTION_SLOT_NONE is ignored.
/// - tells: true if both ends of a TCP connection get a RST.
void connection_deny(struct connections *connections, const struct followed *followed,
                     uint64_t generation, bool tells);

/// Returns true if the slot of a packet is that of a TCP connection, whose ends can get a RST when
/// it is denied.
bool connection_can_reset(const struct connections *connections, const struct followed *followed);

/// Returns true if both ends of a packet's denied connection get a RST.
bool connection_is_reset(const struct connections *connections, const struct followed *followed);

/// Stores the sequence number that the receiver of a dropped TCP packet expects next in *expected.
/// For the server it is the number that the server itself has acknowledged, because it may never
/// have received the client's latest bytes. For the client it is the sequence number of the dropped
/// packet. Returns false if the number is unknown.
/// - expected: out: the number; untouched on false.
bool connection_expected(const struct connections *connections, const struct followed *followed,
                         const struct packet *packet, uint32_t *expected);

/// Records that the kernel refused a TCP connection: the connection is denied as if a policy had
/// refused it. Stores the sequence number that the end in the RST's source address expects next in
/// *expected. For the client it is the number after the server's latest byte. Returns false if the
/// number is unknown.
/// - packet: RST that the kernel sent to the other end.
/// - expected: out: the number; unspecified on false.
bool connection_refuse(struct connections *connections, const struct packet *packet,
                       uint64_t generation, uint32_t *expected);

/// Returns true if the names of a packet's TCP connection are final, and the server has
/// acknowledged the bytes that they were read from. Always false for UDP, DNS and HTTP, and for a
/// client whose bytes are an evasion.
bool connection_is_settled(const struct connections *connections, const struct followed *followed);

/// Returns true if the packet followed last comes from a QUIC server that has the complete
/// ClientHello, which contains the known names. Packets of this server no longer change the names.
/// Packets of the client may change them: a packet with several datagrams can hide the ClientHello
/// of another connection. Returns false if the client's bytes are an evasion.
bool connection_is_answer(const struct connections *connections, const struct followed *followed);

/// Returns true if names may depend on the bytes of the packet followed last: it comes from a TCP
/// client whose names are not settled (see connection_is_settled), or is a TCP packet with
/// undecided names of its own (a further SYN, or a segment without data of a denied connection), or
/// goes to UDP port 53, or is a UDP packet whose data begins like a long header of QUIC. Always
/// false for fragments, for unreadable TCP packets, for TCP packets of unreadable connections, and
/// for denied packets.
bool connection_decides(const struct connections *connections, const struct followed *followed,
                        const struct packet *packet);

/// Returns the number of connections that are followed.
uint32_t connection_count(const struct connections *connections);

/// Returns the counters of connections since connection_make, and the numbers of connections that
/// are followed now.
struct connection_counts connection_counts(const struct connections *connections);

#endif
