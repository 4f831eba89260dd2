// SPDX-License-Identifier: GPL-2.0-or-later
// What a worker knows of the connections of its queue, for the worker that takes the queue over.
//
// Form, in little-endian numbers: the form's own (32 bits); the connections, as handover/record has
// them, by lists, in each list from the oldest on; of each connection that was forgotten
// lately place, tag and age in seconds (32 each); the key of the hash that these go by (16 bytes),
// and the highest place there is; how many connections there are, how many were left out for want
// of room, and how many were forgotten (32 each). What a policy made of connections is not told:
// the new one decides on each anew, as after a reload.
#ifndef HANDOVER_CONNECTIONS_H
#define HANDOVER_CONNECTIONS_H

#include <stddef.h>
#include <stdint.h>

#include "connection/types.h"
#include "handover/memory.h"

// Bytes of the connections' data, of all queues: as many as can be taken over while
// packets wait.
#define HANDOVER_CONNECTIONS_BYTES_MAX (UINT64_C(128) << 20)

/// How many connections were handed over.
struct handover_connections_taken {
    uint64_t taken;
    uint64_t left_out; // there was no room for them, here or in the memory
};

/// Writes all connections of a worker that has stopped.
/// - room: bytes that connections may take.
/// - Returns 0 or -errno.
int handover_connections_write(struct handover_memory *memory, struct connections *connections,
                               uint64_t room, uint64_t now_ns);

/// Reads connections into a table that has none. What does not fit makes room as it would when
/// packets came.
/// - followed: how many were.
/// - Returns NULL, or the name of the part that is not as it should be; then the table has none.
const char *handover_connections_parse(const uint8_t *bytes, size_t length,
                                       struct connections *connections, uint64_t now_ns,
                                       struct handover_connections_taken *followed);

#endif
