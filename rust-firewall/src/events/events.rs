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

use std::io;
use std::mem;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{fence, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

use nix::errno::Errno;
use nix::poll::{poll, PollFd, PollFlags, PollTimeout};

use crate::base::counts::{self, Count};
use crate::base::lock;
use crate::base::log::{self, failure_set_start, Failure};
use crate::events;
use crate::events::gather::{EventsGather, EventsTail};
use crate::events::sink::{EventsSink, EventsSinkKind, ROOM_TAIL};
use crate::events::types::{EventsFacts, EventsKind, TAILS_MAX};
use crate::options::Options;
use crate::ruleset::load::Loaded;
use crate::worker::event::{EventBell, EventRing};
use crate::worker::wait;

/// Milliseconds between looks into the rings while records come.
const BUSY_MS: u16 = 5;
/// While something is to be told or to be tried again.
const WAIT_MS: u16 = 1000;
const NS_PER_SECOND: u64 = 1_000_000_000;
/// For writing what is left.
const STOP_NS: u64 = NS_PER_SECOND;

/// State guarded by the lock.
struct Inner {
    gather: EventsGather,
    /// The sink's file, if it is one.
    file: Option<Arc<OwnedFd>>,
    rotate: bool,
    stop: bool,
}

/// The thread's own.
struct Sinks {
    sink: Option<EventsSink>,
    tails: [Option<EventsSink>; TAILS_MAX],
}

/// State shared by all threads.
struct Shared {
    bell: Arc<EventBell>,
    inner: Mutex<Inner>,
}

pub struct Events {
    shared: Arc<Shared>,
    /// While the thread does not run.
    sinks: Mutex<Option<Sinks>>,
    thread: Mutex<Option<JoinHandle<Sinks>>>,
}

fn wake(shared: &Shared) {
    let _ = shared.bell.event.write(1); // it can't fail: it never comes near its limit
}

/// Opens what --events names, if it is given.
/// inherited: the descriptor of the file that the firewall before had.
pub fn open(options: &Options, inherited: Option<OwnedFd>) -> Result<Events, Failure> {
    let place = options.events.as_deref();
    let gather = events::gather::make(options, place.is_some())
        .map_err(|error| failure_set_start("eventfd", error))?;
    let sink = place
        .map(|place| events::sink::open(place, inherited))
        .transpose()?;
    events::gather::want(&gather);
    let shared = Shared {
        bell: Arc::clone(&gather.bell),
        inner: Mutex::new(Inner {
            gather,
            file: sink.as_ref().and_then(events::sink::file),
            rotate: false,
            stop: false,
        }),
    };
    Ok(Events {
        shared: Arc::new(shared),
        sinks: Mutex::new(Some(Sinks {
            sink,
            tails: Default::default(),
        })),
        thread: Mutex::new(None),
    })
}

/// A ring for the index-th worker, in place of the one that it had.
pub fn ring(events: &Events, index: u16) -> EventRing {
    events::gather::ring(&mut lock::lock(&events.shared.inner).gather, index)
}

/// A descriptor of the file of --events, to hand over.
pub fn fd(events: &Events) -> Option<OwnedFd> {
    let inner = lock::lock(&events.shared.inner);
    inner.file.as_ref()?.try_clone().ok()
}

/// Says which policy the records of a generation are about, before any worker decides by it. The one
/// before is kept until `drain`, called when all workers decide by this.
pub fn policy(events: &Events, generation: u32, loaded: &Arc<Loaded>) {
    let mut inner = lock::lock(&events.shared.inner);
    events::gather::know(&mut inner.gather, generation, loaded);
}

/// Adds an event of the program's own.
pub fn tell(events: &Events, kind: EventsKind, facts: &EventsFacts) {
    events::gather::tell(&mut lock::lock(&events.shared.inner).gather, kind, facts);
    wake(&events.shared);
}

/// Makes lines of all that has been noted; forgets all policies but the one named last.
pub fn drain(events: &Events) {
    let mut inner = lock::lock(&events.shared.inner);
    events::gather::take(&mut inner.gather);
    events::gather::forget(&mut inner.gather);
    drop(inner);
    wake(&events.shared);
}

/// Opens the file of --events anew; goes on with the old one if that fails.
pub fn rotate(events: &Events) {
    lock::lock(&events.shared.inner).rotate = true;
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
    let mut inner = lock::lock(&events.shared.inner);
    let Some(free) = inner.gather.tails.iter_mut().find(|tail| tail.is_none()) else {
        return Err((fd, Errno::EBUSY));
    };
    let mut lines = events::sink::lines_make(ROOM_TAIL);
    events::sink::put(&mut lines, b"{\"ok\":true}\n");
    *free = Some(EventsTail {
        lines,
        verdicts,
        packets,
        fd: Some(fd),
    });
    counts::add(Count::TailClients, 1);
    events::gather::want(&inner.gather);
    drop(inner);
    wake(&events.shared);
    Ok(())
}

/// Adopts new clients.
fn take_clients(shared: &Shared, sinks: &mut Sinks) {
    let mut inner = lock::lock(&shared.inner);
    for (tail, sink) in inner.gather.tails.iter_mut().zip(&mut sinks.tails) {
        if let Some(fd) = tail.as_mut().and_then(|tail| tail.fd.take()) {
            *sink = Some(events::sink::client(fd));
        }
    }
}

/// Writes to a client, and forgets it if it has gone.
fn flush_tail(shared: &Shared, index: usize, sink: &mut Option<EventsSink>, now_ns: u64) {
    let Some(own) = sink else {
        return;
    };
    let mut swap = |written: Option<&mut Vec<u8>>| {
        let mut inner = lock::lock(&shared.inner);
        let tail = inner.gather.tails.get_mut(index).and_then(Option::as_mut);
        tail.map_or(0, |tail| events::sink::swap(&mut tail.lines, written))
    };
    events::sink::look(own, now_ns);
    events::sink::flush(own, &mut swap, now_ns);
    if events::sink::fd(own).is_some() {
        return;
    }
    *sink = None;
    let mut inner = lock::lock(&shared.inner);
    if let Some(tail) = inner.gather.tails.get_mut(index) {
        *tail = None;
    }
    events::gather::want(&inner.gather);
}

/// Writes what can be written.
fn flush(shared: &Shared, sinks: &mut Sinks, now_ns: u64) {
    let rotate = mem::take(&mut lock::lock(&shared.inner).rotate);
    take_clients(shared, sinks);
    if let Some(sink) = &mut sinks.sink {
        let mut swap = |written: Option<&mut Vec<u8>>| {
            let mut inner = lock::lock(&shared.inner);
            let lines = inner.gather.lines.as_mut();
            lines.map_or(0, |lines| events::sink::swap(lines, written))
        };
        if rotate {
            events::sink::rotate(sink);
        }
        events::sink::look(sink, now_ns);
        events::sink::flush(sink, &mut swap, now_ns);
        lock::lock(&shared.inner).file = events::sink::file(sink);
    }
    for (index, sink) in sinks.tails.iter_mut().enumerate() {
        flush_tail(shared, index, sink, now_ns);
    }
}

/// Lines that are still to be written.
fn left(inner: &Inner, sinks: &Sinks) -> u64 {
    let tails = inner.gather.tails.iter().flatten().map(|tail| &tail.lines);
    let waiting: u64 = inner
        .gather
        .lines
        .iter()
        .chain(tails)
        .map(events::sink::lines_left)
        .sum();
    let taken = sinks.sink.iter().chain(sinks.tails.iter().flatten());
    waiting + taken.map(events::sink::left).sum::<u64>()
}

/// Says that the thread sleeps, and looks once more. Returns whether there is something after all.
fn fall_asleep(shared: &Shared) -> bool {
    shared.bell.asleep.store(true, Ordering::Relaxed);
    fence(Ordering::SeqCst); // see event::flush
    let inner = lock::lock(&shared.inner);
    let found = inner
        .gather
        .records
        .iter()
        .any(|records| !records.is_empty());
    if found {
        shared.bell.asleep.store(false, Ordering::Relaxed);
    }
    found
}

/// Waits for records, a wake-up, sinks, or for a time; none = without end.
fn rest(shared: &Shared, sinks: &Sinks, timeout_ms: Option<u16>) {
    let stdout = io::stdout();
    let bell = shared.bell.event.as_fd();
    let mut polled = vec![PollFd::new(bell, PollFlags::POLLIN)];
    for sink in sinks.sink.iter().chain(sinks.tails.iter().flatten()) {
        let fd = match sink.kind {
            EventsSinkKind::Stdout => Some(stdout.as_fd()),
            _ => events::sink::fd(sink),
        };
        let flags = events::sink::events(sink);
        // A sink that is watched for no event is reported nevertheless if its other end is closed.
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
    let mut inner = lock::lock(&shared.inner);
    let found = events::gather::take(&mut inner.gather);
    let waits = events::gather::tell_missed(&mut inner.gather, now_ns);
    drop(inner);
    flush(shared, sinks, now_ns);
    if found || fall_asleep(shared) {
        return Some(BUSY_MS);
    }
    (waits || left(&lock::lock(&shared.inner), sinks) > 0).then_some(WAIT_MS)
}

fn run(shared: &Shared, mut sinks: Sinks) -> Sinks {
    while !lock::lock(&shared.inner).stop {
        let rest_ms = work(shared, &mut sinks);
        rest(shared, &sinks, rest_ms);
    }
    let until_ns = wait::clock() + STOP_NS;
    lock::lock(&shared.inner).gather.told_ns = 0; // what is still to be told is told now
    loop {
        work(shared, &mut sinks);
        if left(&lock::lock(&shared.inner), &sinks) == 0 || wait::clock() >= until_ns {
            return sinks;
        }
        rest(shared, &sinks, Some(BUSY_MS));
    }
}

/// Starts the thread, if anything can be wanted of it.
pub fn start(events: &Events) -> Result<(), Failure> {
    if lock::lock(&events.shared.inner).gather.ring_records == 0 {
        return Ok(()); // nothing can be wanted
    }
    let Some(sinks) = lock::lock(&events.sinks).take() else {
        return Ok(());
    };
    lock::lock(&events.shared.inner).stop = false;
    let shared = Arc::clone(&events.shared);
    let thread = thread::Builder::new()
        .spawn(move || run(&shared, sinks))
        .map_err(|error| {
            let error = error.raw_os_error().map_or(Errno::EAGAIN, Errno::from_raw);
            failure_set_start("pthread_create", error)
        })?;
    *lock::lock(&events.thread) = Some(thread);
    Ok(())
}

/// Makes lines of all that has been noted, writes what can be written within a second, and ends the
/// thread, if there is one. The sink stays open.
pub fn stop(events: &Events) {
    let Some(thread) = lock::lock(&events.thread).take() else {
        return;
    };
    lock::lock(&events.shared.inner).stop = true;
    wake(&events.shared);
    let Ok(sinks) = thread.join() else {
        return;
    };
    let waiting = lock::lock(&events.shared.inner)
        .gather
        .lines
        .as_ref()
        .map_or(0, events::sink::lines_left);
    if let Some(sink) = &sinks.sink {
        let lines = waiting + events::sink::left(sink);
        if lines > 0 {
            counts::add(Count::EventsFailed, lines);
            log::warn(format_args!(
                "events: {lines} could not be written to {}",
                sink.path
            ));
        }
    }
    *lock::lock(&events.sinks) = Some(sinks);
}
