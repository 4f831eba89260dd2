// SPDX-License-Identifier: GPL-2.0-or-later
// Bytes of a client, assembled from pieces in any order. Different bytes for the same position are
// reported, because the server may have accepted the bytes that are not stored.
#ifndef CONNECTION_STREAM_H
#define CONNECTION_STREAM_H

#include <stdbool.h>
#include <stdint.h>

#include "connection/types.h"

enum {
    STREAM_BYTES_MAX = NAMES_HELLO_BYTES_MAX, // maximum number of stored bytes of a client's stream
};

/// Result of storing a piece of a client's stream.
enum stream_put {
    STREAM_KEPT,
    STREAM_CONFLICT, // different bytes are already stored for a part of the piece
    // The stream would have more than CONNECTION_SPANS_MAX pieces with gaps between them.
    STREAM_GAPS,
    STREAM_POOL, // the pool has no free block; the caller may free memory and try again
    STREAM_LATE, // the server has acknowledged bytes of the piece from the stream's first gap on
};

/// Makes an empty stream.
/// - base: sequence number of offset 0.
struct stream stream_make(uint32_t base);

/// Stores a piece of a stream at an offset. Bytes from offset STREAM_BYTES_MAX on are ignored.
enum stream_put stream_insert(struct stream *stream, struct connection_pool *pool, uint32_t offset,
                              const uint8_t *bytes, uint32_t length);

/// Returns the number of bytes before the first gap.
uint32_t stream_prefix(const struct stream *stream);

/// Returns true if bytes are stored after those that the names were read from.
bool stream_has_more(const struct stream *stream);

/// Copies the stored bytes between two offsets to `out`.
void stream_gather(const struct stream *stream, struct connection_pool *pool, uint32_t offset,
                   uint32_t limit, uint8_t out[static STREAM_BYTES_MAX]);

/// Frees the blocks of a stream, and records that its bytes were freed.
void stream_release(struct stream *stream, struct connection_pool *pool);

#endif
