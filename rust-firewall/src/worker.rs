// SPDX-License-Identifier: GPL-2.0-or-later
// seccomp: poll clock_nanosleep sched_yield sched_getaffinity sched_setaffinity kill write close
//! The loop for one queue: receive, parse, decide, answer, wait. One thread, which shares nothing
//! but its counters and its stop flag. No allocation, lock or print between receiving and answering.

use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use nix::errno::Errno;
use nix::poll::{poll, PollFd, PollFlags, PollTimeout};
use nix::sched::{sched_getaffinity, sched_setaffinity, sched_yield, CpuSet};
use nix::sys::eventfd::{EfdFlags, EventFd};
use nix::sys::signal::{kill, Signal};
use nix::sys::time::{TimeSpec, TimeValLike};
use nix::time::{clock_nanosleep, ClockId, ClockNanosleepFlags};
use nix::unistd::{getpid, Pid};
use sys_bindings::NFQA_CFG_F_GSO;

use crate::ask::{self, Ask};
use crate::decide::{decide, DecideOutcome, DecideSettings};
use crate::flow::{self, FlowCounters};
use crate::load::{self, Loaded};
use crate::log::{self, failure_set_start, Failure};
use crate::options::{self, Options, OptionsProfile, OptionsSituation};
use crate::packet::{self, Packet, PacketStatus};
use crate::queue::{self, Queue, QueuePacket, QueueReceived, QueueSettings};
use crate::queue_proc;
use crate::stats::{self, Ledger, LiveStats, StatsReading};
use crate::verdict::{self, Verdict, VerdictBatch};
use crate::wait::{self, Wait, WaitAction};

/// What a worker's thread and the main thread share.
struct Shared {
    stats: LiveStats,
    /// Of the policy.
    counters: FlowCounters,
    /// As the kernel took them: receive_buffer is what it gives, gso is off if it doesn't know it.
    settings: QueueSettings,
    /// Wakes the worker.
    stop_event: EventFd,
    /// Set by `stop`.
    stop: AtomicBool,
}

/// What a worker's thread has for itself.
struct Own {
    shared: Arc<Shared>,
    queue: Queue,
    decide: DecideSettings,
    /// If there is a policy.
    ask: Option<Ask>,
    wait: Wait,
    batch: VerdictBatch,
    /// --profile paper: busy loop, everything accepted unread.
    paper: bool,
    spin_us: u32,
    coalesce_us: u32,
    /// To bind to, as the n-th of those allowed, in turn.
    cpu: Option<usize>,
}

/// The call that ended a loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkerError {
    pub failed_call: &'static str,
    pub error: Errno,
}

/// How a thread ended.
struct Ended {
    error: Option<WorkerError>,
    /// The last one, taken by the worker before it unbound the queue.
    ledger: Ledger,
}

/// A worker.
pub struct Worker {
    shared: Arc<Shared>,
    /// Until the thread is started.
    own: Option<Box<Own>>,
    /// While there is a thread to join.
    thread: Option<JoinHandle<Ended>>,
    /// What ended the loop; none = it was stopped.
    pub error: Option<WorkerError>,
    /// The last one, once the thread has ended.
    pub ledger: Ledger,
}

/// The workers of all queues, side by side.
pub struct Workers {
    pub all: Vec<Worker>,
    /// One a worker, as `workers_ledgers` took them.
    pub ledgers: Vec<Ledger>,
}

fn is_stopped(own: &Own) -> bool {
    own.shared.stop.load(Ordering::Relaxed)
}

/// The call that ended the loop.
fn fail(failed_call: &'static str, error: Errno) -> WorkerError {
    WorkerError { failed_call, error }
}

/// Receives, and counts what needs no verdict.
fn receive(own: &mut Own) -> Result<QueueReceived, WorkerError> {
    let received =
        queue::receive(&mut own.queue).map_err(|error| fail(own.queue.failed_call, error))?;
    let stats = &own.shared.stats;
    stats::add(&stats.received, received.packets.into());
    stats::add(&stats.netlink, received.malformed.into());
    stats::add(&stats.refused, received.refused.into());
    stats::add(&stats.overruns, received.overruns.into());
    Ok(received)
}

/// Parses and counts. With --copy-bytes 0 there is nothing to parse: every header lies beyond the
/// copy.
fn inspect<'a>(
    shared: &Shared,
    queue: &'a Queue,
    packet: &QueuePacket,
    parsed: &mut Packet<'a>,
) -> PacketStatus {
    let stats = &shared.stats;
    let mut status = PacketStatus::Cut;
    if shared.settings.copy_bytes > 0 {
        let payload = queue::payload(queue, packet);
        status = packet::parse(payload, packet.original_bytes, parsed);
    }
    if packet::is_malformed(status) {
        if let Some(counter) = stats.malformed.get(status as usize) {
            stats::add(counter, 1);
        }
    } else if status == PacketStatus::Cut {
        stats::add(&stats.cut, 1);
    }
    status
}

/// What happens with a packet: its verdict, and the mark of `Verdict::Mark`.
fn judge(own: &mut Own, packet: &QueuePacket) -> (Verdict, u32) {
    let stats = &own.shared.stats;
    let mut status = PacketStatus::Ok;
    let mut parsed = Packet::default();
    stats::add(&stats.bytes, packet.original_bytes.into());
    if packet.truncated {
        stats::add(&stats.truncated, 1);
    }
    if own.paper {
        return (Verdict::Accept, 0);
    }
    if !packet.truncated {
        status = inspect(&own.shared, &own.queue, packet, &mut parsed);
    }
    match &mut own.ask {
        Some(ask) => verdict_of(&ask::policy(
            ask,
            stats,
            &own.shared.counters,
            packet,
            &parsed,
            status,
        )),
        None => (decide(&own.decide, status, packet.truncated), 0),
    }
}

/// The verdict that goes to the kernel: an accept with a mark has a name of its own.
fn verdict_of(outcome: &DecideOutcome) -> (Verdict, u32) {
    let verdict = match outcome.verdict {
        Verdict::Accept if outcome.mark_set => Verdict::Mark,
        verdict => verdict,
    };
    (verdict, outcome.mark)
}

/// Gives every packet its verdict. Those count as soon as the kernel has them.
fn answer(own: &mut Own, packets: u32) -> Result<(), WorkerError> {
    let mut verdicts = [0; verdict::COUNT];
    verdict::batch_clear(&mut own.batch);
    if let Some(ask) = &mut own.ask {
        ask.now_ns = wait::clock();
    }
    for index in 0..packets as usize {
        let Some(packet) = own.queue.packets.get(index).copied() else {
            break; // can't be: the queue said how many there are
        };
        let (verdict, mark) = judge(own, &packet);
        // Can't fail: there are no more packets than runs.
        let _ = verdict::batch_add(&mut own.batch, packet.id, verdict, mark);
        if let Some(count) = verdicts.get_mut(verdict as usize) {
            *count += 1;
        }
    }
    queue::verdict(&mut own.queue, &own.batch)
        .map_err(|error| fail(own.queue.failed_call, error))?;
    for (counter, count) in own.shared.stats.verdicts.iter().zip(verdicts) {
        if count > 0 {
            stats::add(counter, count);
        }
    }
    Ok(())
}

fn sleep_for(duration_ns: u64) -> Result<(), WorkerError> {
    let duration = TimeSpec::nanoseconds(duration_ns as i64);
    match clock_nanosleep(
        ClockId::CLOCK_MONOTONIC,
        ClockNanosleepFlags::empty(),
        &duration,
    ) {
        Ok(_) | Err(Errno::EINTR) => Ok(()),
        Err(error) => Err(fail("clock_nanosleep", error)),
    }
}

fn sleep_in_poll(own: &mut Own) -> Result<(), WorkerError> {
    let fd = queue::fd(&own.queue).map_err(|error| fail("poll", error))?;
    let mut sources = [
        PollFd::new(fd, PollFlags::POLLIN),
        PollFd::new(own.shared.stop_event.as_fd(), PollFlags::POLLIN),
    ];
    match poll(&mut sources, PollTimeout::NONE) {
        Ok(_) | Err(Errno::EINTR) => {}
        Err(error) => return Err(fail("poll", error)),
    }
    wait::woken(&mut own.wait, wait::clock());
    Ok(())
}

fn rest(own: &mut Own, action: WaitAction) -> Result<(), WorkerError> {
    match action {
        WaitAction::Again => Ok(()),
        WaitAction::Yield => {
            let _ = sched_yield(); // it can't fail
            Ok(())
        }
        WaitAction::Sleep => sleep_for(own.wait.coalesce_ns),
        WaitAction::Poll => sleep_in_poll(own),
    }
}

/// The loop of --profile fast. Verdicts are sent before the stop flag is looked at.
fn run_fast(own: &mut Own) -> Result<(), WorkerError> {
    let batch = own.shared.settings.batch;
    own.wait = wait::init(batch, own.spin_us, own.coalesce_us, wait::clock());
    while !is_stopped(own) {
        let received = receive(own)?;
        if received.packets > 0 {
            answer(own, received.packets)?;
        }
        if received.overruns == 0 {
            let action = wait::next(&mut own.wait, wait::clock(), received.messages);
            rest(own, action)?;
        }
    }
    Ok(())
}

/// The loop of --profile paper: never sleeps.
fn run_paper(own: &mut Own) -> Result<(), WorkerError> {
    while !is_stopped(own) {
        let received = receive(own)?;
        if received.packets > 0 {
            answer(own, received.packets)?;
        }
    }
    Ok(())
}

/// Binds the calling thread to the worker's CPU: the n-th of those that the process may use, in
/// turn.
fn pin(own: &Own) -> Result<(), WorkerError> {
    let Some(cpu) = own.cpu else {
        return Ok(());
    };
    let this_thread = Pid::from_raw(0);
    let allowed =
        sched_getaffinity(this_thread).map_err(|error| fail("sched_getaffinity", error))?;
    let allowed = (0..CpuSet::count()).filter(|cpu| allowed.is_set(*cpu).unwrap_or(false));
    let mut own = CpuSet::new();
    if let Some(cpu) = allowed.clone().nth(cpu % allowed.count().max(1)) {
        own.set(cpu)
            .map_err(|error| fail("sched_setaffinity", error))?;
    }
    sched_setaffinity(this_thread, &own).map_err(|error| fail("sched_setaffinity", error))
}

fn run(mut own: Box<Own>) -> Ended {
    let loop_of = if own.paper { run_paper } else { run_fast };
    let result = pin(&own).and_then(|()| loop_of(&mut own));
    let ledger = ledger_of(&own.shared, false);
    queue::close(&mut own.queue);
    if result.is_err() {
        let _ = kill(getpid(), Signal::SIGTERM); // it can't fail
    }
    Ended {
        error: result.err(),
        ledger,
    }
}

/// Opens the queue and the eventfd. loaded: the policy. index: the worker's place, which is added to
/// the first queue's number. After a failure everything is closed.
pub fn open(
    options: &Options,
    loaded: Option<&Arc<Loaded>>,
    index: u16,
) -> Result<Worker, Failure> {
    let requirement = loaded.map(|loaded| load::requirement(loaded));
    let mut settings = options::queue(options, requirement, options.queue_first + index);
    let queue = queue::open(&settings)?;
    settings.receive_buffer = queue.receive_buffer;
    settings.gso = queue.flags & NFQA_CFG_F_GSO != 0;
    let stop_event = EventFd::from_flags(EfdFlags::EFD_CLOEXEC)
        .map_err(|error| failure_set_start("eventfd", error))?;
    let counters = loaded.map(|loaded| flow::counters_make(&loaded.compiled));
    let shared = Arc::new(Shared {
        stats: LiveStats::default(),
        counters: counters.unwrap_or_default(),
        settings,
        stop_event,
        stop: AtomicBool::new(false),
    });
    let decide = DecideSettings {
        default_verdict: options.default_verdict,
        malformed_open: options.fail_open[OptionsSituation::Malformed as usize],
        truncated_open: options.fail_open[OptionsSituation::Truncated as usize],
        malformed_by_policy: options.malformed_by_policy,
    };
    let own = Own {
        shared: Arc::clone(&shared),
        queue,
        decide,
        ask: loaded.map(|loaded| ask::init(options, loaded)),
        wait: Wait::default(),
        batch: VerdictBatch::default(),
        paper: options.profile == OptionsProfile::Paper,
        spin_us: options.spin_us,
        coalesce_us: options.coalesce_us,
        cpu: options.pin.then_some(index.into()),
    };
    Ok(Worker {
        shared,
        own: Some(Box::new(own)),
        thread: None,
        error: None,
        ledger: Ledger::default(),
    })
}

/// The counters of the policy.
pub fn counters(worker: &Worker) -> &FlowCounters {
    &worker.shared.counters
}

/// The settings as the kernel took them: receive_buffer is what it gives, gso is off if it doesn't
/// know it.
pub fn settings(worker: &Worker) -> &QueueSettings {
    &worker.shared.settings
}

/// Starts the thread. If the loop ends by an error, the process is sent SIGTERM.
pub fn start(worker: &mut Worker) -> Result<(), Failure> {
    let Some(own) = worker.own.take() else {
        return Ok(());
    };
    let thread = thread::Builder::new()
        .spawn(move || run(own))
        .map_err(|error| {
            let error = error.raw_os_error().map_or(Errno::EAGAIN, Errno::from_raw);
            failure_set_start("pthread_create", error)
        })?;
    worker.thread = Some(thread);
    Ok(())
}

/// Tells the thread to stop: what it has taken is answered first. It unbinds and closes its queue
/// itself.
pub fn stop(worker: &Worker) {
    worker.shared.stop.store(true, Ordering::Relaxed);
    let _ = worker.shared.stop_event.write(1); // it can't fail: it never comes near its limit
}

/// Waits for the thread's end, if it was started; worker.ledger and worker.error are valid then.
pub fn join(worker: &mut Worker) {
    let Some(thread) = worker.thread.take() else {
        return;
    };
    if let Ok(ended) = thread.join() {
        worker.error = ended.error;
        worker.ledger = ended.ledger;
    }
}

/// One reading, in the order that StatsReading asks for, and why the kernel's figures are missing,
/// if they are.
fn take_reading(shared: &Shared) -> (StatsReading, Result<(), Errno>) {
    let received_before = stats::received(&shared.stats);
    let figures = queue_proc::figures(shared.settings.number);
    let reading = StatsReading {
        received_before,
        figures: figures.unwrap_or_default(),
        after: stats::snapshot(&shared.stats),
    };
    (reading, figures.map(drop))
}

/// What a ledger does not explain: packets that nobody saw and, at exit, those that count twice,
/// because the kernel gave more ids while its figures were read.
fn unexplained(ledger: &Ledger, running: bool) -> u64 {
    let received = ledger.stats.received + ledger.stats.netlink;
    let seen = received + ledger.user_drop + ledger.waiting + ledger.unseen;
    let twice = match running {
        true => 0,
        false => seen.saturating_sub(ledger.offered),
    };
    ledger.difference + ledger.unseen + twice
}

/// Gives the kernel time to finish with a packet: the CPU that it does it on may have been taken
/// away from it.
fn pause_between_readings() {
    let _ = sleep_for(stats::PAUSE_NS);
}

fn ledger_of(shared: &Shared, running: bool) -> Ledger {
    let settings = &shared.settings;
    let in_flight = if running { settings.batch.into() } else { 0 };
    let (mut taken, mut best) = (Ledger::default(), None::<Ledger>);
    let mut result = Ok(());
    // The kernel gives the list of queues a page at a time: one that goes away meanwhile can hide
    // ours, so that even a missing queue is looked for again.
    for i in 0..stats::READINGS_MAX {
        if i > 0 && !running {
            pause_between_readings();
        }
        let reading;
        (reading, result) = take_reading(shared);
        taken = stats::ledger_make(&reading, settings.number, in_flight, settings.fail_open);
        let least = best
            .as_ref()
            .map_or(u64::MAX, |best| unexplained(best, running));
        if result.is_ok() && unexplained(&taken, running) < least {
            best = Some(taken.clone());
        }
        if best
            .as_ref()
            .is_some_and(|best| unexplained(best, running) == 0)
        {
            break;
        }
    }
    if let (None, Err(error)) = (&best, result) {
        log::warn(format_args!(
            "{}: {}: the ledger lacks the kernel's figures",
            queue_proc::QUEUES,
            log::strerror(error)
        ));
    }
    best.unwrap_or(taken)
}

/// Takes the ledger of a worker: of up to stats::READINGS_MAX readings the one with the least left
/// unexplained.
/// - running: its thread runs, so a batch may be in flight. Warns if /proc can't be read.
pub fn ledger(worker: &Worker, running: bool) -> Ledger {
    ledger_of(&worker.shared, running)
}

/// Opens all queues in order, then starts their threads. After a failure everything is stopped.
pub fn workers_start(options: &Options, loaded: Option<&Arc<Loaded>>) -> Result<Workers, Failure> {
    let mut workers = Workers {
        all: Vec::new(),
        ledgers: Vec::new(),
    };
    for index in 0..=options.queue_last - options.queue_first {
        workers.all.push(open(options, loaded, index)?);
    }
    for index in 0..workers.all.len() {
        let started = workers.all.get_mut(index).map_or(Ok(()), start);
        if let Err(failure) = started {
            workers_stop(&mut workers);
            return Err(failure);
        }
    }
    Ok(workers)
}

/// Stops the threads and waits for them. Returns the error of the first worker whose loop ended by
/// one.
pub fn workers_stop(workers: &mut Workers) -> Option<WorkerError> {
    for worker in &workers.all {
        stop(worker);
    }
    for worker in &mut workers.all {
        join(worker);
    }
    workers.all.iter().find_map(|worker| worker.error)
}

/// Fills in workers.ledgers: taken now if the threads are running, else those that they took last.
pub fn workers_ledgers(workers: &mut Workers, running: bool) {
    let ledger_now = |worker: &Worker| match running {
        true => ledger(worker, true),
        false => worker.ledger.clone(),
    };
    workers.ledgers = workers.all.iter().map(ledger_now).collect();
}
