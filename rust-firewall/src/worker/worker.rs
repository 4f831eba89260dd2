// SPDX-License-Identifier: GPL-2.0-or-later
// seccomp: poll clock_nanosleep sched_yield sched_getaffinity sched_setaffinity kill read write close
//! The loop for one queue: receive, parse, decide, answer, wait. One thread, which shares nothing
//! but its counters and what it is told. No allocation, lock or print between receiving and
//! answering.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
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

use crate::base::log::{self, failure_set_start, Failure};
use crate::engine::types::DecideOutcome;
use crate::options::{self, Options, OptionsProfile, OptionsSituation};
use crate::packet::verdict::{self, Verdict, VerdictBatch};
use crate::packet::{self, Packet, PacketStatus};
use crate::queue::adopt::QueueHandover;
use crate::queue::{self, Queue, QueuePacket, QueueReceived, QueueSettings};
use crate::ruleset::load::{self, Loaded};
use crate::worker::evaluate::{self, Evaluation, EvaluationSource};
use crate::worker::event::{self, EventRing};
use crate::worker::reject::Reject;
use crate::worker::stats::{self, Ledger, LiveStats, Stats, StatsReading};
use crate::worker::wait::{self, Wait, WaitAction};

/// What a worker's thread and others share.
pub struct Shared {
    pub stats: LiveStats,
    /// As the kernel took them: receive_buffer is what it gives, gso is off if it doesn't know it.
    pub settings: QueueSettings,
    /// Id of the packet received last.
    last_id: AtomicU32,
    /// Id of the last packet that the guard answered.
    stalled_to: AtomicU32,
    /// Packets that the guard answered.
    pub stalled: AtomicU64,
    /// Wakes the worker.
    wake_event: EventFd,
    /// Set by `stop`.
    stop: AtomicBool,
    /// With stop: the queue stays as it is.
    keep_open: AtomicBool,
    /// Set by `swap`, cleared when `next` was taken.
    swap: AtomicBool,
    /// With turn. Its lock is free whenever the worker takes it.
    next: Mutex<Option<Arc<EvaluationSource>>>,
    /// How the thread ended, once it has.
    ended: Mutex<Option<Ended>>,
}

/// What a worker's thread has for itself.
struct Own {
    shared: Arc<Shared>,
    queue: Queue,
    evaluation: Evaluation,
    wait: Wait,
    batch: VerdictBatch,
    /// Verdicts of the batch: they count once the kernel has them.
    verdicts: [u64; verdict::COUNT],
    /// To send the batch, in vain.
    tries: u32,
    /// --fail malformed: for what no readable message tells of.
    gaps: Verdict,
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
#[derive(Clone)]
struct Ended {
    /// None: it was stopped.
    error: Option<WorkerError>,
    /// The last one, taken by the worker before it unbound the queue.
    ledger: Ledger,
}

/// A worker.
pub struct Worker {
    pub shared: Arc<Shared>,
    /// What another process needs to adopt the queue beside its socket.
    pub handover: QueueHandover,
    /// The queue's socket once more, which is the thread's own.
    socket: OwnedFd,
    /// What the worker asks, as the main thread knows it.
    pub source: Option<Arc<EvaluationSource>>,
    /// While there is no thread.
    own: Option<Box<Own>>,
    /// While there is a thread to join.
    thread: Option<JoinHandle<Box<Own>>>,
}

/// What a lock guards. A thread that panics ends the process, so nobody sees a value that is half changed.
fn lock<T>(guarded: &Mutex<T>) -> MutexGuard<'_, T> {
    guarded.lock().unwrap_or_else(PoisonError::into_inner)
}

fn is_stopped(own: &Own) -> bool {
    own.shared.stop.load(Ordering::Acquire)
}

/// Takes another policy, if there is one to take: between two batches, so that each packet is
/// decided by one alone.
fn look_for_swap(own: &mut Own) {
    if !own.shared.swap.load(Ordering::Acquire) {
        return;
    }
    if let Some(next) = lock(&own.shared.next).take() {
        own.evaluation.source = Some(next);
    }
    own.shared.swap.store(false, Ordering::Release);
}

/// The call that ended the loop.
fn fail(failed_call: &'static str, error: Errno) -> WorkerError {
    WorkerError { failed_call, error }
}

fn count_received(own: &mut Own, received: &QueueReceived) {
    let stats = &own.shared.stats;
    stats::add(&stats.received, received.ids.into());
    stats::add(&stats.without_id, received.nameless.into());
    stats::add(&stats.netlink, received.malformed.into());
    stats::add(&stats.refused, received.refused.into());
    stats::add(&stats.overruns, received.overruns.into());
    if received.overruns > 0 {
        verdict::batch_overrun(&mut own.batch);
    }
}

/// Receives, and counts what needs no verdict.
fn receive(own: &mut Own) -> Result<QueueReceived, WorkerError> {
    let received =
        queue::receive(&mut own.queue).map_err(|error| fail(own.queue.failed_call, error))?;
    count_received(own, &received);
    Ok(received)
}

/// Sees to it that what waits in a queue that another process had is as we want it.
fn resume(own: &mut Own) -> Result<(), WorkerError> {
    let mut received = QueueReceived::default();
    let result = queue::adopt::resume(&mut own.queue, &mut own.batch, &mut received);
    count_received(own, &received);
    let stats = &own.shared.stats;
    if let Some(requeued) = stats.verdicts.get(Verdict::Requeue as usize) {
        stats::add(requeued, received.ids.into());
    }
    result.map_err(|error| fail(own.queue.failed_call, error))
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
    let mut status = PacketStatus::BeyondCopy;
    if shared.settings.copy_bytes > 0 {
        let payload = queue::payload(queue, packet);
        status = packet::parse(payload, packet.original_bytes, parsed);
    }
    if packet::is_malformed(status) {
        if let Some(counter) = stats.malformed.get(status as usize) {
            stats::add(counter, 1);
        }
    } else if status == PacketStatus::BeyondCopy {
        stats::add(&stats.beyond_copy, 1);
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
    // Nothing is known of it that a policy could be asked about.
    if packet.spoiled {
        return (own.gaps, 0);
    }
    if own.paper {
        return (Verdict::Accept, 0);
    }
    if !packet.truncated {
        status = inspect(&own.shared, &own.queue, packet, &mut parsed);
    }
    let outcome = evaluate::packet(&mut own.evaluation, stats, packet, &parsed, status);
    verdict_of(&outcome)
}

/// The verdict that goes to the kernel: an accept with a mark has a name of its own.
fn verdict_of(outcome: &DecideOutcome) -> (Verdict, u32) {
    let verdict = match outcome.verdict {
        Verdict::Accept if outcome.mark_set => Verdict::Mark,
        verdict => verdict,
    };
    (verdict, outcome.mark)
}

/// Sends the verdicts, which count as soon as the kernel has them. If it has no room for them now,
/// they stay in the batch.
fn send_verdicts(own: &mut Own) -> Result<(), WorkerError> {
    let stats = &own.shared.stats;
    match queue::verdict(&mut own.queue, &mut own.batch) {
        Err(error) if queue::is_transient(error) => {
            stats::add(&stats.send_retries, 1);
            own.tries += 1;
            queue::pause();
            return Ok(());
        }
        result => result.map_err(|error| fail(own.queue.failed_call, error))?,
    }
    own.tries = 0;
    for (counter, count) in stats.verdicts.iter().zip(own.verdicts) {
        if count > 0 {
            stats::add(counter, count);
        }
    }
    Ok(())
}

/// Gives a packet its verdict.
fn give_verdict(own: &mut Own, packet: &QueuePacket) {
    if packet.nameless {
        verdict::batch_skip(&mut own.batch);
        return;
    }
    let (verdict, mark) = judge(own, packet);
    // Can't fail: there are no more packets than runs.
    let _ = verdict::batch_add(&mut own.batch, packet.id, verdict, mark);
    if let Some(count) = own.verdicts.get_mut(verdict as usize) {
        *count += 1;
    }
}

/// Gives every packet its verdict.
fn give_verdicts(own: &mut Own, packets: u32) -> Result<(), WorkerError> {
    verdict::batch_clear(&mut own.batch);
    own.verdicts = [0; verdict::COUNT];
    if evaluate::has_policy(&own.evaluation) {
        own.evaluation.now_ns = wait::clock();
    }
    for index in 0..packets as usize {
        let Some(packet) = own.queue.packets.get(index).copied() else {
            break; // can't be: the queue said how many there are
        };
        give_verdict(own, &packet);
    }
    verdict::batch_finish(&mut own.batch);
    own.shared
        .last_id
        .store(own.batch.last_id, Ordering::Relaxed);
    if own.batch.gap_ids > 0 {
        stats::add(&own.shared.stats.gaps, own.batch.gap_ids.into());
    }
    let result = send_verdicts(own);
    event::flush(&mut own.evaluation.ring);
    result
}

/// Whether there is more to do before the worker may stop: verdicts that the kernel has no room for
/// are tried for a while.
fn goes_on(own: &Own) -> bool {
    !is_stopped(own) || (verdict::batch_unsent(&own.batch) && own.tries < queue::TRIES_MAX)
}

/// One turn of a loop: nothing is received as long as verdicts are left to send, so that their order
/// holds; what then comes waits in the kernel, where the guard sees to it that it doesn't for ever.
fn run_once(own: &mut Own) -> Result<QueueReceived, WorkerError> {
    if verdict::batch_unsent(&own.batch) {
        send_verdicts(own)?;
        return Ok(QueueReceived {
            messages: own.shared.settings.batch, // there may be as many
            ..QueueReceived::default()
        });
    }
    let received = receive(own)?;
    if received.packets > 0 {
        give_verdicts(own, received.packets)?;
    }
    Ok(received)
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
    let wake_event = &own.shared.wake_event;
    let mut sources = [
        PollFd::new(fd, PollFlags::POLLIN),
        PollFd::new(wake_event.as_fd(), PollFlags::POLLIN),
    ];
    match poll(&mut sources, PollTimeout::NONE) {
        Ok(_) | Err(Errno::EINTR) => {}
        Err(error) => return Err(fail("poll", error)),
    }
    if sources[1].any() == Some(true) {
        let _ = wake_event.read(); // else it would wake us for ever
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
    while goes_on(own) {
        look_for_swap(own);
        let received = run_once(own)?;
        if received.overruns == 0 && !verdict::batch_unsent(&own.batch) {
            let action = wait::next(&mut own.wait, wait::clock(), received.messages);
            rest(own, action)?;
        }
    }
    Ok(())
}

/// The loop of --profile paper, which has no policy: never sleeps.
fn run_paper(own: &mut Own) -> Result<(), WorkerError> {
    while goes_on(own) {
        run_once(own)?;
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

/// Whether packets that the guard answered are still in the socket: they come in the order of their
/// ids.
fn is_behind(shared: &Shared) -> bool {
    let stalled_to = shared.stalled_to.load(Ordering::Relaxed);
    stalled_to.wrapping_sub(shared.last_id.load(Ordering::Relaxed)) as i32 > 0
}

/// Counts packets that the guard answered. id: of the last of them.
pub fn stalled(shared: &Shared, packets: u32, id: u32) {
    shared.stalled_to.store(id, Ordering::Relaxed);
    shared.stalled.fetch_add(packets.into(), Ordering::Relaxed);
}

/// One reading, in the order that StatsReading asks for, and why the kernel's figures are missing,
/// if they are.
fn take_reading(shared: &Shared) -> (StatsReading, Result<(), Errno>) {
    let received_before = stats::received(&shared.stats);
    let figures = queue::proc::figures(shared.settings.number);
    let reading = StatsReading {
        received_before,
        figures: figures.unwrap_or_default(),
        known: figures.is_ok(),
        after: stats::snapshot(&shared.stats),
        stalled: shared.stalled.load(Ordering::Relaxed),
        unreceived: is_behind(shared),
    };
    (reading, figures.map(drop))
}

/// What a ledger does not explain: packets that nobody saw and, at exit, those that count twice,
/// because the kernel gave more ids while its figures were read.
fn unexplained(ledger: &Ledger, running: bool) -> u64 {
    let received = ledger.stats.received + ledger.stats.without_id;
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

/// Takes a ledger. running: the thread runs, so a batch may be in flight.
fn take_ledger(shared: &Shared, running: bool) -> Ledger {
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
            queue::proc::QUEUES,
            log::strerror(error)
        ));
    }
    best.unwrap_or(taken)
}

/// Receives packets that were decided while they were unread: by the verdict on a gap, which decides all that came
/// before it, or by the guard. ledger: says how many there can be. Returns whether there were any.
fn receive_decided(own: &mut Own, ledger: &Ledger) -> bool {
    let length = own.shared.settings.queue_length.into();
    let most = (ledger.unseen + ledger.stalled).min(length);
    let mut left = most;
    while left > 0 {
        match run_once(own) {
            Ok(received) if received.messages + received.overruns > 0 => {
                left = left.saturating_sub(received.messages.into());
            }
            _ => break,
        }
    }
    left < most
}

fn run(mut own: Box<Own>) -> Box<Own> {
    let loop_of = if own.paper { run_paper } else { run_fast };
    let result = pin(&own)
        .and_then(|()| resume(&mut own))
        .and_then(|()| loop_of(&mut own));
    let mut ledger = take_ledger(&own.shared, false);
    if !own.shared.keep_open.load(Ordering::Relaxed) {
        if result.is_ok() && receive_decided(&mut own, &ledger) {
            ledger = take_ledger(&own.shared, false);
        }
        queue::close(&mut own.queue);
    }
    *lock(&own.shared.ended) = Some(Ended {
        error: result.err(),
        ledger,
    });
    if result.is_err() {
        let _ = kill(getpid(), Signal::SIGTERM); // it can't fail
    }
    own
}

fn has_ended(shared: &Shared) -> bool {
    lock(&shared.ended).is_some()
}

/// Takes the ledger of a worker: of up to stats::READINGS_MAX readings the one with the least left
/// unexplained. Once the thread has ended it is the one that the thread took last. While it runs a
/// batch may be in flight. Warns if /proc can't be read. Any thread may.
pub fn ledger(worker: &Worker) -> Ledger {
    match lock(&worker.shared.ended).clone() {
        Some(ended) => ended.ledger,
        None => take_ledger(&worker.shared, true),
    }
}

/// A queue that goes from one process to another, and what its worker counted.
#[derive(Debug, Default)]
pub struct WorkerHandover {
    pub number: u16,
    pub handover: QueueHandover,
    /// The bound netlink socket.
    pub fd: Option<OwnedFd>,
    /// The counters of its worker.
    pub stats: Stats,
    /// Packets that the guard answered.
    pub stalled: u64,
}

/// What workers are made of.
pub struct WorkerSetup<'a> {
    pub options: &'a Options,
    /// The policy.
    pub loaded: Option<&'a Arc<Loaded>>,
    /// Open if the policy can ask for answers.
    pub reject: Option<&'a Arc<Reject>>,
    /// Makes the ring of the index-th worker.
    pub ring: &'a dyn Fn(u16) -> EventRing,
}

/// Opens the queue, or takes it over, and the eventfd.
/// - taken: none = it is opened.
/// - index: the worker's place, which is added to the first queue's number.
/// - After a failure everything is closed.
pub fn open(
    setup: &WorkerSetup,
    taken: Option<&mut WorkerHandover>,
    index: u16,
) -> Result<Worker, Failure> {
    let options = setup.options;
    let requirement = setup.loaded.map(|loaded| load::requirement(loaded));
    let mut settings = options::queue(options, requirement, options.queue_first + index);
    let source = setup.loaded.map(evaluate::source_make);
    let ring = (setup.ring)(index);
    let wake_event = EventFd::from_flags(EfdFlags::EFD_CLOEXEC)
        .map_err(|error| failure_set_start("eventfd", error))?;
    let queue = match taken.and_then(|taken| Some((taken.fd.take()?, taken))) {
        Some((fd, taken)) => queue::adopt::adopt(&settings, &taken.handover, fd)?,
        None => queue::open(&settings)?,
    };
    let socket = queue::fd(&queue).and_then(|fd| {
        let socket = fd.try_clone_to_owned();
        socket.map_err(|error| Errno::try_from(error).unwrap_or(Errno::EIO))
    });
    let socket = socket.map_err(|error| failure_set_start("fcntl", error))?;
    settings.receive_buffer = queue.receive_buffer;
    settings.gso = queue.flags & NFQA_CFG_F_GSO != 0;
    let handover = QueueHandover {
        copy_bytes: settings.copy_bytes,
        flags: queue.flags,
    };
    let shared = Arc::new(Shared {
        stats: LiveStats::default(),
        settings,
        last_id: AtomicU32::new(0),
        stalled_to: AtomicU32::new(0),
        stalled: AtomicU64::new(0),
        wake_event,
        stop: AtomicBool::new(false),
        keep_open: AtomicBool::new(false),
        swap: AtomicBool::new(false),
        next: Mutex::new(None),
        ended: Mutex::new(None),
    });
    let gaps = match options.fail_open[OptionsSituation::Malformed as usize] {
        true => Verdict::Accept,
        false => Verdict::Drop,
    };
    let mut own = Own {
        shared: Arc::clone(&shared),
        queue,
        evaluation: evaluate::init(options, source.as_ref(), setup.reject, ring),
        wait: Wait::default(),
        batch: VerdictBatch::default(),
        verdicts: [0; verdict::COUNT],
        tries: 0,
        gaps,
        paper: options.profile == OptionsProfile::Paper,
        spin_us: options.spin_us,
        coalesce_us: options.coalesce_us,
        cpu: options.pin.then_some(index.into()),
    };
    verdict::batch_begin(&mut own.batch, gaps);
    Ok(Worker {
        shared,
        handover,
        socket,
        source,
        own: Some(Box::new(own)),
        thread: None,
    })
}

/// Has counters begin at what another process counted for the queue, before the thread starts.
pub fn go_on(shared: &Shared, counted: &Stats, stalled: u64) {
    for (counter, counted) in shared.stats.words().zip(counted.words()) {
        counter.store(*counted, Ordering::Relaxed);
    }
    shared.stalled.store(stalled, Ordering::Relaxed);
}

/// Starts the thread. If the loop ends by an error, the process is sent SIGTERM.
pub fn start(worker: &mut Worker) -> Result<(), Failure> {
    let Some(own) = worker.own.take() else {
        return Ok(());
    };
    worker.shared.stop.store(false, Ordering::Relaxed);
    *lock(&worker.shared.ended) = None;
    let thread = thread::Builder::new()
        .spawn(move || run(own))
        .map_err(|error| {
            let error = error.raw_os_error().map_or(Errno::EAGAIN, Errno::from_raw);
            failure_set_start("pthread_create", error)
        })?;
    worker.thread = Some(thread);
    Ok(())
}

fn wake(shared: &Shared) {
    let _ = shared.wake_event.write(1); // it can't fail: it never comes near its limit
}

/// Tells the thread to ask another policy from its next batch on.
pub fn swap(worker: &Worker, next: &Arc<EvaluationSource>) {
    *lock(&worker.shared.next) = Some(Arc::clone(next));
    worker.shared.swap.store(true, Ordering::Release);
    wake(&worker.shared);
}

/// Whether the thread asks what it was told last, or asks no more.
pub fn has_swapped(worker: &Worker) -> bool {
    !worker.shared.swap.load(Ordering::Acquire) || has_ended(&worker.shared)
}

/// Tells the thread to stop: what it has taken is answered first. It unbinds and closes its queue
/// itself.
/// - keep_open: it does not; the thread can be started again.
pub fn stop(worker: &Worker, keep_open: bool) {
    worker.shared.keep_open.store(keep_open, Ordering::Relaxed);
    worker.shared.stop.store(true, Ordering::Release);
    wake(&worker.shared);
}

/// Waits for the thread's end, if it was started. Returns the error that ended it, if it was one.
pub fn join(worker: &mut Worker) -> Option<WorkerError> {
    if let Some(Ok(own)) = worker.thread.take().map(JoinHandle::join) {
        worker.own = Some(own);
    }
    lock(&worker.shared.ended).as_ref()?.error
}

/// Has another process adopt the queue, once the thread has ended and the queue was kept open.
pub fn give(worker: &mut Worker) {
    if let Some(own) = &mut worker.own {
        queue::adopt::give(&mut own.queue);
    }
}

/// The socket of the queue, whose thread may run.
pub fn queue_fd(worker: &Worker) -> BorrowedFd<'_> {
    worker.socket.as_fd()
}

/// Frees the queue once another process has adopted it.
pub fn release(worker: &mut Worker) {
    if let Some(own) = worker.own.take() {
        queue::adopt::release(own.queue);
    }
}
