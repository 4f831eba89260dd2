// SPDX-License-Identifier: GPL-2.0-or-later
//! Compares streams of random pieces with a plain array.

use crate::support::engine::Random;
use rust_firewall::connection::stream::{self, StreamPut, BYTES_MAX};
use rust_firewall::connection::{pool, BLOCK_BYTES, SPANS_MAX};

const ROUNDS: u32 = 90;
const PIECES: u32 = 60;

/// Returns the byte of the test data at an offset.
fn byte_at(place: u32) -> u8 {
    (place.wrapping_mul(2_654_435_761) >> 24) as u8
}

/// Returns the number of runs of stored bytes. A run has no gap.
/// - there: true for each offset whose byte is stored.
fn runs(there: &[bool]) -> usize {
    let begins = |at: &usize| there[*at] && (*at == 0 || !there[*at - 1]);
    (0..there.len()).filter(begins).count()
}

/// Stores up to PIECES random pieces of a stream, until a piece is refused or has a wrong byte. Checks each result.
/// Returns true if the bytes of a piece conflicted with stored bytes.
/// - reach: limit of the pieces' offsets.
fn play(random: &mut Random, pool: &mut rust_firewall::connection::Pool, reach: u32) -> bool {
    let mut stream = stream::make(0);
    let mut there = vec![false; BYTES_MAX as usize];
    let mut is_over = false;
    for _ in 0..PIECES {
        let start = random.below(reach);
        let length = (1 + random.below(reach / 4)).min(BYTES_MAX - start);
        let mut bytes: Vec<u8> = (start..start + length).map(byte_at).collect();
        let spoiled = random.below(length);
        let is_other = random.below(40) == 0;
        if is_other {
            bytes[spoiled as usize] ^= 1;
        }
        let is_known = there[(start + spoiled) as usize];
        let put = stream::insert(&mut stream, pool, start, &bytes);
        assert_eq!(put == StreamPut::Conflict, is_other && is_known);
        if put == StreamPut::Conflict || is_other {
            is_over = put == StreamPut::Conflict;
            break;
        }
        there[start as usize..(start + length) as usize].fill(true);
        assert_eq!(put == StreamPut::Gaps, runs(&there) > SPANS_MAX);
        if put != StreamPut::Kept {
            break;
        }
        let prefix = there.iter().position(|there| !there).unwrap_or(there.len());
        assert_eq!(stream::prefix(&stream) as usize, prefix);
        let mut out = vec![0; BYTES_MAX as usize];
        stream::gather(&stream, pool, 0, prefix as u32, &mut out);
        assert!((0..prefix as u32).all(|at| out[at as usize] == byte_at(at)));
    }
    stream::release(&mut stream, pool);
    is_over
}

#[test]
fn pieces_in_any_order_are_put_together() {
    let mut random = Random(7);
    let mut pool = pool::make(16 * BLOCK_BYTES as u64);
    let mut conflicts = 0;
    for round in 0..ROUNDS {
        let reach = [40, 3000, BYTES_MAX][round as usize % 3];
        conflicts += u32::from(play(&mut random, &mut pool, reach));
    }
    assert!(conflicts > ROUNDS / 20, "only {conflicts} conflicts");
}

#[test]
fn an_empty_pool_is_told_and_blocks_come_back() {
    let mut pool = pool::make(2 * BLOCK_BYTES as u64);
    let mut stream = stream::make(0);
    let bytes = vec![7; 3 * BLOCK_BYTES];
    assert_eq!(
        stream::insert(&mut stream, &mut pool, 0, &bytes),
        StreamPut::Pool
    );
    stream::release(&mut stream, &mut pool);
    let mut stream = stream::make(0);
    assert_eq!(
        stream::insert(&mut stream, &mut pool, 0, &bytes[..2048]),
        StreamPut::Kept
    );
    assert_eq!(stream::prefix(&stream), 2048);
}
