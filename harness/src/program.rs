// SPDX-License-Identifier: GPL-2.0-or-later
//! Starts and stops a measured program, and reads its cost.

use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::mpsc::{channel, Receiver, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{bail, Context, Result};
use nix::sys::signal::{kill, killpg, Signal};
use nix::unistd::Pid;
use testbed::netns::Namespace;
use testbed::proc;
use testbed::queue::{queues, QueueTotal};

use crate::interrupt;

/// Time limit for a program to be ready (its queues exist), or for strace to attach: a policy of a million names takes
/// seconds, on a busy machine many.
const READY_WITHIN: Duration = Duration::from_secs(60);
/// Time limit for a program to end after SIGTERM, or for strace to end after the program.
const STOPPED_WITHIN: Duration = Duration::from_secs(5);
/// Time that packets of an ended load may still wait for their verdict.
const SETTLED_WITHIN: Duration = Duration::from_secs(1);
const LOOK_AGAIN: Duration = Duration::from_millis(2);

/// Sign that a program is ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ready {
    /// The program prints a start line, as our programs do.
    Says,
    /// The kernel lists the program's queue.
    HasQueue,
}

/// A program's CPU time and queue counts at one moment.
#[derive(Clone, Copy, Debug)]
pub struct Reading {
    pub cpu_seconds: f64,
    pub queues: QueueTotal,
}

/// Output of a stopped program.
pub struct Ended {
    pub stdout: String,
    pub stderr: String,
    /// True if SIGTERM ended the program in time.
    pub in_time: bool,
}

/// A running program. It has its own process group, so that only the harness passes on a Ctrl-C and the program's last
/// ledger is not lost. It is killed if this value is dropped without [`Program::stop`].
pub struct Program {
    child: Child,
    name: String,
    queues: u16,
    stdout: Option<JoinHandle<String>>,
    stderr: Option<JoinHandle<String>>,
}

impl Program {
    /// Starts a command line in a namespace and returns when the program is ready. Its queues are 0 to `queues` - 1.
    pub fn start(
        namespace: &Namespace,
        words: &[String],
        ready: Ready,
        queues: u16,
    ) -> Result<Program> {
        let mut child = namespace
            .command(&words[0])
            .args(&words[1..])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()
            .with_context(|| format!("{} could not be started", words[0]))?;
        let (lines, seen) = channel();
        let stdout = child.stdout.take().expect("stdout is piped");
        let stderr = child.stderr.take().expect("stderr is piped");
        let mut program = Program {
            child,
            name: words.join(" "),
            queues,
            stdout: Some(thread::spawn(move || keep_lines(stdout, lines))),
            stderr: Some(thread::spawn(move || keep(stderr))),
        };
        program.wait_until_ready(ready, seen)?;
        Ok(program)
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    fn wait_until_ready(&mut self, ready: Ready, lines: Receiver<String>) -> Result<()> {
        let start = Instant::now();
        while start.elapsed() < READY_WITHIN {
            interrupt::check()?;
            self.check_running()?;
            let found = match ready {
                Ready::Says => match lines.recv_timeout(LOOK_AGAIN) {
                    Ok(line) => line.contains("\"event\":\"start\"") || line.starts_with("ready"),
                    Err(_) => false,
                },
                Ready::HasQueue => {
                    thread::sleep(LOOK_AGAIN);
                    queues(self.pid(), self.queues)?.len() == usize::from(self.queues)
                }
            };
            if found {
                return Ok(());
            }
        }
        bail!(
            "{}: not ready within {} s",
            self.name,
            READY_WITHIN.as_secs()
        );
    }

    /// Fails if the program has ended, with the last line of its stderr.
    pub fn check_running(&mut self) -> Result<()> {
        let Some(status) = self.child.try_wait()? else {
            return Ok(());
        };
        let words = joined(&mut self.stderr);
        let last = words.trim().lines().last().unwrap_or("it said nothing");
        bail!("{} has ended ({status}): {last}", self.name);
    }

    /// Waits until no packet waits for a verdict (at most a second) and reads the counters.
    pub fn read_settled(&self) -> Result<Reading> {
        let start = Instant::now();
        loop {
            let reading = self.read()?;
            if reading.queues.waiting == 0 || start.elapsed() > SETTLED_WITHIN {
                return Ok(reading);
            }
            thread::sleep(LOOK_AGAIN);
        }
    }

    fn read(&self) -> Result<Reading> {
        let rows = queues(self.pid(), self.queues)?;
        Ok(Reading {
            cpu_seconds: proc::cpu_seconds(self.pid())?,
            queues: QueueTotal::of(&rows),
        })
    }

    /// Ends the program by SIGTERM, or by SIGKILL if SIGTERM does not end it.
    pub fn stop(mut self) -> Result<Ended> {
        kill(Pid::from_raw(self.pid() as i32), Signal::SIGTERM)?;
        let in_time = wait_for_end(&mut self.child, STOPPED_WITHIN)?;
        self.end();
        Ok(Ended {
            stdout: joined(&mut self.stdout),
            stderr: joined(&mut self.stderr),
            in_time,
        })
    }

    /// Ends the whole process group: a surviving child would keep the pipes open, and their readers waiting.
    fn end(&mut self) {
        // A call may fail because no process is left, which is no error.
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = killpg(Pid::from_raw(self.pid() as i32), Signal::SIGKILL);
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.end();
    }
}

/// Stores a program's output and forwards each line while the receiver exists.
fn keep_lines(from: impl Read, lines: Sender<String>) -> String {
    let mut kept = String::new();
    for line in BufReader::new(from).lines().map_while(Result::ok) {
        kept.push_str(&line);
        kept.push('\n');
        let _ = lines.send(line);
    }
    kept
}

fn keep(mut from: impl Read) -> String {
    let mut bytes = Vec::new();
    // Data read before a failure are kept.
    let _ = from.read_to_end(&mut bytes);
    String::from_utf8_lossy(&bytes).into_owned()
}

fn joined(reader: &mut Option<JoinHandle<String>>) -> String {
    let kept = reader.take().and_then(|reader| reader.join().ok());
    kept.unwrap_or_default()
}

impl Ended {
    /// Returns the last ledger in the output, parsed from its line of JSON. Returns None if there is no ledger: only
    /// our programs print ledgers.
    pub fn ledger(&self) -> Option<serde_json::Value> {
        let line = self
            .stdout
            .lines()
            .rfind(|line| line.contains("\"event\":\"stats\""))?;
        serde_json::from_str(line).ok()
    }
}

fn wait_for_end(child: &mut Child, within: Duration) -> Result<bool> {
    let start = Instant::now();
    while child.try_wait()?.is_none() {
        if start.elapsed() > within {
            return Ok(false);
        }
        thread::sleep(LOOK_AGAIN);
    }
    Ok(true)
}

/// strace, which counts the system calls of a running program.
pub struct Counter {
    strace: Child,
}

impl Counter {
    /// Attaches to all threads of `program`; `output` receives the table when the program ends.
    pub fn attach(namespace: &Namespace, program: &Program, output: &Path) -> Result<Counter> {
        let strace = namespace
            .command("strace")
            .args(["-f", "-c", "-o"])
            .arg(output)
            .args(["-p", &program.pid().to_string()])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .context("strace could not be started: run make deps")?;
        let mut counter = Counter { strace };
        let start = Instant::now();
        while !proc::is_traced(program.pid()) {
            if counter.strace.try_wait()?.is_some() || start.elapsed() > READY_WITHIN {
                bail!("strace could not attach to the program: does the machine allow ptrace?");
            }
            thread::sleep(LOOK_AGAIN);
        }
        Ok(counter)
    }

    /// Waits for the end of strace, which follows the program's end.
    pub fn finish(mut self) -> Result<()> {
        if !wait_for_end(&mut self.strace, STOPPED_WITHIN)? {
            self.strace.kill()?;
            self.strace.wait()?;
            bail!("strace did not end with the program that it counted");
        }
        Ok(())
    }
}

/// Returns the number of calls in the last line (`total`) of the table of `strace -c`.
pub fn total_calls(table: &str) -> Option<u64> {
    let total = table
        .lines()
        .rfind(|line| line.trim_end().ends_with(" total"))?;
    total.split_whitespace().nth(3)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Vec<String> {
        ["/bin/sh", "-c", script].map(str::to_string).to_vec()
    }

    fn start(script: &str) -> Result<Program> {
        Program::start(&Namespace::host(), &shell(script), Ready::Says, 1)
    }

    #[test]
    fn a_program_is_started_and_stopped_and_its_words_are_kept() {
        let script =
            "trap 'echo \"{\\\"event\\\":\\\"stats\\\",\\\"reconciled\\\":true}\"; exit 0' TERM; \
             echo warning >&2; echo 'ready: queue 0'; while :; do sleep 0.01; done";
        let ended = start(script).unwrap().stop().unwrap();
        assert!(ended.in_time);
        assert!(ended.stdout.starts_with("ready: queue 0\n"));
        assert_eq!(ended.stderr, "warning\n");
        assert_eq!(ended.ledger().unwrap()["reconciled"], true);
    }

    #[test]
    fn a_program_that_ends_at_once_is_quoted() {
        let error = start("echo 'error: queue 0 is owned' >&2; exit 5")
            .map(|_| ())
            .unwrap_err();
        let words = error.to_string();
        assert!(
            words.contains("exit status: 5") && words.ends_with("error: queue 0 is owned"),
            "{words}"
        );
    }

    #[test]
    fn a_program_that_heeds_nothing_is_killed_with_its_children() {
        let script = "trap '' TERM; echo ready; sleep 60 & wait; wait; sleep 60";
        let mut program = start(script).unwrap();
        let start = Instant::now();
        program.end();
        assert_eq!(joined(&mut program.stdout), "ready\n");
        assert!(start.elapsed() < Duration::from_secs(10));
    }

    #[test]
    fn a_missing_program_is_named() {
        let error = Program::start(&Namespace::host(), &["/no/such".into()], Ready::Says, 1);
        assert!(error
            .map(|_| ())
            .unwrap_err()
            .to_string()
            .starts_with("/no/such could not be started"));
    }

    #[test]
    fn the_total_of_strace_is_found() {
        let table = "% time     seconds  usecs/call     calls    errors syscall\n\
            ------ ----------- ----------- --------- --------- ----------------\n \
            60.00    0.000300           3       100           recvmmsg\n \
            40.00    0.000200           2        50         7 sendto\n\
            ------ ----------- ----------- --------- --------- ----------------\n\
            100.00    0.000500           3       150         7 total\n";
        assert_eq!(total_calls(table), Some(150));
        assert_eq!(total_calls(""), None);
    }
}
