// SPDX-License-Identifier: GPL-2.0-or-later
//! State of the running program. The main thread changes it under a lock; another thread may read it under the lock.
//! Workers do not use it.

use std::sync::{Arc, Mutex, MutexGuard};

use crate::base::clock;
use crate::base::lock;
use crate::base::log::Failure;
use crate::events::{self, Events};
use crate::options::Options;
use crate::ruleset::load::{self, Loaded};
use crate::ruleset::tally::{self, Tally};
use crate::state::contract::Contract;
use crate::worker::reject::{self, Reject};
use crate::worker::tracked::Tracked;
use crate::worker::wait;
use crate::worker::workers::{self, Workers};
use crate::worker::{WorkerHandover, WorkerSetup};

pub struct State {
    /// Options, adjusted to the policy and the kernel.
    pub options: Arc<Options>,
    /// UNIX time of the program's start, in milliseconds.
    pub started_ms: u64,
    /// Time of the program's start by `wait::clock` (monotonic, ns).
    pub started_ns: u64,
    /// Sockets for reject. With a policy they are open, if possible, even if the policy does not reject, so that a
    /// later policy may reject.
    pub reject: Option<Arc<Reject>>,
    pub events: Arc<Events>,
    inner: Mutex<StateInner>,
}

/// Part of the state that changes while the firewall runs.
pub struct StateInner {
    /// Policy that decides, if there is one.
    pub loaded: Option<Arc<Loaded>>,
    pub workers: Workers,
    /// Failure of the last reload; None if it succeeded.
    pub reload_error: Option<String>,
    /// Result of the check whether packets have the connection state that the policy needs.
    pub tracked: Tracked,
    pub contract: Arc<Contract>,
    /// Failure contract for the time after the guard has ended.
    pub unguarded: Arc<Contract>,
    /// True if the guard has ended by itself.
    pub guard_ended: bool,
}

/// Opens the sockets for reject, if there is a policy. If they can't be opened, this fails only for a policy that
/// rejects. Other policies do not need the sockets, but a later policy may reject, when the right to open them is gone.
fn open_reject(loaded: Option<&Arc<Loaded>>) -> Result<Option<Arc<Reject>>, Failure> {
    match loaded.map(|loaded| load::requirement(loaded).reject) {
        None => Ok(None),
        Some(true) => Ok(Some(Arc::new(reject::open()?))),
        Some(false) => Ok(reject::open().ok().map(Arc::new)),
    }
}

/// Opens the queues, or takes them over. Adjusts the options to the kernel.
/// - loaded: policy that load::load made from the options.
/// - taken: queues that the old process has handed over; None = the queues are opened.
pub fn open(
    mut options: Options,
    loaded: Option<Loaded>,
    events: &Arc<Events>,
    taken: Option<&mut [WorkerHandover]>,
) -> Result<State, Failure> {
    let (started_ms, started_ns) = (clock::unix_ms(), wait::clock());
    let loaded = loaded.map(Arc::new);
    let reject = open_reject(loaded.as_ref())?;
    let setup = WorkerSetup {
        options: &options,
        loaded: loaded.as_ref(),
        reject: reject.as_ref(),
        ring: &|index| events::ring(events, index),
    };
    let workers = workers::open(&setup, taken)?;
    if let Some(first) = workers.all.first() {
        options.gso = first.shared.settings.gso;
    }
    if let Some(loaded) = &loaded {
        events::policy(events, loaded.generation, loaded);
    }
    let inner = StateInner {
        loaded,
        workers,
        reload_error: None,
        tracked: Tracked::Unknown,
        contract: Arc::default(),
        unguarded: Arc::default(),
        guard_ended: false,
    };
    Ok(State {
        options: Arc::new(options),
        started_ms,
        started_ns,
        reject,
        events: Arc::clone(events),
        inner: Mutex::new(inner),
    })
}

/// Locks the part of the state that changes.
pub fn lock(state: &State) -> MutexGuard<'_, StateInner> {
    lock::lock(&state.inner)
}

/// Returns the sums of the policy's counters over all queues; None without a policy.
pub fn tally(inner: &StateInner) -> Option<Tally<'_>> {
    let mut tally = tally::make(inner.loaded.as_ref()?);
    for worker in &inner.workers.all {
        if let Some(source) = &worker.source {
            tally::add(&mut tally, &source.counters);
        }
    }
    Some(tally)
}
