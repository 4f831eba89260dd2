// SPDX-License-Identifier: GPL-2.0-or-later
// seccomp: close fcntl futex poll read write
//! Events as they leave the firewall: lines of JSON like Suricata's (docs/EVENTS.md), to what
//! --events names and to clients that follow (`tail`).
//!
//! Theory of operation: a thread takes the records out of the workers' rings, makes lines of them and
//! writes them. Only it touches files, and only it may be kept waiting by one. Its lock is held while
//! records become lines, never while lines are written; so any thread may add a line of its own
//! (`tell`) or see to it that all that was noted has become lines (`drain`). What finds no room is
//! counted and told later, by a line of its own.

use std::collections::VecDeque;
use std::io;
use std::mem;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{fence, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{SystemTime, UNIX_EPOCH};

use nix::errno::Errno;
use nix::poll::{poll, PollFd, PollFlags, PollTimeout};

use crate::counts::{self, Count};
use crate::decide::LOGS_MAX;
use crate::event::{
    self, Event, EventBell, EventRecords, EventRing, ANOMALY, DROP, LOGGED, REJECT, RING_RECORDS,
};
use crate::event_text::{self, EventText};
use crate::events_sink::{self, EventsLines, EventsSink, EventsSinkKind, ROOM, ROOM_TAIL};
use crate::interface::{self, Interfaces};
use crate::load::Loaded;
use crate::log::{self, failure_set_start, Failure};
use crate::options::Options;
use crate::wait;

/// Clients that follow at a time.
pub const TAILS_MAX: usize = 8;

/// Milliseconds between looks into the rings while records come.
const BUSY_MS: u16 = 5;
/// While something is to be told or to be tried again.
const WAIT_MS: u16 = 1000;
/// That records can be about: the one at hand, and the one before.
const POLICIES: usize = 2;
const NS_PER_SECOND: u64 = 1_000_000_000;
/// For writing what is left.
const STOP_NS: u64 = NS_PER_SECOND;

/// The program's own events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventsKind {
    Started,
    Stopped,
    Reload,
    ReloadFailed,
    Stall,
    Overload,
    Upgrade,
    /// By --events-rate.
    LeftOut,
    /// For want of room.
    Lost,
}

/// What is told of one: its text ("text"), if it has any, and figures by their names.
#[derive(Clone, Copy, Debug, Default)]
pub struct EventsFacts<'a> {
    pub text: Option<&'a str>,
    pub figures: &'a [(&'static str, u64)],
}

/// Of a generation.
struct Known {
    generation: u32,
    loaded: Arc<Loaded>,
}

/// A client that follows.
struct Tail {
    lines: EventsLines,
    /// Bits 1 << Verdict.
    verdicts: u32,
    packets: bool,
    /// Until the thread takes it.
    fd: Option<OwnedFd>,
}

/// What the lock is of.
struct Inner {
    records: Vec<EventRecords>,
    /// Of --events.
    lines: Option<EventsLines>,
    /// Of the sink, if it is one.
    file: Option<Arc<OwnedFd>>,
    tails: [Option<Tail>; TAILS_MAX],
    /// The last is the one at hand.
    known: VecDeque<Known>,
    interfaces: Interfaces,
    /// Of --events-rate, in billionths of a line.
    tokens: u64,
    refilled_ns: u64,
    /// Since it was told.
    left_out: u64,
    /// Of bell.lost.
    lost_told: u64,
    told_ns: u64,
    rotate: bool,
    stop: bool,
}

/// The thread's own.
struct Sinks {
    sink: Option<EventsSink>,
    tails: [Option<EventsSink>; TAILS_MAX],
}

/// What all threads share.
struct Shared {
    bell: Arc<EventBell>,
    /// Of the classes of `event`.
    wanted: Arc<AtomicU32>,
    rate: u64,
    has_sink: bool,
    inner: Mutex<Inner>,
}

pub struct Events {
    shared: Arc<Shared>,
    queue_first: u16,
    /// Room in a ring.
    ring_records: usize,
    /// While the thread does not run.
    sinks: Mutex<Option<Sinks>>,
    thread: Mutex<Option<JoinHandle<Sinks>>>,
}

/// A thread that panicked leaves nothing half done here: lines are added whole.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn unix_time() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    u64::try_from(now.unwrap_or_default().as_nanos()).unwrap_or(u64::MAX)
}

fn wake(shared: &Shared) {
    let _ = shared.bell.event.write(1); // it can't fail: it never comes near its limit
}

/// Tells the workers what is wanted.
fn want(shared: &Shared, inner: &Inner) {
    let mut wanted = if shared.has_sink {
        DROP | REJECT | LOGGED | ANOMALY
    } else {
        0
    };
    for tail in inner.tails.iter().flatten() {
        wanted |= tail.verdicts;
    }
    shared.wanted.store(wanted, Ordering::Relaxed);
}

/// Opens what --events names, if it is given.
/// inherited: the descriptor of the file that the firewall before had.
pub fn open(options: &Options, inherited: Option<OwnedFd>) -> Result<Events, Failure> {
    let bell = event::bell_make().map_err(|error| failure_set_start("eventfd", error))?;
    let place = options.events.as_deref();
    let sink = place
        .map(|place| events_sink::open(options, place, inherited))
        .transpose()?;
    let rate = u64::from(options.events_rate);
    let inner = Inner {
        records: Vec::new(),
        lines: sink.is_some().then(|| events_sink::lines_make(ROOM)),
        file: sink.as_ref().and_then(events_sink::file),
        tails: Default::default(),
        known: VecDeque::with_capacity(POLICIES),
        interfaces: interface::init(interface::system),
        tokens: rate * NS_PER_SECOND,
        refilled_ns: wait::clock(),
        left_out: 0,
        lost_told: 0,
        told_ns: 0,
        rotate: false,
        stop: false,
    };
    let shared = Shared {
        bell: Arc::new(bell),
        wanted: Arc::default(),
        rate,
        has_sink: sink.is_some(),
        inner: Mutex::new(inner),
    };
    want(&shared, &lock(&shared.inner));
    let can_be_wanted = options.events.is_some() || options.control.is_some();
    Ok(Events {
        shared: Arc::new(shared),
        queue_first: options.queue_first,
        ring_records: if can_be_wanted { RING_RECORDS } else { 0 },
        sinks: Mutex::new(Some(Sinks {
            sink,
            tails: Default::default(),
        })),
        thread: Mutex::new(None),
    })
}

/// A ring for the index-th worker, in place of the one that it had.
pub fn ring(events: &Events, index: u16) -> EventRing {
    let shared = &events.shared;
    let (ring, records) = event::ring_make(
        events.queue_first + index,
        &shared.wanted,
        &shared.bell,
        events.ring_records,
    );
    let mut inner = lock(&shared.inner);
    take_rings(shared, &mut inner);
    match inner.records.get_mut(usize::from(index)) {
        Some(old) => *old = records,
        None => inner.records.push(records),
    }
    ring
}

/// A descriptor of the file of --events, to hand over.
pub fn fd(events: &Events) -> Option<OwnedFd> {
    let inner = lock(&events.shared.inner);
    inner.file.as_ref()?.try_clone().ok()
}

/// Says which policy the records of a generation are about, before any worker decides by it. The one
/// before is kept until `drain`, called when all workers decide by this.
pub fn policy(events: &Events, generation: u32, loaded: &Arc<Loaded>) {
    let mut inner = lock(&events.shared.inner);
    if inner.known.len() == POLICIES {
        inner.known.pop_front();
    }
    inner.known.push_back(Known {
        generation,
        loaded: Arc::clone(loaded),
    });
}

/// What the numbers of a record stand for.
fn known_of(inner: &Inner, generation: u32) -> Option<Arc<Loaded>> {
    let known = inner.known.iter().rev();
    let mut known = known.filter(|known| known.generation == generation);
    known.next().map(|known| Arc::clone(&known.loaded))
}

/// The name of an interface; empty = none.
fn name_of(interfaces: &mut Interfaces, index: u32) -> Vec<u8> {
    let name = interface::name(interfaces, index, wait::clock()).to_be_bytes();
    name.into_iter().take_while(|&byte| byte != 0).collect()
}

/// Takes a token of --events-rate, or counts a line that is left out.
fn take_token(shared: &Shared, inner: &mut Inner) -> bool {
    let now_ns = wait::clock();
    let passed_ns = now_ns - inner.refilled_ns;
    let full = shared.rate * NS_PER_SECOND;
    inner.refilled_ns = now_ns;
    inner.tokens += if passed_ns < NS_PER_SECOND {
        passed_ns * shared.rate
    } else {
        full
    };
    inner.tokens = inner.tokens.min(full);
    if inner.tokens < NS_PER_SECOND {
        counts::add(Count::EventsLeftOut, 1);
        inner.left_out += 1;
        return false;
    }
    inner.tokens -= NS_PER_SECOND;
    true
}

/// count: what counts lines that find no room.
fn put(lines: &mut EventsLines, line: &[u8], count: Count) {
    if !events_sink::put(lines, line) {
        counts::add(count, 1);
    }
}

/// A line to all who want it, made when the first does: the log-th log statement's line, or the
/// packet's for log == log_count.
fn line_of<'a>(
    line: &'a mut Option<Vec<u8>>,
    text: &EventText,
    log: usize,
    log_count: usize,
    packet: bool,
) -> &'a [u8] {
    line.get_or_insert_with(|| {
        if log < log_count {
            event_text::log(text, log).unwrap_or_default()
        } else {
            event_text::packet(text, packet)
        }
    })
}

/// Sends a line of a record to all who want it. Only a packet's own line has its bytes.
fn send_line(shared: &Shared, inner: &mut Inner, text: &EventText, log: usize, log_count: usize) {
    let event = text.event;
    let classes = event::classes(event.status, event.truncated, &event.outcome);
    let is_packet = log == log_count;
    let (mut plain, mut full) = (None, None);
    // What only passed is for those who follow.
    if shared.has_sink
        && (!is_packet || classes & (DROP | REJECT | ANOMALY) != 0)
        && take_token(shared, inner)
    {
        if let Some(lines) = &mut inner.lines {
            let line = line_of(&mut plain, text, log, log_count, false);
            put(lines, line, Count::EventsFailed);
        }
    }
    for tail in inner.tails.iter_mut().flatten() {
        let packet = tail.packets && is_packet;
        if tail.verdicts & classes != 0 {
            let line = if packet { &mut full } else { &mut plain };
            let line = line_of(line, text, log, log_count, packet);
            put(&mut tail.lines, line, Count::TailLost);
        }
    }
}

/// Makes lines of a record: one for each log statement, then the packet's.
fn take_event(shared: &Shared, inner: &mut Inner, event: &Event) {
    let known = known_of(inner, event.generation);
    let noted = event.outcome.log_count as usize;
    let iifname = name_of(&mut inner.interfaces, event.iif);
    let oifname = name_of(&mut inner.interfaces, event.oif);
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
        event::lose(&shared.bell, (noted - log_count) as u64);
    }
    for log in 0..=log_count {
        send_line(shared, inner, &text, log, log_count);
    }
}

/// Takes what is in the rings. Returns whether there was anything.
fn take_rings(shared: &Shared, inner: &mut Inner) -> bool {
    let mut found = false;
    for ring in 0..inner.records.len() {
        for _ in 0..RING_RECORDS {
            let records = inner.records.get_mut(ring);
            let Some(event) = records.and_then(|records| records.pop().ok()) else {
                break;
            };
            take_event(shared, inner, &event);
            found = true;
        }
    }
    found
}

/// Tells a sink how many events it missed, if there is room again. Returns whether it has been told.
fn tell_missed(
    lines: &mut EventsLines,
    kind: EventsKind,
    place: Option<&str>,
    missed: u64,
) -> bool {
    let facts = EventsFacts {
        text: place,
        figures: &[("events", missed)],
    };
    let line = event_text::own_line(unix_time(), kind, &facts);
    events_sink::has_room(lines, &line) && events_sink::put(lines, &line)
}

/// Tells a sink what it lost for want of room there.
fn tell_lost(lines: &mut EventsLines, place: &str) {
    let missed = lines.lost - lines.lost_told;
    if missed > 0 && tell_missed(lines, EventsKind::Lost, Some(place), missed) {
        lines.lost_told += missed;
    }
}

/// Tells what was missed, at most once a second. Returns whether something is still to be told.
fn tell_all(shared: &Shared, inner: &mut Inner, now_ns: u64) -> bool {
    let ring = shared.bell.lost.load(Ordering::Relaxed) - inner.lost_told;
    let is_untold = |lines: &EventsLines| lines.lost > lines.lost_told;
    let tails = inner.tails.iter().flatten();
    let waits = ring > 0
        || inner.left_out > 0
        || inner.lines.as_ref().is_some_and(is_untold)
        || tails.map(|tail| &tail.lines).any(is_untold);
    if !waits || now_ns - inner.told_ns < NS_PER_SECOND {
        return waits;
    }
    inner.told_ns = now_ns;
    inner.lost_told += ring;
    if let Some(lines) = &mut inner.lines {
        if inner.left_out > 0 && tell_missed(lines, EventsKind::LeftOut, None, inner.left_out) {
            inner.left_out = 0;
        }
        if ring > 0 {
            tell_missed(lines, EventsKind::Lost, Some("ring"), ring);
        }
        tell_lost(lines, "sink");
    }
    for tail in inner.tails.iter_mut().flatten() {
        if ring > 0 {
            tell_missed(&mut tail.lines, EventsKind::Lost, Some("ring"), ring);
        }
        tell_lost(&mut tail.lines, "tail");
    }
    true
}

/// Adds an event of the program's own.
pub fn tell(events: &Events, kind: EventsKind, facts: &EventsFacts) {
    let line = event_text::own_line(unix_time(), kind, facts);
    let mut inner = lock(&events.shared.inner);
    if let Some(lines) = &mut inner.lines {
        put(lines, &line, Count::EventsFailed);
    }
    for tail in inner.tails.iter_mut().flatten() {
        put(&mut tail.lines, &line, Count::TailLost);
    }
    drop(inner);
    wake(&events.shared);
}

/// Makes lines of all that has been noted; forgets all policies but the one named last.
pub fn drain(events: &Events) {
    let mut inner = lock(&events.shared.inner);
    take_rings(&events.shared, &mut inner);
    while inner.known.len() > 1 {
        inner.known.pop_front();
    }
    drop(inner);
    wake(&events.shared);
}

/// Opens the file of --events anew; goes on with the old one if that fails.
pub fn rotate(events: &Events) {
    lock(&events.shared.inner).rotate = true;
    wake(&events.shared);
}

/// Sends events to a client, which is answered {"ok":true} first.
/// - verdicts: of the packets that it wants events of, as bits 1 << Verdict.
/// - packets: with the packets' bytes and all that the policy could ask.
/// - Gives the descriptor back if there are TAILS_MAX clients (EBUSY).
pub fn tail(
    events: &Events,
    fd: OwnedFd,
    verdicts: u32,
    packets: bool,
) -> Result<(), (OwnedFd, Errno)> {
    let mut inner = lock(&events.shared.inner);
    let Some(free) = inner.tails.iter_mut().find(|tail| tail.is_none()) else {
        return Err((fd, Errno::EBUSY));
    };
    let mut lines = events_sink::lines_make(ROOM_TAIL);
    events_sink::put(&mut lines, b"{\"ok\":true}\n");
    *free = Some(Tail {
        lines,
        verdicts,
        packets,
        fd: Some(fd),
    });
    counts::add(Count::TailClients, 1);
    want(&events.shared, &inner);
    drop(inner);
    wake(&events.shared);
    Ok(())
}

/// Takes new clients over.
fn take_clients(shared: &Shared, sinks: &mut Sinks) {
    let mut inner = lock(&shared.inner);
    for (tail, sink) in inner.tails.iter_mut().zip(&mut sinks.tails) {
        if let Some(fd) = tail.as_mut().and_then(|tail| tail.fd.take()) {
            *sink = Some(events_sink::client(fd));
        }
    }
}

/// Writes to a client, and forgets it if it has gone.
fn flush_tail(shared: &Shared, index: usize, sink: &mut Option<EventsSink>, now_ns: u64) {
    let Some(own) = sink else {
        return;
    };
    let mut swap = |written: Option<&mut Vec<u8>>| {
        let mut inner = lock(&shared.inner);
        let tail = inner.tails.get_mut(index).and_then(Option::as_mut);
        tail.map_or(0, |tail| events_sink::swap(&mut tail.lines, written))
    };
    events_sink::look(own, now_ns);
    events_sink::flush(own, &mut swap, now_ns);
    if events_sink::fd(own).is_some() {
        return;
    }
    *sink = None;
    let mut inner = lock(&shared.inner);
    if let Some(tail) = inner.tails.get_mut(index) {
        *tail = None;
    }
    want(shared, &inner);
}

/// Writes what can be written.
fn flush(shared: &Shared, sinks: &mut Sinks, now_ns: u64) {
    let rotate = mem::take(&mut lock(&shared.inner).rotate);
    take_clients(shared, sinks);
    if let Some(sink) = &mut sinks.sink {
        let mut swap = |written: Option<&mut Vec<u8>>| {
            let mut inner = lock(&shared.inner);
            let lines = inner.lines.as_mut();
            lines.map_or(0, |lines| events_sink::swap(lines, written))
        };
        if rotate {
            events_sink::rotate(sink);
        }
        events_sink::look(sink, now_ns);
        events_sink::flush(sink, &mut swap, now_ns);
        lock(&shared.inner).file = events_sink::file(sink);
    }
    for (index, sink) in sinks.tails.iter_mut().enumerate() {
        flush_tail(shared, index, sink, now_ns);
    }
}

/// Lines that are still to be written.
fn left(inner: &Inner, sinks: &Sinks) -> u64 {
    let tails = inner.tails.iter().flatten().map(|tail| &tail.lines);
    let waiting: u64 = inner
        .lines
        .iter()
        .chain(tails)
        .map(events_sink::lines_left)
        .sum();
    let taken = sinks.sink.iter().chain(sinks.tails.iter().flatten());
    waiting + taken.map(events_sink::left).sum::<u64>()
}

/// Says that the thread sleeps, and looks once more. Returns whether there is something after all.
fn fall_asleep(shared: &Shared) -> bool {
    shared.bell.asleep.store(true, Ordering::Relaxed);
    fence(Ordering::SeqCst); // see event::flush
    let inner = lock(&shared.inner);
    let found = inner.records.iter().any(|records| !records.is_empty());
    if found {
        shared.bell.asleep.store(false, Ordering::Relaxed);
    }
    found
}

/// Waits for records, for somebody who wakes, for sinks, or for a time; none = without end.
fn rest(shared: &Shared, sinks: &Sinks, timeout_ms: Option<u16>) {
    let stdout = io::stdout();
    let bell = shared.bell.event.as_fd();
    let mut polled = vec![PollFd::new(bell, PollFlags::POLLIN)];
    for sink in sinks.sink.iter().chain(sinks.tails.iter().flatten()) {
        let fd = match sink.kind {
            EventsSinkKind::Stdout => Some(stdout.as_fd()),
            _ => events_sink::fd(sink),
        };
        let flags = events_sink::events(sink);
        // A sink that is watched for nothing would be told of all the same, if its other end is gone.
        if let Some(fd) = fd.filter(|_| !flags.is_empty()) {
            polled.push(PollFd::new(fd, flags));
        }
    }
    let timeout = timeout_ms.map_or(PollTimeout::NONE, PollTimeout::from);
    let _ = poll(&mut polled, timeout); // if it is interrupted, it was too long
    shared.bell.asleep.store(false, Ordering::Relaxed);
    let _ = shared.bell.event.read();
}

/// One round. Returns for how many milliseconds to rest.
fn work(shared: &Shared, sinks: &mut Sinks) -> Option<u16> {
    let now_ns = wait::clock();
    let mut inner = lock(&shared.inner);
    let found = take_rings(shared, &mut inner);
    let waits = tell_all(shared, &mut inner, now_ns);
    drop(inner);
    flush(shared, sinks, now_ns);
    if found || fall_asleep(shared) {
        return Some(BUSY_MS);
    }
    (waits || left(&lock(&shared.inner), sinks) > 0).then_some(WAIT_MS)
}

fn run(shared: &Shared, mut sinks: Sinks) -> Sinks {
    while !lock(&shared.inner).stop {
        let rest_ms = work(shared, &mut sinks);
        rest(shared, &sinks, rest_ms);
    }
    let until_ns = wait::clock() + STOP_NS;
    lock(&shared.inner).told_ns = 0; // what is still to be told is told now
    loop {
        work(shared, &mut sinks);
        if left(&lock(&shared.inner), &sinks) == 0 || wait::clock() >= until_ns {
            return sinks;
        }
        rest(shared, &sinks, Some(BUSY_MS));
    }
}

/// Starts the thread, if anything can be wanted of it.
pub fn start(events: &Events) -> Result<(), Failure> {
    if events.ring_records == 0 {
        return Ok(()); // nothing can be wanted
    }
    let Some(sinks) = lock(&events.sinks).take() else {
        return Ok(());
    };
    lock(&events.shared.inner).stop = false;
    let shared = Arc::clone(&events.shared);
    let thread = thread::Builder::new()
        .spawn(move || run(&shared, sinks))
        .map_err(|error| {
            let error = error.raw_os_error().map_or(Errno::EAGAIN, Errno::from_raw);
            failure_set_start("pthread_create", error)
        })?;
    *lock(&events.thread) = Some(thread);
    Ok(())
}

/// Makes lines of all that has been noted, writes what can be written within a second, and ends the
/// thread, if there is one. The sink stays open.
pub fn stop(events: &Events) {
    let Some(thread) = lock(&events.thread).take() else {
        return;
    };
    lock(&events.shared.inner).stop = true;
    wake(&events.shared);
    let Ok(sinks) = thread.join() else {
        return;
    };
    let waiting = lock(&events.shared.inner)
        .lines
        .as_ref()
        .map_or(0, events_sink::lines_left);
    if let Some(sink) = &sinks.sink {
        let lines = waiting + events_sink::left(sink);
        if lines > 0 {
            counts::add(Count::EventsFailed, lines);
            log::warn(format_args!(
                "events: {lines} could not be written to {}",
                sink.path
            ));
        }
    }
    *lock(&events.sinks) = Some(sinks);
}
