// SPDX-License-Identifier: GPL-2.0-or-later
//! Bytes of a client, assembled from pieces in any order. Different bytes for the same position are reported, because
//! the server may have accepted the bytes that are not stored.
#![deny(clippy::indexing_slicing)]

use crate::connection::pool;
use crate::connection::types::{
    Pool, Stream, StreamSpan, BLOCKS_MAX, BLOCK_BYTES, BLOCK_NONE, SPANS_MAX,
};
use crate::names::hello;

/// Maximum number of stored bytes of a client's stream.
pub const BYTES_MAX: u32 = hello::BYTES_MAX as u32;

/// Result of storing a piece of a client's stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamPut {
    Kept,
    /// Different bytes are already stored for a part of the piece.
    Conflict,
    /// The stream would have more than SPANS_MAX pieces with gaps between them.
    Gaps,
    /// The pool has no free block; the caller may free memory and try again.
    Pool,
    /// The server has acknowledged bytes of the piece from the stream's first gap on.
    Late,
}

/// A part of a stream within one block.
struct Chunk {
    block: usize,
    /// Offset of the chunk in its block.
    start: usize,
    bytes: usize,
}

/// Makes an empty stream.
/// - base: sequence number of offset 0.
pub fn make(base: u32) -> Stream {
    Stream {
        base,
        ..Stream::default()
    }
}

/// Returns the part of a stream that begins at `offset`, and ends at `limit` or at the end of the offset's block,
/// whichever comes first.
fn chunk_at(offset: u32, limit: u32) -> Chunk {
    let start = offset as usize % BLOCK_BYTES;
    Chunk {
        block: offset as usize / BLOCK_BYTES,
        start,
        bytes: (limit.saturating_sub(offset) as usize).min(BLOCK_BYTES - start),
    }
}

/// Returns the memory of a chunk; empty if its block is not allocated.
fn chunk_memory<'a>(stream: &Stream, pool: &'a mut Pool, chunk: &Chunk) -> &'a mut [u8] {
    let block = stream.blocks.get(chunk.block).copied();
    let memory = pool::block(pool, block.unwrap_or(BLOCK_NONE));
    let memory = memory.get_mut(chunk.start..chunk.start + chunk.bytes);
    memory.unwrap_or_default()
}

/// Returns true if `bytes` differ from the stored bytes at `offset`.
fn differs_at(stream: &Stream, pool: &mut Pool, mut offset: u32, mut bytes: &[u8]) -> bool {
    while !bytes.is_empty() {
        let chunk = chunk_at(offset, offset + bytes.len() as u32);
        let (head, rest) = bytes.split_at_checked(chunk.bytes).unwrap_or_default();
        if chunk_memory(stream, pool, &chunk) != head {
            return true;
        }
        offset += chunk.bytes as u32;
        bytes = rest;
    }
    false
}

/// Returns true if any part of a piece differs from the bytes that are stored for its position.
fn differs(stream: &Stream, pool: &mut Pool, offset: u32, bytes: &[u8]) -> bool {
    let end = offset + bytes.len() as u32;
    for span in stream.spans.iter().take(stream.span_count.into()) {
        let low = offset.max(span.start.into());
        let high = end.min(span.end.into());
        if low >= high {
            continue;
        }
        let part = bytes.get((low - offset) as usize..(high - offset) as usize);
        if differs_at(stream, pool, low, part.unwrap_or_default()) {
            return true;
        }
    }
    false
}

/// Writes a piece to its blocks, and allocates missing blocks. Returns false if the pool has no free block.
fn store(stream: &mut Stream, pool: &mut Pool, mut offset: u32, mut bytes: &[u8]) -> bool {
    while !bytes.is_empty() {
        let chunk = chunk_at(offset, offset + bytes.len() as u32);
        let (head, rest) = bytes.split_at_checked(chunk.bytes).unwrap_or_default();
        if let Some(block) = stream.blocks.get_mut(chunk.block) {
            if *block == BLOCK_NONE {
                *block = pool::allocate(pool);
            }
            if *block == BLOCK_NONE {
                return false;
            }
        }
        let memory = chunk_memory(stream, pool, &chunk);
        if memory.len() == head.len() {
            memory.copy_from_slice(head);
        }
        offset += chunk.bytes as u32;
        bytes = rest;
    }
    true
}

/// Appends a piece's offsets to `spans`, if there is room.
fn append_span(spans: &mut [StreamSpan; SPANS_MAX + 1], count: &mut usize, span: StreamSpan) {
    if let Some(place) = spans.get_mut(*count) {
        *place = span;
        *count += 1;
    }
}

/// Records a stored piece, and joins adjacent pieces. Returns false if there are too many pieces.
fn add_span(stream: &mut Stream, start: u32, limit: u32) -> bool {
    let mut joined = StreamSpan {
        start: start as u16,
        end: limit as u16,
    };
    let mut spans = [StreamSpan::default(); SPANS_MAX + 1];
    let mut count = 0;
    let mut is_in = false;
    for span in stream.spans.iter().take(stream.span_count.into()) {
        if span.end >= joined.start && span.start <= joined.end {
            joined.start = joined.start.min(span.start);
            joined.end = joined.end.max(span.end);
            continue;
        }
        if span.start > joined.end && !is_in {
            append_span(&mut spans, &mut count, joined);
            is_in = true;
        }
        append_span(&mut spans, &mut count, *span);
    }
    if !is_in {
        append_span(&mut spans, &mut count, joined);
    }
    if count > SPANS_MAX {
        return false;
    }
    for (span, new) in stream.spans.iter_mut().zip(spans) {
        *span = new;
    }
    stream.span_count = count as u8;
    true
}

/// Returns true if the server has acknowledged bytes of a piece from the stream's first gap on. Other bytes than the
/// piece's may have passed there unseen.
fn is_late(stream: &Stream, offset: u32, length: u32) -> bool {
    offset < stream.acked && offset.max(prefix(stream)) < stream.acked.min(offset + length)
}

/// Stores a piece of a stream at an offset. Bytes from offset BYTES_MAX on are ignored.
pub fn insert(stream: &mut Stream, pool: &mut Pool, offset: u32, bytes: &[u8]) -> StreamPut {
    let room = BYTES_MAX.saturating_sub(offset) as usize;
    let bytes = bytes.get(..room).unwrap_or(bytes);
    if bytes.is_empty() {
        return StreamPut::Kept;
    }
    if is_late(stream, offset, bytes.len() as u32) {
        return StreamPut::Late;
    }
    if differs(stream, pool, offset, bytes) {
        return StreamPut::Conflict;
    }
    if !store(stream, pool, offset, bytes) {
        return StreamPut::Pool;
    }
    match add_span(stream, offset, offset + bytes.len() as u32) {
        true => StreamPut::Kept,
        false => StreamPut::Gaps,
    }
}

/// Returns the number of bytes before the first gap.
pub fn prefix(stream: &Stream) -> u32 {
    match stream.spans.first() {
        Some(span) if stream.span_count > 0 && span.start == 0 => span.end.into(),
        _ => 0,
    }
}

/// Returns true if bytes are stored after those that the names were read from.
pub fn has_more(stream: &Stream) -> bool {
    let mut spans = stream.spans.iter().take(stream.span_count.into());
    spans.any(|span| u32::from(span.end) > stream.decided)
}

/// Copies the stored bytes between two offsets to `out`.
pub fn gather(stream: &Stream, pool: &mut Pool, offset: u32, limit: u32, out: &mut [u8]) {
    let mut at = offset;
    while at < limit {
        let chunk = chunk_at(at, limit);
        let from = (at - offset) as usize;
        let memory = chunk_memory(stream, pool, &chunk);
        if let Some(place) = out.get_mut(from..from + memory.len()) {
            place.copy_from_slice(memory);
        }
        at += chunk.bytes as u32;
    }
}

/// Frees the blocks of a stream, and records that its bytes were freed.
pub fn release(stream: &mut Stream, pool: &mut Pool) {
    for index in 0..BLOCKS_MAX {
        let block = stream.blocks.get_mut(index);
        let Some(block) = block.filter(|block| **block != BLOCK_NONE) else {
            continue;
        };
        pool::give(pool, *block);
        *block = BLOCK_NONE;
    }
    stream.span_count = 0;
    stream.let_go = true;
}
