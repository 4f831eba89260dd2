// SPDX-License-Identifier: GPL-2.0-or-later
// Connections of QUIC by the connection id that their clients' Initial packets are opened with.
//
// Theory of operation: a server knows a client by this id, whatever address and port the client
// sends from (RFC 9000, section 5.2). So Initial packets with one id from two places are one
// handshake, of which neither place shows us all. An id is found by a hash, as a connection is by
// its ends; one that was given up is remembered as long as they are.
#ifndef CONNECTION_IDS_H
#define CONNECTION_IDS_H

#include <stdbool.h>
#include <stdint.h>

#include "connection/types.h"

/// The connection of an id, or CONNECTION_SLOT_NONE.
uint32_t connection_ids_find(const struct connection_table *table, const uint8_t *id,
                             uint8_t bytes);

/// Whether an id is that of another connection than one, or of one that was given up lately.
bool connection_ids_is_taken(const struct connection_table *table, const uint8_t *id, uint8_t bytes,
                             uint32_t slot, uint64_t now_ns);

/// Assigns a connection without an id one, of at most NAMES_QUIC_CONNECTION_BYTES_MAX bytes.
void connection_ids_add(struct connection_table *table, uint32_t slot, const uint8_t *id,
                        uint8_t bytes);

/// Unlinks a connection's id, if it has one. Its bytes remain.
void connection_ids_remove(struct connection_table *table, uint32_t slot);

/// Notes that a connection gives up its id, if it has one, though its server may remember it.
void connection_ids_bury(struct connection_table *table, uint32_t slot, uint64_t now_ns);

#endif
