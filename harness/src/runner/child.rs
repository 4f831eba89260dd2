// SPDX-License-Identifier: GPL-2.0-or-later
//! A program that makes traffic: started, read from, and killed when it does not end in time.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{self, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{channel, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{anyhow, bail, Context};
use nix::sys::signal::{kill, Signal};
use nix::unistd::Pid;
use testbed::netns::Namespace;

/// Interval at which a state is checked if nothing signals its changes.
const LOOK_UP: Duration = Duration::from_millis(10);
/// Maximum number of characters that an error quotes from the end of a program's output.
const QUOTED: usize = 300;

/// Status and output of an ended program.
#[derive(Debug)]
pub struct Ended {
    pub status: ExitStatus,
    pub stdout: String,
    pub stderr: String,
}

/// A running program, killed on drop.
pub struct Child {
    name: String,
    child: process::Child,
    stdout: Lines,
    stderr: Lines,
}

impl Child {
    /// Starts `command`; `cure` is the advice if the program is missing.
    pub fn spawn(mut command: Command, cure: &str) -> anyhow::Result<Child> {
        let name = command.get_program().to_string_lossy().into_owned();
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| anyhow!("{name} could not be started ({error}): {cure}"))?;
        let stdout = Lines::of(child.stdout.take().expect("stdout is piped"));
        let stderr = Lines::of(child.stderr.take().expect("stderr is piped"));
        Ok(Child {
            name,
            child,
            stdout,
            stderr,
        })
    }

    /// Waits until standard output has a line for which `wanted` is true. If the output ends or the time is over
    /// before, kills the program and fails.
    pub fn wait_for_line(
        &mut self,
        at_most: Duration,
        wanted: impl Fn(&str) -> bool,
    ) -> anyhow::Result<()> {
        let deadline = Instant::now() + at_most;
        match self.stdout.read_until(deadline, wanted) {
            Got::Wanted => Ok(()),
            Got::End | Got::Timeout => Err(self.failure("did not become ready")),
        }
    }

    /// Reads standard error until `wanted` is true for a line, the output ends, or the time is over.
    pub fn listen_to_stderr(&mut self, at_most: Duration, wanted: impl FnMut(&str) -> bool) {
        self.stderr.read_until(Instant::now() + at_most, wanted);
    }

    /// Writes a line to the program's standard input, which stays open.
    pub fn tell(&mut self, line: &str) -> anyhow::Result<()> {
        let stdin: &mut ChildStdin = self.child.stdin.as_mut().expect("stdin is piped");
        writeln!(stdin, "{line}")
            .and_then(|()| stdin.flush())
            .map_err(|_| self.failure("ended too early"))
    }

    /// Requests the program's end with SIGINT, like Ctrl-C.
    pub fn interrupt(&self) -> anyhow::Result<()> {
        // The process id can't be reused before the child is waited for.
        let pid = Pid::from_raw(self.child.id() as i32);
        kill(pid, Signal::SIGINT).with_context(|| format!("SIGINT to {}", self.name))
    }

    /// Waits for the program's end until `deadline`; after that, kills it and returns an error.
    pub fn wait(mut self, deadline: Instant) -> anyhow::Result<Ended> {
        // Both pipes end with the program, so no timer has to run during the measurement.
        let ends = [&mut self.stdout, &mut self.stderr]
            .map(|lines| lines.read_until(deadline, |_| false))
            .into_iter()
            .all(|got| got == Got::End);
        let status = if ends { self.reap(deadline)? } else { None };
        match status {
            Some(status) => Ok(self.ended(status)),
            None => Err(self.failure("did not end in time and was killed")),
        }
    }

    /// Kills the program now, for a server that serves forever.
    pub fn stop(mut self) -> anyhow::Result<Ended> {
        self.child.kill()?;
        let status = self.child.wait()?;
        let deadline = Instant::now() + Duration::from_secs(1);
        for lines in [&mut self.stdout, &mut self.stderr] {
            lines.read_until(deadline, |_| false);
        }
        Ok(self.ended(status))
    }

    /// Returns the exit status; None if the program still runs at the deadline although its pipes are closed.
    fn reap(&mut self, deadline: Instant) -> anyhow::Result<Option<ExitStatus>> {
        loop {
            let status = self.child.try_wait()?;
            if status.is_some() || Instant::now() >= deadline {
                return Ok(status);
            }
            thread::sleep(LOOK_UP);
        }
    }

    fn ended(&mut self, status: ExitStatus) -> Ended {
        Ended {
            status,
            stdout: std::mem::take(&mut self.stdout.text),
            stderr: std::mem::take(&mut self.stderr.text),
        }
    }

    /// Kills the program and returns an error with the end of its output.
    fn failure(&mut self, what: &str) -> anyhow::Error {
        // The program may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
        let deadline = Instant::now() + Duration::from_secs(1);
        for lines in [&mut self.stdout, &mut self.stderr] {
            lines.read_until(deadline, |_| false);
        }
        let words = last_words(&self.stderr.text, &self.stdout.text);
        anyhow!("{} (pid {}) {what}{words}", self.name, self.child.id())
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // Both calls do nothing if the child has been waited for already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Ended {
    /// Returns an error if the program's status is not 0.
    pub fn check(self, name: &str) -> anyhow::Result<Ended> {
        if self.status.success() {
            return Ok(self);
        }
        let words = last_words(&self.stderr, &self.stdout);
        Err(anyhow!("{name}: {}{words}", self.status))
    }
}

/// Returns the end of a program's output, for an error message; standard error if it is not empty.
fn last_words(stderr: &str, stdout: &str) -> String {
    let said = [stderr, stdout]
        .into_iter()
        .map(str::trim)
        .find(|text| !text.is_empty());
    let Some(said) = said else {
        return String::new();
    };
    let skipped = said.chars().count().saturating_sub(QUOTED);
    let last: String = said.chars().skip(skipped).collect();
    format!(": {}", last.replace('\n', " | "))
}

/// Lines that a thread reads, so that no pipe fills up, and the text consumed so far.
struct Lines {
    lines: Receiver<String>,
    text: String,
}

#[derive(PartialEq)]
enum Got {
    Wanted,
    End,
    Timeout,
}

impl Lines {
    fn of(pipe: impl Read + Send + 'static) -> Lines {
        let (send, lines) = channel();
        thread::spawn(move || {
            let mut pipe = BufReader::new(pipe);
            let mut line = Vec::new();
            while pipe.read_until(b'\n', &mut line).is_ok_and(|n| n > 0) {
                if send
                    .send(String::from_utf8_lossy(&line).into_owned())
                    .is_err()
                {
                    return;
                }
                line.clear();
            }
        });
        Lines {
            lines,
            text: String::new(),
        }
    }

    fn read_until(&mut self, deadline: Instant, mut wanted: impl FnMut(&str) -> bool) -> Got {
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.lines.recv_timeout(left) {
                Ok(line) => {
                    self.text.push_str(&line);
                    if wanted(line.trim_end()) {
                        return Got::Wanted;
                    }
                }
                Err(RecvTimeoutError::Disconnected) => return Got::End,
                Err(RecvTimeoutError::Timeout) => return Got::Timeout,
            }
        }
    }
}

/// Waits at most five seconds until some socket in `namespace` listens on a TCP port: tools themselves announce that
/// too early or not at all. If none listens, or the server has ended, kills the server and fails.
pub fn wait_for_listener(
    namespace: &Namespace,
    port: u16,
    server: &mut Child,
) -> anyhow::Result<()> {
    let deadline = Instant::now() + Duration::from_secs(5);
    while !namespace.enter(|| listens(port))? {
        if Instant::now() >= deadline || server.child.try_wait()?.is_some() {
            bail!(server.failure(&format!("does not listen on port {port}")));
        }
        thread::sleep(LOOK_UP);
    }
    Ok(())
}

/// Returns true if some TCP socket in this thread's namespace listens on `port`.
fn listens(port: u16) -> anyhow::Result<bool> {
    for table in ["/proc/thread-self/net/tcp", "/proc/thread-self/net/tcp6"] {
        let text = std::fs::read_to_string(table).context(table)?;
        if text.lines().skip(1).any(|line| is_listener(line, port)) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Returns true if a line of /proc/net/tcp is a listener on `port`. Fields: number, local address:port, remote
/// address:port, state, all but the first in hex. State 0A is TCP_LISTEN (include/net/tcp_states.h).
fn is_listener(line: &str, port: u16) -> bool {
    let fields: Vec<&str> = line.split_whitespace().take(4).collect();
    let [_, local, _, "0A"] = fields[..] else {
        return false;
    };
    local.ends_with(&format!(":{port:04X}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use testbed::wait::PATIENCE;

    fn shell(script: &str) -> Child {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        Child::spawn(command, "install a shell").unwrap()
    }

    fn soon() -> Instant {
        Instant::now() + Duration::from_millis(300)
    }

    #[test]
    fn both_outputs_are_kept() {
        let child = shell("echo one; echo two >&2; read line; echo $line");
        let mut child = child;
        child.tell("three").unwrap();
        let ended = child.wait(soon() + PATIENCE).unwrap().check("sh").unwrap();
        assert_eq!(
            (ended.stdout.as_str(), ended.stderr.as_str()),
            ("one\nthree\n", "two\n")
        );
    }

    #[test]
    fn a_program_that_hangs_is_killed_and_quoted() {
        for script in [
            "echo stuck >&2; exec sleep 60",
            "echo stuck >&2; exec >&- 2>&-; exec sleep 60",
        ] {
            let mut child = shell(script);
            let pid = child.child.id();
            child.listen_to_stderr(PATIENCE, |line| line == "stuck");
            let start = Instant::now();
            let error = child.wait(soon()).unwrap_err().to_string();
            let limit = Duration::from_secs(50);
            assert!(start.elapsed() < limit, "it ended by itself");
            assert!(error.contains("was killed: stuck"), "{error}");
            assert!(!std::path::Path::new(&format!("/proc/{pid}")).exists());
        }
    }

    #[test]
    fn a_program_that_is_dropped_is_killed() {
        let child = shell("exec sleep 60");
        let pid = child.child.id();
        drop(child);
        assert!(!std::path::Path::new(&format!("/proc/{pid}")).exists());
    }

    #[test]
    fn a_program_is_asked_to_end() {
        let mut child =
            shell("trap 'echo asked; exit 4' INT; echo ready; while :; do sleep 0.1; done");
        child
            .wait_for_line(PATIENCE, |line| line == "ready")
            .unwrap();
        child.interrupt().unwrap();
        let ended = child.wait(soon() + PATIENCE).unwrap();
        assert_eq!(
            (ended.status.code(), ended.stdout.as_str()),
            (Some(4), "ready\nasked\n")
        );
    }

    #[test]
    fn failing_and_missing_programs_say_why() {
        let ended = shell("echo bad luck; exit 3")
            .wait(soon() + PATIENCE)
            .unwrap();
        let error = ended.check("tool").unwrap_err().to_string();
        assert_eq!(error, "tool: exit status: 3: bad luck");
        let missing = Child::spawn(Command::new("no-such-tool"), "install it");
        let error = missing.err().unwrap().to_string();
        assert!(error.starts_with("no-such-tool could not be started"));
        assert!(error.ends_with(": install it"), "{error}");
    }

    #[test]
    fn a_program_that_ends_before_it_is_ready_says_so() {
        let mut child = shell("echo no; exit 1");
        let error = child
            .wait_for_line(PATIENCE, |line| line == "ready")
            .unwrap_err();
        assert!(
            error.to_string().ends_with("did not become ready: no"),
            "{error}"
        );
    }

    #[test]
    fn a_listener_is_seen() {
        let namespace = Namespace::new().unwrap();
        let listens = || namespace.enter(|| super::listens(9999).unwrap());
        assert!(!listens());
        let _listener = namespace.enter(|| std::net::TcpListener::bind("[::1]:9999").unwrap());
        assert!(listens());
    }
}
