// SPDX-License-Identifier: GPL-2.0-or-later
// First bytes of a client, assembled from pieces in any order. Different bytes for the same
// position are reported: the server may have accepted the other ones.
#ifndef CONNECTION_STREAM_H
#define CONNECTION_STREAM_H

#include <stdbool.h>
#include <stdint.h>

#include "connection/types.h"

enum {
    STREAM_BYTES_MAX = NAMES_HELLO_BYTES_MAX, // maximum number of bytes of a stream
};

/// Result of storing a piece.
enum stream_put {
    STREAM_KEPT,
    STREAM_CONFLICT, // different bytes are stored for its position
    STREAM_GAPS,     // it would need more than CONNECTION_SPANS_MAX pieces
    STREAM_POOL,     // the pool is empty; the caller may try again
};

/// Makes an empty stream.
struct stream stream_make(uint32_t base);

/// Stores a piece. Bytes beyond STREAM_BYTES_MAX are dropped.
enum stream_put stream_put(struct stream *stream, struct connection_pool *pool, uint32_t offset,
                           const uint8_t *bytes, uint32_t length);

/// Returns the number of bytes before the first gap.
uint32_t stream_prefix(const struct stream *stream);

/// Returns true if bytes are stored after those that the names were read from.
bool stream_has_more(const struct stream *stream);

/// Joins the stored bytes between two offsets into one piece.
void stream_gather(const struct stream *stream, struct connection_pool *pool, uint32_t offset,
                   uint32_t limit, uint8_t out[static STREAM_BYTES_MAX]);

/// Frees the blocks of a stream.
void stream_release(struct stream *stream, struct connection_pool *pool);

#endif
