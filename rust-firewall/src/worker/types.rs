// SPDX-License-Identifier: GPL-2.0-or-later
//! Types of a worker: a queue, and the thread that answers the queue's packets.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use nix::errno::Errno;
use nix::sys::eventfd::EventFd;

use crate::connection::listing::Page;
use crate::packet::verdict::{self, Verdict, VerdictBatch};
use crate::queue::adopt::QueueHandover;
use crate::queue::{Queue, QueueSettings};
use crate::worker::evaluate::{Evaluation, EvaluationSource};
use crate::worker::stats::{Ledger, LiveStats};
use crate::worker::wait::Wait;

/// State of a worker that its thread shares with other threads.
pub struct Shared {
    /// Counters of the worker.
    pub stats: LiveStats,
    /// Settings of the queue that are in effect. receive_buffer is the size that the kernel granted; gso is false if
    /// the kernel does not support it.
    pub settings: QueueSettings,
    /// Packet id of the last received packet.
    pub(super) last_id: AtomicU32,
    /// Packet id of the last packet that the guard answered.
    pub(super) stalled_to: AtomicU32,
    /// Number of packets that the guard answered.
    pub stalled: AtomicU64,
    /// Number of followed connections after the last batch.
    pub followed: AtomicU32,
    /// Eventfd that wakes the worker's thread from poll.
    pub(super) wake_event: EventFd,
    /// Request to end the loop, set by `stop`.
    pub(super) stop: AtomicBool,
    /// Valid with stop: true if the thread must leave the queue bound and open when it ends.
    pub(super) keep_open: AtomicBool,
    /// False while the old firewall of an upgrade may resume the queue, which then stays bound when the thread ends.
    pub(super) confirmed: AtomicBool,
    /// Request to decide by the policy in `next`: set by `swap`, cleared when the thread uses that policy.
    pub(super) swap: AtomicBool,
    /// New policy, valid with swap. The lock is free whenever the worker acquires it.
    pub(super) next: Mutex<Option<Arc<EvaluationSource>>>,
    /// Request to fill in `page` with connections: set by `list`, cleared when the thread has filled in the page.
    pub(super) lists: AtomicBool,
    /// Page of the connection listing: the client's request while `lists` is true, then the result. The lock is free
    /// whenever the worker acquires it.
    pub(super) page: Mutex<Page>,
    /// Request for a sign of life: set by `ask_turn`, cleared in the next turn of the thread's loop.
    pub(super) asked: AtomicBool,
    /// True if the thread has a table of connections, because its first policy reads names or learns addresses.
    pub(super) follows: bool,
    /// Result of the ended thread; None while the thread runs.
    pub(super) ended: Mutex<Option<Ended>>,
}

/// State of a worker. While the worker's thread runs, only the thread uses it.
pub(super) struct Own {
    pub(super) shared: Arc<Shared>,
    pub(super) queue: Queue,
    pub(super) evaluation: Evaluation,
    pub(super) wait: Wait,
    pub(super) batch: VerdictBatch,
    /// Number of packets in the batch for each verdict. It is added to the counters after the kernel has accepted the
    /// batch.
    pub(super) verdicts: [u64; verdict::COUNT],
    /// Number of failed attempts to send the current batch of verdicts.
    pub(super) tries: u32,
    /// Verdict for packet ids without a readable message (--fail malformed).
    pub(super) gaps: Verdict,
    /// True for --profile paper: a busy loop that accepts packets without parsing them, unless their messages are
    /// malformed.
    pub(super) paper: bool,
    /// Value of --spin in microseconds.
    pub(super) spin_us: u32,
    /// Value of --coalesce in microseconds.
    pub(super) coalesce_us: u32,
    /// CPU of the thread (--pin), as an index into the list of allowed CPUs, modulo the list's length; None = any CPU.
    pub(super) cpu: Option<usize>,
}

/// Failed system call that ended a worker's loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkerError {
    pub failed_call: &'static str,
    pub error: Errno,
}

/// Result of a worker's thread that has ended.
#[derive(Clone)]
pub(super) struct Ended {
    /// Error that ended the loop; None if the thread was stopped.
    pub(super) error: Option<WorkerError>,
    /// Last ledger of the worker. It was read before the queue was unbound.
    pub(super) ledger: Ledger,
}

/// Handle of a worker for other threads: its queue and its thread.
pub struct Worker {
    pub shared: Arc<Shared>,
    /// Kernel configuration of the queue, which another process needs to adopt the queue.
    pub handover: QueueHandover,
    /// Duplicate of the queue's socket; the thread uses the original.
    pub(super) socket: OwnedFd,
    /// Policy that the main thread last gave to the worker, with the worker's counters.
    pub source: Option<Arc<EvaluationSource>>,
    /// State that the thread uses; None while the thread runs and owns it.
    pub(super) own: Option<Box<Own>>,
    /// Handle of the thread; None if there is no thread to join.
    pub(super) thread: Option<JoinHandle<Box<Own>>>,
}
