// SPDX-License-Identifier: GPL-2.0-or-later
// seccomp: close fcntl futex poll read write
//! Output of events: lines of JSON like Suricata's (docs/EVENTS.md), to the destination of --events and to clients that
//! follow (`tail`).
//!
//! Theory of operation: a thread removes the records from the workers' rings, converts them to lines, and writes the
//! lines. Only this thread uses files, and may block on a file. A lock is held while records become lines, never while
//! lines are written. Therefore any thread may add a line (`tell`), or convert all records to lines (`drain`).
//! Events without room are counted, and reported later by a line of their own.

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

/// Time between reads of the rings while records arrive, in milliseconds.
const BUSY_MS: u16 = 5;
/// Time between attempts to report missed events or to reopen a sink, in milliseconds.
const WAIT_MS: u16 = 1000;
const NS_PER_SECOND: u64 = 1_000_000_000;
/// Maximum time for writing the remaining lines at the end.
const STOP_NS: u64 = NS_PER_SECOND;

/// State that several threads use, guarded by the lock `Shared::inner`.
struct Inner {
    gather: EventsGather,
    /// Open file of --events, if the destination is a file.
    file: Option<Arc<OwnedFd>>,
    rotate: bool,
    stop: bool,
}

/// State that only the events thread uses: the sink of --events, and the sinks of the clients.
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
    /// State of the events thread while the thread does not run; otherwise None.
    sinks: Mutex<Option<Sinks>>,
    thread: Mutex<Option<JoinHandle<Sinks>>>,
}

fn wake(shared: &Shared) {
    let _ = shared.bell.event.write(1); // can't fail: the counter is far from its limit
}

/// Opens the destination of --events, if it is given.
/// - inherited: descriptor of the file from the old firewall; None = none.
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

/// Creates a ring of event records for a worker, which replaces the worker's previous ring.
/// - index: index of the worker.
pub fn ring(events: &Events, index: u16) -> EventRing {
    events::gather::ring(&mut lock::lock(&events.shared.inner).gather, index)
}

/// Returns a descriptor of the file of --events, for an upgrade; None = none.
pub fn fd(events: &Events) -> Option<OwnedFd> {
    let inner = lock::lock(&events.shared.inner);
    inner.file.as_ref()?.try_clone().ok()
}

/// Sets the policy to which records of a generation refer. Must be called before any worker decides by this policy. The
/// previous policy is kept until `drain`, which is called when all workers have changed.
pub fn policy(events: &Events, generation: u32, loaded: &Arc<Loaded>) {
    let mut inner = lock::lock(&events.shared.inner);
    events::gather::know(&mut inner.gather, generation, loaded);
}

/// Adds the line of an event about the program itself to all sinks.
pub fn tell(events: &Events, kind: EventsKind, facts: &EventsFacts) {
    events::gather::tell(&mut lock::lock(&events.shared.inner).gather, kind, facts);
    wake(&events.shared);
}

/// Converts all records to lines, and removes all policies except the latest.
pub fn drain(events: &Events) {
    let mut inner = lock::lock(&events.shared.inner);
    events::gather::convert(&mut inner.gather);
    events::gather::forget(&mut inner.gather);
    drop(inner);
    wake(&events.shared);
}

/// Makes the events thread reopen the file of --events; the thread retains the old file if that fails.
pub fn rotate(events: &Events) {
    lock::lock(&events.shared.inner).rotate = true;
    wake(&events.shared);
}

/// Starts sending events to a client, after the answer {"ok":true}.
/// - verdicts: verdicts whose events the client requests, as bits 1 << Verdict.
/// - packets: true if events include the packet's bytes and the policy's input.
/// - Fails with EBUSY, and returns the descriptor, if there are already TAILS_MAX clients.
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
    events::sink::append(&mut lines, b"{\"ok\":true}\n");
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

/// Creates sinks for new clients.
fn take_clients(shared: &Shared, sinks: &mut Sinks) {
    let mut inner = lock::lock(&shared.inner);
    for (tail, sink) in inner.gather.tails.iter_mut().zip(&mut sinks.tails) {
        if let Some(fd) = tail.as_mut().and_then(|tail| tail.fd.take()) {
            *sink = Some(events::sink::client(fd));
        }
    }
}

/// Writes to a client, and removes it if its connection is closed.
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

/// Writes pending lines to all sinks, as many as each accepts at once.
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

/// Returns the number of lines that are not written yet.
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

/// Marks the thread as asleep, so that workers wake it, and checks the rings once more. Returns true if a ring has a
/// record; then the mark is removed.
fn fall_asleep(shared: &Shared) -> bool {
    shared.bell.asleep.store(true, Ordering::Relaxed);
    fence(Ordering::SeqCst); // see event::wake
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

/// Waits for records, a wake-up, or an event of a sink.
/// - timeout_ms: maximum time to wait; None = no limit.
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
        // Sinks without events to wait for are left out, because poll would still report a closed connection.
        if let Some(fd) = fd.filter(|_| !flags.is_empty()) {
            polled.push(PollFd::new(fd, flags));
        }
    }
    let timeout = timeout_ms.map_or(PollTimeout::NONE, PollTimeout::from);
    let _ = poll(&mut polled, timeout); // an interruption ends the wait early
    shared.bell.asleep.store(false, Ordering::Relaxed);
    let _ = shared.bell.event.read();
}

/// Does one round of work: converts records to lines, and writes lines. Returns the maximum time to wait until the next
/// round, in milliseconds; None = no limit.
fn work(shared: &Shared, sinks: &mut Sinks) -> Option<u16> {
    let now_ns = wait::clock();
    let mut inner = lock::lock(&shared.inner);
    let found = events::gather::convert(&mut inner.gather);
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
    lock::lock(&shared.inner).gather.told_ns = 0; // the loop below reports missed events at once
    loop {
        work(shared, &mut sinks);
        if left(&lock::lock(&shared.inner), &sinks) == 0 || wait::clock() >= until_ns {
            return sinks;
        }
        rest(shared, &sinks, Some(BUSY_MS));
    }
}

/// Starts the events thread, if events can ever be requested: by --events, or by clients of a control socket.
pub fn start(events: &Events) -> Result<(), Failure> {
    if lock::lock(&events.shared.inner).gather.ring_records == 0 {
        return Ok(()); // no events can be requested
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

/// Converts all records to lines, writes as many as possible within a second, and ends the thread, if there is one. The
/// sink stays open.
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
