// SPDX-License-Identifier: GPL-2.0-or-later
//! Tries of ways to a server by several concurrent clients, and their results.

use std::fmt::{self, Display, Formatter};
use std::sync::atomic::{AtomicU16, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{ensure, Context};
use testbed::frames::Link;
use testbed::wait::pause_for;

use super::client::QUIET;
use super::net::Net;
use crate::names::ends::Heard;

/// Number of concurrent clients: they mostly wait.
const CLIENTS: usize = 8;
/// Maximum number of tries of a way; packets may get lost.
const TRIES: usize = 5;
/// Time limit for an expected answer.
pub const ANSWERED: Duration = Duration::from_secs(8);
/// Pause between two checks of the names that the server has received.
const LOOK: Duration = Duration::from_millis(5);
/// Port of the next client; each client of a case has its own.
static PORT: AtomicU16 = AtomicU16::new(20_000);

/// Returns a client's time limit for an answer.
/// - answered: an answer is expected.
pub fn patience(answered: bool) -> Duration {
    if answered {
        ANSWERED
    } else {
        QUIET
    }
}

/// Result of a way to send an opening (a client's first bytes), after one or more tries.
pub struct Tried {
    pub way: String,
    pub opening: &'static str,
    /// Client's port of each try.
    pub ports: Vec<u16>,
    pub completed: bool,
}

impl Display for Tried {
    fn fmt(&self, formatter: &mut Formatter) -> fmt::Result {
        write!(formatter, "{} ({})", self.way, self.opening)
    }
}

impl Tried {
    /// Runs one client after another, each from its own port.
    /// - answered: true if an answer is expected: clients then try until the server answers a client, TRIES clients at
    ///   most.
    /// - run: runs a client from a port. Returns true if the server answers; None if packets got lost, so that another
    ///   client tries again.
    pub fn new(
        way: &str,
        opening: &'static str,
        answered: bool,
        mut run: impl FnMut(u16) -> anyhow::Result<Option<bool>>,
    ) -> anyhow::Result<Tried> {
        let mut tried = Tried {
            way: way.to_owned(),
            opening,
            ports: Vec::new(),
            completed: false,
        };
        while tried.ports.len() < TRIES {
            let port = PORT.fetch_add(1, Ordering::Relaxed);
            tried.ports.push(port);
            let completed = run(port).with_context(|| tried.to_string())?;
            tried.completed = completed == Some(true);
            if tried.completed || completed == Some(false) && !answered {
                break;
            }
        }
        Ok(tried)
    }
}

/// Runs all jobs by CLIENTS concurrent clients, each with its own link. Returns the result of each job, in no
/// particular order.
pub fn try_all<Job: Sync>(
    net: &Net,
    jobs: &[Job],
    run: impl Fn(&Link, &Job) -> anyhow::Result<Tried> + Sync,
) -> anyhow::Result<Vec<Tried>> {
    let next = AtomicUsize::new(0);
    let work = || -> anyhow::Result<Vec<Tried>> {
        let link = net.link()?;
        let mut done = Vec::new();
        while let Some(job) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
            done.push(run(&link, job)?);
        }
        Ok(done)
    };
    thread::scope(|scope| {
        let workers: Vec<_> = (0..CLIENTS).map(|_| scope.spawn(work)).collect();
        let mut all = Vec::new();
        for worker in workers {
            all.extend(worker.join().expect("no panic")?);
        }
        Ok(all)
    })
}

/// Returns true if a server has received a name from a port.
fn has_heard(heard: &Heard, port: u16, host: &str) -> bool {
    let heard = heard.lock().expect("no panic");
    let asked = |(from, name): &(u16, String)| *from == port && name.eq_ignore_ascii_case(host);
    heard.iter().any(asked)
}

/// Returns true if a server receives a name from a port within a time.
pub fn hears(heard: &Heard, port: u16, host: &str, patience: Duration) -> bool {
    let deadline = Instant::now() + patience;
    loop {
        if has_heard(heard, port, host) {
            return true;
        }
        if Instant::now() >= deadline {
            return false;
        }
        pause_for(LOOK);
    }
}

/// Marks each result as completed if the server has by now received the name `host` from one of the result's ports.
pub fn count_late(tried: &mut [Tried], heard: &Heard, host: &str) {
    for one in tried {
        let late = one.ports.iter().any(|port| has_heard(heard, *port, host));
        one.completed |= late;
    }
}

/// Returns the names of results, for a message.
/// - completed: true for the completed results, false for all other results.
fn names(tried: &[Tried], completed: bool) -> Vec<String> {
    let some = tried.iter().filter(|one| one.completed == completed);
    some.map(Tried::to_string).collect()
}

/// Checks that each way to send a name reaches the server.
pub fn all_completed(tried: &[Tried]) -> anyhow::Result<()> {
    let failed = names(tried, false);
    ensure!(
        failed.is_empty(),
        "{} of {} did not complete: {failed:#?}",
        failed.len(),
        tried.len()
    );
    Ok(())
}

/// Checks that no way to send a name reaches the server.
pub fn none_completed(tried: &[Tried]) -> anyhow::Result<()> {
    let passed = names(tried, true);
    ensure!(
        passed.is_empty(),
        "{} of {} completed: {passed:#?}",
        passed.len(),
        tried.len()
    );
    Ok(())
}

/// Checks that more than half of the ways to send a name reach the server, and prints the others.
pub fn most_completed(tried: &[Tried]) -> anyhow::Result<()> {
    let failed = names(tried, false);
    ensure!(
        2 * failed.len() < tried.len(),
        "not even half of the evasions reach the server: {failed:#?}"
    );
    println!(
        "{} of {} evasions reach the server, all but {failed:?}",
        tried.len() - failed.len(),
        tried.len()
    );
    Ok(())
}
