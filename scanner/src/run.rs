// SPDX-License-Identifier: GPL-2.0-or-later
//! Runs a whole scan by connections: rings on threads of their own, a writer thread, and this thread, which watches.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use crate::arguments::EngineName;
use crate::counts::{Counts, Sum};
use crate::engine::epoll::Epoll;
use crate::engine::features::{self, Features};
use crate::engine::memory::Memory;
use crate::engine::uring::Uring;
use crate::failure::{Failure, Result};
use crate::flight::{Flight, Settings};
use crate::hints;
use crate::plan::{Cursor, Plan};
use crate::probe::banner::Banner;
use crate::probe::http::Http;
use crate::probe::ssh::Ssh;
use crate::probe::tls::Https;
use crate::probe::Scan;
use crate::record::{boxes, Batch, Outbox};

/// Interval between two readings of the counts.
const WATCH: Duration = Duration::from_millis(100);

/// Probe: the conversation on each open port, if any.
#[derive(Clone)]
pub enum ProbeKind {
    Connect,
    Ssh,
    Banner,
    Http(Http),
    Https(Http),
}

impl ProbeKind {
    fn scan(&self, slots: usize) -> Result<Option<Box<dyn Scan>>> {
        Ok(match self {
            ProbeKind::Connect => None,
            ProbeKind::Ssh => Some(Box::new(Ssh)),
            ProbeKind::Banner => Some(Box::new(Banner)),
            ProbeKind::Http(http) => Some(Box::new(http.clone())),
            ProbeKind::Https(http) => Some(Box::new(Https::new(http.clone(), slots)?)),
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Chosen {
    Uring(Features),
    Epoll,
}

impl Chosen {
    pub fn name(self) -> &'static str {
        match self {
            Chosen::Uring(_) => "io_uring",
            Chosen::Epoll => "epoll",
        }
    }
}

/// Returns the requested engine, or for `auto` the engine that works here, and notes about the choice.
pub fn choose(wanted: EngineName) -> Result<(Chosen, Vec<String>)> {
    if wanted == EngineName::Epoll {
        return Ok((Chosen::Epoll, Vec::new()));
    }
    match (features::probe(), wanted) {
        (Ok((features, told)), _) => Ok((Chosen::Uring(features), told)),
        (Err(why), EngineName::Auto) => Ok((
            Chosen::Epoll,
            vec![format!("no io_uring: {why}; epoll carries the scan")],
        )),
        (Err(why), _) => Err(Failure::failed(format!(
            "no io_uring: {why}: --engine auto falls back to epoll"
        ))),
    }
}

/// Number of threads, and of slots per thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    pub rings: usize,
    pub slots: usize,
}

/// Computes the layout: all rings together have at most `in_flight` slots, and each ring has a slot. Raises
/// RLIMIT_NOFILE if needed. Returns a note, too, if this limit allows fewer targets in flight than requested. A ring's
/// socket table has at most RLIMIT_NOFILE entries, so more in flight need more rings; epoll uses one table for all.
/// - in_flight: requested number of targets in flight.
/// - rings: requested number of threads; None means one per CPU, or fewer for few targets.
/// - targets: number of targets to ask.
pub fn layout(
    chosen: Chosen,
    in_flight: u64,
    rings: Option<u64>,
    targets: u64,
) -> (Layout, Option<String>) {
    let cores = thread::available_parallelism().map_or(1, |cores| cores.get() as u64);
    let in_flight = in_flight.min(targets).max(1);
    // Few targets need no second thread.
    let useful = targets.div_ceil(64).max(1);
    let wanted = rings.unwrap_or(cores.min(useful)).min(in_flight);
    let spare = 64;
    let wanted_descriptors = match chosen {
        Chosen::Uring(_) => in_flight.div_ceil(wanted).max(1024),
        Chosen::Epoll => in_flight + spare,
    };
    let limit = hints::raise_descriptors(wanted_descriptors);
    let (rings, fits) = match chosen {
        Chosen::Uring(_) => (wanted.max(in_flight.div_ceil(limit)), in_flight),
        Chosen::Epoll => {
            let fits = in_flight.min(limit.saturating_sub(spare).max(1));
            (wanted.min(fits), fits)
        }
    };
    let slots = fits / rings;
    let told = (fits < in_flight).then(|| {
        let most = rings * slots;
        format!("{most} in flight instead of {in_flight}: RLIMIT_NOFILE is {limit}: ulimit -n {wanted_descriptors}")
    });
    let layout = Layout {
        rings: rings as usize,
        slots: slots as usize,
    };
    (layout, told)
}

/// Parameters of a scan by connections.
pub struct Job<'a> {
    pub plan: &'a Plan,
    pub probe: ProbeKind,
    pub chosen: Chosen,
    pub layout: Layout,
    /// Settings with the total rate of all rings.
    pub settings: Settings,
    pub stop: &'a AtomicBool,
}

/// Runs the scan. Returns the counts, and the indices of the unfinished targets that rings took.
/// - take: receives the results, on a separate thread.
/// - watch: called about ten times a second with the counts.
pub fn run(
    job: &Job,
    take: impl FnMut(&Batch) -> io::Result<()> + Send,
    watch: impl Fn(&Sum),
) -> Result<(Sum, Vec<u64>)> {
    let rings = job.layout.rings;
    let counts: Vec<Counts> = (0..rings).map(|_| Counts::default()).collect();
    let (outboxes, inbox) = boxes(rings);
    let (watcher, flying) = (thread::current(), AtomicUsize::new(rings));
    let (watcher, flying) = (&watcher, &flying);
    let ended = thread::scope(|scope| {
        let writer = scope.spawn(move || {
            let taken = inbox.each(take);
            if taken.is_err() {
                // The output was closed.
                job.stop.store(true, Ordering::Relaxed);
            }
            taken
        });
        let flights: Vec<_> = outboxes
            .into_iter()
            .zip(&counts)
            .map(|(outbox, counts)| {
                scope.spawn(move || {
                    let _landing = Landing { watcher, flying };
                    let ended = fly(job, counts, outbox);
                    if ended.is_err() {
                        job.stop.store(true, Ordering::Relaxed);
                    }
                    ended
                })
            })
            .collect();
        while flying.load(Ordering::Acquire) > 0 {
            watch(&Sum::of(&counts));
            thread::park_timeout(WATCH);
        }
        let mut left = Vec::new();
        for flight in flights {
            left.extend(joined(flight)?);
        }
        match joined(writer) {
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
                Err(Failure::system("the results cannot be written", &error))
            }
            _ => Ok(left),
        }
    });
    Ok((Sum::of(&counts), ended?))
}

/// Drop guard that notifies the watching thread when a ring's thread ends, even by a panic.
struct Landing<'a> {
    watcher: &'a thread::Thread,
    flying: &'a AtomicUsize,
}

impl Drop for Landing<'_> {
    fn drop(&mut self) {
        self.flying.fetch_sub(1, Ordering::Release);
        self.watcher.unpark();
    }
}

fn joined<T>(thread: thread::ScopedJoinHandle<T>) -> T {
    thread
        .join()
        .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Body of a ring's thread. Returns the indices of the unfinished targets that the ring took.
fn fly(job: &Job, counts: &Counts, outbox: Outbox) -> Result<Vec<u64>> {
    let Layout { rings, slots } = job.layout;
    let settings = Settings {
        slots,
        rate: job.settings.rate / rings as f64,
        ..job.settings
    };
    let scan = job.probe.scan(slots)?;
    let (input, output) = scan.as_ref().map_or((0, 0), |scan| scan.room());
    let failed = |what: &'static str| move |error: io::Error| Failure::system(what, &error);
    let memory = Memory::new(slots, input, output)
        .map_err(failed("memory for conversations: --max-inflight less"))?;
    let cursor: Cursor = job.plan.cursor();
    match job.chosen {
        Chosen::Uring(features) => {
            let engine = Uring::new(slots, memory, features)
                .map_err(failed("io_uring_setup: raise ulimit -n, or --engine epoll"))?;
            Flight::new(engine, scan, cursor, settings, counts, outbox, job.stop)
                .run()
                .map_err(failed("io_uring_enter"))
        }
        Chosen::Epoll => {
            let engine = Epoll::new(slots, memory).map_err(failed("epoll_create1"))?;
            Flight::new(engine, scan, cursor, settings, counts, outbox, job.stop)
                .run()
                .map_err(failed("epoll_wait"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_targets_are_in_flight_than_requested() {
        let features = Features {
            single_issuer: true,
            coop_taskrun: true,
            socket_error: true,
        };
        for chosen in [Chosen::Uring(features), Chosen::Epoll] {
            for (in_flight, rings, targets, expected) in [
                (10, 8, 1000, (8, 1)),
                (10, 3, 1000, (3, 3)),
                (1, 8, 1000, (1, 1)),
                (64, 4, 1000, (4, 16)),
                (64, 8, 3, (3, 1)),
            ] {
                let (layout, told) = layout(chosen, in_flight, Some(rings), targets);
                assert_eq!((layout.rings, layout.slots), expected);
                assert_eq!(told, None);
            }
            for in_flight in 1..200 {
                let (layout, _) = layout(chosen, in_flight, None, 100_000);
                let most = layout.rings * layout.slots;
                assert!((1..=in_flight as usize).contains(&most), "{layout:?}");
            }
        }
    }
}
