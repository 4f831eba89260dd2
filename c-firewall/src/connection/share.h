// SPDX-License-Identifier: GPL-2.0-or-later
// Connections by their client's address, so that a client with many connections does not evict
// those of others.
//
// Theory of operation: addresses are mapped to places by a hash with a random key; all clients of a
// place count as one. An IPv6 client is a network of 64 bits, in which a host may have any number
// of addresses.
#ifndef CONNECTION_SHARE_H
#define CONNECTION_SHARE_H

#include <stdbool.h>
#include <stdint.h>

#include "connection/types.h"

/// Returns the place of a client.
/// - client_low: the client is the lower end.
uint32_t share_place(const struct connection_table *table, const struct connection_key *key,
                     bool client_low);

/// Returns the number of connections of a place's clients.
uint32_t share_count(const struct connection_table *table, uint32_t place);

/// Returns the oldest connection of a place, or CONNECTION_SLOT_NONE.
uint32_t share_oldest(const struct connection_table *table, uint32_t place);

/// Adds a connection to its client's place.
/// - place: place of the client.
void share_enter(struct connection_table *table, uint32_t slot, uint32_t place);

/// Removes a connection from its client's place.
void share_leave(struct connection_table *table, uint32_t slot);

#endif
