// SPDX-License-Identifier: GPL-2.0-or-later
// Connections by their client's address, so that one client's many don't push another's few out of
// the table.
//
// Theory of operation: addresses are put into places by a hash with a key that is drawn once; those
// of a place count as one client. A client of IPv6 is its network of 64 bits, in which a host may
// have as many addresses as it likes.
#ifndef CONNECTION_SHARE_H
#define CONNECTION_SHARE_H

#include <stdbool.h>
#include <stdint.h>

#include "connection/types.h"

/// The place of a client.
/// - client_low: the client is the lower one of both ends.
uint32_t share_place(const struct connection_table *table, const struct connection_key *key,
                     bool client_low);

/// How many connections the clients of a place have.
uint32_t share_count(const struct connection_table *table, uint32_t place);

/// The connection of a place that has been there for longest, or CONNECTION_SLOT_NONE.
uint32_t share_oldest(const struct connection_table *table, uint32_t place);

/// Counts a connection as its client's.
/// - place: the client's.
void share_enter(struct connection_table *table, uint32_t slot, uint32_t place);

/// Counts a connection as nobody's.
void share_leave(struct connection_table *table, uint32_t slot);

#endif
