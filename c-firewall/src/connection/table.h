// SPDX-License-Identifier: GPL-2.0-or-later
// Connections by their key, and in lists by their time. The table has a fixed size and never
// allocates.
//
// Theory of operation: senders must not control the time of a search. A bucket is found by SipHash
// with a random key, and there are at least twice as many buckets as connections, so chains are as
// short as with random keys. Every list has a single timeout and is thus ordered by time, so only
// its beginning is checked for expired connections.
#ifndef CONNECTION_TABLE_H
#define CONNECTION_TABLE_H

#include <stdbool.h>
#include <stdint.h>

#include "connection/types.h"
#include "packet/packet.h"

/// Makes a table. Returns 0, or -ENOMEM with nothing to free.
int connection_table_make(struct connection_table *table, uint32_t connections);
void connection_table_free(struct connection_table *table);

/// Returns the key of a packet with addresses and ports in *key. Returns true if its source is the
/// lower end.
bool connection_table_key(const struct packet *packet, struct connection_key *key);

/// Returns an end of a packet with addresses and ports in words: its address and port.
void connection_table_end(const struct packet *packet, bool is_source,
                          uint64_t words[CONNECTION_END_WORDS]);

/// Returns the bucket of a key.
uint32_t connection_table_bucket(const struct connection_table *table,
                                 const struct connection_key *key);

/// Returns a connection; for CONNECTION_SLOT_NONE a spare one.
struct connection *connection_table_at(struct connection_table *table, uint32_t slot);

/// Returns the connection with a key, or CONNECTION_SLOT_NONE.
uint32_t connection_table_find(const struct connection_table *table,
                               const struct connection_key *key);

/// Touches the memory for `connections` connections of an empty table, so that adding them causes
/// no page faults.
void connection_table_warm(struct connection_table *table, uint32_t connections);

/// Returns true if there is no room for another connection.
bool connection_table_is_full(const struct connection_table *table);

/// Adds a connection with a new key to a list. Returns CONNECTION_SLOT_NONE if the table is full.
uint32_t connection_table_add(struct connection_table *table, const struct connection_key *key,
                              enum connection_list list, uint64_t now_ns);

/// Appends a connection to a list.
void connection_table_move_to(struct connection_table *table, uint32_t slot,
                              enum connection_list list, uint64_t now_ns);

/// Removes a connection from the table.
void connection_table_remove(struct connection_table *table, uint32_t slot);

/// Remembers that a connection's bytes are forgotten, since its server may remember them.
void connection_table_bury(struct connection_table *table, const struct connection_key *key,
                           uint64_t now_ns);

/// Returns the age in seconds of the forgotten connection at a place in *age. Returns false if
/// there is none.
bool connection_table_grave_age(const struct connection_table *table, uint32_t place,
                                uint64_t now_ns, uint32_t *age);

/// Adds an entry of another table with the same hash of forgotten connections and perhaps another
/// size, at all places that it may belong to. Returns false if the entry is invalid.
/// - mask: mask of the other table.
/// - age: as returned by connection_table_grave_age.
bool connection_table_bury_told(struct connection_table *table, uint32_t mask, uint32_t place,
                                uint32_t tag, uint32_t age, uint64_t now_ns);

/// Returns true if bytes of a connection with this key may have been forgotten recently.
bool connection_table_is_buried(const struct connection_table *table,
                                const struct connection_key *key, uint64_t now_ns);

#endif
