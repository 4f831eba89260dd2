// SPDX-License-Identifier: GPL-2.0-or-later
// The first bytes of a client, put together from pieces in any order. Two pieces that claim
// different bytes for one place are told: one of the ends may have taken the other one.
#ifndef CONNECTION_STREAM_H
#define CONNECTION_STREAM_H

#include <stdbool.h>
#include <stdint.h>

#include "connection/types.h"

enum {
    STREAM_BYTES_MAX = NAMES_HELLO_BYTES_MAX, // that are kept of a stream
};

/// Result of storing a piece.
enum stream_put {
    STREAM_KEPT,
    STREAM_CONFLICT, // other bytes are kept of its place
    STREAM_GAPS,     // there are more than CONNECTION_SPANS_MAX pieces now
    STREAM_POOL,     // the pool is empty; it can be tried again
};

/// Makes a stream of which nothing is kept.
struct stream stream_make(uint32_t base);

/// Stores a piece. Bytes beyond STREAM_BYTES_MAX are dropped.
enum stream_put stream_put(struct stream *stream, struct connection_pool *pool, uint32_t offset,
                           const uint8_t *bytes, uint32_t length);

/// Bytes from the first one on that are there without a gap.
uint32_t stream_prefix(const struct stream *stream);

/// Whether anything is kept beyond what was decided on.
bool stream_has_more(const struct stream *stream);

/// Joins the stored bytes between two offsets into one piece.
void stream_gather(const struct stream *stream, struct connection_pool *pool, uint32_t offset,
                   uint32_t limit, uint8_t out[static STREAM_BYTES_MAX]);

/// Frees the blocks of a stream.
void stream_release(struct stream *stream, struct connection_pool *pool);

#endif
