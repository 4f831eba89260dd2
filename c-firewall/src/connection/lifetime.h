// SPDX-License-Identifier: GPL-2.0-or-later
// What becomes of a connection: from list to list, and out of the table.
#ifndef CONNECTION_LIFETIME_H
#define CONNECTION_LIFETIME_H

#include <stdbool.h>
#include <stdint.h>

#include "connection/stream.h"
#include "connection/types.h"

/// Frees the stored bytes of a client and moves its connection to its final list.
void lifetime_settle(struct connections *connections, uint32_t slot, uint64_t now_ns);

/// Remembers a connection that is to be forgotten and that its server may go on with. One of TCP
/// needs another SYN then, which the server does not answer while it has the connection; of UDP it
/// must be remembered, and if its SYN had data, which come again with the same SYN.
void lifetime_bury(struct connections *connections, uint32_t slot, uint64_t now_ns);

/// Expires the connections whose time is over, so many at most.
void lifetime_expire(struct connections *connections, uint64_t now_ns);

/// Adds a connection that the table has not, if need be in the place of another one. Returns its
/// slot.
/// - client_low: the client is the lower one of both ends.
/// - since_ns: when it came to its list, here or in another table, or was used last.
uint32_t lifetime_add(struct connections *connections, const struct connection_key *key,
                      bool client_low, enum connection_list list, uint64_t since_ns,
                      uint64_t now_ns);

/// Begins to follow a connection that the table has not.
/// - client_low: the client is the lower one of both ends.
uint32_t lifetime_open(struct connections *connections, const struct connection_key *key,
                       bool client_low, enum connection_list list, uint64_t now_ns);

/// Removes all connections from the table.
void lifetime_forget_all(struct connections *connections);

/// Notes that a connection is used.
void lifetime_touch(struct connections *connections, uint32_t slot, uint64_t now_ns);

/// Notes that both ends have opened a connection.
void lifetime_stand(struct connections *connections, uint32_t slot, uint64_t now_ns);

/// Notes that an end has closed a connection.
void lifetime_close(struct connections *connections, uint32_t slot, uint64_t now_ns);

/// A packet whose names are unreadable, whatever is known of its connection.
struct followed lifetime_odd(struct connections *connections, enum connection_cause cause);

/// A packet that opens a connection, of which nothing is known.
struct followed lifetime_fresh(struct connections *connections);

/// A packet that has no name, and needs no connection.
struct followed lifetime_other(struct connections *connections);

/// Whether all packets of a connection are denied.
bool lifetime_is_denied(struct connections *connections, uint32_t slot, uint64_t generation);

/// A packet with the names of its connection.
struct followed lifetime_named(struct connections *connections, uint32_t slot);

/// Says that a connection's names can't be read, and never will.
struct followed lifetime_unreadable(struct connections *connections, uint32_t slot,
                                    enum connection_cause cause, uint64_t now_ns);

/// Says that a client claimed different bytes for one place: its connection is denied for good.
struct followed lifetime_evade(struct connections *connections, uint32_t slot, uint64_t now_ns);

/// Notes that a policy refused a connection. tells: its ends are to know, which those of TCP can.
void lifetime_deny(struct connections *connections, uint32_t slot, uint64_t generation, bool tells);

/// Notes that a connection's names are known. What the client sent up to there is kept until its
/// server has it.
void lifetime_decide(struct connections *connections, uint32_t slot, uint32_t decided,
                     uint64_t now_ns);

/// Notes that a client has begun to show its names: for so long at most.
void lifetime_show(struct connections *connections, uint32_t slot, uint64_t now_ns);

/// Stores a piece of a client's bytes. If the pool is empty, other connections are evicted.
enum stream_put lifetime_keep(struct connections *connections, uint32_t slot, uint32_t offset,
                              const uint8_t *bytes, uint32_t length, uint64_t now_ns);

/// Says what became of bytes that were not kept.
struct followed lifetime_refuse(struct connections *connections, uint32_t slot, enum stream_put put,
                                uint64_t now_ns);

#endif
