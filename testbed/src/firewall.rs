// SPDX-License-Identifier: GPL-2.0-or-later
//! A running firewall, killed on drop.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStderr, ChildStdout, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::netns::Namespace;
use crate::twin::USER;
use anyhow::{bail, ensure, Context};

use crate::ledger::{Start, Stats};
use crate::proc;
use crate::skip::not_installed;
use crate::twin::Twin;
use crate::wait::{until, wait_within, PATIENCE};

/// Quiet time after which a closed connection sends no more packets.
const QUIET: Duration = Duration::from_millis(60);

/// Number of lines of the failure contract: the table, printed at the start, of each failure's effect on packets.
const SITUATIONS: usize = 6;

/// A firewall that has reported that it is ready. Killed on drop.
pub struct Firewall {
    child: Child,
    /// Process id of the firewall itself, even if it runs under another program.
    pub pid: u32,
    lines: Receiver<String>,
    /// Text from stderr so far.
    said: Arc<Mutex<String>>,
    /// Thread that reads stderr; None after the firewall's end.
    listener: Option<JoinHandle<()>>,
    /// The first line: `ready: …`, or the start object with --json.
    pub ready: String,
    /// The lines of the failure contract, which follow the `ready` line; empty with --json.
    pub contract: Vec<String>,
    /// Time from the start until it was ready.
    started: Duration,
}

/// Result of a firewall that has ended.
pub struct Ended {
    /// Exit code; None if a signal ended it.
    pub code: Option<i32>,
    /// The signal that ended the firewall, if any.
    pub signal: Option<i32>,
    /// Lines of stdout that were not read before.
    pub lines: Vec<String>,
    /// The whole of stderr, without the warnings `unfed` and `loose`.
    pub stderr: String,
    /// The first warning that no rule sends packets to a queue, if any; most tests cause it.
    pub unfed: Option<String>,
    /// The first warning about interfaces without a strict rp_filter, if any.
    pub loose: Option<String>,
}

/// Beginning of the warning about queues without a rule.
const UNFED: &str = "warning: no rule leads packets to queue ";

/// Beginning of the warning about interfaces without a strict rp_filter.
const LOOSE: &str = "warning: IPv4 packets with false source addresses come in by ";

/// Options with which a guard takes no worker that lacks CPU time on a busy machine for a stalled one. A later --deadline
/// replaces them; 0 would leave no guard.
pub const PATIENT_GUARD: [&str; 2] = ["--deadline", "60000"];

/// Warning of an old firewall that filters again: the new one had not taken over within two seconds, as can happen on a
/// busy machine.
pub const TOO_SLOW: &str =
    "warning: upgrade: this firewall goes on: the new firewall does not continue the upgrade: see \
     its log, and try again\n";

/// Warning of an old firewall that filters again: the new one had ended, as it does if it hears nothing in time.
pub const GONE: &str =
    "warning: upgrade: this firewall goes on: the new firewall ended the upgrade: see its log, \
                        and try again\n";

/// Parts of the errors of a new firewall that has not taken over for lack of CPU time: the old firewall filters again,
/// or has not answered in time.
const NOT_TAKEN_OVER: [&str; 2] = [
    "the old firewall ended the upgrade",
    "the old firewall does not continue the upgrade",
];

/// Part of the error of a firewall whose guard was not ready within GUARD_READY (READY_MS of guard/guard).
pub const NO_GUARD: &str = "the guard did not start";
pub const GUARD_READY: Duration = Duration::from_secs(5);

/// Beginning and part of the warning about rules that can't be listed in time, as can happen on a busy machine. The tools
/// have TOOLS_READY (LIMIT of fwctl's doctor/tools).
const UNLISTED: [&str; 2] = [
    "warning: it is not known whether a rule leads packets to queue ",
    "did not end in time",
];
const TOOLS_READY: Duration = Duration::from_secs(9);

/// Removes all lines that begin with `begin` from a text. Returns the first of them.
fn take_warning(text: &mut String, begin: &str) -> Option<String> {
    let (taken, rest): (Vec<&str>, Vec<&str>) = text
        .split_inclusive('\n')
        .partition(|line| line.starts_with(begin));
    let first = taken.first().map(|line| line.trim_end().to_owned());
    *text = rest.concat();
    first
}

impl Firewall {
    /// Starts a twin with --json inside a namespace, as user `USER` if the arguments name none.
    pub fn start(
        namespace: &Namespace,
        twin: Twin,
        arguments: &[&str],
    ) -> anyhow::Result<Firewall> {
        let mut arguments = arguments.to_vec();
        arguments.push("--json");
        Firewall::start_under(namespace, &[], twin, &arguments)
    }

    /// Starts a twin under another program, and waits until the twin is ready. `wrapper` is that program and its
    /// arguments, or empty for no other program; the firewall's command line is appended. Repeats a start that failed
    /// because the guard had no CPU time, but not one with --take-over, which ends the upgrade.
    pub fn start_under(
        namespace: &Namespace,
        wrapper: &[&str],
        twin: Twin,
        arguments: &[&str],
    ) -> anyhow::Result<Firewall> {
        let end = Instant::now() + PATIENCE;
        loop {
            let begin = Instant::now();
            match Firewall::start_once(namespace, wrapper, twin, arguments) {
                Err(error)
                    if begin.elapsed() >= GUARD_READY
                        && begin < end
                        && !arguments.contains(&"--take-over")
                        && format!("{error:#}").contains(NO_GUARD) => {}
                started => return started,
            }
        }
    }

    fn start_once(
        namespace: &Namespace,
        wrapper: &[&str],
        twin: Twin,
        arguments: &[&str],
    ) -> anyhow::Result<Firewall> {
        let mut command = command_under(namespace, wrapper, twin, arguments)?;
        let begin = Instant::now();
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        let lines = read_lines(child.stdout.take().expect("stdout is piped"));
        let said = Arc::new(Mutex::new(String::new()));
        let stderr = child.stderr.take().expect("stderr is piped");
        let listener = read_text(stderr, Arc::clone(&said));
        let pid = child.id();
        let mut firewall = Firewall {
            child,
            pid,
            lines,
            said,
            listener: Some(listener),
            ready: String::new(),
            contract: Vec::new(),
            started: Duration::ZERO,
        };
        match firewall.lines.recv_timeout(PATIENCE) {
            Ok(line) => {
                // In text format a table follows; with --json the start object contains it.
                let is_text = line.starts_with("ready: ");
                firewall.ready = line;
                firewall.started = begin.elapsed();
                for _ in 0..if is_text { SITUATIONS } else { 0 } {
                    firewall.contract.push(firewall.line()?);
                }
            }
            Err(RecvTimeoutError::Timeout) => bail!("{} did not get ready", twin.program()),
            Err(RecvTimeoutError::Disconnected) => {
                let ended = firewall.end()?;
                bail!(
                    "{} did not start, exit code {:?}: {}",
                    twin.program(),
                    ended.code,
                    ended.stderr
                );
            }
        }
        firewall.pid = proc::descendant(pid, twin.program()).context("the firewall's process")?;
        Ok(firewall)
    }

    /// Parses the start object of --json.
    pub fn start_line(&self) -> anyhow::Result<Start> {
        serde_json::from_str(&self.ready).with_context(|| format!("a start line: {}", self.ready))
    }

    /// Returns the next line of stdout.
    pub fn line(&self) -> anyhow::Result<String> {
        self.lines
            .recv_timeout(PATIENCE)
            .context("no further line from the firewall")
    }

    /// Requests a ledger by SIGUSR1, and returns it.
    pub fn ledger(&self) -> anyhow::Result<Stats> {
        proc::signal(self.pid, libc::SIGUSR1);
        let stats = Stats::parse(&self.line()?)?;
        ensure!(stats.reason == "signal", "reason {}", stats.reason);
        Ok(stats)
    }

    /// Requests ledgers until all offered packets have been answered or counted as lost, the workers are idle, and no
    /// packet has arrived for [`QUIET`]: a connection still sends packets after its ends have closed it.
    pub fn settled_ledger(&self) -> anyhow::Result<Stats> {
        // With --profile paper a worker never sleeps.
        let never_sleeps = self.start_line()?.spin_us.is_none();
        let mut stats = self.ledger()?;
        let mut since = Instant::now();
        until(
            "the firewall has answered everything that was offered",
            PATIENCE,
            || {
                let next = self.ledger()?;
                let (total, kernel) = (&next.total, &next.total.kernel);
                let settled = (never_sleeps || self.is_idle()?)
                    && total.received == total.verdict_sum()
                    && kernel.offered
                        == total.received + total.without_id + kernel.user_drop + kernel.unseen
                    && kernel.offered == stats.total.kernel.offered;
                if !settled {
                    since = Instant::now();
                }
                stats = next;
                Ok(since.elapsed() > QUIET)
            },
        )?;
        Ok(stats)
    }

    /// Returns the thread ids of the workers, one per queue. The workers are the threads that were started last.
    pub fn workers(&self) -> anyhow::Result<Vec<u32>> {
        let mut threads = proc::threads(self.pid)?;
        let others = threads
            .len()
            .saturating_sub(self.start_line()?.queues.len());
        Ok(threads.split_off(others))
    }

    /// Returns true if all workers sleep in poll. They have then also read the reports of overruns.
    pub fn is_idle(&self) -> anyhow::Result<bool> {
        Ok(self.idle_test()?())
    }

    /// Returns a function that tests the same condition as `is_idle`, for frequent calls.
    pub fn idle_test(&self) -> anyhow::Result<impl Fn() -> bool> {
        let (pid, workers) = (self.pid, self.workers()?);
        Ok(move || {
            let mut workers = workers.iter();
            workers.all(|worker| proc::sleeps_in_poll(pid, *worker))
        })
    }

    /// Stops the firewall once it is idle; returns the last ledger.
    pub fn finish(self) -> anyhow::Result<Stats> {
        self.settled_ledger()?;
        self.stop()
    }

    /// Returns true if the firewall still runs.
    pub fn is_running(&mut self) -> anyhow::Result<bool> {
        Ok(self.child.try_wait()?.is_none())
    }

    /// Stops the firewall by SIGTERM: it must exit with 0 and print nothing on stderr except the warnings `unfed` and
    /// `loose`, and UNLISTED if its start took that long. Returns the last ledger.
    pub fn stop(mut self) -> anyhow::Result<Stats> {
        proc::signal(self.pid, libc::SIGTERM);
        let ended = self.end()?;
        let [begin, part] = UNLISTED;
        let mut lines = ended.stderr.lines();
        let is_slow = self.started >= TOOLS_READY;
        let is_calm = lines.all(|line| is_slow && line.starts_with(begin) && line.contains(part));
        ensure!(
            ended.code == Some(0) && is_calm,
            "exit code {:?}, signal {:?}, stderr: {}last ledger: {}",
            ended.code,
            ended.signal,
            ended.stderr,
            ended.lines.last().map_or("none", String::as_str)
        );
        let stats = Stats::parse(ended.lines.last().context("no ledger at exit")?)?;
        ensure!(stats.reason == "exit", "reason {}", stats.reason);
        Ok(stats)
    }

    /// Kills the firewall, like a crash.
    pub fn kill(mut self) -> anyhow::Result<()> {
        proc::signal(self.pid, libc::SIGKILL);
        self.end().map(drop)
    }

    /// Sends a signal and waits for any kind of end.
    pub fn end_by(mut self, signal: i32) -> anyhow::Result<Ended> {
        proc::signal(self.pid, signal);
        self.end()
    }

    /// Returns true if stderr contains a text so far.
    pub fn has_said(&self, text: &str) -> bool {
        self.said.lock().expect("no panic").contains(text)
    }

    /// Returns the number of times that stderr contains a text so far.
    pub fn times_said(&self, text: &str) -> usize {
        self.said.lock().expect("no panic").matches(text).count()
    }

    /// Waits until the firewall ends by itself.
    pub fn wait(mut self) -> anyhow::Result<Ended> {
        self.end()
    }

    /// Waits for the firewall's end. Removes the known warnings from its stderr.
    fn end(&mut self) -> anyhow::Result<Ended> {
        use std::os::unix::process::ExitStatusExt;
        let status = wait_within(&mut self.child, PATIENCE).context("the firewall does not end")?;
        let listener = self.listener.take().expect("a firewall ends once");
        listener
            .join()
            .expect("the reader of stderr does not panic");
        let mut stderr = std::mem::take(&mut *self.said.lock().expect("no panic"));
        Ok(Ended {
            code: status.code(),
            signal: status.signal(),
            lines: self.lines.iter().collect(),
            unfed: take_warning(&mut stderr, UNFED),
            loose: take_warning(&mut stderr, LOOSE),
            stderr,
        })
    }
}

impl Drop for Firewall {
    fn drop(&mut self) {
        if let Ok(None) = self.child.try_wait() {
            if self.pid != self.child.id() {
                proc::signal(self.pid, libc::SIGKILL);
            }
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

/// Starts a firewall that takes over from another; if one of the two is too slow (see TOO_SLOW and GONE), starts it again.
/// Returns the new firewall, and the number of repetitions.
/// - start: starts a firewall with --take-over.
pub fn take_over<T>(
    old: &Firewall,
    start: impl Fn() -> anyhow::Result<T>,
) -> anyhow::Result<(T, usize)> {
    let told = || old.times_said(TOO_SLOW) + old.times_said(GONE);
    let (before, end) = (told(), Instant::now() + PATIENCE);
    let mut late = 0;
    loop {
        let begin = Instant::now();
        let error = match start() {
            Ok(new) => return Ok((new, late)),
            Err(error) => error,
        };
        let text = format!("{error:#}");
        let is_late = NOT_TAKEN_OVER.iter().any(|part| text.contains(part))
            || begin.elapsed() >= GUARD_READY && text.contains(NO_GUARD);
        if !is_late || Instant::now() > end {
            return Err(error);
        }
        late += 1;
        until("the old firewall filters again", PATIENCE, || {
            Ok(told() == before + late)
        })
        .context(error)?;
    }
}

/// Runs a twin to its end, for starts that fail. Kills the twin and fails if it does not end within [`PATIENCE`].
pub fn run_to_end<A: AsRef<OsStr>>(
    namespace: &Namespace,
    wrapper: &[&str],
    twin: Twin,
    arguments: &[A],
) -> anyhow::Result<Ended> {
    use std::os::unix::process::ExitStatusExt;
    let mut command = command_under(namespace, wrapper, twin, arguments)?;
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let end = wait_within(&mut child, PATIENCE);
    if end.is_none() {
        child.kill()?;
    }
    let output = child.wait_with_output()?;
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    ensure!(
        end.is_some(),
        "{} does not end by itself; stdout: {stdout}",
        twin.program()
    );
    let mut stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    Ok(Ended {
        code: output.status.code(),
        signal: output.status.signal(),
        lines: stdout.lines().map(str::to_string).collect(),
        unfed: take_warning(&mut stderr, UNFED),
        loose: take_warning(&mut stderr, LOOSE),
        stderr,
    })
}

fn command_under<A: AsRef<OsStr>>(
    namespace: &Namespace,
    wrapper: &[&str],
    twin: Twin,
    arguments: &[A],
) -> anyhow::Result<Command> {
    let binary = twin.binary();
    ensure!(
        binary.is_file(),
        "there is no {}: run make build",
        binary.display()
    );
    let mut command = match wrapper {
        [] => namespace.command(&binary),
        [program, rest @ ..] => {
            if !in_path(program) {
                return Err(not_installed(program));
            }
            let mut command = namespace.command(program);
            command.args(rest).arg(&binary);
            command
        }
    };
    // `--user` comes before the arguments, because the last option may intentionally lack its value.
    if is_start(arguments) {
        command.args(["--user", USER]);
    }
    command.args(arguments).stdin(Stdio::null());
    Ok(command)
}

/// Returns true if a command line starts a firewall without naming a user.
fn is_start<A: AsRef<OsStr>>(arguments: &[A]) -> bool {
    let words: Vec<_> = arguments
        .iter()
        .map(|word| word.as_ref().to_string_lossy())
        .collect();
    let is_text = |word: &str| ["--help", "--version", "-h", "-V"].contains(&word);
    let is_command = words.first().is_some_and(|word| !word.starts_with('-'));
    !is_command
        && !words
            .iter()
            .any(|word| is_text(word) || word.starts_with("--user"))
}

fn in_path(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

/// Appends the lines of a firewall's stderr to a text, on a thread. Ends at a line that is not UTF-8; the test then
/// fails for lack of the rest.
fn read_text(stderr: ChildStderr, said: Arc<Mutex<String>>) -> JoinHandle<()> {
    thread::spawn(move || {
        let mut stderr = BufReader::new(stderr);
        let mut line = String::new();
        while let Ok(1..) = stderr.read_line(&mut line) {
            said.lock().expect("no panic").push_str(&line);
            line.clear();
        }
    })
}

fn read_lines(stdout: ChildStdout) -> Receiver<String> {
    let (send, receive) = mpsc::channel();
    thread::spawn(move || {
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            if send.send(line).is_err() {
                return;
            }
        }
    });
    receive
}
