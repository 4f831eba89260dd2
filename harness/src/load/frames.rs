// SPDX-License-Identifier: GPL-2.0-or-later
//! Load of a published experiment (capture-lab/README.md): Ethernet frames of random sizes, addresses and ports. They
//! bypass the interface's queueing discipline, at a fixed rate or as fast as one sender can send.

use std::io;
use std::ops::RangeInclusive;
use std::time::{Duration, Instant};

use anyhow::{bail, Context, Result};
use clap::Args;

use super::mmsg::{packet_socket, Batch};

/// Frames per system call.
const BATCH: usize = 32;
/// Batches that are prepared before the first is sent; they are then sent in turn, again and again.
const BATCHES: usize = 32;
/// Header bytes of Ethernet, IPv4 and UDP.
const HEADER_BYTES: usize = 14 + 20 + 8;
/// Lag above which a sender does not catch up: catching up would be a burst.
const BEHIND_MOST: Duration = Duration::from_millis(10);

/// Arguments of `harness load frames`, which sends Ethernet frames.
#[derive(Args, Clone, Debug)]
pub struct FramesArguments {
    /// Outgoing interface of frames
    #[arg(long, value_name = "NAME")]
    pub interface: String,
    /// Frames a second; 0: as fast as it goes
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub rate: u32,
    /// Bytes of a frame
    #[arg(long, value_name = "LEAST-MOST", default_value = "700-1500", value_parser = sizes)]
    pub sizes: RangeInclusive<usize>,
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub seconds: u32,
}

/// Number of frames that the kernel accepted, and the duration of sending.
#[derive(Clone, Copy, Debug)]
pub struct Sent {
    pub frames: u64,
    pub seconds: f64,
}

fn sizes(text: &str) -> std::result::Result<RangeInclusive<usize>, String> {
    let read = || {
        let (least, most) = text.split_once('-')?;
        let (least, most) = (least.parse().ok()?, most.parse().ok()?);
        (HEADER_BYTES <= least && least <= most && most <= 1514).then_some(least..=most)
    };
    read().ok_or_else(|| {
        format!("{text:?}: expected sizes such as 700-1500, of {HEADER_BYTES} to 1514")
    })
}

/// xorshift64: generates the same frames each time.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

/// Builds a UDP frame of random size, IP addresses, ports and payload. Its destination MAC address is that of another
/// host, so that no network stack responds to it.
fn frame(random: &mut Random, sizes: &RangeInclusive<usize>) -> Vec<u8> {
    let span = (sizes.end() - sizes.start() + 1) as u64;
    let bytes = sizes.start() + (random.next() % span) as usize;
    let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0];
    frame.extend([0x45, 0]);
    frame.extend((bytes as u16 - 14).to_be_bytes());
    frame.extend([0, 0, 0, 0, 64, 17, 0, 0]);
    // Addresses and ports.
    frame.extend(random.next().to_be_bytes());
    frame.extend(&random.next().to_be_bytes()[..4]);
    frame.extend((bytes as u16 - 34).to_be_bytes());
    frame.extend([0, 0]);
    while frame.len() < bytes {
        frame.extend(random.next().to_be_bytes());
    }
    frame.truncate(bytes);
    frame
}

/// Sends frames until `over` returns true. Must be called in the interface's network namespace.
pub fn send(asked: &FramesArguments, over: &dyn Fn() -> bool) -> Result<Sent> {
    let socket = packet_socket(&asked.interface)
        .with_context(|| format!("{}: a packet socket", asked.interface))?;
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let mut batches: Vec<Batch> = (0..BATCHES)
        .map(|_| {
            Batch::of(
                (0..BATCH)
                    .map(|_| frame(&mut random, &asked.sizes))
                    .collect(),
            )
        })
        .collect();
    let apart = match asked.rate {
        0 => Duration::ZERO,
        rate => Duration::from_secs(1) * BATCH as u32 / rate,
    };
    let begun = Instant::now();
    let (mut next, mut frames, mut number) = (begun, 0, 0);
    while !over() {
        let now = Instant::now();
        if now < next {
            std::hint::spin_loop();
            continue;
        }
        next = if now - next > BEHIND_MOST {
            now + apart
        } else {
            next + apart
        };
        match batches[number % BATCHES].send(&socket) {
            Ok(sent) => frames += sent as u64,
            Err(error) if is_full(&error) => (),
            Err(error) => bail!("{}: {error}", asked.interface),
        }
        number += 1;
    }
    Ok(Sent {
        frames,
        seconds: begun.elapsed().as_secs_f64(),
    })
}

/// Returns true if the interface has no room, or if a signal came: the next call may succeed.
fn is_full(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::ENOBUFS | libc::EAGAIN | libc::EINTR)
    )
}

/// Runs the command line's sender to its end.
pub fn command(asked: &FramesArguments) -> Result<()> {
    let end = Instant::now() + Duration::from_secs(asked.seconds.into());
    let sent = send(asked, &|| Instant::now() >= end)?;
    println!(
        "{{\"frames\":{},\"seconds\":{:.3}}}",
        sent.frames, sent.seconds
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_have_the_sizes_that_they_say() {
        let mut random = Random(1);
        let mut seen = Vec::new();
        for _ in 0..1000 {
            let frame = frame(&mut random, &(700..=1500));
            let total = u16::from_be_bytes([frame[16], frame[17]]) as usize;
            assert_eq!(total + 14, frame.len());
            assert!((700..=1500).contains(&frame.len()));
            seen.push(frame.len());
        }
        let mean = seen.iter().sum::<usize>() / seen.len();
        assert!((1050..1150).contains(&mean), "{mean}");
    }

    #[test]
    fn sizes_are_two_that_a_frame_may_have() {
        assert_eq!(sizes("700-1500"), Ok(700..=1500));
        for text in ["", "700", "10-1500", "700-1600", "900-800", "a-b"] {
            assert!(sizes(text).is_err(), "{text}");
        }
    }
}
