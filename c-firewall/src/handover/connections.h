// SPDX-License-Identifier: GPL-2.0-or-later
// Transfer of a worker's connections to the worker that takes its queue over.
//
// Format, in little-endian numbers: version of the format (32 bits); the connections
// (handover/record), list by list, oldest first in each list; records of recently forgotten
// connections, each with place (index in the table's `graves`), tag and age in seconds (32 each);
// the key of the hash from which place and tag are taken (16 bytes), and the highest place; the
// numbers of connections, of connections left out because there was no room, and of records of
// forgotten connections (32 each). A policy's verdicts on connections are not transferred: the new
// policy decides each connection anew, as after a reload.
#ifndef HANDOVER_CONNECTIONS_H
#define HANDOVER_CONNECTIONS_H

#include <stddef.h>
#include <stdint.h>

#include "connection/types.h"
#include "handover/memory.h"

// Maximum size of the connections of all queues, in bytes: it bounds the transfer's duration, while
// packets wait.
#define HANDOVER_CONNECTIONS_BYTES_MAX (UINT64_C(128) << 20)

/// Numbers of connections that were transferred, and that were left out.
struct handover_connections_taken {
    uint64_t taken;
    // Number of connections that were left out because the transfer's memory, the new table or its
    // memory for streams had no room.
    uint64_t left_out;
};

/// Writes the connections of a stopped worker, as far as there is room, and the records of
/// forgotten connections.
/// - room: number of bytes that may be written. The records of forgotten connections are written
///   even if they take more.
/// - Returns 0 or -errno.
int handover_connections_write(struct handover_memory *memory, struct connections *connections,
                               uint64_t room, uint64_t now_ns);

/// Parses connections into an empty table. If there is no room, connections are evicted as for new
/// packets.
/// - followed: out: numbers of connections that were transferred, and that were left out.
/// - Returns NULL, or the name of the invalid part; then the table is empty.
const char *handover_connections_parse(const uint8_t *bytes, size_t length,
                                       struct connections *connections, uint64_t now_ns,
                                       struct handover_connections_taken *followed);

#endif
