// SPDX-License-Identifier: GPL-2.0-or-later
// seccomp: write
//! Events, and the ring buffer that transfers them to the event thread. An event is a copy of a packet, its metadata
//! and its verdict; the worker that decided makes it.
//!
//! Theory of operation: a ring has one producer (a worker) and one consumer at a time: the event thread, or in a reload
//! the main thread. The producer never waits: if the ring is full, the event is counted as lost (`Count::EventsLost`).
//! It makes no system call between receiving and answering packets. `flush` is called after the verdicts are sent; it
//! wakes the consumer if the consumer sleeps. A packet whose event is not wanted costs only a relaxed load.

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

/// Maximum number of a packet's bytes in an event. Most packets fit completely, with the names in them.
pub const PACKET_BYTES: usize = 2048;
/// Capacity of a ring, in events.
pub const RING_RECORDS: usize = 2048;

/// Classes of packets for which a consumer can want events, as bits: one bit for each verdict, and the bits LOGGED and
/// ANOMALY.
pub const ACCEPT: u32 = 1 << Verdict::Accept as u32;
pub const DROP: u32 = 1 << Verdict::Drop as u32;
pub const REJECT: u32 = 1 << Verdict::Reject as u32;
/// Packets for which a log statement was executed.
pub const LOGGED: u32 = 1 << verdict::COUNT;
/// Packets that are malformed, truncated or undecidable.
pub const ANOMALY: u32 = 1 << (verdict::COUNT + 1);

/// Event: a packet's metadata, names and verdict, copied from `DecideInput` and `DecideOutcome`.
#[derive(Clone, Copy, Debug)]
pub struct Event {
    /// UNIX time of the event, in nanoseconds.
    pub time_ns: u64,
    /// Generation of the policy that decided; 0 means none.
    pub generation: u32,
    /// Number of the packet's queue.
    pub queue: u16,
    /// EtherType of the packet, in host byte order.
    pub ethertype: u16,
    pub status: PacketStatus,
    pub truncated: bool,
    pub hook: u8,
    pub length: u32,
    /// Mark of the packet before the policy changed it.
    pub mark: u32,
    pub iif: u32,
    pub oif: u32,
    pub uid: Option<u32>,
    pub gid: Option<u32>,
    pub ct_state: Option<u32>,
    pub ct_mark: Option<u32>,
    pub outcome: DecideOutcome,
    /// Names that the client of the packet's connection has sent.
    pub names: Names,
    /// Parsed headers without the packet's bytes; `packet` returns both.
    parsed: Packet<'static>,
    /// Number of valid bytes in `bytes`.
    captured: usize,
    bytes: [u8; PACKET_BYTES],
}

/// Wake-up of an event consumer. All rings that the consumer reads share it.
#[derive(Debug)]
pub struct EventBell {
    /// True if the consumer sleeps or is about to sleep.
    pub asleep: AtomicBool,
    /// Eventfd that wakes the consumer.
    pub event: EventFd,
    /// Number of events that found their ring full, and of executed log statements without a line: a packet passed more
    /// than LOGS_MAX of them, or the event's policy is unknown.
    pub lost: AtomicU64,
}

/// Producer's end of a ring of events.
pub struct EventRing {
    /// Classes of packets for which the consumer wants events; the producer only reads it.
    wanted: Arc<AtomicU32>,
    /// True if an event was stored or lost since the last `flush`.
    noted: bool,
    queue: u16,
    records: Producer<Event>,
    bell: Arc<EventBell>,
}

/// Consumer's end of a ring of events.
pub type EventRecords = Consumer<Event>;

/// Returns the bits of the classes that a packet belongs to.
#[inline]
pub fn classes(status: PacketStatus, truncated: bool, outcome: &DecideOutcome) -> u32 {
    let anomaly = truncated || outcome.undecidable || packet::is_malformed(status);
    1 << outcome.verdict as u32
        | if outcome.log_count > 0 { LOGGED } else { 0 }
        | if anomaly { ANOMALY } else { 0 }
}

/// Returns true if the consumer wants an event for the packet.
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

/// Creates the wake-up of an event consumer. Its initial state is that the consumer is awake.
pub fn bell_make() -> Result<EventBell, Errno> {
    Ok(EventBell {
        asleep: AtomicBool::new(false),
        event: EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)?,
        lost: AtomicU64::new(0),
    })
}

/// Creates a ring of events, and returns its producer's and its consumer's end.
/// - wanted: classes for which the consumer wants events; all rings share it.
/// - records: capacity in events.
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

/// Returns a copy of a packet's parsed fields, without the packet's bytes.
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

/// Adds lost events to the consumer's counter and to the process's counter.
pub fn lose(bell: &EventBell, events: u64) {
    bell.lost.fetch_add(events, Ordering::Relaxed);
    counts::add(Count::EventsLost, events);
}

/// Stores an event for a packet, or counts it as lost if the ring is full.
/// - generation: generation of the policy that decided; 0 means none.
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
    // Can't fail: there is room, and only this end stores events.
    let _ = ring.records.push(event);
}

/// Wakes the consumer if it sleeps. Only `flush` calls it.
fn wake(ring: &mut EventRing) {
    ring.noted = false;
    // This fence pairs with the fence of the consumer, which sets `asleep` and then reads the rings. At least one of
    // the two threads sees the other thread's write.
    fence(Ordering::SeqCst);
    let bell = &ring.bell;
    if bell.asleep.load(Ordering::Relaxed) && bell.asleep.swap(false, Ordering::Relaxed) {
        let _ = bell.event.write(1); // it can't fail: the counter is far from its limit
    }
}

/// Wakes the consumer if it sleeps, and events were stored or lost since the last call. Must be called after the
/// packets' verdicts are sent.
#[inline]
pub fn flush(ring: &mut EventRing) {
    if ring.noted {
        wake(ring);
    }
}

/// Returns the parsed packet of an event, with its bytes.
pub fn packet(event: &Event) -> Packet<'_> {
    Packet {
        bytes: event.bytes.get(..event.captured).unwrap_or_default(),
        ..event.parsed
    }
}
