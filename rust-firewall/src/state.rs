// SPDX-License-Identifier: GPL-2.0-or-later
//! What runs, for the threads that tell of it. The main thread changes it, under the lock; others
//! read it under the lock. Workers know nothing of it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::load::{self, Loaded};
use crate::log::Failure;
use crate::options::Options;
use crate::reject::{self, Reject};
use crate::report;
use crate::tally::{self, Tally};
use crate::workers::{self, Workers};

pub struct State {
    pub options: Arc<Options>,
    /// UNIX time.
    pub started_ms: u64,
    /// Open if it could be, so that a later policy may reject.
    pub reject: Option<Arc<Reject>>,
    inner: Mutex<StateInner>,
}

/// What changes.
pub struct StateInner {
    /// The policy that decides, if there is one.
    pub loaded: Option<Arc<Loaded>>,
    /// The one before, while there may be events of it.
    pub old: Option<Arc<Loaded>>,
    pub workers: Workers,
    /// One a worker: packets that the guard answered.
    pub stalled: Vec<u64>,
    /// Why the last reload failed, if it did.
    pub reload_error: Option<String>,
}

/// Opens the sockets of reject if the policy asks for answers, or else if that can be had: a later
/// policy may ask for them, when the right to open them is gone.
fn open_reject(loaded: Option<&Arc<Loaded>>) -> Result<Option<Arc<Reject>>, Failure> {
    match loaded.map(|loaded| load::requirement(loaded).reject) {
        None => Ok(None),
        Some(true) => Ok(Some(Arc::new(reject::open()?))),
        Some(false) => Ok(reject::open().ok().map(Arc::new)),
    }
}

/// Loads the policy, opens the queues and starts the workers. What the policy and the kernel made of
/// the options is in the state's.
pub fn start(mut options: Options) -> Result<State, Failure> {
    let started_ms = report::time();
    let loaded = load::load(&mut options)?.map(Arc::new);
    let reject = open_reject(loaded.as_ref())?;
    let workers = workers::start(&options, loaded.as_ref(), reject.as_ref())?;
    if let Some(first) = workers.all.first() {
        options.gso = first.shared.settings.gso;
    }
    let inner = StateInner {
        loaded,
        old: None,
        stalled: vec![0; workers.all.len()],
        workers,
        reload_error: None,
    };
    Ok(State {
        options: Arc::new(options),
        started_ms,
        reject,
        inner: Mutex::new(inner),
    })
}

/// What changes, under the lock.
pub fn lock(state: &State) -> MutexGuard<'_, StateInner> {
    // Whoever panics ends the process, so that no one sees what he left.
    state.inner.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The policy that packets of this generation were decided by, as long as there may be some.
pub fn policy(inner: &StateInner, generation: u32) -> Option<&Arc<Loaded>> {
    let both = inner.loaded.iter().chain(&inner.old);
    both.into_iter()
        .find(|loaded| loaded.generation == generation)
}

/// Sums the counters of the policy in all queues.
pub fn tally(inner: &StateInner) -> Option<Tally<'_>> {
    let mut tally = tally::make(inner.loaded.as_ref()?);
    for worker in &inner.workers.all {
        if let Some(source) = &worker.source {
            tally::add(&mut tally, &source.counters);
        }
    }
    Some(tally)
}
