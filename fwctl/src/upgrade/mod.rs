// SPDX-License-Identifier: GPL-2.0-or-later
//! `upgrade`: another binary takes over from the running firewall, without losing a packet.

pub mod launch;
mod rehearsal;

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

/// The arguments of the running firewall, without what an upgrade before this one added.
fn arguments_of(status: &Status) -> Vec<String> {
    let given = status.arguments.iter();
    given
        .filter(|argument| !argument.starts_with("--take-over="))
        .cloned()
        .collect()
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

/// Where a process's stderr goes, for messages.
fn stderr_of(pid: i32) -> String {
    match std::fs::read_link(format!("/proc/{pid}/fd/2")) {
        Ok(path) if path.is_absolute() => path.display().to_string(),
        _ => "the old firewall's stderr".to_owned(),
    }
}

/// Waits until the new firewall answers. Fails if it ends, or does not answer in time.
fn wait_for(child: &mut Child, socket: &Path, old: &Status) -> Result<Status, Failure> {
    let end = Instant::now() + PATIENCE;
    let refused = |text: String| Err(Failure::new(Exit::Refused, text));
    loop {
        if let Ok(Some(ended)) = child.try_wait() {
            return refused(format!(
                "the new firewall {}, the old one (pid {}) goes on: the reason stands in {}",
                how_it_ended(ended),
                old.pid,
                stderr_of(old.pid)
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
        "the new firewall did not take over within {} seconds and was ended: see {}",
        PATIENCE.as_secs(),
        stderr_of(old.pid)
    ))
}

pub fn run(arguments: &Arguments, binary: &Path) -> Result<Exit, Failure> {
    let old = status::ask(&mut client::connect(&arguments.socket)?)?;
    let binary = absolute(binary)?;
    let socket = absolute(&arguments.socket)?;
    let mut given = arguments_of(&old);
    let begun = Instant::now();
    rehearsal::run(old.pid, &binary, &given, &socket)?;
    given.push(format!("--take-over={}", socket.display()));
    let mut child = start(&Orders {
        pid: old.pid,
        binary,
        arguments: given,
        rehearsal: false,
    })?;
    let new = wait_for(&mut child, &socket, &old)?;
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
