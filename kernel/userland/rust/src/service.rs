// SPDX-License-Identifier: GPL-2.0-or-later
//! The services, common to all transports, as in ../c/service.c: `ping` is three calls, `calculator` is six calls,
//! `timer` is one call that is answered at the next tick, of which only the time from the tick to the answer counts,
//! and `verdict` sends a packet and receives a verdict.

use anyhow::{bail, ensure, Result};
use nix::errno::Errno;
use nix::sys::time::TimeSpec;
use nix::time::{clock_nanosleep, ClockId, ClockNanosleepFlags};

use crate::measure::{now_ns, Once};

pub const NAME: &str = "twinwall-lab";
pub const VERSION: (u32, u32, u32) = (1, 2, 3);
/// The calculator's operations, by D-Bus method.
pub const OPERATIONS: [&str; 4] = ["Add", "Subtract", "Multiply", "Divide"];
/// Header bytes of a packet to judge: IPv4 without options and UDP.
pub const HEADERS_BYTES: usize = 28;

const NS_PER_SECOND: u64 = 1_000_000_000;
const TICK_NS: u64 = 10_000_000;
const PROTOCOL_OFFSET: usize = 9;
const PORT_OFFSET: usize = 22;
const UDP: u8 = 17;
const IPV4_WITHOUT_OPTIONS: u8 = 0x45;
/// The UDP destination port whose packets the server does not accept.
const CLOSED_PORT: u16 = 23;
/// Maximum bytes of a packet that the client sends for a verdict.
const PACKET_MOST: usize = 65536;

/// Calls of the client to the server, over one transport.
pub trait Client {
    fn name(&mut self) -> Result<String>;
    fn version(&mut self) -> Result<(u32, u32, u32)>;
    fn ping(&mut self) -> Result<()>;
    /// Makes the server calculate with the operation at an index of `OPERATIONS`, which must be valid. A division by 0
    /// gives 0. Fails if the call fails.
    fn calculate(&mut self, operation: usize, a: i32, b: i32) -> Result<i32>;
    /// Waits for a tick; returns the time at which the server woke (CLOCK_MONOTONIC, ns).
    fn tick(&mut self) -> Result<u64>;
    /// Returns 1 if the packet is accepted, otherwise 0, and the packet's mark.
    fn verdict(&mut self, packet: &[u8]) -> Result<(u32, u32)>;
}

/// Implements the calculator in the server. A division by 0 gives 0.
pub fn calculate(operation: usize, a: i32, b: i32) -> i32 {
    match OPERATIONS[operation] {
        "Add" => a.wrapping_add(b),
        "Subtract" => a.wrapping_sub(b),
        "Multiply" => a.wrapping_mul(b),
        _ => a.checked_div(b).unwrap_or(0),
    }
}

/// Sleeps until the next tick, a multiple of 10 ms; returns the time after waking (CLOCK_MONOTONIC, ns).
pub fn tick() -> Result<u64> {
    let next = (now_ns(ClockId::CLOCK_MONOTONIC)? / TICK_NS + 1) * TICK_NS;
    let until = TimeSpec::new((next / NS_PER_SECOND) as i64, (next % NS_PER_SECOND) as i64);
    let flags = ClockNanosleepFlags::TIMER_ABSTIME;
    while let Err(error) = clock_nanosleep(ClockId::CLOCK_MONOTONIC, flags, &until) {
        ensure!(error == Errno::EINTR, "clock_nanosleep: {error}");
    }
    now_ns(ClockId::CLOCK_MONOTONIC)
}

/// Judges a packet by its headers: accepts UDP over IPv4 without options, to any port but 23. The mark is always the
/// destination port. Returns None if the packet is too short.
pub fn judge(packet: &[u8]) -> Option<(u32, u32)> {
    if packet.len() < HEADERS_BYTES {
        return None;
    }
    let port = u16::from_be_bytes([packet[PORT_OFFSET], packet[PORT_OFFSET + 1]]);
    let known = packet[0] == IPV4_WITHOUT_OPTIONS && packet[PROTOCOL_OFFSET] == UDP;
    Some(((known && port != CLOSED_PORT).into(), port.into()))
}

fn check_names(client: &mut impl Client) -> Result<()> {
    let (name, version) = (client.name()?, client.version()?);
    ensure!(
        name == NAME && version == VERSION,
        "name: another service: {name} {version:?}"
    );
    Ok(())
}

fn calculator(client: &mut impl Client) -> Result<()> {
    check_names(client)?;
    for (operation, expected) in [103, 97, 300, 33].into_iter().enumerate() {
        let result = client.calculate(operation, 100, 3)?;
        ensure!(result == expected, "calculator: a wrong result");
    }
    Ok(())
}

fn verdict(client: &mut impl Client, packet: &mut [u8], port: u16) -> Result<()> {
    packet[0] = IPV4_WITHOUT_OPTIONS;
    packet[PROTOCOL_OFFSET] = UDP;
    packet[PORT_OFFSET..PORT_OFFSET + 2].copy_from_slice(&port.to_be_bytes());
    let expected = (u32::from(port != CLOSED_PORT), u32::from(port));
    ensure!(
        client.verdict(packet)? == expected,
        "verdict: not its packet's"
    );
    Ok(())
}

/// Returns the function that makes one exchange of an operation. Fails if the operation is unknown or `bytes` is wrong.
/// - bytes: size of a packet for `verdict` (28 to 65536); must be 0 for any other operation.
pub fn once(operation: &str, bytes: usize, mut client: impl Client + 'static) -> Result<Once> {
    if operation == "verdict" {
        ensure!(
            (HEADERS_BYTES..=PACKET_MOST).contains(&bytes),
            "BYTES: a packet has 28 to 65536"
        );
        let (mut packet, mut port) = (vec![0; bytes], 0_u16);
        return Ok(Once::Timed(Box::new(move || {
            port = port.wrapping_add(1);
            verdict(&mut client, &mut packet, port)
        })));
    }
    ensure!(bytes == 0, "BYTES: 0 for a service");
    Ok(match operation {
        "ping" => Once::Timed(Box::new(move || {
            check_names(&mut client)?;
            client.ping()
        })),
        "calculator" => Once::Timed(Box::new(move || calculator(&mut client))),
        "timer" => Once::Measured(Box::new(move || {
            let tick = client.tick()?;
            Ok(now_ns(ClockId::CLOCK_MONOTONIC)? - tick)
        })),
        _ => bail!("operations: verdict ping calculator timer"),
    })
}
