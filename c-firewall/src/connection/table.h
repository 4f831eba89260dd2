// SPDX-License-Identifier: GPL-2.0-or-later
// Connections by their key, and in lists by their time. The table has a fixed size and never
// allocates.
//
// Theory of operation: who sends packets must not choose how long a search takes. A bucket is found
// by SipHash with a key that is drawn once, and there are at least twice as many buckets as
// connections, so chains are as short as those of random keys. Every list has one time-out, so it
// is in the order of time, and who looks for what is over looks at its beginning alone.
#ifndef CONNECTION_TABLE_H
#define CONNECTION_TABLE_H

#include <stdbool.h>
#include <stdint.h>

#include "connection/types.h"
#include "packet/packet.h"

/// Makes a table. Returns 0, or -ENOMEM with nothing to free.
int connection_table_make(struct connection_table *table, uint32_t connections);
void connection_table_free(struct connection_table *table);

/// The key of a packet with addresses and ports. Returns whether its source is the lower one of
/// both ends.
bool connection_table_key(const struct packet *packet, struct connection_key *key);

/// The bucket of a key.
uint32_t connection_table_bucket(const struct connection_table *table,
                                 const struct connection_key *key);

/// A connection; of CONNECTION_SLOT_NONE one that is none.
struct connection *connection_table_at(struct connection_table *table, uint32_t slot);

/// The connection of a key, or CONNECTION_SLOT_NONE.
uint32_t connection_table_find(const struct connection_table *table,
                               const struct connection_key *key);

/// Touches the memory of so many connections of a table that has none, so that adding them waits
/// for none.
void connection_table_warm(struct connection_table *table, uint32_t connections);

/// Whether there is no room for another one.
bool connection_table_is_full(const struct connection_table *table);

/// Adds a connection of a key that the table has not, to a list. Returns CONNECTION_SLOT_NONE if
/// the table is full.
uint32_t connection_table_add(struct connection_table *table, const struct connection_key *key,
                              enum connection_list list, uint64_t now_ns);

/// Appends a connection to a list.
void connection_table_move_to(struct connection_table *table, uint32_t slot,
                              enum connection_list list, uint64_t now_ns);

/// Removes a connection from the table.
void connection_table_remove(struct connection_table *table, uint32_t slot);

/// Notes that a connection's bytes are forgotten, though its server may remember them.
void connection_table_bury(struct connection_table *table, const struct connection_key *key,
                           uint64_t now_ns);

/// Whether it is remembered at a place that a connection was forgotten; then, how many seconds ago.
bool connection_table_grave_age(const struct connection_table *table, uint32_t place,
                                uint64_t now_ns, uint32_t *age);

/// Notes what a table with the same hash of graves remembers, and maybe another size, at all places
/// that it may be about. Returns false if it is no such table.
/// - mask: of that table.
/// - age: as of connection_table_grave_age.
bool connection_table_bury_told(struct connection_table *table, uint32_t mask, uint32_t place,
                                uint32_t tag, uint32_t age, uint64_t now_ns);

/// Whether bytes of a connection with this key may have been forgotten lately.
bool connection_table_is_buried(const struct connection_table *table,
                                const struct connection_key *key, uint64_t now_ns);

#endif
