// SPDX-License-Identifier: GPL-2.0-or-later
//! Counts the data that a server receives; the sender reads the counts while both run. Starts the server's thread.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{bail, Result};

use super::{cpu, STALLED};

/// Interval at which the sender checks whether everything has arrived.
const LOOK: Duration = Duration::from_micros(50);
/// Time without an arrival after which missing data may be lost. They count as lost if no packet is waiting anywhere
/// and another such time passes without an arrival: a server that was off the CPU has then counted its received data.
const QUIET: Duration = Duration::from_millis(5);

/// Counters that servers write and the sender reads.
pub struct Arrivals {
    epoch: Instant,
    count: AtomicU64,
    /// Time of the last arrival, in nanoseconds since `epoch`.
    last: AtomicU64,
    over: AtomicBool,
}

impl Arrivals {
    pub fn new() -> Arc<Arrivals> {
        Arc::new(Arrivals {
            epoch: Instant::now(),
            count: AtomicU64::new(0),
            last: AtomicU64::new(0),
            over: AtomicBool::new(false),
        })
    }

    pub fn add(&self, count: u64) {
        let now = self.epoch.elapsed().as_nanos() as u64;
        // Several servers may count at once; the sender reads the count first.
        self.last.fetch_max(now, Ordering::Relaxed);
        self.count.fetch_add(count, Ordering::Release);
    }

    pub fn count(&self) -> u64 {
        self.count.load(Ordering::Acquire)
    }

    /// Returns true if servers must end.
    pub fn over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    /// Waits until `wanted` units (datagrams, bytes, requests or connections) have arrived in total. Fails if nothing
    /// arrives for [`STALLED`].
    /// - emptied: returns true if no packet waits any more. If it returns true after [`QUIET`] without an arrival, and
    ///   another [`QUIET`] passes without an arrival, the missing units are lost and the wait ends. None: waits for all
    ///   units.
    pub fn wait(&self, wanted: u64, emptied: Option<&super::Emptied>) -> Result<()> {
        let (mut seen, mut since) = (self.count(), Instant::now());
        while seen < wanted {
            thread::sleep(LOOK);
            let now = self.count();
            if now != seen {
                (seen, since) = (now, Instant::now());
                continue;
            }
            if let Some(emptied) = emptied.filter(|_| since.elapsed() > QUIET) {
                if emptied()? && self.count() == seen && self.none_comes(seen) {
                    return Ok(());
                }
            }
            if since.elapsed() > STALLED {
                bail!("{} of the sent messages did not arrive", wanted - seen);
            }
        }
        Ok(())
    }

    fn none_comes(&self, seen: u64) -> bool {
        thread::sleep(QUIET);
        self.count() == seen
    }

    /// Returns the seconds from `start` to the last arrival; 0 if nothing has arrived since.
    pub fn seconds_since(&self, start: Instant) -> f64 {
        let last = Duration::from_nanos(self.last.load(Ordering::Relaxed));
        let start = start.saturating_duration_since(self.epoch);
        last.saturating_sub(start).as_secs_f64()
    }
}

/// A server's thread, on the last CPU. Drop ends the thread and joins it.
pub struct Server {
    arrivals: Arc<Arrivals>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Starts a thread that runs `serve`, which must return when [`Arrivals::over`] is true. `serve` reports no errors:
    /// the sender notices missing arrivals.
    pub fn start(
        arrivals: &Arc<Arrivals>,
        serve: impl FnOnce(&Arrivals) + Send + 'static,
    ) -> Server {
        let own = arrivals.clone();
        let thread = thread::spawn(move || {
            cpu::bind_server().expect("a thread may bind itself to a CPU that its process may use");
            serve(&own);
        });
        Server {
            arrivals: arrivals.clone(),
            thread: Some(thread),
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.arrivals.over.store(true, Ordering::Relaxed);
        // The thread's panic has been printed already.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}
