// SPDX-License-Identifier: GPL-2.0-or-later
#include "connection/stream.h"

#include <string.h>

#include "connection/pool.h"

static uint32_t min(uint32_t a, uint32_t b) { return a < b ? a : b; }

static uint32_t max(uint32_t a, uint32_t b) { return a > b ? a : b; }

/// A part of a stream within one block.
struct chunk {
    uint32_t block;
    uint32_t start; // offset of the chunk in its block
    uint32_t bytes;
};

struct stream stream_make(uint32_t base) {
    struct stream stream = {.base = base};

    for (uint32_t i = 0; i < CONNECTION_BLOCKS_MAX; i++)
        stream.blocks[i] = CONNECTION_BLOCK_NONE;
    return stream;
}

/// Returns the part of a stream that begins at `offset`, and ends at `limit` or at the end of the
/// offset's block, whichever comes first.
static struct chunk chunk_at(uint32_t offset, uint32_t limit) {
    const uint32_t start = offset % CONNECTION_BLOCK_BYTES;

    return (struct chunk){
        .block = offset / CONNECTION_BLOCK_BYTES,
        .start = start,
        .bytes = min(limit - offset, CONNECTION_BLOCK_BYTES - start),
    };
}

/// Returns the memory of a chunk, whose block must be allocated.
static uint8_t *chunk_memory(const struct stream *stream, struct connection_pool *pool,
                             const struct chunk *chunk) {
    return connection_pool_block(pool, stream->blocks[chunk->block]) + chunk->start;
}

/// Returns true if `bytes` differ from the stored bytes at `offset`.
static bool differs_at(const struct stream *stream, struct connection_pool *pool, uint32_t offset,
                       const uint8_t *bytes, uint32_t length) {
    for (uint32_t done = 0; done < length;) {
        const struct chunk chunk = chunk_at(offset + done, offset + length);

        if (memcmp(chunk_memory(stream, pool, &chunk), bytes + done, chunk.bytes) != 0)
            return true;
        done += chunk.bytes;
    }
    return false;
}

/// Returns true if any part of a piece differs from the bytes that are stored for its position.
static bool differs(const struct stream *stream, struct connection_pool *pool, uint32_t offset,
                    const uint8_t *bytes, uint32_t length) {
    for (uint32_t i = 0; i < stream->span_count; i++) {
        const uint32_t low = max(offset, stream->spans[i].start);
        const uint32_t high = min(offset + length, stream->spans[i].end);

        if (low < high && differs_at(stream, pool, low, bytes + (low - offset), high - low))
            return true;
    }
    return false;
}

/// Writes a piece to its blocks, and allocates missing blocks. Returns false if the pool has no
/// free block.
static bool store(struct stream *stream, struct connection_pool *pool, uint32_t offset,
                  const uint8_t *bytes, uint32_t length) {
    for (uint32_t done = 0; done < length;) {
        const struct chunk chunk = chunk_at(offset + done, offset + length);
        uint32_t *block = &stream->blocks[chunk.block];

        if (*block == CONNECTION_BLOCK_NONE)
            *block = connection_pool_allocate(pool);
        if (*block == CONNECTION_BLOCK_NONE)
            return false;
        memcpy(chunk_memory(stream, pool, &chunk), bytes + done, chunk.bytes);
        done += chunk.bytes;
    }
    return true;
}

/// Appends a piece's offsets to `spans`, which has room for them.
static void append_span(struct stream_span spans[static CONNECTION_SPANS_MAX + 1], uint32_t *count,
                        struct stream_span span) {
    spans[(*count)++] = span;
}

/// Records a stored piece, and joins adjacent pieces. Returns false if there are too many pieces.
static bool add_span(struct stream *stream, uint32_t start, uint32_t limit) {
    struct stream_span joined = {(uint16_t)start, (uint16_t)limit};
    struct stream_span spans[CONNECTION_SPANS_MAX + 1];
    uint32_t count = 0;
    bool is_in = false;

    for (uint32_t i = 0; i < stream->span_count; i++) {
        const struct stream_span span = stream->spans[i];

        if (span.end >= joined.start && span.start <= joined.end) {
            joined.start = (uint16_t)min(joined.start, span.start);
            joined.end = (uint16_t)max(joined.end, span.end);
            continue;
        }
        if (span.start > joined.end && !is_in) {
            append_span(spans, &count, joined);
            is_in = true;
        }
        append_span(spans, &count, span);
    }
    if (!is_in)
        append_span(spans, &count, joined);
    if (count > CONNECTION_SPANS_MAX)
        return false;
    memcpy(stream->spans, spans, count * sizeof *spans);
    stream->span_count = (uint8_t)count;
    return true;
}

/// Returns true if the server has acknowledged bytes of a piece from the stream's first gap on.
/// Other bytes than the piece's may have passed there unseen.
static bool is_late(const struct stream *stream, uint32_t offset, uint32_t length) {
    return offset < stream->acked &&
           max(offset, stream_prefix(stream)) < min(stream->acked, offset + length);
}

enum stream_put stream_insert(struct stream *stream, struct connection_pool *pool, uint32_t offset,
                              const uint8_t *bytes, uint32_t length) {
    const uint32_t kept = offset < STREAM_BYTES_MAX ? min(length, STREAM_BYTES_MAX - offset) : 0;

    if (kept == 0)
        return STREAM_KEPT;
    if (is_late(stream, offset, kept))
        return STREAM_LATE;
    if (differs(stream, pool, offset, bytes, kept))
        return STREAM_CONFLICT;
    if (!store(stream, pool, offset, bytes, kept))
        return STREAM_POOL;
    return add_span(stream, offset, offset + kept) ? STREAM_KEPT : STREAM_GAPS;
}

uint32_t stream_prefix(const struct stream *stream) {
    return stream->span_count > 0 && stream->spans[0].start == 0 ? stream->spans[0].end : 0;
}

bool stream_has_more(const struct stream *stream) {
    for (uint32_t i = 0; i < stream->span_count; i++) {
        if (stream->spans[i].end > stream->decided)
            return true;
    }
    return false;
}

void stream_gather(const struct stream *stream, struct connection_pool *pool, uint32_t offset,
                   uint32_t limit, uint8_t out[static STREAM_BYTES_MAX]) {
    for (uint32_t at = offset; at < limit;) {
        const struct chunk chunk = chunk_at(at, limit);

        memcpy(out + (at - offset), chunk_memory(stream, pool, &chunk), chunk.bytes);
        at += chunk.bytes;
    }
}

void stream_release(struct stream *stream, struct connection_pool *pool) {
    for (uint32_t i = 0; i < CONNECTION_BLOCKS_MAX; i++) {
        if (stream->blocks[i] == CONNECTION_BLOCK_NONE)
            continue;
        connection_pool_give(pool, stream->blocks[i]);
        stream->blocks[i] = CONNECTION_BLOCK_NONE;
    }
    stream->span_count = 0;
    stream->let_go = true;
}
