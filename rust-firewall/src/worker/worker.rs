// SPDX-License-Identifier: GPL-2.0-or-later
// seccomp: write close
//! Control of a worker (a queue and the thread that answers its packets) by other threads.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::{self, JoinHandle};

use nix::errno::Errno;
use nix::sys::eventfd::{EfdFlags, EventFd};
use sys_bindings::NFQA_CFG_F_GSO;

use crate::base::lock;
use crate::base::log::{failure_set_start, Failure};
use crate::connection::listing::Page;
use crate::connection::{Connections, SLOT_NONE};
use crate::options::{self, Options, OptionsProfile, OptionsSituation};
use crate::packet::verdict::{self, Verdict, VerdictBatch};
use crate::queue;
use crate::queue::adopt::QueueHandover;
use crate::ruleset::load::{self, Loaded};
use crate::worker::evaluate::{self, EvaluationSource};
use crate::worker::event::EventRing;
use crate::worker::reject::Reject;
use crate::worker::stats::{Ledger, LiveStats, Stats};
use crate::worker::types::{Own, Shared, Worker, WorkerError};
use crate::worker::wait::Wait;
use crate::worker::{elements, reading, run};

/// Adds packets that the guard answered instead of the worker to the worker's counter.
/// - packets: number of these packets.
/// - id: packet id of the last of these packets.
pub fn stalled(shared: &Shared, packets: u32, id: u32) {
    shared.stalled_to.store(id, Ordering::Relaxed);
    shared.stalled.fetch_add(packets.into(), Ordering::Relaxed);
}

fn has_ended(shared: &Shared) -> bool {
    lock::lock(&shared.ended).is_some()
}

/// Returns the ledger of a worker. Any thread may call it.
/// - If the worker's thread has ended: the ledger that the thread read last.
/// - If the thread runs: the best of up to stats::READINGS_MAX readings, which has the fewest unexplained packets. A
///   batch may be in flight. Warns if no reading of /proc succeeds.
pub fn ledger(worker: &Worker) -> Ledger {
    match lock::lock(&worker.shared.ended).clone() {
        Some(ended) => ended.ledger,
        None => reading::ledger(&worker.shared, true),
    }
}

/// Queue that is handed over to another process, with the counters of the queue's worker.
#[derive(Debug, Default)]
pub struct WorkerHandover {
    /// Number of the queue.
    pub number: u16,
    pub handover: QueueHandover,
    /// Netlink socket that is bound to the queue; None after a worker has adopted the queue.
    pub fd: Option<OwnedFd>,
    /// Counters of the queue's worker.
    pub stats: Stats,
    /// Number of packets that the guard answered.
    pub stalled: u64,
}

/// Parameters for opening workers.
pub struct WorkerSetup<'a> {
    pub options: &'a Options,
    /// Policy of the workers; None if there is no policy.
    pub loaded: Option<&'a Arc<Loaded>>,
    /// Sockets for the replies of `reject`; needed if the policy rejects.
    pub reject: Option<&'a Arc<Reject>>,
    /// Function that creates the event ring of a worker, from the worker's index.
    pub ring: &'a dyn Fn(u16) -> EventRing,
}

/// Creates a worker without starting its thread. Opens or adopts the worker's queue, and opens the eventfd that wakes
/// the thread.
/// - taken: queue to adopt; None = the queue is opened.
/// - index: index of the worker. The number of the worker's queue is the first queue's number plus index.
/// - On failure everything is closed.
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
    let elements = match options.stage {
        0 => None,
        // The socket is opened even if this policy doesn't learn addresses: a later policy may learn.
        _ => Some(elements::open()?),
    };
    let evaluation = evaluate::init(options, source.as_ref(), setup.reject, elements, ring);
    let shared = Arc::new(Shared {
        stats: LiveStats::default(),
        settings,
        last_id: AtomicU32::new(0),
        stalled_to: AtomicU32::new(0),
        stalled: AtomicU64::new(0),
        followed: AtomicU32::new(0),
        wake_event,
        stop: AtomicBool::new(false),
        keep_open: AtomicBool::new(false),
        confirmed: AtomicBool::new(queue.bound),
        swap: AtomicBool::new(false),
        next: Mutex::new(None),
        lists: AtomicBool::new(false),
        page: Mutex::new(Page::default()),
        asked: AtomicBool::new(false),
        follows: evaluation.connections.is_some(),
        ended: Mutex::new(None),
    });
    let gaps = match options.fail_open[OptionsSituation::Malformed as usize] {
        true => Verdict::Accept,
        false => Verdict::Drop,
    };
    let mut own = Own {
        shared: Arc::clone(&shared),
        queue,
        evaluation,
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

/// Sets the counters to the final values that another process had for the queue. Must be called before the thread
/// starts.
/// - counted: counters of the queue's worker in that process.
/// - stalled: number of the queue's packets that the guard answered.
pub fn go_on(shared: &Shared, counted: &Stats, stalled: u64) {
    for (counter, counted) in shared.stats.words().zip(counted.words()) {
        counter.store(*counted, Ordering::Relaxed);
    }
    shared.stalled.store(stalled, Ordering::Relaxed);
}

/// Starts the worker's thread. If the thread's loop ends with an error, the thread sends SIGTERM to the process.
pub fn start(worker: &mut Worker) -> Result<(), Failure> {
    let Some(own) = worker.own.take() else {
        return Ok(());
    };
    worker.shared.stop.store(false, Ordering::Relaxed);
    *lock::lock(&worker.shared.ended) = None;
    let thread = thread::Builder::new()
        .spawn(move || run::run(own))
        .map_err(|error| {
            let error = error.raw_os_error().map_or(Errno::EAGAIN, Errno::from_raw);
            failure_set_start("pthread_create", error)
        })?;
    worker.thread = Some(thread);
    Ok(())
}

/// Records that the old firewall of an upgrade can't resume the queue any more: closing the queue then also unbinds it.
pub fn confirm(worker: &Worker) {
    worker.shared.confirmed.store(true, Ordering::Relaxed);
}

fn wake(shared: &Shared) {
    let _ = shared.wake_event.write(1); // it can't fail: the counter is far from its limit
}

/// Requests the thread to switch to another policy before its next batch.
/// - next: the new policy.
pub fn swap(worker: &Worker, next: &Arc<EvaluationSource>) {
    *lock::lock(&worker.shared.next) = Some(Arc::clone(next));
    worker.shared.swap.store(true, Ordering::Release);
    wake(&worker.shared);
}

/// Returns true if the thread uses the policy of the last swap, or has ended.
pub fn has_swapped(worker: &Worker) -> bool {
    !worker.shared.swap.load(Ordering::Acquire) || has_ended(&worker.shared)
}

/// Requests a page of connections from the thread, which fills in the page between two batches. Fails with EAGAIN if
/// the last request is still open or the thread has ended.
/// - from: slot in the connection table at which the page begins.
/// - undecided: true to list only connections whose names are undecided.
pub fn list(worker: &Worker, from: u32, undecided: bool) -> Result<(), Errno> {
    let shared = &worker.shared;
    if shared.lists.load(Ordering::Acquire) || has_ended(shared) {
        return Err(Errno::EAGAIN);
    }
    let mut page = lock::lock(&shared.page);
    page.from = from;
    page.undecided = undecided;
    page.next = SLOT_NONE;
    page.count = 0;
    drop(page);
    if shared.follows {
        shared.lists.store(true, Ordering::Release);
        wake(shared);
    }
    Ok(())
}

/// Returns the page of connections that `list` requested; None until the thread has filled it in.
pub fn listed(worker: &Worker) -> Option<MutexGuard<'_, Page>> {
    let lists = worker.shared.lists.load(Ordering::Acquire);
    (!lists).then(|| lock::lock(&worker.shared.page))
}

/// Requests a sign of life from the thread's loop; `has_turned` checks for it. Any thread may call this function.
pub fn ask_turn(shared: &Shared) {
    shared.asked.store(true, Ordering::Release);
    wake(shared);
}

/// Returns true if the thread's loop has begun a turn since the last `ask_turn`, or has ended.
pub fn has_turned(shared: &Shared) -> bool {
    !shared.asked.load(Ordering::Acquire) || has_ended(shared)
}

/// Requests the thread to end. The thread first answers the packets that it has received, and then closes its queue.
/// Closing unbinds the queue, unless the old firewall of an upgrade may still resume the queue.
/// - keep_open: true if the queue must stay bound and open. The thread can then be started again.
pub fn stop(worker: &Worker, keep_open: bool) {
    worker.shared.keep_open.store(keep_open, Ordering::Relaxed);
    worker.shared.stop.store(true, Ordering::Release);
    wake(&worker.shared);
}

/// Waits until the thread has ended, if it was started. Returns the error that ended the loop; None if the thread was
/// stopped.
pub fn join(worker: &mut Worker) -> Option<WorkerError> {
    if let Some(Ok(own)) = worker.thread.take().map(JoinHandle::join) {
        worker.own = Some(own);
    }
    lock::lock(&worker.shared.ended).as_ref()?.error
}

/// Prepares the queue for its adoption by another process. The thread must have ended after a stop with keep_open.
pub fn give(worker: &mut Worker) {
    if let Some(own) = &mut worker.own {
        queue::adopt::give(&mut own.queue);
    }
}

/// Returns the connections of the queue. Returns None while the thread runs, or if the policy reads no names.
pub fn connections(worker: &mut Worker) -> Option<&mut Connections> {
    let source = worker.source.as_ref();
    source.filter(|source| load::requirement(&source.loaded).names)?;
    worker.own.as_mut()?.evaluation.connections.as_deref_mut()
}

/// Returns the socket of the queue, also while the thread runs.
pub fn queue_fd(worker: &Worker) -> BorrowedFd<'_> {
    worker.socket.as_fd()
}

/// Frees this process's copy of the queue after another process has adopted the queue. The queue stays bound in the
/// other process.
pub fn release(worker: &mut Worker) {
    if let Some(own) = worker.own.take() {
        queue::adopt::release(own.queue);
    }
}
