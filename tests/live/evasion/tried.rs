// SPDX-License-Identifier: GPL-2.0-or-later
//! Ways to a server, tried by several clients at once, and what came of each.

use std::fmt::{self, Display, Formatter};
use std::sync::atomic::{AtomicU16, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{ensure, Context};
use testbed::frames::Link;

use super::client::QUIET;
use super::net::Net;
use crate::names::ends::Heard;

/// Clients at once: most of the time they wait.
const CLIENTS: usize = 8;
/// Settings of a client whose packets may get lost.
const TRIES: usize = 5;
/// For an answer that must come.
const ANSWERED: Duration = Duration::from_secs(8);
/// Between two looks at what the server has heard.
const LOOK: Duration = Duration::from_millis(5);
/// The next client's port: no two of a case share one.
static PORT: AtomicU16 = AtomicU16::new(20_000);

/// How long a client waits for its answer. answered: it must come.
pub fn patience(answered: bool) -> Duration {
    if answered {
        ANSWERED
    } else {
        QUIET
    }
}

/// Result of a way with an opening.
pub struct Tried {
    pub way: String,
    pub opening: &'static str,
    /// Numbers of its tries, each of which is a connection.
    pub ports: Vec<u16>,
    pub completed: bool,
}

impl Display for Tried {
    fn fmt(&self, formatter: &mut Formatter) -> fmt::Result {
        write!(formatter, "{} ({})", self.way, self.opening)
    }
}

impl Tried {
    /// Has one client after the other try, each from a port of its own.
    /// - answered: the server must answer, if not the first client, then another.
    /// - run: runs a client; gives whether the server answers, or nothing if packets got lost: that counts for nothing, and
    ///   another client tries again.
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

/// Does all jobs by several clients at once, each with a link of its own.
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

/// Returns true if a server was asked for a name from a port.
fn has_heard(heard: &Heard, port: u16, host: &str) -> bool {
    let heard = heard.lock().expect("no panic");
    let asked = |(from, name): &(u16, String)| *from == port && name.eq_ignore_ascii_case(host);
    heard.iter().any(asked)
}

/// Returns true if a server is asked for a name from a port in time.
pub fn hears(heard: &Heard, port: u16, host: &str, patience: Duration) -> bool {
    let deadline = Instant::now() + patience;
    loop {
        if has_heard(heard, port, host) {
            return true;
        }
        if Instant::now() >= deadline {
            return false;
        }
        thread::sleep(LOOK);
    }
}

/// A late arrival at the server counts, too.
pub fn count_late(tried: &mut [Tried], heard: &Heard, host: &str) {
    for one in tried {
        let late = one.ports.iter().any(|port| has_heard(heard, *port, host));
        one.completed |= late;
    }
}

/// Some of them, for a message.
fn names(tried: &[Tried], completed: bool) -> Vec<String> {
    let some = tried.iter().filter(|one| one.completed == completed);
    some.map(Tried::to_string).collect()
}

/// Checks that each way leads to the server.
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

/// Checks that no way leads to the server.
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

/// Checks that more than half of the ways lead to the server, and tells which do not.
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
