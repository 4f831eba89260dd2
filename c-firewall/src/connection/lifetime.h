// SPDX-License-Identifier: GPL-2.0-or-later
// Life of a connection: moves it from list to list, and removes it from the table.
#ifndef CONNECTION_LIFETIME_H
#define CONNECTION_LIFETIME_H

#include <stdbool.h>
#include <stdint.h>

#include "connection/stream.h"
#include "connection/types.h"

/// Frees the stored bytes of a client, and moves its connection to the list Closing if it is
/// closed, otherwise to Datagrams (UDP) or Known (TCP).
void lifetime_settle(struct connections *connections, uint32_t slot, uint64_t now_ns);

/// Calculates the hashes by which a removed connection is recorded, if its server may continue it
/// later: those of its key and of its QUIC connection id. That is true for UDP, and for TCP with
/// data on the SYN: a repeated SYN can continue it. Other TCP needs a new SYN, which a server does
/// not answer while it still has the connection.
/// - hashes: out: the hashes.
/// - Returns their number.
uint32_t lifetime_removal_hashes(struct connections *connections, uint32_t slot,
                                 uint64_t hashes[static 2]);

/// Handles the timeouts of expired connections, at most EXPIRE_MAX of each list.
void lifetime_expire(struct connections *connections, uint64_t now_ns);

/// Adds a connection that is not in the table, and evicts another connection if the table is full.
/// Returns the new connection's slot.
/// - client_low: true if the client is the lower end (by address and port).
/// - since_ns: time when the connection was used last, or entered its list, here or in another
///   process's table.
uint32_t lifetime_add(struct connections *connections, const struct connection_key *key,
                      uint64_t hash, bool client_low, enum connection_list list, uint64_t since_ns,
                      uint64_t now_ns);

/// Begins to follow a connection that is not in the table. Returns its slot.
/// - client_low: true if the client is the lower end (by address and port).
uint32_t lifetime_open(struct connections *connections, const struct connection_key *key,
                       uint64_t hash, bool client_low, enum connection_list list, uint64_t now_ns);

/// Removes all connections from the table.
void lifetime_forget_all(struct connections *connections);

/// Removes all connections from the table, and records those that their servers may continue
/// (lifetime_removal_hashes).
void lifetime_abandon_all(struct connections *connections, uint64_t now_ns);

/// Records the use of a connection. In the lists Opening, Showing and Settling this does not extend
/// the time limit.
void lifetime_touch(struct connections *connections, uint32_t slot, uint64_t now_ns);

/// Records that both ends have opened a connection.
void lifetime_establish(struct connections *connections, uint32_t slot, uint64_t now_ns);

/// Records that an end has closed a connection.
void lifetime_close(struct connections *connections, uint32_t slot, uint64_t now_ns);

/// Returns unreadable names for a packet, whatever the names of its connection are.
struct followed lifetime_packet_unreadable(struct connections *connections,
                                           enum connection_cause cause);

/// Returns undecided names for a packet without data, whatever the names of its connection are.
struct followed lifetime_packet_undecided(struct connections *connections);

/// Returns known names without content for a packet that needs no connection.
struct followed lifetime_packet_nameless(struct connections *connections);

/// Returns true if the policy of a generation has refused a connection, or if its client's bytes
/// are an evasion.
bool lifetime_is_denied(struct connections *connections, uint32_t slot, uint64_t generation);

/// Returns the names of a packet's connection, or Denied if its client's bytes are an evasion.
struct followed lifetime_packet_names(struct connections *connections, uint32_t slot);

/// Makes the names of a connection unreadable for good.
struct followed lifetime_make_unreadable(struct connections *connections, uint32_t slot,
                                         enum connection_cause cause, uint64_t now_ns);

/// Denies a connection for good because its client sent different bytes for the same position, or
/// different names in a second ClientHello.
struct followed lifetime_deny_evasion(struct connections *connections, uint32_t slot,
                                      uint64_t now_ns);

/// Records that a policy refused a connection.
/// - tells: true if both ends of a TCP connection get a RST.
void lifetime_deny(struct connections *connections, uint32_t slot, uint64_t generation, bool tells);

/// Records that a connection's names are known, and moves it to the list Settling, in which the
/// client's bytes are kept.
/// - decided: end of the bytes that the names were read from, as an offset in the stream.
void lifetime_decide(struct connections *connections, uint32_t slot, uint32_t decided,
                     uint64_t now_ns);

/// Records that a client has begun to send its names, or another query or request. This starts the
/// time limit, unless it runs already.
void lifetime_start_showing(struct connections *connections, uint32_t slot, uint64_t now_ns);

/// Stores a piece of a client's bytes. If the pool has no free block, other connections are evicted
/// or settled to free memory. Returns STREAM_POOL only if that does not free enough.
enum stream_put lifetime_store(struct connections *connections, uint32_t slot, uint32_t offset,
                               const uint8_t *bytes, uint32_t length, uint64_t now_ns);

/// Handles bytes of a client that were not stored. If different bytes are stored for their position
/// (STREAM_CONFLICT), the connection is denied for good; otherwise its names become unreadable.
/// - put: result of the attempt to store the bytes; not STREAM_KEPT.
struct followed lifetime_refuse(struct connections *connections, uint32_t slot, enum stream_put put,
                                uint64_t now_ns);

#endif
