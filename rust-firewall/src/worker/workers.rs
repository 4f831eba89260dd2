// SPDX-License-Identifier: GPL-2.0-or-later
// seccomp: clock_nanosleep
//! The workers of all queues, as one.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use nix::errno::Errno;

use crate::base::log::Failure;
use crate::connection::listing::Page;
use crate::connection::SLOT_NONE;
use crate::worker::evaluate::EvaluationSource;
use crate::worker::stats::Ledger;
use crate::worker::{self, Worker, WorkerError, WorkerHandover, WorkerSetup};

/// Between checks whether a worker has another policy.
const TURN_PAUSE: Duration = Duration::from_micros(20);

/// Number of checks for a worker's connection listing: half a second and more.
const LIST_TURNS: u32 = 25_000;
const SLOT_BITS: u32 = 32;

/// Connections of a worker.
#[derive(Debug)]
pub struct Listing {
    /// Number of the worker's queue.
    pub number: u16,
    pub page: Page,
    /// Slot of the next page; None = end.
    pub next: Option<u64>,
}

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

/// Start of the page after one. next: from that page.
fn next_of(workers: &Workers, from: u64, next: u32) -> Option<u64> {
    let worker = from >> SLOT_BITS;
    if next != SLOT_NONE {
        return Some(worker << SLOT_BITS | u64::from(next));
    }
    ((worker + 1) < workers.all.len() as u64).then_some((worker + 1) << SLOT_BITS)
}

/// The page of connections at a place, 0 or what `next` of the last one said: the worker in the upper half, its slot in the lower. Fails with EAGAIN if the worker
/// is not there or does not answer for a while.
pub fn list(workers: &Workers, from: u64, undecided: bool) -> Result<Listing, Errno> {
    let worker = workers.all.get((from >> SLOT_BITS) as usize);
    let worker = worker.ok_or(Errno::EAGAIN)?;
    worker::list(worker, from as u32, undecided)?;
    for _ in 0..LIST_TURNS {
        if let Some(page) = worker::listed(worker) {
            let number = worker.shared.settings.number;
            let next = next_of(workers, from, page.next);
            return Ok(Listing {
                number,
                page: *page,
                next,
            });
        }
        thread::sleep(TURN_PAUSE);
    }
    Err(Errno::EAGAIN)
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
