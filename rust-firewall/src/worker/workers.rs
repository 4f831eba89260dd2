// SPDX-License-Identifier: GPL-2.0-or-later
// seccomp: clock_nanosleep
//! The workers of all queues, as one.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use crate::base::log::Failure;
use crate::worker::evaluate::EvaluationSource;
use crate::worker::stats::Ledger;
use crate::worker::{self, Worker, WorkerError, WorkerHandover, WorkerSetup};

/// Between checks whether a worker has another policy.
const TURN_PAUSE: Duration = Duration::from_micros(20);

/// Side by side.
#[derive(Default)]
pub struct Workers {
    pub all: Vec<Worker>,
}

/// Opens all queues in order, or takes them over. After a failure all are closed.
/// - taken: one a worker; none = the queues are opened.
pub fn open(setup: &WorkerSetup, taken: Option<&mut [WorkerHandover]>) -> Result<Workers, Failure> {
    let mut workers = Workers::default();
    let mut taken = taken.map(|taken| taken.iter_mut());
    for index in 0..=setup.options.queue_last - setup.options.queue_first {
        let taken = taken.as_mut().and_then(Iterator::next);
        workers.all.push(worker::open(setup, taken, index)?);
    }
    Ok(workers)
}

/// Starts the threads. After a failure all are stopped.
pub fn start(workers: &mut Workers) -> Result<(), Failure> {
    let started = workers.all.iter_mut().try_for_each(worker::start);
    if started.is_err() {
        stop(workers);
    }
    started
}

/// Has all workers ask another policy, and waits until they do. sources: one a worker. Returns the
/// old ones.
pub fn swap(
    workers: &mut Workers,
    sources: Vec<Arc<EvaluationSource>>,
) -> Vec<Arc<EvaluationSource>> {
    for (worker, source) in workers.all.iter().zip(&sources) {
        worker::swap(worker, source);
    }
    let take = |(worker, source): (&mut Worker, Arc<EvaluationSource>)| {
        while !worker::has_swapped(worker) {
            thread::sleep(TURN_PAUSE);
        }
        worker.source.replace(source)
    };
    workers
        .all
        .iter_mut()
        .zip(sources)
        .filter_map(take)
        .collect()
}

/// Stops the threads and waits for them. Returns the error of the first worker whose loop ended by
/// one.
pub fn stop(workers: &mut Workers) -> Option<WorkerError> {
    for worker in &workers.all {
        worker::stop(worker, false);
    }
    let errors: Vec<_> = workers.all.iter_mut().map(worker::join).collect();
    errors.into_iter().flatten().next()
}

/// One ledger a worker.
pub fn ledgers(workers: &Workers) -> Vec<Ledger> {
    workers.all.iter().map(worker::ledger).collect()
}
