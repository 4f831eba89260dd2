// SPDX-License-Identifier: GPL-2.0-or-later
//! Types of a worker: one queue and the thread that answers its packets.

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
    /// Settings of the queue that are in effect: receive_buffer is the size that the kernel
    /// granted; gso is off if the kernel does not support it.
    pub settings: QueueSettings,
    /// Id of the packet received last.
    pub(super) last_id: AtomicU32,
    /// Id of the last packet that the guard answered.
    pub(super) stalled_to: AtomicU32,
    /// Packets that the guard answered.
    pub stalled: AtomicU64,
    /// Number of followed connections after the last batch.
    pub followed: AtomicU32,
    /// Eventfd that wakes the worker's thread from poll.
    pub(super) wake_event: EventFd,
    /// Request to end the loop, set by `stop`.
    pub(super) stop: AtomicBool,
    /// Valid with stop: the thread leaves the queue bound and open when it ends.
    pub(super) keep_open: AtomicBool,
    /// Request to adopt the policy in `next`: set by `swap`, cleared when the thread has adopted
    /// it.
    pub(super) swap: AtomicBool,
    /// Policy to adopt, valid with swap. Its lock is free whenever the worker acquires it.
    pub(super) next: Mutex<Option<Arc<EvaluationSource>>>,
    /// Request to fill in `page` with connections: set by `list`, cleared when the page is filled
    /// in.
    pub(super) lists: AtomicBool,
    /// Page of the connection listing, valid with lists. Its lock is free whenever the worker
    /// acquires it.
    pub(super) page: Mutex<Page>,
    /// Request for a sign of life: set by `ask_turn`, cleared by the next turn of the thread's
    /// loop.
    pub(super) asked: AtomicBool,
    /// True if the thread follows connections.
    pub(super) follows: bool,
    /// How the thread ended; None while it runs.
    pub(super) ended: Mutex<Option<Ended>>,
}

/// State of a worker that only its thread uses.
pub(super) struct Own {
    pub(super) shared: Arc<Shared>,
    pub(super) queue: Queue,
    pub(super) evaluation: Evaluation,
    pub(super) wait: Wait,
    pub(super) batch: VerdictBatch,
    /// Number of each verdict in the batch; added to the counters once the kernel has accepted the
    /// batch.
    pub(super) verdicts: [u64; verdict::COUNT],
    /// Number of failed attempts to send the batch.
    pub(super) tries: u32,
    /// Verdict for packet ids without a readable message (--fail malformed).
    pub(super) gaps: Verdict,
    /// True for --profile paper: a busy loop that accepts every packet without parsing it.
    pub(super) paper: bool,
    /// --spin, in microseconds.
    pub(super) spin_us: u32,
    /// --coalesce, in microseconds.
    pub(super) coalesce_us: u32,
    /// CPU of the thread, as an index into the allowed CPUs, modulo their number (--pin); None: any
    /// CPU.
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
    /// Last ledger of the worker, read before the queue was unbound.
    pub(super) ledger: Ledger,
}

/// Handle of a worker for other threads: its queue and its thread.
pub struct Worker {
    pub shared: Arc<Shared>,
    /// State that another process needs to adopt the queue, besides the queue's socket.
    pub handover: QueueHandover,
    /// Duplicate of the queue's socket; the thread uses the original.
    pub(super) socket: OwnedFd,
    /// Policy that the worker decides by, as far as the main thread knows.
    pub source: Option<Arc<EvaluationSource>>,
    /// State of the thread; None while the thread runs and owns it.
    pub(super) own: Option<Box<Own>>,
    /// Handle of the thread; None if there is none to join.
    pub(super) thread: Option<JoinHandle<Box<Own>>>,
}
