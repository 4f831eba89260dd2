// SPDX-License-Identifier: GPL-2.0-or-later
//! What a worker is made of.

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

/// State shared between a worker's thread and others.
pub struct Shared {
    pub stats: LiveStats,
    /// As the kernel took them: receive_buffer is what it gives, gso is off if it doesn't know it.
    pub settings: QueueSettings,
    /// Id of the packet received last.
    pub(super) last_id: AtomicU32,
    /// Id of the last packet that the guard answered.
    pub(super) stalled_to: AtomicU32,
    /// Packets that the guard answered.
    pub stalled: AtomicU64,
    /// Connections that it follows, behind its last batch.
    pub followed: AtomicU32,
    /// Wakes the worker.
    pub(super) wake_event: EventFd,
    /// Set by `stop`.
    pub(super) stop: AtomicBool,
    /// With stop: the queue stays as it is.
    pub(super) keep_open: AtomicBool,
    /// Set by `swap`, cleared when `next` was taken.
    pub(super) swap: AtomicBool,
    /// With swap. Its lock is free whenever the worker takes it.
    pub(super) next: Mutex<Option<Arc<EvaluationSource>>>,
    /// Set by `list`, cleared when `page` is filled in.
    pub(super) lists: AtomicBool,
    /// With lists. Its lock is free whenever the worker takes it.
    pub(super) page: Mutex<Page>,
    /// Set by `ask_turn`, cleared by the loop's next turn.
    pub(super) asked: AtomicBool,
    /// The thread follows connections.
    pub(super) follows: bool,
    /// How the thread ended, once it has.
    pub(super) ended: Mutex<Option<Ended>>,
}

/// State of a worker's thread alone.
pub(super) struct Own {
    pub(super) shared: Arc<Shared>,
    pub(super) queue: Queue,
    pub(super) evaluation: Evaluation,
    pub(super) wait: Wait,
    pub(super) batch: VerdictBatch,
    /// Verdicts of the batch: they count once the kernel has them.
    pub(super) verdicts: [u64; verdict::COUNT],
    /// How often sending the batch was tried in vain.
    pub(super) tries: u32,
    /// --fail malformed: the verdict for ids without a readable message.
    pub(super) gaps: Verdict,
    /// --profile paper: busy loop, everything accepted unread.
    pub(super) paper: bool,
    pub(super) spin_us: u32,
    pub(super) coalesce_us: u32,
    /// The CPU to bind to, as the n-th of those allowed, in turn.
    pub(super) cpu: Option<usize>,
}

/// The call that ended a loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkerError {
    pub failed_call: &'static str,
    pub error: Errno,
}

/// How a thread ended.
#[derive(Clone)]
pub(super) struct Ended {
    /// None: it was stopped.
    pub(super) error: Option<WorkerError>,
    /// The last one, taken by the worker before it unbound the queue.
    pub(super) ledger: Ledger,
}

/// A worker.
pub struct Worker {
    pub shared: Arc<Shared>,
    /// State that another process needs to adopt the queue, besides its socket.
    pub handover: QueueHandover,
    /// The queue's socket once more, which is the thread's own.
    pub(super) socket: OwnedFd,
    /// The policy by which the worker decides, as the main thread knows it.
    pub source: Option<Arc<EvaluationSource>>,
    /// While there is no thread.
    pub(super) own: Option<Box<Own>>,
    /// While there is a thread to join.
    pub(super) thread: Option<JoinHandle<Box<Own>>>,
}
