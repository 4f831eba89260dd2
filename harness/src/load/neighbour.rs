// SPDX-License-Identifier: GPL-2.0-or-later
//! A thread whose speed depends on the TLB: it accesses memory at random, next to a packet reader on the same CPU.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Barrier;
use std::time::{Duration, Instant};

use anyhow::Result;
use nix::time::{clock_gettime, ClockId};

use super::bind_server;

/// Bytes that a neighbour accesses: far more than a TLB covers with small pages.
const BYTES: usize = 64 << 20;
/// Number of accesses between two calls of `over`.
const TOUCHES: u64 = 4096;
/// Time that the neighbour runs alone first.
const ALONE: Duration = Duration::from_millis(500);

/// CPU time of one memory access in nanoseconds, of a neighbour that runs alone or beside a packet reader.
#[derive(Clone, Copy, Debug)]
pub struct Touches {
    pub alone_ns: f64,
    pub beside_ns: f64,
}

/// Accesses memory at random until `over` returns true; returns the CPU time of one access in nanoseconds.
fn touch(memory: &mut [u64], over: &dyn Fn() -> bool) -> Result<f64> {
    let clock = || clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map(Duration::from);
    let mask = memory.len() - 1;
    let (before, mut touches, mut at) = (clock()?, 0, 1_usize);
    while !over() {
        for _ in 0..TOUCHES {
            // Each address depends on the value read before.
            at = at.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            let word = &mut memory[(at >> 20) & mask];
            *word += 1;
            at ^= *word as usize;
        }
        touches += TOUCHES;
    }
    Ok((clock()? - before).as_nanos() as f64 / touches as f64)
}

/// Accesses memory on the server's CPU: for ALONE before it waits at the barrier, then until `ended` is set. Returns
/// the CPU time of an access in each part.
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
