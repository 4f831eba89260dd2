// SPDX-License-Identifier: GPL-2.0-or-later
//! What the exchanges in Rust have in common: the operations over generic netlink, their timing, and the JSON object that is
//! printed, all as ../c/genl.c and ../c/exchange.c have them.
#![forbid(unsafe_code)]

pub mod neli_messages;

use std::process::ExitCode;

use anyhow::{bail, ensure, Context, Result};
use nix::time::{clock_gettime, ClockId};

/// The lab's family, as echo/twinwall_lab.h describes it.
pub mod lab {
    pub const FAMILY: &str = "twinwall_lab";
    pub const VERSION: u8 = 1;
    pub const ECHO: u8 = 1;
    pub const COUNT: u8 = 2;
    pub const DATA: u16 = 1;
    pub const PARTS: u16 = 2;
    pub const INDEX: u16 = 3;
    pub const DATA_MOST: usize = 32768;
}

/// nlctrl's part of linux/genetlink.h, and what the extended ACK has of linux/netlink.h.
pub mod control {
    pub const ID: u16 = 16;
    pub const GETFAMILY: u8 = 3;
    pub const FAMILY_ID: u16 = 1;
    pub const FAMILY_NAME: u16 = 2;
    /// A family that every kernel has.
    pub const FAMILY: &str = "nlctrl";
    pub const MISSING_TYPE: u16 = 5;
}

/// A library's way to speak generic netlink. What is read is checked for being the answer, and no more.
pub trait Genl: Sized {
    /// A bound socket.
    fn open() -> Result<Self>;
    /// The number of a family, as nlctrl tells it.
    fn family(&mut self, name: &str) -> Result<u16>;
    /// Sends bytes to the lab's family; how many came back.
    fn echo(&mut self, family: u16, data: &[u8]) -> Result<usize>;
    /// Asks for so many parts; how many came.
    fn dump(&mut self, family: u16, parts: u32) -> Result<usize>;
    /// Sends an echo without its attribute; which one the extended ACK says is missing, None if the library doesn't tell.
    fn refused(&mut self, family: u16) -> Result<Option<u32>>;
}

/// The bytes that are echoed.
static DATA: [u8; lab::DATA_MOST] = [b'x'; lab::DATA_MOST];

fn echo<G: Genl>(genl: &mut G, family: u16, bytes: usize) -> Result<()> {
    let came = genl.echo(family, &DATA[..bytes])?;
    ensure!(came == bytes, "echo: {came} of {bytes} bytes");
    Ok(())
}

/// What is done for each exchange; what it needs is there when this returns.
fn exchange<G: Genl + 'static>(name: &str, bytes: usize) -> Result<Box<dyn FnMut() -> Result<()>>> {
    ensure!(
        bytes <= lab::DATA_MOST || name == "dump",
        "BYTES: at most {}",
        lab::DATA_MOST
    );
    let with_family = || -> Result<(G, u16)> {
        let mut genl = G::open()?;
        let family = genl.family(lab::FAMILY)?;
        Ok((genl, family))
    };
    Ok(match name {
        "family" => {
            let mut genl = G::open()?;
            Box::new(move || genl.family(control::FAMILY).map(drop))
        }
        "family-connect" => Box::new(|| G::open()?.family(control::FAMILY).map(drop)),
        "echo" => {
            let (mut genl, family) = with_family()?;
            Box::new(move || echo(&mut genl, family, bytes))
        }
        "echo-connect" => Box::new(move || {
            let mut genl = G::open()?;
            let family = genl.family(lab::FAMILY)?;
            echo(&mut genl, family, bytes)
        }),
        "dump" => {
            let (mut genl, family) = with_family()?;
            Box::new(move || {
                let came = genl.dump(family, bytes as u32)?;
                ensure!(came == bytes, "dump: {came} of {bytes} parts");
                Ok(())
            })
        }
        "refuse" => {
            let (mut genl, family) = with_family()?;
            Box::new(move || {
                let missing = genl.refused(family)?;
                ensure!(
                    missing.is_none_or(|kind| kind == u32::from(lab::DATA)),
                    "refuse: attribute {missing:?}"
                );
                Ok(())
            })
        }
        _ => bail!("operations: family family-connect echo echo-connect dump refuse"),
    })
}

fn now_ns(clock: ClockId) -> Result<u64> {
    let now = clock_gettime(clock)?;
    Ok(now.tv_sec() as u64 * 1_000_000_000 + now.tv_nsec() as u64)
}

/// Times each exchange by itself: percentiles as a JSON array of pairs.
fn each(once: &mut dyn FnMut() -> Result<()>, count: usize) -> Result<String> {
    let mut times = Vec::with_capacity(count);
    for _ in 0..count {
        let start = now_ns(ClockId::CLOCK_MONOTONIC)?;
        once()?;
        times.push(now_ns(ClockId::CLOCK_MONOTONIC)? - start);
    }
    times.sort_unstable();
    let pairs = [1.0, 5.0, 10.0, 25.0, 50.0, 75.0, 90.0, 95.0, 99.0, 99.9].map(|percentile| {
        let at = (count - 1) as f64 * percentile / 100.0;
        format!("[{percentile}, {}]", times[at as usize])
    });
    Ok(format!("[{}]", pairs.join(", ")))
}

fn measure<G: Genl + 'static>(arguments: &[String]) -> Result<String> {
    let (operation, bytes, count, with_each) = match arguments {
        [operation, bytes, count] => (operation, bytes, count, false),
        [operation, bytes, count, each] if each == "--each" => (operation, bytes, count, true),
        _ => bail!("OPERATION BYTES COUNT [--each]"),
    };
    let bytes: usize = bytes.parse().context("BYTES")?;
    let count: usize = count.parse().context("COUNT")?;
    let mut once = exchange::<G>(operation, bytes)?;
    for _ in 0..count / 10 + 1 {
        once()?;
    }
    let cpu = now_ns(ClockId::CLOCK_PROCESS_CPUTIME_ID)?;
    let start = now_ns(ClockId::CLOCK_MONOTONIC)?;
    for _ in 0..count {
        once()?;
    }
    let wall = now_ns(ClockId::CLOCK_MONOTONIC)? - start;
    let cpu = now_ns(ClockId::CLOCK_PROCESS_CPUTIME_ID)? - cpu;
    let percentiles = match with_each {
        true => format!(", \"percentiles_ns\": {}", each(&mut *once, count)?),
        false => String::new(),
    };
    Ok(format!(
        "{{\"operation\": \"{operation}\", \"bytes\": {bytes}, \"count\": {count}, \"wall_ns\": {wall}, \
         \"cpu_ns\": {cpu}{percentiles}}}"
    ))
}

/// The whole of main().
pub fn run<G: Genl + 'static>() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match measure::<G>(&arguments) {
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
