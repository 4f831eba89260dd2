// SPDX-License-Identifier: GPL-2.0-or-later
//! Memory for clients' bytes, in blocks of one size. It is allocated once; unused blocks are never touched.
#![deny(clippy::indexing_slicing)]

use crate::connection::types::{Pool, BLOCK_BYTES, BLOCK_NONE};

/// Makes a pool of `bytes` bytes, rounded down to whole blocks.
pub fn make(bytes: u64) -> Pool {
    let blocks = (bytes / BLOCK_BYTES as u64).min(u64::from(BLOCK_NONE)) as usize;
    Pool {
        bytes: vec![0; blocks * BLOCK_BYTES],
        links: vec![0; blocks],
        used: 0,
        free: BLOCK_NONE,
    }
}

/// Allocates a block from the pool. Returns its index, or BLOCK_NONE if no block is free. Its content is arbitrary.
pub fn allocate(pool: &mut Pool) -> u32 {
    let block = pool.free;
    if block != BLOCK_NONE {
        pool.free = pool
            .links
            .get(block as usize)
            .copied()
            .unwrap_or(BLOCK_NONE);
        return block;
    }
    if pool.used as usize >= pool.links.len() {
        return BLOCK_NONE;
    }
    pool.used += 1;
    pool.used - 1
}

/// Frees a block, so that the pool can allocate it again.
pub fn give(pool: &mut Pool, block: u32) {
    if let Some(link) = pool.links.get_mut(block as usize) {
        *link = pool.free;
        pool.free = block;
    }
}

/// Returns the bytes of a block.
pub fn block(pool: &mut Pool, block: u32) -> &mut [u8] {
    let start = block as usize * BLOCK_BYTES;
    let bytes = pool.bytes.get_mut(start..start + BLOCK_BYTES);
    bytes.unwrap_or_default()
}
