// SPDX-License-Identifier: GPL-2.0-or-later
//! A program that needs the TLB: it touches memory at random, beside a reader of packets.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Barrier;
use std::time::{Duration, Instant};

use anyhow::Result;
use nix::time::{clock_gettime, ClockId};

use super::bind_server;

/// What a neighbour touches: far more than a TLB reaches in small pages.
const BYTES: usize = 64 << 20;
/// Touches between two looks at the clock.
const TOUCHES: u64 = 4096;
/// How long the neighbour is alone, before.
const ALONE: Duration = Duration::from_millis(500);

/// CPU time of a touch, in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub struct Touches {
    pub alone_ns: f64,
    pub beside_ns: f64,
}

/// Touches memory at random until it is told to stop; gives the CPU time of a touch, in nanoseconds.
fn touch(memory: &mut [u64], over: &dyn Fn() -> bool) -> Result<f64> {
    let clock = || clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map(Duration::from);
    let mask = memory.len() - 1;
    let (before, mut touches, mut at) = (clock()?, 0, 1_usize);
    while !over() {
        for _ in 0..TOUCHES {
            // Each place depends on what the one before held.
            at = at.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            let word = &mut memory[(at >> 20) & mask];
            *word += 1;
            at ^= *word as usize;
        }
        touches += TOUCHES;
    }
    Ok((clock()? - before).as_nanos() as f64 / touches as f64)
}

/// Touches memory on the server's CPU: first alone, until both wait at the barrier, and then until `ended`.
pub fn neighbour(ended: &AtomicBool, alone: &Barrier) -> Result<Touches> {
    let bound = bind_server();
    let mut memory = vec![1_u64; BYTES / size_of::<u64>()];
    let begun = Instant::now();
    let quiet = touch(&mut memory, &|| begun.elapsed() >= ALONE);
    alone.wait();
    let beside_ns = touch(&mut memory, &|| ended.load(Ordering::Relaxed))?;
    bound?;
    Ok(Touches {
        alone_ns: quiet?,
        beside_ns,
    })
}
