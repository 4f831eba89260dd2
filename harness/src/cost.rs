// SPDX-License-Identifier: GPL-2.0-or-later
//! Measures the CPU time of a process in nanoseconds, and keeps the process from using CPU outside its slice.

use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{bail, Context, Result};
use nix::sys::signal::{kill, Signal};
use nix::unistd::Pid;

/// Time limit for an idle process to fall asleep, longer than either twin polls for packets. After this limit the CPU
/// time is read although the process does not sleep.
const STILL: Duration = Duration::from_millis(20);
const STOPPED_WITHIN: Duration = Duration::from_secs(2);
const LOOK: Duration = Duration::from_micros(100);
/// Time that an idle process is observed, to see whether it sleeps.
const WATCHED: Duration = Duration::from_millis(200);
/// CPU time divided by elapsed time, above which an idle process counts as burning CPU.
const BURNS: f64 = 0.05;
/// Time for which a newly started process must stay below BURNS to count as idle.
const LULL: Duration = Duration::from_millis(50);
/// Time limit for a newly started process to become idle.
const SETTLED_WITHIN: Duration = Duration::from_secs(30);

/// Returns the nanoseconds that all threads of a process have run (/proc/PID/task/TID/schedstat). The kernel updates
/// the figure of a running thread only at each tick: read it while the threads sleep or are stopped.
pub fn cpu_nanoseconds(pid: u32) -> Result<u64> {
    let mut sum = 0;
    for task in tasks(pid)? {
        let file = task.join("schedstat");
        // A thread may have ended in the meantime.
        let Ok(text) = fs::read_to_string(&file) else {
            continue;
        };
        let first = text.split_whitespace().next().and_then(|n| n.parse().ok());
        sum += first.unwrap_or(0u64);
    }
    if sum == 0 {
        bail!(
            "/proc/{pid}/task/*/schedstat say nothing: is the kernel built with CONFIG_SCHED_INFO?"
        );
    }
    Ok(sum)
}

/// Waits until a newly started process is idle, and returns its CPU time so far in nanoseconds.
pub fn settled(pid: u32) -> Result<u64> {
    settled_within(pid, SETTLED_WITHIN)
}

fn settled_within(pid: u32, limit: Duration) -> Result<u64> {
    let start = Instant::now();
    // 0 if the process has not run yet, on a busy machine.
    let mut before = cpu_nanoseconds(pid).unwrap_or(0);
    while start.elapsed() < limit {
        thread::sleep(LULL);
        let Ok(now) = cpu_nanoseconds(pid) else {
            continue;
        };
        let ran = now.saturating_sub(before) as f64;
        let sleeps = tasks(pid)?.iter().all(|task| is_in(task, b"SDI"));
        if sleeps && ran < BURNS * LULL.as_nanos() as f64 {
            return Ok(now);
        }
        before = now;
    }
    bail!("process {pid} does not come to rest")
}

fn tasks(pid: u32) -> Result<Vec<std::path::PathBuf>> {
    let folder = format!("/proc/{pid}/task");
    let entries = fs::read_dir(&folder).context(folder)?;
    Ok(entries.flatten().map(|task| task.path()).collect())
}

/// Returns true if a thread's state (proc_pid_stat(5), the field after the name in brackets) is one of `states`.
fn is_in(task: &Path, states: &[u8]) -> bool {
    let stat = fs::read_to_string(task.join("stat")).unwrap_or_default();
    let state = stat
        .rsplit_once(") ")
        .and_then(|(_, rest)| rest.bytes().next());
    state.is_some_and(|state| states.contains(&state))
}

fn wait_for(pid: u32, states: &[u8], at_most: Duration) -> Result<bool> {
    let start = Instant::now();
    loop {
        if tasks(pid)?.iter().all(|task| is_in(task, states)) {
            return Ok(true);
        }
        if start.elapsed() > at_most {
            return Ok(false);
        }
        thread::sleep(LOOK);
    }
}

/// Method that keeps an idle process from using CPU during the slices of other subjects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rest {
    /// The process sleeps by itself when it has no work.
    Sleeps,
    /// The process burns CPU when idle, so it is stopped.
    IsStopped,
}

impl Rest {
    /// Observes an idle process. Returns the method that keeps it from using CPU.
    pub fn of(pid: u32) -> Result<Rest> {
        // The start of the process may still use CPU, and is not observed.
        thread::sleep(WATCHED);
        let (before, start) = (cpu_nanoseconds(pid)?, Instant::now());
        thread::sleep(WATCHED);
        let ran = (cpu_nanoseconds(pid)? - before) as f64;
        Ok(match ran > BURNS * start.elapsed().as_nanos() as f64 {
            true => Rest::IsStopped,
            false => Rest::Sleeps,
        })
    }

    /// Makes the process use no CPU: waits (at most STILL) until it sleeps by itself, or stops it by SIGSTOP. Returns
    /// the CPU time that the process has used so far, in nanoseconds.
    pub fn begin(self, pid: u32) -> Result<u64> {
        match self {
            // If the process does not sleep, its CPU time is read anyway, exact to a clock tick.
            Rest::Sleeps => wait_for(pid, b"SDI", STILL).map(|_| ())?,
            Rest::IsStopped => {
                signal(pid, Signal::SIGSTOP)?;
                if !wait_for(pid, b"TtXZ", STOPPED_WITHIN)? {
                    bail!("process {pid} does not heed SIGSTOP");
                }
            }
        }
        cpu_nanoseconds(pid)
    }

    /// Resumes the process if `begin` has stopped it.
    pub fn end(self, pid: u32) -> Result<()> {
        match self {
            Rest::Sleeps => Ok(()),
            Rest::IsStopped => signal(pid, Signal::SIGCONT),
        }
    }
}

fn signal(pid: u32, signal: Signal) -> Result<()> {
    kill(Pid::from_raw(pid as i32), signal).with_context(|| format!("{signal} to process {pid}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Child, Command};
    use testbed::wait::{until, PATIENCE};

    /// Shell that is killed on drop.
    struct Shell(Child);

    impl Shell {
        fn new(script: &str) -> Shell {
            Shell(Command::new("sh").args(["-c", script]).spawn().unwrap())
        }
    }

    impl Drop for Shell {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    #[test]
    fn one_that_sleeps_is_left_alone() {
        let shell = Shell::new("exec sleep 60");
        let pid = shell.0.id();
        let file = format!("/proc/{pid}/stat");
        let sleeps = || Ok(fs::read_to_string(&file)?.contains("(sleep) S"));
        until("it sleeps", PATIENCE, sleeps).unwrap();
        assert_eq!(Rest::of(pid).unwrap(), Rest::Sleeps);
        assert_eq!(
            Rest::Sleeps.begin(pid).unwrap(),
            Rest::Sleeps.begin(pid).unwrap()
        );
    }

    #[test]
    fn one_that_burns_costs_nothing_while_it_rests() {
        let shell = Shell::new("while :; do :; done");
        let pid = shell.0.id();
        let rest = Rest::IsStopped;
        // It may not run at first.
        let burns = || Ok(Rest::of(pid).is_ok_and(|seen| seen == rest));
        until("it burns", PATIENCE, burns).unwrap();
        let mut before = 0;
        let rests = || Ok(rest.begin(pid).map(|cpu| before = cpu).is_ok());
        until("it rests", PATIENCE, rests).unwrap();
        thread::sleep(Duration::from_millis(50));
        assert_eq!(cpu_nanoseconds(pid).unwrap(), before);
        rest.end(pid).unwrap();
        let ran = || Ok(cpu_nanoseconds(pid)? > before + 5_000_000);
        until("it runs on", PATIENCE, ran).unwrap();
        let rests = || Ok(rest.begin(pid).is_ok());
        until("it rests again", PATIENCE, rests).unwrap();
    }

    #[test]
    fn what_a_start_costs_is_over_when_it_settles() {
        let shell =
            Shell::new("i=0; while [ $i -lt 100000 ]; do i=$((i + 1)); done; exec sleep 60");
        let pid = shell.0.id();
        let start = settled_within(pid, PATIENCE).unwrap();
        assert!(start > 20_000_000, "{start}");
        let later = cpu_nanoseconds(pid).unwrap();
        assert!(later - start < 5_000_000, "{start} {later}");
        let burning = Shell::new("while :; do :; done");
        assert!(settled_within(burning.0.id(), Duration::from_secs(1)).is_err());
    }

    #[test]
    fn one_that_is_gone_is_an_error() {
        let pid = Shell::new("exec sleep 60").0.id();
        assert!(cpu_nanoseconds(pid).is_err());
    }
}
