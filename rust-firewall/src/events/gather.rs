// SPDX-License-Identifier: GPL-2.0-or-later
// seccomp: close
//! Conversion of records to lines: removes the records from the workers' rings, resolves their numbers by the policy
//! that decided, limits the rate, adds the lines to the sink and to clients, and counts missed events. The lock of
//! events guards all of its state.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use nix::errno::Errno;

use crate::base::counts::{self, Count};
use crate::engine::interface::{self, Interfaces};
use crate::engine::types::LOGS_MAX;
use crate::events;
use crate::events::sink::EventsLines;
use crate::events::text::EventText;
use crate::events::types::{EventsFacts, EventsKind, TAILS_MAX};
use crate::options::Options;
use crate::ruleset::load::Loaded;
use crate::worker::event::{
    self, Event, EventBell, EventRecords, EventRing, ANOMALY, DROP, LOGGED, REJECT, RING_RECORDS,
};
use crate::worker::wait;

/// Maximum number of policies to which records can refer: the current and the previous policy.
const POLICIES: usize = 2;
const NS_PER_SECOND: u64 = 1_000_000_000;

/// A policy with its generation.
pub struct EventsKnown {
    generation: u32,
    loaded: Arc<Loaded>,
}

/// A client that receives events (`tail`).
pub struct EventsTail {
    pub lines: EventsLines,
    /// Verdicts whose events the client requests, as bits 1 << Verdict.
    pub verdicts: u32,
    pub packets: bool,
    /// Connection, until the events thread takes it over; then None.
    pub fd: Option<OwnedFd>,
}

pub struct EventsGather {
    pub bell: Arc<EventBell>,
    /// Classes of events (`event::classes`) that at least one sink requests.
    wanted: Arc<AtomicU32>,
    queue_first: u16,
    /// Number of records in a ring; 0 = no events can be requested.
    pub ring_records: usize,
    rate: u64,
    pub records: Vec<EventRecords>,
    /// Pending lines for the destination of --events; None without --events.
    pub lines: Option<EventsLines>,
    pub tails: [Option<EventsTail>; TAILS_MAX],
    /// Policies to which records can refer; the last policy is the current one.
    known: VecDeque<EventsKnown>,
    interfaces: Interfaces,
    /// Tokens of --events-rate, in billionths of a line.
    tokens: u64,
    refilled_ns: u64,
    /// Number of lines left out because of --events-rate since the last report.
    left_out: u64,
    /// Number of events in bell.lost that have been reported.
    lost_told: u64,
    pub told_ns: u64,
}

fn unix_time() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    u64::try_from(now.unwrap_or_default().as_nanos()).unwrap_or(u64::MAX)
}

/// Sets the classes of events that the workers record: those that at least one sink requests.
pub fn want(gather: &EventsGather) {
    let mut wanted = if gather.lines.is_some() {
        DROP | REJECT | LOGGED | ANOMALY
    } else {
        0
    };
    for tail in gather.tails.iter().flatten() {
        wanted |= tail.verdicts;
    }
    gather.wanted.store(wanted, Ordering::Relaxed);
}

/// Creates the state for reading rings, without rings, and the eventfd that wakes the events thread.
/// - has_sink: true if --events is given.
pub fn make(options: &Options, has_sink: bool) -> Result<EventsGather, Errno> {
    let can_be_wanted = options.events.is_some() || options.control.is_some();
    let rate = u64::from(options.events_rate);
    Ok(EventsGather {
        bell: Arc::new(event::bell_make()?),
        wanted: Arc::default(),
        queue_first: options.queue_first,
        ring_records: if can_be_wanted { RING_RECORDS } else { 0 },
        rate,
        records: Vec::new(),
        lines: has_sink.then(|| events::sink::lines_make(events::sink::ROOM)),
        tails: Default::default(),
        known: VecDeque::with_capacity(POLICIES),
        interfaces: interface::init(interface::system),
        tokens: rate * NS_PER_SECOND,
        refilled_ns: wait::clock(),
        left_out: 0,
        lost_told: 0,
        told_ns: 0,
    })
}

/// Creates a worker's ring of event records (`events::ring`).
pub fn ring(gather: &mut EventsGather, index: u16) -> EventRing {
    convert(gather);
    let (ring, records) = event::ring_make(
        gather.queue_first + index,
        &gather.wanted,
        &gather.bell,
        gather.ring_records,
    );
    match gather.records.get_mut(usize::from(index)) {
        Some(old) => *old = records,
        None => gather.records.push(records),
    }
    ring
}

/// Adds a policy to which records can refer (`events::policy`). Removes the oldest policy of more than POLICIES.
pub fn know(gather: &mut EventsGather, generation: u32, loaded: &Arc<Loaded>) {
    if gather.known.len() == POLICIES {
        gather.known.pop_front();
    }
    gather.known.push_back(EventsKnown {
        generation,
        loaded: Arc::clone(loaded),
    });
}

/// Removes all policies to which records can refer, except the latest.
pub fn forget(gather: &mut EventsGather) {
    while gather.known.len() > 1 {
        gather.known.pop_front();
    }
}

/// Returns the policy of a generation; None if there was none, or it has been removed.
fn known_of(gather: &EventsGather, generation: u32) -> Option<Arc<Loaded>> {
    let known = gather.known.iter().rev();
    let mut known = known.filter(|known| known.generation == generation);
    known.next().map(|known| Arc::clone(&known.loaded))
}

/// Returns the name of an interface; empty = none.
fn name_of(interfaces: &mut Interfaces, index: u32) -> Vec<u8> {
    let name = interface::name(interfaces, index, wait::clock()).to_be_bytes();
    name.into_iter().take_while(|&byte| byte != 0).collect()
}

/// Uses a token of --events-rate, or counts a line over the rate. Returns true if there was a token.
fn take_token(gather: &mut EventsGather) -> bool {
    let now_ns = wait::clock();
    let passed_ns = now_ns - gather.refilled_ns;
    let full = gather.rate * NS_PER_SECOND;
    gather.refilled_ns = now_ns;
    gather.tokens += if passed_ns < NS_PER_SECOND {
        passed_ns * gather.rate
    } else {
        full
    };
    gather.tokens = gather.tokens.min(full);
    if gather.tokens < NS_PER_SECOND {
        counts::add(Count::EventsLeftOut, 1);
        gather.left_out += 1;
        return false;
    }
    gather.tokens -= NS_PER_SECOND;
    true
}

/// Adds a line to a sink.
/// - count: count to increase if the sink has no room for the line.
fn append(lines: &mut EventsLines, line: &str, count: Count) {
    if !events::sink::append(lines, line.as_bytes()) {
        counts::add(count, 1);
    }
}

/// Returns a record's line, which is created for the first sink that needs it: the line of a log statement, or of the
/// packet.
/// - log: index of the log statement; log_count for the packet's line.
/// - packet: true to include the packet's bytes and the policy's input in the packet's line.
fn line_of<'a>(
    line: &'a mut Option<String>,
    text: &EventText,
    log: usize,
    log_count: usize,
    packet: bool,
) -> &'a str {
    line.get_or_insert_with(|| {
        if log < log_count {
            events::text::log(text, log).unwrap_or_default()
        } else {
            events::text::packet(text, packet)
        }
    })
}

/// Adds a line of a record to the destination of --events and to the tail clients, if they request it. Only a packet's
/// own line can include the packet's bytes, and only for tail clients.
/// - log: index of the log statement; log_count for the packet's line.
fn send_line(gather: &mut EventsGather, text: &EventText, log: usize, log_count: usize) {
    let event = text.event;
    let classes = event::classes(event.status, event.truncated, &event.outcome);
    let is_packet = log == log_count;
    let (mut plain, mut full) = (None, None);
    // The destination of --events gets a packet's own line only if the packet is dropped, rejected or anomalous.
    if gather.lines.is_some()
        && (!is_packet || classes & (DROP | REJECT | ANOMALY) != 0)
        && take_token(gather)
    {
        if let Some(lines) = &mut gather.lines {
            let line = line_of(&mut plain, text, log, log_count, false);
            append(lines, line, Count::EventsFailed);
        }
    }
    for tail in gather.tails.iter_mut().flatten() {
        let packet = tail.packets && is_packet;
        if tail.verdicts & classes != 0 {
            let line = if packet { &mut full } else { &mut plain };
            let line = line_of(line, text, log, log_count, packet);
            append(&mut tail.lines, line, Count::TailLost);
        }
    }
}

/// Converts a record to lines: a line for each log statement, then the packet's line.
fn convert_event(gather: &mut EventsGather, event: &Event) {
    let known = known_of(gather, event.generation);
    let noted = event.outcome.log_count as usize;
    let iifname = name_of(&mut gather.interfaces, event.iif);
    let oifname = name_of(&mut gather.interfaces, event.oif);
    let text = EventText {
        event,
        policy: known
            .as_ref()
            .map(|loaded| (&loaded.policy, &loaded.compiled)),
        iifname: &iifname,
        oifname: &oifname,
    };
    let log_count = match known {
        Some(_) => noted.min(LOGS_MAX),
        None => 0,
    };
    if noted > log_count {
        event::lose(&gather.bell, (noted - log_count) as u64);
    }
    for log in 0..=log_count {
        send_line(gather, &text, log, log_count);
    }
}

/// Converts all records in the workers' rings to lines. Returns true if there were any.
pub fn convert(gather: &mut EventsGather) -> bool {
    let mut found = false;
    for ring in 0..gather.records.len() {
        for _ in 0..RING_RECORDS {
            let records = gather.records.get_mut(ring);
            let Some(event) = records.and_then(|records| records.pop().ok()) else {
                break;
            };
            convert_event(gather, &event);
            found = true;
        }
    }
    found
}

/// Reports to a sink the number of events that it missed, if it has room. Returns true if it was reported.
fn tell_one(lines: &mut EventsLines, kind: EventsKind, place: Option<&str>, missed: u64) -> bool {
    let facts = EventsFacts {
        text: place,
        figures: &[missed],
    };
    let line = events::text::own_line(unix_time(), kind, &facts);
    events::sink::has_room(lines, line.as_bytes()) && events::sink::append(lines, line.as_bytes())
}

/// Reports to a sink the events that it lost because it had no room.
fn tell_lost(lines: &mut EventsLines, place: &str) {
    let missed = lines.lost - lines.lost_told;
    if missed > 0 && tell_one(lines, EventsKind::Lost, Some(place), missed) {
        lines.lost_told += missed;
    }
}

/// Reports to a sink the number of events that the rings lost. If the sink has no room, the number is added to the
/// sink's own lost events, which are reported later.
fn tell_ring(lines: &mut EventsLines, ring: u64) {
    if ring > 0 && !tell_one(lines, EventsKind::Lost, Some("ring"), ring) {
        lines.lost += ring;
    }
}

/// Reports missed events, at most once a second. Returns false if no events were missed since the last report.
pub fn tell_missed(gather: &mut EventsGather, now_ns: u64) -> bool {
    let ring = gather.bell.lost.load(Ordering::Relaxed) - gather.lost_told;
    let is_untold = |lines: &EventsLines| lines.lost > lines.lost_told;
    let tails = gather.tails.iter().flatten();
    let waits = ring > 0
        || gather.left_out > 0
        || gather.lines.as_ref().is_some_and(is_untold)
        || tails.map(|tail| &tail.lines).any(is_untold);
    if !waits || now_ns - gather.told_ns < NS_PER_SECOND {
        return waits;
    }
    gather.told_ns = now_ns;
    gather.lost_told += ring;
    if let Some(lines) = &mut gather.lines {
        if gather.left_out > 0 && tell_one(lines, EventsKind::LeftOut, None, gather.left_out) {
            gather.left_out = 0;
        }
        tell_ring(lines, ring);
        tell_lost(lines, "sink");
    }
    for tail in gather.tails.iter_mut().flatten() {
        tell_ring(&mut tail.lines, ring);
        tell_lost(&mut tail.lines, "tail");
    }
    true
}

/// Adds the line of an event about the program itself to all sinks.
pub fn tell(gather: &mut EventsGather, kind: EventsKind, facts: &EventsFacts) {
    let line = events::text::own_line(unix_time(), kind, facts);
    if let Some(lines) = &mut gather.lines {
        append(lines, &line, Count::EventsFailed);
    }
    for tail in gather.tails.iter_mut().flatten() {
        append(&mut tail.lines, &line, Count::TailLost);
    }
}
