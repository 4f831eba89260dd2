// SPDX-License-Identifier: GPL-2.0-or-later
// Table of connections by their key, with lists by time. Its size is fixed; it never allocates
// later.
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

/// Makes an empty table of at most `connections` connections. Returns 0, or -ENOMEM with nothing to
/// free.
int connection_table_make(struct connection_table *table, uint32_t connections);
void connection_table_free(struct connection_table *table);

/// Stores the key of a packet with addresses and ports in *key. Returns true if the packet's source
/// is the lower end (by address and port).
bool connection_table_key(const struct packet *packet, struct connection_key *key);

/// Stores an end (source or destination) of a packet with addresses and ports in `words`: port, IP
/// version, protocol and address.
void connection_table_end(const struct packet *packet, bool is_source,
                          uint64_t words[CONNECTION_END_WORDS]);

/// Returns the hash of a key. The functions below that have a parameter `hash` expect this hash.
uint64_t connection_table_hash(const struct connection_table *table,
                               const struct connection_key *key);

/// Returns the index of the bucket for a key's hash.
uint32_t connection_table_bucket(const struct connection_table *table, uint64_t hash);

/// Returns the tag of a hash in `graves` (records of forgotten connections): its upper half.
uint32_t connection_table_tag(uint64_t hash);

/// Returns the connection in a slot; for CONNECTION_SLOT_NONE, the unused connection `spare`.
struct connection *connection_table_at(struct connection_table *table, uint32_t slot);

/// Returns the connection with a key, or CONNECTION_SLOT_NONE.
uint32_t connection_table_find(const struct connection_table *table,
                               const struct connection_key *key, uint64_t hash);

/// Touches the slots for `connections` connections of an empty table, so that filling these slots
/// causes no page faults.
void connection_table_warm(struct connection_table *table, uint32_t connections);

/// Returns true if there is no room for another connection.
bool connection_table_is_full(const struct connection_table *table);

/// Adds a connection whose key is not in the table, and appends it to a list. Returns its slot, or
/// CONNECTION_SLOT_NONE if the table is full.
uint32_t connection_table_add(struct connection_table *table, const struct connection_key *key,
                              uint64_t hash, enum connection_list list, uint64_t now_ns);

/// Moves a connection to the end of a list, from the list that it is in.
void connection_table_move_to(struct connection_table *table, uint32_t slot,
                              enum connection_list list, uint64_t now_ns);

/// Removes a connection from the table.
void connection_table_remove(struct connection_table *table, uint32_t slot);

/// Records that the connection or QUIC connection id with this hash was forgotten. Its server may
/// still have the client's bytes.
void connection_table_bury(struct connection_table *table, uint64_t hash, uint64_t now_ns);

/// Stores the age in seconds of the record at an index of `graves` (forgotten connections) in *age.
/// Returns false if there is no record, or it has expired.
/// - age: out: the age; unspecified on false.
bool connection_table_grave_age(const struct connection_table *table, uint32_t place,
                                uint64_t now_ns, uint32_t *age);

/// Adds another table's record of a forgotten connection. The tables have the same hash key, but
/// their sizes may differ: the record is stored at each index that the connection may have in this
/// table. Returns false if the record is invalid.
/// - mask: mask of the other table.
/// - place: index of the record in the other table.
/// - age: as returned by connection_table_grave_age.
bool connection_table_bury_told(struct connection_table *table, uint32_t mask, uint32_t place,
                                uint32_t tag, uint32_t age, uint64_t now_ns);

/// Returns true if the connection or QUIC connection id with this hash may have been forgotten
/// recently.
bool connection_table_is_buried(const struct connection_table *table, uint64_t hash,
                                uint64_t now_ns);

#endif
