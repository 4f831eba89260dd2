// SPDX-License-Identifier: GPL-2.0-or-later
// Finds QUIC connections by the connection id from which the keys of their clients' Initial packets
// are derived.
//
// Theory of operation: a server identifies a client by this id, not by address and port (RFC 9000,
// section 5.2). So Initial packets with the same id from two addresses belong to one handshake, and
// each address shows only a part of it. An id is found by a hash, like a connection by its ends. An
// id that was given up is recorded for as long as a forgotten connection.
#ifndef CONNECTION_IDS_H
#define CONNECTION_IDS_H

#include <stdbool.h>
#include <stdint.h>

#include "connection/types.h"

/// Returns the slot of the connection with a QUIC connection id, or CONNECTION_SLOT_NONE.
uint32_t connection_ids_find(const struct connection_table *table, const uint8_t *id,
                             uint8_t bytes);

/// Returns true if a QUIC connection id belongs to other connections but not to that in `slot`, or
/// if it belongs to no connection, and was given up or forgotten recently.
bool connection_ids_is_taken(const struct connection_table *table, const uint8_t *id, uint8_t bytes,
                             uint32_t slot, uint64_t now_ns);

/// Assigns a QUIC connection id to a connection, and links the connection in the bucket of the id.
/// The connection must not have an id (see connection_ids_remove).
/// - id: at most NAMES_QUIC_CONNECTION_BYTES_MAX bytes.
void connection_ids_add(struct connection_table *table, uint32_t slot, const uint8_t *id,
                        uint8_t bytes);

/// Unlinks a connection's QUIC connection id from its bucket, if the connection has one. The bytes
/// of the id remain stored.
void connection_ids_remove(struct connection_table *table, uint32_t slot);

/// Calculates the hash of a connection's QUIC connection id. Returns false if the connection has no
/// id.
/// - hash: out: the hash; untouched on false.
bool connection_ids_hash(struct connection_table *table, uint32_t slot, uint64_t *hash);

/// Records the QUIC connection id of a connection as recently given up, if the connection has one:
/// its server may still use the id.
void connection_ids_bury(struct connection_table *table, uint32_t slot, uint64_t now_ns);

#endif
