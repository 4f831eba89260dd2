// SPDX-License-Identifier: GPL-2.0-or-later
//! Measures the cost of a packet in a ring. This program sends the packets through the other end of a pair of interfaces,
//! first without a ring, then with one. The difference in sending time is the kernel's part, since the sending processor
//! delivers the packets, too. The reader's part is the CPU time to read each packet and to hash every byte. Where time is a
//! count of instructions (vm/run --icount), both parts are counts of instructions.

use std::hint::black_box;
use std::io;
use std::time::{Duration, Instant};

use nix::time::{clock_gettime, ClockId};

use capture::backend::{Backend, Kind};
use capture::failure::{Failure, Result};
use capture::link::{self, Link};
use capture::packet::Packet;
use capture::pages::{Area, Entries};
use capture::socket::Socket;
use capture::source::{Ready, Source};

use crate::arguments::CostArguments;
use crate::bench::hash;
use crate::census::Sides;
use crate::translation::{Model, Sizes};

/// Ethernet header: an unused destination, a source, and the type IPv4, so that the stack receives the packets, too, and
/// drops them.
const HEADER: [u8; 14] = [2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0];
/// Number of packets sent before the timed packets, so that one-time work is done.
const FIRST: u32 = 200;
/// Maximum time for sent packets to arrive.
const PATIENCE: Duration = Duration::from_secs(10);
/// Room that a packet needs in a ring, as a multiple of its bytes; a socket's buffer needs the most.
const ROOM: u64 = 4;

/// The sender, and its sending time without a ring.
pub struct Sender {
    socket: Socket,
    frame: Vec<u8>,
    packets: u32,
    alone: Duration,
}

impl Sender {
    /// Sends all packets once, to time sending without a ring. Must precede the opening of the ring.
    pub fn new(given: &CostArguments) -> Result<Sender> {
        let interface = link::find(&given.from).map_err(|failure| Failure {
            text: failure.text.replacen("-i ", "--from ", 1),
            ..failure
        })?;
        let failed = |error| Failure::system(&format!("--from {}", given.from), &error);
        let socket = Socket::new(Link::Ethernet).map_err(|error| match error.raw_os_error() {
            Some(libc::EPERM | libc::EACCES) => {
                Failure::privilege("--from: sending needs CAP_NET_RAW: run as root")
            }
            _ => failed(error),
        })?;
        socket.bind_to_send(interface.index).map_err(failed)?;
        let mut frame = HEADER.to_vec();
        frame.extend((HEADER.len()..given.bytes as usize).map(|at| at as u8));
        let mut sender = Sender {
            socket,
            frame,
            packets: given.packets,
            alone: Duration::ZERO,
        };
        sender.send(FIRST).map_err(failed)?;
        sender.alone = sender.send(given.packets).map_err(failed)?;
        Ok(sender)
    }

    /// Sends `count` packets; returns the time.
    fn send(&self, count: u32) -> io::Result<Duration> {
        let begun = Instant::now();
        for _ in 0..count {
            self.socket.send(&self.frame)?;
        }
        Ok(begun.elapsed())
    }
}

/// A ring and its properties.
pub struct Measured {
    pub ring: Backend,
    pub kind: Kind,
    pub memory: Area,
    pub ring_bytes: u64,
    pub sides: Sides,
}

fn cpu() -> io::Result<Duration> {
    Ok(clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID)?.into())
}

/// Reads packets until `count` packets of the sender have arrived, and passes those to `each`. Returns this thread's
/// CPU time. Fails with TimedOut if they don't arrive within PATIENCE.
fn read(ring: &mut Backend, count: u32, each: &mut impl FnMut(&Packet)) -> io::Result<Duration> {
    let (begun, end) = (cpu()?, Instant::now() + PATIENCE);
    let mut taken = 0;
    while taken < count {
        if ring.ready()? == Ready::Nothing {
            if Instant::now() >= end {
                return Err(io::ErrorKind::TimedOut.into());
            }
            continue;
        }
        ring.take(|packet| {
            if packet.bytes.starts_with(&HEADER) {
                each(packet);
                taken += 1;
            }
        });
    }
    Ok(cpu()? - begun)
}

/// Sends and reads all packets, in batches that fit in the ring; returns the time of sending and the CPU time of
/// reading.
fn pass(
    sender: &Sender,
    measured: &mut Measured,
    mut each: impl FnMut(&Packet),
) -> io::Result<(Duration, Duration)> {
    let room = measured.ring_bytes / ROOM / sender.frame.len() as u64;
    let (mut sending, mut taking) = (Duration::ZERO, Duration::ZERO);
    let mut left = sender.packets;
    while left > 0 {
        let count = left.min(room.max(1) as u32);
        sending += sender.send(count)?;
        taking += read(&mut measured.ring, count, &mut each)?;
        left -= count;
    }
    Ok((sending, taking))
}

/// One side of the ring (kernel or program): its page-table entries, and a TLB model that starts empty.
struct Side {
    name: &'static str,
    told: String,
    /// Page-table entries and the TLB model; None if the entries are unknown.
    known: Option<(Entries, Model)>,
}

impl Side {
    fn new(name: &'static str, told: String, entries: Option<Entries>) -> Side {
        let model = |entries: Entries| Model::new(Sizes::of_this(), entries.least_bytes());
        Side {
            name,
            told,
            known: entries.map(|entries| (entries, model(entries))),
        }
    }

    fn of(measured: &Measured) -> [Side; 2] {
        let Sides { program, kernel } = &measured.sides;
        let entries = kernel.entries(measured.memory.bytes, *program);
        [
            Side::new("kernel", kernel.to_string(), entries),
            Side::new("program", program.to_string(), Some(*program)),
        ]
    }

    fn text(&self) -> String {
        let Side { name, told, known } = self;
        let model = known.as_ref().map_or(String::new(), |(_, model)| {
            let misses = model.misses_a_packet();
            format!("; model, not measured: {misses:.5} new translations a packet")
        });
        format!("  {name}'s side: {told}{model}")
    }

    fn json(&self) -> String {
        let Some((entries, model)) = &self.known else {
            return format!("\"{}\": null", self.name);
        };
        format!(
            "\"{}\": {{\"entries\": {}, \"model_tlb_misses\": {:.5}}}",
            self.name,
            entries.count(),
            model.misses_a_packet()
        )
    }
}

/// Measures the cost of a packet for the kernel and for the reader, and prints it with the page-table entries of both
/// sides.
pub fn run(given: &CostArguments, sender: &Sender, measured: &mut Measured) -> Result<()> {
    let failed = |error: io::Error| match error.kind() {
        io::ErrorKind::TimedOut => Failure::failed(format!(
            "-i {}: not all that --from {} sent has come: are they a pair, and up: ip link",
            given.interface, given.from
        )),
        _ => Failure::system(&format!("-i {}", given.interface), &error),
    };
    let mut sides = Side::of(measured);
    let start = measured.memory.start;
    pass(sender, measured, |packet| {
        for (_, model) in sides.iter_mut().filter_map(|side| side.known.as_mut()) {
            // Both sides access the packet at the same offset of the ring.
            let at = packet.bytes.as_ptr() as usize - start;
            model.packet(at as u64, packet.bytes.len());
        }
    })
    .map_err(failed)?;
    let (sending, taking) = pass(sender, measured, |packet| {
        black_box(hash(packet.bytes));
    })
    .map_err(failed)?;
    if measured.ring.statistics().map_err(failed)?.drops > 0 {
        return Err(Failure::failed("the ring dropped packets: a larger --ring"));
    }
    let kernel_ns = sending.saturating_sub(sender.alone).as_nanos() as u64;
    let reader_ns = taking.as_nanos() as u64;
    let count = u64::from(sender.packets);
    if given.json {
        println!(
            "{{\"count\": {count}, \"wall_ns\": {}, \"ring\": {{\"kernel_ns\": {kernel_ns}, \"reader_ns\": {reader_ns}, {}, {}}}}}",
            kernel_ns + reader_ns,
            sides[0].json(),
            sides[1].json()
        );
        return Ok(());
    }
    println!(
        "{}: {count} packets of {} bytes: kernel {} ns, reader {} ns a packet",
        measured.kind.name(),
        sender.frame.len(),
        kernel_ns / count,
        reader_ns / count
    );
    for side in &sides {
        println!("{}", side.text());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_side_that_is_not_known_is_told_so() {
        let side = Side::new("kernel", "not known: why".into(), None);
        assert_eq!(side.json(), "\"kernel\": null");
        assert_eq!(side.text(), "  kernel's side: not known: why");
    }

    #[test]
    fn a_model_begins_without_translations() {
        let entries = Entries {
            huge: 16,
            ..Entries::default()
        };
        let mut side = Side::new("program", entries.to_string(), Some(entries));
        let (_, model) = side.known.as_mut().unwrap();
        (0..1000).for_each(|number| model.packet(number * 2000, 1100));
        assert_eq!(
            side.json(),
            "\"program\": {\"entries\": 16, \"model_tlb_misses\": 0.00100}"
        );
        assert!(side.text().contains("model, not measured: 0.00100 new"));
    }
}
