// SPDX-License-Identifier: GPL-2.0-or-later
//! The measured scanners: this scanner in its modes, and other scanners on PATH.

use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::process::{ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context;

use crate::place::Place;

/// Scanner: its command line, in which `{targets}`, `{port}` and `{mac}` (MAC address of the router) are replaced, and
/// the text that marks an open port in its output.
#[derive(Clone, Debug)]
pub struct Subject {
    pub name: String,
    pub words: Vec<String>,
    /// Text of an output line that marks an open port.
    pub open: &'static str,
    /// Part of the targets to scan, if a scan of all targets would take minutes. None: all targets.
    pub part: Option<Part<'static>>,
}

/// Targets of a scan: a network, and its number of addresses.
pub type Part<'a> = (&'a str, u64);

/// One run of a subject.
#[derive(Clone, Debug)]
pub struct Run {
    pub targets: u64,
    pub wall: Duration,
    pub cpu: Duration,
    pub open: u64,
    /// System calls per target as our scanner's summary reports them; None for other scanners.
    pub calls: Option<f64>,
}

/// Time limit for a run.
const LIMIT: Duration = Duration::from_secs(40);

impl Run {
    /// Returns the targets per second.
    pub fn rate(&self) -> f64 {
        self.targets as f64 / self.wall.as_secs_f64()
    }

    /// Returns the microseconds of CPU per target.
    pub fn cost_us(&self) -> f64 {
        self.cpu.as_secs_f64() * 1e6 / self.targets as f64
    }
}

impl Subject {
    pub fn new(name: &str, line: &str, open: &'static str) -> Subject {
        Subject {
            name: name.into(),
            words: line.split_whitespace().map(str::to_string).collect(),
            open,
            part: None,
        }
    }

    pub fn of(self, part: Part<'static>) -> Subject {
        Subject {
            part: Some(part),
            ..self
        }
    }

    /// Returns true if the subject's program is on PATH. A program given as a path is not checked: the result is true.
    pub fn is_there(&self) -> bool {
        let program = &self.words[0];
        let on_path = || {
            let path = std::env::var_os("PATH").unwrap_or_default();
            std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
        };
        program.contains('/') || on_path()
    }

    /// Runs the scanner in the client's namespace until it ends. Returns None if the scanner failed or took longer than
    /// LIMIT.
    /// - all: targets of the workload; the subject's own part replaces them.
    pub fn run(&self, place: &Place, all: Part, port: u16) -> anyhow::Result<Option<Run>> {
        let (targets, count) = self.part.unwrap_or(all);
        let words = self.words.iter().map(|word| {
            word.replace("{targets}", targets)
                .replace("{port}", &port.to_string())
                .replace("{mac}", &place.mac)
        });
        let words: Vec<String> = words.collect();
        let start = Instant::now();
        let mut child = place
            .client
            .command(&words[0])
            .args(&words[1..])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .with_context(|| self.name.clone())?;
        let mut stdout = child.stdout.take().context("stdout is piped")?;
        let reader = std::thread::spawn(move || {
            let mut text = String::new();
            let _ = stdout.read_to_string(&mut text);
            text
        });
        let Some((status, cpu)) = wait(child.id() as i32, start) else {
            return Ok(None);
        };
        let wall = start.elapsed();
        let text = reader.join().unwrap_or_default();
        if !status.success() {
            return Ok(None);
        }
        let calls = text.lines().last().and_then(|line| {
            let summary: serde_json::Value = serde_json::from_str(line).ok()?;
            summary["summary"]["system_calls_per_target"].as_f64()
        });
        Ok(Some(Run {
            targets: count,
            wall,
            cpu,
            open: text.lines().filter(|line| line.contains(self.open)).count() as u64,
            calls,
        }))
    }
}

/// Waits for a child. Returns its status and CPU time, including that of its children. After LIMIT it kills the child
/// and returns None.
/// - start: time at which the child was started.
fn wait(pid: i32, start: Instant) -> Option<(ExitStatus, Duration)> {
    loop {
        // SAFETY: all zeros is a valid rusage; wait4(2) fills it and the status in.
        let (done, status, usage) = unsafe {
            let mut usage: libc::rusage = std::mem::zeroed();
            let mut status = 0;
            let done = libc::wait4(pid, &mut status, libc::WNOHANG, &mut usage);
            (done, status, usage)
        };
        if done == pid {
            let time =
                |time: libc::timeval| Duration::new(time.tv_sec as u64, time.tv_usec as u32 * 1000);
            return Some((
                ExitStatus::from_raw(status),
                time(usage.ru_utime) + time(usage.ru_stime),
            ));
        }
        if start.elapsed() > LIMIT {
            // SAFETY: kill(2) and waitpid(2) touch no memory but the status; the child was not waited for yet.
            unsafe {
                libc::kill(pid, libc::SIGKILL);
                libc::waitpid(pid, std::ptr::null_mut(), 0);
            }
            return None;
        }
        std::thread::sleep(Duration::from_micros(500));
    }
}
