// SPDX-License-Identifier: GPL-2.0-or-later
//! A measured program: started, asked what it costs, stopped.

use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::mpsc::{channel, Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{bail, Context, Result};
use nix::sys::signal::{kill, Signal};
use nix::unistd::Pid;

use crate::interrupt;
use crate::netns::Namespace;
use crate::process::{self, QueueTotal};

/// How long a program may take until it has its queue.
const READY_WITHIN: Duration = Duration::from_secs(10);
/// How long a program may take to end after SIGTERM.
const STOPPED_WITHIN: Duration = Duration::from_secs(5);
/// How long packets of an ended load may still wait for their verdict.
const SETTLED_WITHIN: Duration = Duration::from_secs(1);
const LOOK_AGAIN: Duration = Duration::from_millis(2);

/// How a program tells that it is ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ready {
    /// By its start line: ours do.
    Says,
    /// The kernel lists its queue.
    HasQueue,
}

/// What a program had cost and seen at a moment.
#[derive(Clone, Copy, Debug)]
pub struct Reading {
    pub cpu_seconds: f64,
    pub queues: QueueTotal,
}

/// What is left of a stopped program.
pub struct Ended {
    pub stdout: String,
    pub stderr: String,
    /// False: SIGTERM did not end it.
    pub in_time: bool,
}

/// A running program. Its process group is its own, so that a Ctrl-C reaches it through us only and its last ledger
/// is not lost. It is killed if this value goes without [`Firewall::stop`].
pub struct Firewall {
    child: Child,
    name: String,
    queues: u16,
    stdout: Arc<Mutex<String>>,
    readers: Vec<JoinHandle<String>>,
}

impl Firewall {
    /// Starts a command line in a namespace and returns when it has its queues (0 to `queues` - 1).
    pub fn start(
        namespace: &Namespace,
        words: &[String],
        ready: Ready,
        queues: u16,
    ) -> Result<Firewall> {
        let name = words.join(" ");
        let mut child = namespace
            .command(&words[0])
            .args(&words[1..])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()
            .with_context(|| format!("{} could not be started: build it with make build, or name its folder with --bin-dir", words[0]))?;
        let (lines, seen) = channel();
        let stdout = Arc::new(Mutex::new(String::new()));
        let (out, err) = (child.stdout.take(), child.stderr.take());
        let kept = stdout.clone();
        let out = thread::spawn(move || {
            for line in BufReader::new(out.expect("stdout is piped"))
                .lines()
                .map_while(Result::ok)
            {
                let mut kept = kept.lock().expect("no panic while it is held");
                kept.push_str(&line);
                kept.push('\n');
                // Nobody listens any more once the program is ready.
                let _ = lines.send(line);
            }
            String::new()
        });
        let err = thread::spawn(move || {
            let mut bytes = Vec::new();
            let _ = err.expect("stderr is piped").read_to_end(&mut bytes);
            String::from_utf8_lossy(&bytes).into_owned()
        });
        let mut firewall = Firewall {
            child,
            name,
            queues,
            stdout,
            readers: vec![out, err],
        };
        firewall.wait_until_ready(ready, seen)?;
        Ok(firewall)
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
                    Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => false,
                },
                Ready::HasQueue => {
                    thread::sleep(LOOK_AGAIN);
                    process::queues(self.pid(), self.queues)?.len() == usize::from(self.queues)
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

    /// Fails, with the program's own words, if it has ended.
    pub fn check_running(&mut self) -> Result<()> {
        let Some(status) = self.child.try_wait()? else {
            return Ok(());
        };
        let words = self
            .readers
            .pop()
            .and_then(|reader| reader.join().ok())
            .unwrap_or_default();
        let last = words
            .trim()
            .lines()
            .last()
            .unwrap_or("it said nothing")
            .to_string();
        bail!("{} has ended ({status}): {last}", self.name);
    }

    /// Waits until no packet waits for a verdict (a second at most) and reads.
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
        let rows = process::queues(self.pid(), self.queues)?;
        Ok(Reading {
            cpu_seconds: process::cpu_seconds(self.pid())?,
            queues: QueueTotal::of(&rows),
        })
    }

    /// Ends the program by SIGTERM, or by SIGKILL if it does not heed it.
    pub fn stop(mut self) -> Result<Ended> {
        kill(Pid::from_raw(self.pid() as i32), Signal::SIGTERM)?;
        let in_time = wait_for_end(&mut self.child, STOPPED_WITHIN)?;
        if !in_time {
            self.child.kill()?;
            self.child.wait()?;
        }
        let mut words = String::new();
        for reader in self.readers.drain(..) {
            words.push_str(&reader.join().unwrap_or_default());
        }
        let stdout = self.stdout.lock().expect("the reader has ended").clone();
        Ok(Ended {
            stdout,
            stderr: words,
            in_time,
        })
    }
}

impl Drop for Firewall {
    fn drop(&mut self) {
        // Both fail, rightly, if it has been waited for.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Ended {
    /// The last ledger, if the program printed one: one of ours does, as the last line of JSON.
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

/// strace, counting the system calls of a running program.
pub struct Counter {
    strace: Child,
}

impl Counter {
    /// Attaches to all threads of `firewall`; `output` gets the table when the program ends.
    pub fn attach(namespace: &Namespace, firewall: &Firewall, output: &Path) -> Result<Counter> {
        let strace = namespace
            .command("strace")
            .args(["-f", "-c", "-o"])
            .arg(output)
            .args(["-p", &firewall.pid().to_string()])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .context("strace could not be started: run make deps")?;
        let mut counter = Counter { strace };
        let start = Instant::now();
        while !process::is_traced(firewall.pid()) {
            if counter.strace.try_wait()?.is_some() || start.elapsed() > READY_WITHIN {
                bail!("strace could not attach to the firewall: does the machine allow ptrace?");
            }
            thread::sleep(LOOK_AGAIN);
        }
        Ok(counter)
    }

    /// Waits for the end of strace, which follows that of the program.
    pub fn finish(mut self) -> Result<()> {
        if !wait_for_end(&mut self.strace, STOPPED_WITHIN)? {
            self.strace.kill()?;
            self.strace.wait()?;
            bail!("strace did not end with the program that it counted");
        }
        Ok(())
    }
}

/// The number of calls in the last line (`total`) of the table of `strace -c`.
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

    fn start(script: &str) -> Result<Firewall> {
        Firewall::start(&Namespace::host(), &shell(script), Ready::Says, 1)
    }

    #[test]
    fn a_program_is_started_and_stopped_and_its_words_are_kept() {
        let script =
            "trap 'echo \"{\\\"event\\\":\\\"stats\\\",\\\"reconciled\\\":true}\"; exit 0' TERM; \
             echo 'ready: queue 0'; echo warning >&2; while :; do sleep 0.01; done";
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
    fn a_missing_program_is_named() {
        let error = Firewall::start(&Namespace::host(), &["/no/such".into()], Ready::Says, 1);
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
