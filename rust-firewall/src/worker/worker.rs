// SPDX-License-Identifier: GPL-2.0-or-later
// seccomp: write close
//! A worker: one queue and its thread, as other threads see them.

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
use crate::worker::{reading, run};

/// Counts packets that the guard answered. id: of the last of them.
pub fn stalled(shared: &Shared, packets: u32, id: u32) {
    shared.stalled_to.store(id, Ordering::Relaxed);
    shared.stalled.fetch_add(packets.into(), Ordering::Relaxed);
}

fn has_ended(shared: &Shared) -> bool {
    lock::lock(&shared.ended).is_some()
}

/// Reads the ledger of a worker: of up to stats::READINGS_MAX readings the one with the least left
/// unexplained. Once the thread has ended it is the one that the thread took last. While it runs a
/// batch may be in flight. Warns if /proc can't be read. Any thread may.
pub fn ledger(worker: &Worker) -> Ledger {
    match lock::lock(&worker.shared.ended).clone() {
        Some(ended) => ended.ledger,
        None => reading::ledger(&worker.shared, true),
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

/// Parameters of workers.
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
    let evaluation = evaluate::init(options, source.as_ref(), setup.reject, ring);
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

fn wake(shared: &Shared) {
    let _ = shared.wake_event.write(1); // it can't fail: it never comes near its limit
}

/// Makes the thread decide by another policy from its next batch on.
pub fn swap(worker: &Worker, next: &Arc<EvaluationSource>) {
    *lock::lock(&worker.shared.next) = Some(Arc::clone(next));
    worker.shared.swap.store(true, Ordering::Release);
    wake(&worker.shared);
}

/// Whether the thread decides by what it was told last, or has ended.
pub fn has_swapped(worker: &Worker) -> bool {
    !worker.shared.swap.load(Ordering::Acquire) || has_ended(&worker.shared)
}

/// Asks the thread for a page of its connections, after its next batch. Fails with EAGAIN if it has not answered the last one, or has ended.
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

/// The page that the thread was asked for; None as long as it has not answered.
pub fn listed(worker: &Worker) -> Option<MutexGuard<'_, Page>> {
    let lists = worker.shared.lists.load(Ordering::Acquire);
    (!lists).then(|| lock::lock(&worker.shared.page))
}

/// Asks whether the thread's loop turns, for `has_turned`. Any thread may.
pub fn ask_turn(shared: &Shared) {
    shared.asked.store(true, Ordering::Release);
    wake(shared);
}

/// Whether the thread's loop has turned since it was asked, or has ended.
pub fn has_turned(shared: &Shared) -> bool {
    !shared.asked.load(Ordering::Acquire) || has_ended(shared)
}

/// Stops the thread: the packets that it has received get their verdicts first. It unbinds and closes its queue
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
    lock::lock(&worker.shared.ended).as_ref()?.error
}

/// Has another process adopt the queue, once the thread has ended and the queue was kept open.
pub fn give(worker: &mut Worker) {
    if let Some(own) = &mut worker.own {
        queue::adopt::give(&mut own.queue);
    }
}

/// Connections of the queue, while there is no thread; none if the policy reads no names.
pub fn connections(worker: &mut Worker) -> Option<&mut Connections> {
    let source = worker.source.as_ref();
    source.filter(|source| load::requirement(&source.loaded).names)?;
    worker.own.as_mut()?.evaluation.connections.as_deref_mut()
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
