// SPDX-License-Identifier: GPL-2.0-or-later
// seccomp: write
//! An event: what is known of one packet and its verdict, copied by the worker that decided, and the
//! ring that takes it to the thread of events.
//!
//! Theory of operation: a ring has one producer, its worker, and one consumer. The producer never
//! waits: what does not fit is counted (`Count::EventsLost`). It makes no system call between
//! receiving and answering; `flush`, behind the answers, wakes the consumer, and only if it sleeps.
//! When nobody wants events of a packet, a relaxed load is all that is done.

use std::sync::atomic::{fence, AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use nix::errno::Errno;
use nix::sys::eventfd::{EfdFlags, EventFd};
use rtrb::{Consumer, Producer, RingBuffer};

use crate::base::counts::{self, Count};
use crate::engine::types::{DecideInput, DecideOutcome};
use crate::names::Names;
use crate::packet::verdict::{self, Verdict};
use crate::packet::{self, Packet, PacketStatus};

/// Bytes of a packet that are kept: all of most, with the names in it.
pub const PACKET_BYTES: usize = 2048;
pub const RING_RECORDS: usize = 2048;

/// Packets for which a consumer wants events, as bits: those of the verdicts, and two above them.
pub const ACCEPT: u32 = 1 << Verdict::Accept as u32;
pub const DROP: u32 = 1 << Verdict::Drop as u32;
pub const REJECT: u32 = 1 << Verdict::Reject as u32;
/// Passed a log statement.
pub const LOGGED: u32 = 1 << verdict::COUNT;
/// Malformed, truncated, or undecidable.
pub const ANOMALY: u32 = 1 << (verdict::COUNT + 1);

/// Facts of a packet, as `DecideInput` and `DecideOutcome` tell it.
#[derive(Clone, Copy, Debug)]
pub struct Event {
    /// UNIX time.
    pub time_ns: u64,
    pub generation: u32,
    pub queue: u16,
    /// Host order.
    pub ethertype: u16,
    pub status: PacketStatus,
    pub truncated: bool,
    pub hook: u8,
    pub length: u32,
    /// As the policy saw it.
    pub mark: u32,
    pub iif: u32,
    pub oif: u32,
    pub uid: Option<u32>,
    pub gid: Option<u32>,
    pub ct_state: Option<u32>,
    pub ct_mark: Option<u32>,
    pub outcome: DecideOutcome,
    /// Names that the packet's client has sent.
    pub names: Names,
    /// Without its bytes: `packet` gives both.
    parsed: Packet<'static>,
    /// How many of bytes are filled.
    captured: usize,
    bytes: [u8; PACKET_BYTES],
}

/// State shared by all rings of a consumer.
#[derive(Debug)]
pub struct EventBell {
    /// The consumer is asleep, or is about to be.
    pub asleep: AtomicBool,
    /// Wakes it.
    pub event: EventFd,
    /// Records that found no room.
    pub lost: AtomicU64,
}

/// The producer's end of a ring.
pub struct EventRing {
    /// The classes above that are wanted; written by the consumer.
    wanted: Arc<AtomicU32>,
    /// Whether something was noted since the last `flush`.
    noted: bool,
    queue: u16,
    records: Producer<Event>,
    bell: Arc<EventBell>,
}

/// The consumer's end.
pub type EventRecords = Consumer<Event>;

/// The classes of a packet.
#[inline]
pub fn classes(status: PacketStatus, truncated: bool, outcome: &DecideOutcome) -> u32 {
    let anomaly = truncated || outcome.undecidable || packet::is_malformed(status);
    1 << outcome.verdict as u32
        | if outcome.log_count > 0 { LOGGED } else { 0 }
        | if anomaly { ANOMALY } else { 0 }
}

/// Whether a consumer wants an event of the packet.
#[inline]
pub fn wanted(
    ring: &EventRing,
    status: PacketStatus,
    truncated: bool,
    outcome: &DecideOutcome,
) -> bool {
    let wanted = ring.wanted.load(Ordering::Relaxed);
    wanted != 0 && wanted & classes(status, truncated, outcome) != 0
}

/// Makes a bell; the consumer is not asleep.
pub fn bell_make() -> Result<EventBell, Errno> {
    Ok(EventBell {
        asleep: AtomicBool::new(false),
        event: EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)?,
        lost: AtomicU64::new(0),
    })
}

/// Makes a ring. wanted: what the consumer wants, for all rings. records: room for them.
pub fn ring_make(
    queue: u16,
    wanted: &Arc<AtomicU32>,
    bell: &Arc<EventBell>,
    records: usize,
) -> (EventRing, EventRecords) {
    let (producer, consumer) = RingBuffer::new(records);
    let ring = EventRing {
        wanted: Arc::clone(wanted),
        noted: false,
        queue,
        records: producer,
        bell: Arc::clone(bell),
    };
    (ring, consumer)
}

fn unix_time() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    u64::try_from(now.unwrap_or_default().as_nanos()).unwrap_or(u64::MAX)
}

/// The fields of a packet alone.
fn without_bytes(packet: &Packet) -> Packet<'static> {
    Packet {
        bytes: &[],
        original: packet.original,
        version: packet.version,
        protocol: packet.protocol,
        fragment: packet.fragment,
        later_fragment: packet.later_fragment,
        l4_offset: packet.l4_offset,
        end: packet.end,
        extensions: packet.extensions,
        headers_beyond: packet.headers_beyond,
        has_transport: packet.has_transport,
        transport_protocol: packet.transport_protocol,
        transport_offset: packet.transport_offset,
        has_ports: packet.has_ports,
        source_port: packet.source_port,
        destination_port: packet.destination_port,
        has_tcp_flags: packet.has_tcp_flags,
        tcp_flags: packet.tcp_flags,
        has_icmp: packet.has_icmp,
        icmp_type: packet.icmp_type,
        icmp_code: packet.icmp_code,
    }
}

fn make(
    queue: u16,
    generation: u32,
    ethertype: u16,
    input: &DecideInput,
    outcome: &DecideOutcome,
) -> Event {
    let packet = input.packet;
    let captured = packet.bytes.len().min(PACKET_BYTES);
    let mut bytes = [0; PACKET_BYTES];
    if let (Some(to), Some(from)) = (bytes.get_mut(..captured), packet.bytes.get(..captured)) {
        to.copy_from_slice(from);
    }
    Event {
        time_ns: unix_time(),
        generation,
        queue,
        ethertype,
        status: input.status,
        truncated: input.truncated,
        hook: input.hook,
        length: input.length,
        mark: input.mark,
        iif: input.iif,
        oif: input.oif,
        uid: input.uid,
        gid: input.gid,
        ct_state: input.ct_state,
        ct_mark: input.ct_mark,
        outcome: *outcome,
        names: input.names.copied().unwrap_or_default(),
        parsed: without_bytes(packet),
        captured,
        bytes,
    }
}

/// Counts events that are lost.
pub fn lose(bell: &EventBell, events: u64) {
    bell.lost.fetch_add(events, Ordering::Relaxed);
    counts::add(Count::EventsLost, events);
}

/// Notes a packet, or counts that there was no room.
/// generation: of the policy that decided; 0 = none.
pub fn note(
    ring: &mut EventRing,
    generation: u32,
    ethertype: u16,
    input: &DecideInput,
    outcome: &DecideOutcome,
) {
    ring.noted = true;
    if ring.records.is_full() {
        lose(&ring.bell, 1);
        return;
    }
    let event = make(ring.queue, generation, ethertype, input, outcome);
    // Can't fail: there is room, which only this end uses up.
    let _ = ring.records.push(event);
}

/// Rings the bell, for `flush`.
fn wake(ring: &mut EventRing) {
    ring.noted = false;
    // With the fence of the consumer, which says that it sleeps and then looks into the rings: one of
    // both sees what the other wrote.
    fence(Ordering::SeqCst);
    let bell = &ring.bell;
    if bell.asleep.load(Ordering::Relaxed) && bell.asleep.swap(false, Ordering::Relaxed) {
        let _ = bell.event.write(1); // it can't fail: it never comes near its limit
    }
}

/// Wakes the consumer for the noted events. To be called after the packets' verdicts.
#[inline]
pub fn flush(ring: &mut EventRing) {
    if ring.noted {
        wake(ring);
    }
}

/// The packet with its bytes.
pub fn packet(event: &Event) -> Packet<'_> {
    Packet {
        bytes: event.bytes.get(..event.captured).unwrap_or_default(),
        ..event.parsed
    }
}
