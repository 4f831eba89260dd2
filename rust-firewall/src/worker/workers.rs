// SPDX-License-Identifier: GPL-2.0-or-later
// seccomp: clock_nanosleep
//! All workers of the process, one for each queue.

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

/// Pause between checks whether a worker has adopted a new policy or filled in a page.
const TURN_PAUSE: Duration = Duration::from_micros(20);

/// Number of checks for a worker's page of connections before the listing fails: at least half a
/// second in total.
const LIST_TURNS: u32 = 25_000;
/// Number of low bits of a listing position that hold the slot; the bits above hold the worker's
/// index.
const SLOT_BITS: u32 = 32;

/// One page of the connection listing, from one worker.
#[derive(Debug)]
pub struct Listing {
    /// Number of the worker's queue.
    pub number: u16,
    pub page: Page,
    /// Position of the next page; None: this is the last page.
    pub next: Option<u64>,
}

/// Workers in the order of their queues.
#[derive(Default)]
pub struct Workers {
    pub all: Vec<Worker>,
}

/// Opens or adopts all queues in order. On failure all are closed.
/// - taken: queues to adopt, one for each worker; None: the queues are opened.
pub fn open(setup: &WorkerSetup, taken: Option<&mut [WorkerHandover]>) -> Result<Workers, Failure> {
    let mut workers = Workers::default();
    let mut taken = taken.map(|taken| taken.iter_mut());
    for index in 0..=setup.options.queue_last - setup.options.queue_first {
        let taken = taken.as_mut().and_then(Iterator::next);
        workers.all.push(worker::open(setup, taken, index)?);
    }
    Ok(workers)
}

/// Starts the threads of all workers. On failure all are stopped.
pub fn start(workers: &mut Workers) -> Result<(), Failure> {
    let started = workers.all.iter_mut().try_for_each(worker::start);
    if started.is_err() {
        stop(workers);
    }
    started
}

/// Makes all workers adopt another policy, and waits until they have. Returns the old sources.
/// - sources: the policy, once for each worker.
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

/// Returns the position of the next page, if there is one.
/// - from: position of this page.
/// - next: slot after this page in the same worker, or SLOT_NONE.
fn next_of(workers: &Workers, from: u64, next: u32) -> Option<u64> {
    let worker = from >> SLOT_BITS;
    if next != SLOT_NONE {
        return Some(worker << SLOT_BITS | u64::from(next));
    }
    ((worker + 1) < workers.all.len() as u64).then_some((worker + 1) << SLOT_BITS)
}

/// Returns the page of connections at a position. Fails with EAGAIN if there is no such worker, or
/// if the worker does not answer in time.
/// - from: 0, or `next` of the last page: the worker's index above SLOT_BITS, the slot below.
/// - undecided: only connections whose names are undecided.
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

/// Stops all threads and waits for their end. Returns the error of the first worker whose loop
/// ended with one.
pub fn stop(workers: &mut Workers) -> Option<WorkerError> {
    for worker in &workers.all {
        worker::stop(worker, false);
    }
    let errors: Vec<_> = workers.all.iter_mut().map(worker::join).collect();
    errors.into_iter().flatten().next()
}

/// Returns the ledgers of all workers, in the order of the workers.
pub fn ledgers(workers: &Workers) -> Vec<Ledger> {
    workers.all.iter().map(worker::ledger).collect()
}
