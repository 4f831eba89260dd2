// SPDX-License-Identifier: GPL-2.0-or-later
// Lists connections by their client's address, so that a client with many connections does not
// evict the connections of other clients.
//
// Theory of operation: addresses are mapped to shares by a hash with a random key; all clients of a
// share count as one client. The index of a share is called its place. An IPv6 client is a network
// with a prefix of 64 bits, in which a host may have any number of addresses.
#ifndef CONNECTION_SHARE_H
#define CONNECTION_SHARE_H

#include <stdbool.h>
#include <stdint.h>

#include "connection/types.h"

/// Returns the index of a client's share (its list of connections) in `shares`. Several clients may
/// have the same share.
/// - client_low: true if the client is the lower end (by address and port).
uint32_t share_place(const struct connection_table *table, const struct connection_key *key,
                     bool client_low);

/// Returns the number of connections in a share (list of a client's connections).
/// - place: index of the share.
uint32_t share_count(const struct connection_table *table, uint32_t place);

/// Returns the slot of the oldest connection in a share (list of a client's connections), or
/// CONNECTION_SLOT_NONE.
/// - place: index of the share.
uint32_t share_oldest(const struct connection_table *table, uint32_t place);

/// Adds a connection to its client's share.
/// - place: index of the share.
void share_enter(struct connection_table *table, uint32_t slot, uint32_t place);

/// Removes a connection from its client's share.
void share_leave(struct connection_table *table, uint32_t slot);

#endif
