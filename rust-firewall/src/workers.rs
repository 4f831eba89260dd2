// SPDX-License-Identifier: GPL-2.0-or-later
//! The workers of all queues, as one.

use std::mem;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use crate::ask::AskSource;
use crate::load::Loaded;
use crate::log::Failure;
use crate::options::Options;
use crate::reject::Reject;
use crate::stats::Ledger;
use crate::worker::{self, Worker, WorkerError};

/// Between looks whether a worker has another policy.
const TURN_PAUSE: Duration = Duration::from_micros(20);

/// Side by side.
#[derive(Default)]
pub struct Workers {
    pub all: Vec<Worker>,
}

/// Opens all queues in order, then starts their threads. After a failure everything is stopped.
pub fn start(
    options: &Options,
    loaded: Option<&Arc<Loaded>>,
    reject: Option<&Arc<Reject>>,
) -> Result<Workers, Failure> {
    let mut workers = Workers::default();
    for index in 0..=options.queue_last - options.queue_first {
        let worker = worker::open(options, loaded, reject, index)?;
        workers.all.push(worker);
    }
    for index in 0..workers.all.len() {
        let started = workers.all.get_mut(index).map_or(Ok(()), worker::start);
        if let Err(failure) = started {
            stop(&mut workers);
            return Err(failure);
        }
    }
    Ok(workers)
}

/// Has all workers ask another policy, and waits until they do. sources: one a worker. Returns the
/// old ones.
pub fn turn(workers: &mut Workers, sources: Vec<Arc<AskSource>>) -> Vec<Arc<AskSource>> {
    for (worker, source) in workers.all.iter().zip(&sources) {
        worker::turn(worker, source);
    }
    let take = |(worker, source): (&mut Worker, Arc<AskSource>)| {
        while !worker::has_turned(worker) {
            thread::sleep(TURN_PAUSE);
        }
        mem::replace(&mut worker.source, Some(source))
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
