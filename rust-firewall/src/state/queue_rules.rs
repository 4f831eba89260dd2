// SPDX-License-Identifier: GPL-2.0-or-later
//! Rules of the kernel that send packets to this firewall's queues, and their effect while no process owns the queue.
//! `fwctl queue-rules` reads them, as a child process that may take MS_MAX; therefore the rules are read before any
//! queue is open.

use std::fs;
use std::io::{ErrorKind, Read};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::poll::{poll, PollFd, PollFlags, PollTimeout};
use serde::{Deserialize, Serialize};

use crate::base::log;
use crate::options::Options;

pub const MS_MAX: u64 = 10_000;
/// Reason why a tool can't be run: it does not exist.
pub const MISSING: &str = "is not there";
/// Step by which a tool's output is read, in bytes.
const READ_STEP_BYTES: usize = 65536;
/// Maximum size of a tool's output in bytes. It suffices for nft, whose output fwctl reads with the same functions.
const OUTPUT_BYTES_MAX: usize = 1 << 26;
const EXECUTABLE: &str = "/proc/self/exe";
/// Places of fwctl, from the folder of this program.
const PLACES: [&str; 2] = ["fwctl", "../bin/fwctl"];
/// Bits of a file's mode: group and others may write.
const OTHERS_WRITE: u32 = 0o022;
const STICKY: u32 = 0o1000;

/// Facts about the rules that send packets to the firewall's queues, as `fwctl queue-rules` prints them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueRules {
    /// Numbers of the queues that no rule sends packets to, as far as rules could be read: "0, 2-3".
    pub unfed: String,
    /// True if a rule has no bypass: it drops packets while no process owns the queue.
    pub plain: bool,
    /// True if a rule has a bypass: it lets packets pass while no process owns the queue.
    pub bypass: bool,
    /// First tool that could not be read, with the reason: "nft is not there"; empty = all could be read.
    pub unknown: String,
}

/// Returns true if only root and the owner of this program can change a file: the file itself, and its path. In a
/// sticky folder, users can't replace files of other users.
fn is_private(path: &Path, owner: u32) -> bool {
    path.ancestors().all(|part| {
        fs::metadata(part).is_ok_and(|data| {
            let is_sticky = data.is_dir() && data.mode() & STICKY != 0;
            [0, owner].contains(&data.uid()) && (data.mode() & OTHERS_WRITE == 0 || is_sticky)
        })
    })
}

/// Returns the path of fwctl, or the reason why there is none to run.
fn find_fwctl() -> Result<PathBuf, &'static str> {
    let link = fs::read_link(EXECUTABLE).map_err(|_| MISSING)?;
    let own = fs::metadata(EXECUTABLE).map_err(|_| MISSING)?;
    let paths = PLACES.iter().map(|place| link.with_file_name(place));
    let mut found = paths.filter_map(|path| fs::canonicalize(path).ok());
    match found.next() {
        None => Err(MISSING),
        Some(path) if is_private(&path, own.uid()) => Ok(path),
        Some(_) => Err("can be changed by other users"),
    }
}

fn start_tool(command: &mut Command) -> std::io::Result<Child> {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
}

/// Reads a tool's output to its end. None if it is too long or too late.
fn read_output(child: &mut Child, due: Instant) -> Option<String> {
    let mut output = child.stdout.take()?;
    let mut step = vec![0; READ_STEP_BYTES];
    let mut text = Vec::new();
    loop {
        let left = due.checked_duration_since(Instant::now())? + Duration::from_millis(1);
        let timeout = PollTimeout::try_from(left).ok()?;
        let readable = PollFd::new(output.as_fd(), PollFlags::POLLIN);
        if poll(&mut [readable], timeout) != Ok(1) {
            return None;
        }
        let got = output.read(&mut step).ok()?;
        if got == 0 {
            return Some(String::from_utf8_lossy(&text).into_owned());
        }
        text.extend_from_slice(step.get(..got)?);
        if text.len() > OUTPUT_BYTES_MAX {
            return None;
        }
    }
}

/// Runs a tool and returns its output. Returns the reason if the tool fails.
pub fn run_tool(command: &mut Command, due: Instant) -> Result<String, &'static str> {
    let mut child = start_tool(command).map_err(|error| match error.kind() {
        ErrorKind::NotFound => MISSING,
        _ => "can't be started",
    })?;
    let text = read_output(&mut child, due);
    if text.is_none() {
        let _ = child.kill(); // fails if the tool has ended
    }
    let ended_well = child.wait().is_ok_and(|status| status.success());
    match text {
        None => Err("did not end in time"),
        Some(_) if !ended_well => Err("failed"),
        Some(text) => Ok(text),
    }
}

/// Parses the output of `fwctl queue-rules`. None if the text is no such output.
pub fn parse(text: &str) -> Option<QueueRules> {
    serde_json::from_str(text).ok()
}

/// Runs fwctl. Returns the reason if it fails.
fn run_fwctl(queues: &str) -> Result<QueueRules, &'static str> {
    let due = Instant::now() + Duration::from_millis(MS_MAX);
    let mut command = Command::new(find_fwctl()?);
    let text = run_tool(command.args(["queue-rules", queues]), due)?;
    parse(&text).ok_or("failed")
}

/// Reads the kernel's rules that send packets to this firewall's queues. Never fails: if a tool fails,
/// queue_rules.unknown names it, and the other facts are those of the rules that could be read.
pub fn read(options: &Options) -> QueueRules {
    let (first, last) = (options.queue_first, options.queue_last);
    run_fwctl(&format!("{first}:{last}")).unwrap_or_else(|why| QueueRules {
        unfed: match first == last {
            true => first.to_string(),
            false => format!("{first}-{last}"),
        },
        unknown: format!("fwctl {why}"),
        ..QueueRules::default()
    })
}

/// Logs a warning for queues that no rule sends packets to, as far as rules could be read.
pub fn warn(queue_rules: &QueueRules) {
    match (queue_rules.unfed.as_str(), queue_rules.unknown.as_str()) {
        ("", _) => {}
        (unfed, "") => log::warn(format_args!(
            "no rule leads packets to queue {unfed}: until one does the firewall sees none of \
             them (`fwctl doctor` names one)"
        )),
        (unfed, unknown) => log::warn(format_args!(
            "it is not known whether a rule leads packets to queue {unfed}: {unknown}: `fwctl \
             doctor` looks again"
        )),
    }
}
