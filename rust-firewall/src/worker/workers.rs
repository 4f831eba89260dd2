// SPDX-License-Identifier: GPL-2.0-or-later
// seccomp: clock_nanosleep
//! All workers of the process. Each queue has one worker.

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

/// Pause between two checks whether a worker uses a new policy or has filled in a page of its connections.
const TURN_PAUSE: Duration = Duration::from_micros(20);

/// Maximum number of checks for a worker's page of connections before the listing fails: at least half a second in
/// total.
const LIST_TURNS: u32 = 25_000;
/// Number of low bits of a position in the listing of connections. They contain the slot; the bits above contain the
/// worker's index.
const SLOT_BITS: u32 = 32;

/// Page of the connection listing, from one worker.
#[derive(Debug)]
pub struct Listing {
    /// Number of the worker's queue.
    pub number: u16,
    pub page: Page,
    /// Position of the next page; None = this is the last page.
    pub next: Option<u64>,
}

/// Workers in the order of their queues.
#[derive(Default)]
pub struct Workers {
    pub all: Vec<Worker>,
}

/// Opens or adopts all queues, in the order of their numbers. On failure all queues are closed.
/// - taken: queues to adopt, one per worker; None = the queues are opened.
pub fn open(setup: &WorkerSetup, taken: Option<&mut [WorkerHandover]>) -> Result<Workers, Failure> {
    let mut workers = Workers::default();
    let mut taken = taken.map(|taken| taken.iter_mut());
    for index in 0..=setup.options.queue_last - setup.options.queue_first {
        let taken = taken.as_mut().and_then(Iterator::next);
        workers.all.push(worker::open(setup, taken, index)?);
    }
    Ok(workers)
}

/// Starts the threads of all workers. On failure all threads are stopped.
pub fn start(workers: &mut Workers) -> Result<(), Failure> {
    let started = workers.all.iter_mut().try_for_each(worker::start);
    if started.is_err() {
        stop(workers);
    }
    started
}

/// Records that the old firewall of an upgrade can't resume the queues any more: closing the queues then also unbinds
/// them.
pub fn confirm(workers: &Workers) {
    workers.all.iter().for_each(worker::confirm);
}

/// Makes all workers switch to another policy, and waits until they use it. Returns the workers' old policies with
/// their counters.
/// - sources: the new policy for each worker.
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

/// Returns the position of the next page; None after the last page.
/// - from: position of this page.
/// - next: slot after this page in the same worker; SLOT_NONE if this page is the worker's last page.
fn next_of(workers: &Workers, from: u64, next: u32) -> Option<u64> {
    let worker = from >> SLOT_BITS;
    if next != SLOT_NONE {
        return Some(worker << SLOT_BITS | u64::from(next));
    }
    ((worker + 1) < workers.all.len() as u64).then_some((worker + 1) << SLOT_BITS)
}

/// Returns the page of connections at a position. Fails with EAGAIN if the position's worker does not exist or does not
/// answer in time.
/// - from: position: 0, or `next` of the previous page. The low SLOT_BITS bits are the slot, the bits above are the
///   worker's index.
/// - undecided: true to list only connections whose names are undecided.
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

/// Stops all threads, and waits until they have ended. Returns the error of the first worker whose loop ended with an
/// error.
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
