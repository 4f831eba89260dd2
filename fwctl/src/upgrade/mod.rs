// SPDX-License-Identifier: GPL-2.0-or-later
//! `upgrade`: another binary takes over from the running firewall, without losing a packet.

pub mod launch;
mod rehearsal;

use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::answer::Status;
use crate::arguments::Arguments;
use crate::client;
use crate::failure::{words, Exit, Failure};
use crate::output;
use crate::status;

use launch::Orders;

/// For the new firewall to load its policy and to take over.
const PATIENCE: Duration = Duration::from_secs(60);
const STEP: Duration = Duration::from_millis(20);
/// Bytes of what it says that are looked at.
const ERROR_BYTES_MAX: u64 = 1 << 20;

/// This program, to start itself as what becomes the new firewall.
const SELF: &str = "/proc/self/exe";

/// An absolute path of what is there.
fn absolute(path: &Path) -> Result<PathBuf, Failure> {
    path.canonicalize().map_err(|error| {
        Failure::new(
            Exit::Usage,
            format_args!("{}: {}: name a firewall", path.display(), words(&error)),
        )
    })
}

fn start(orders: &Orders) -> Result<Child, Failure> {
    let fail = |error: &dyn std::fmt::Display| {
        Failure::new(
            Exit::Refused,
            format_args!("the new firewall can't be started: {error}"),
        )
    };
    let words_of = serde_json::to_string(orders).map_err(|error| fail(&error))?;
    let mut command = Command::new(SELF);
    command.arg("launch").arg(words_of).stdin(Stdio::null());
    if orders.rehearsal {
        command.stdout(Stdio::null()).stderr(Stdio::piped());
    }
    command.spawn().map_err(|error| fail(&words(&error)))
}

/// What a firewall's end means: the codes of cli/help.txt.
fn how_it_ended(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("ended with exit code {code}"),
        (_, Some(signal)) => format!("was ended by signal {signal}"),
        _ => "ended".to_owned(),
    }
}

/// The old firewall's stderr, where the new one says why it fails.
struct Stderr {
    path: Option<PathBuf>,
    /// Before it did.
    bytes: u64,
}

impl Stderr {
    fn of(pid: i32) -> Stderr {
        let path = fs::read_link(format!("/proc/{pid}/fd/2")).ok();
        let path = path.filter(|path| path.is_absolute());
        let data = path.as_ref().and_then(|path| fs::metadata(path).ok());
        Stderr {
            path,
            bytes: data.map_or(0, |data| data.len()),
        }
    }

    /// The last error that was added, if it is a file.
    fn error(&self) -> Option<String> {
        let path = self.path.as_ref()?;
        if !fs::metadata(path).ok()?.is_file() {
            return None;
        }
        let mut file = File::open(path).ok()?;
        file.seek(SeekFrom::Start(self.bytes)).ok()?;
        let mut added = Vec::new();
        file.take(ERROR_BYTES_MAX).read_to_end(&mut added).ok()?;
        let added = String::from_utf8_lossy(&added);
        let mut lines = added.lines().rev();
        lines.find_map(|line| line.strip_prefix("error: ").map(str::to_owned))
    }

    /// Why the new one failed, or where that stands.
    fn words(&self, pid: u32) -> String {
        match (self.error(), &self.path) {
            (Some(error), _) => error,
            (None, Some(path)) => format!("the reason stands in {}", path.display()),
            (None, None) => {
                format!("its stderr, the old one's, has the reason: journalctl _PID={pid}")
            }
        }
    }
}

/// Waits until the new firewall answers. Fails if it ends, or does not answer in time.
fn wait_for(
    child: &mut Child,
    socket: &Path,
    old: &Status,
    stderr: &Stderr,
) -> Result<Status, Failure> {
    let end = Instant::now() + PATIENCE;
    let refused = |text: String| Err(Failure::new(Exit::Refused, text));
    loop {
        if let Ok(Some(ended)) = child.try_wait() {
            return refused(format!(
                "the new firewall {}, the old one (pid {}) goes on: {}",
                how_it_ended(ended),
                old.pid,
                stderr.words(child.id())
            ));
        }
        let asked = client::connect(socket).and_then(|mut client| status::ask(&mut client));
        match asked {
            Ok(status) if i64::from(status.pid) == i64::from(child.id()) => return Ok(status),
            _ if Instant::now() < end => thread::sleep(STEP),
            _ => break,
        }
    }
    let _ = child.kill();
    refused(format!(
        "the new firewall did not take over within {} seconds and was ended: {}",
        PATIENCE.as_secs(),
        stderr.words(child.id())
    ))
}

/// The file that the running firewall was started from, be it another by now.
fn own_binary(status: &Status) -> Result<&Path, Failure> {
    status.executable.as_deref().map(Path::new).ok_or_else(|| {
        let text = "the firewall's own file is not known: name the binary";
        Failure::new(Exit::Usage, text)
    })
}

pub fn run(arguments: &Arguments, binary: Option<&Path>) -> Result<Exit, Failure> {
    let old = status::ask(&mut client::connect(&arguments.socket)?)?;
    let binary = absolute(binary.map_or_else(|| own_binary(&old), Ok)?)?;
    let socket = absolute(&arguments.socket)?;
    let mut given = old.arguments.clone();
    let begun = Instant::now();
    rehearsal::run(old.pid, &binary, &given, &socket)?;
    let stderr = Stderr::of(old.pid);
    given.push(format!("--take-over={}", socket.display()));
    let mut child = start(&Orders {
        pid: old.pid,
        binary,
        arguments: given,
        rehearsal: false,
    })?;
    let new = wait_for(&mut child, &socket, &old, &stderr)?;
    let milliseconds = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
    let line = match arguments.json {
        true => json!({
            "ok": true,
            "was": {"program": old.program, "version": old.version, "pid": old.pid},
            "is": {"program": new.program, "version": new.version, "pid": new.pid},
            "milliseconds": milliseconds,
        })
        .to_string(),
        false => format!(
            "upgraded from {} {} (pid {}) to {} {} (pid {}) in {milliseconds} ms",
            old.program, old.version, old.pid, new.program, new.version, new.pid
        ),
    };
    output::line(&line);
    Ok(Exit::Fine)
}
