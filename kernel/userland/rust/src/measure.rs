// SPDX-License-Identifier: GPL-2.0-or-later
//! Times exchanges and prints a JSON object, like ../c/exchange.c.

use std::process::ExitCode;

use anyhow::{bail, ensure, Context, Result};
use nix::time::{clock_getcpuclockid, clock_gettime, ClockId};
use nix::unistd::Pid;

/// Function that makes one exchange, such as a request and its reply.
pub enum Once {
    /// An exchange that the caller times.
    Timed(Box<dyn FnMut() -> Result<()>>),
    /// An exchange that measures itself; returns its nanoseconds.
    Measured(Box<dyn FnMut() -> Result<u64>>),
}

/// Operation to measure, fully prepared: an exchange of messages with the kernel or another process, such as a request
/// and its reply.
pub struct Exchange {
    pub once: Once,
    /// Processes of the peers, whose CPU time is counted, too.
    pub peers: Vec<u32>,
}

impl Once {
    /// Makes one exchange; returns its nanoseconds.
    fn one(&mut self) -> Result<u64> {
        match self {
            Once::Timed(once) => {
                let start = now_ns(ClockId::CLOCK_MONOTONIC)?;
                once()?;
                Ok(now_ns(ClockId::CLOCK_MONOTONIC)? - start)
            }
            Once::Measured(once) => once(),
        }
    }

    /// Makes `count` exchanges, if possible without reading the clock between them; returns their nanoseconds.
    fn all(&mut self, count: usize) -> Result<u64> {
        match self {
            Once::Timed(once) => {
                let start = now_ns(ClockId::CLOCK_MONOTONIC)?;
                for _ in 0..count {
                    once()?;
                }
                Ok(now_ns(ClockId::CLOCK_MONOTONIC)? - start)
            }
            Once::Measured(once) => (0..count).map(|_| once()).sum(),
        }
    }
}

impl Exchange {
    /// Returns the CPU time of this process and of its peers, in nanoseconds.
    fn cpu_ns(&self) -> Result<u64> {
        let mut sum = now_ns(ClockId::CLOCK_PROCESS_CPUTIME_ID)?;
        for peer in &self.peers {
            sum += now_ns(clock_getcpuclockid(Pid::from_raw(*peer as i32))?)?;
        }
        Ok(sum)
    }
}

pub fn now_ns(clock: ClockId) -> Result<u64> {
    let now = clock_gettime(clock)?;
    Ok(now.tv_sec() as u64 * 1_000_000_000 + now.tv_nsec() as u64)
}

/// Makes `count` exchanges and times each separately; returns a JSON array of pairs: percentile, nanoseconds.
fn each(once: &mut Once, count: usize) -> Result<String> {
    let mut times = Vec::with_capacity(count);
    for _ in 0..count {
        times.push(once.one()?);
    }
    times.sort_unstable();
    let pairs = [1.0, 5.0, 10.0, 25.0, 50.0, 75.0, 90.0, 95.0, 99.0, 99.9].map(|percentile| {
        let at = (count - 1) as f64 * percentile / 100.0;
        format!("[{percentile}, {}]", times[at as usize])
    });
    Ok(format!("[{}]", pairs.join(", ")))
}

fn measure(
    arguments: &[String],
    open: impl FnOnce(&str, usize) -> Result<Exchange>,
) -> Result<String> {
    let (operation, bytes, count, with_each) = match arguments {
        [operation, bytes, count] => (operation, bytes, count, false),
        [operation, bytes, count, each] if each == "--each" => (operation, bytes, count, true),
        _ => bail!("OPERATION BYTES COUNT [--each]"),
    };
    let bytes: usize = bytes.parse().context("BYTES")?;
    let count: usize = count.parse().context("COUNT")?;
    ensure!(count > 0, "COUNT: expected 1 or more");
    let mut exchange = open(operation, bytes)?;
    // A single long exchange needs no warm-up.
    if count > 1 {
        exchange.once.all(count / 10 + 1)?;
    }
    let cpu = exchange.cpu_ns()?;
    let wall = exchange.once.all(count)?;
    let cpu = exchange.cpu_ns()? - cpu;
    let percentiles = match with_each {
        true => format!(", \"percentiles_ns\": {}", each(&mut exchange.once, count)?),
        false => String::new(),
    };
    Ok(format!(
        "{{\"operation\": \"{operation}\", \"bytes\": {bytes}, \"count\": {count}, \"wall_ns\": {wall}, \
         \"cpu_ns\": {cpu}{percentiles}}}"
    ))
}

/// Implements main().
/// - open: prepares the exchange; its parameters are the command line's OPERATION and BYTES.
pub fn run(open: impl FnOnce(&str, usize) -> Result<Exchange>) -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match measure(&arguments, open) {
        Ok(object) => {
            println!("{object}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
