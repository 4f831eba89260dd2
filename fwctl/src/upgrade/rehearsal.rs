// SPDX-License-Identifier: GPL-2.0-or-later
//! The new firewall's start up to where it would take over, so that what it says if it fails is seen:
//! later its stderr is the old one's.
//!
//! Theory of operation: it is given a control socket of this process in place of the old firewall's.
//! When it asks to upgrade there it has read its command line and its policy and found all it needs;
//! it is refused and ends.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::Child;
use std::thread;
use std::time::{Duration, Instant};

use super::launch::Orders;
use crate::failure::{words, Exit, Failure};

/// For a policy that takes long to compile.
const PATIENCE: Duration = Duration::from_secs(60);
const STEP: Duration = Duration::from_millis(5);
/// Bytes of a request that are looked at.
const REQUEST_MAX: u64 = 65536;

/// The socket, whose file goes away with the value.
struct Stage {
    path: PathBuf,
    listener: UnixListener,
}

impl Stage {
    /// Beside the real one: there the firewall sees it, whatever its mount namespace.
    fn new(socket: &Path) -> std::io::Result<Stage> {
        let mut path = socket.as_os_str().to_owned();
        path.push(format!(".{}", std::process::id()));
        let path = PathBuf::from(path);
        let listener = UnixListener::bind(&path)?;
        let stage = Stage { path, listener };
        fs::set_permissions(&stage.path, fs::Permissions::from_mode(0o600))?;
        stage.listener.set_nonblocking(true)?;
        Ok(stage)
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// Whether a client asks to upgrade. It is refused.
fn asks_to_upgrade(stream: UnixStream) -> std::io::Result<bool> {
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut request = String::new();
    BufReader::new(&stream)
        .take(REQUEST_MAX)
        .read_line(&mut request)?;
    let request: serde_json::Value = serde_json::from_str(&request)?;
    let refusal = "{\"ok\":false,\"error\":\"this is a rehearsal\"}\n";
    (&stream).write_all(refusal.as_bytes())?;
    Ok(request["command"] == "upgrade")
}

/// Waits for a child's end, and for it to ask.
fn watch(child: &mut Child, listener: &UnixListener) -> std::io::Result<bool> {
    let end = Instant::now() + PATIENCE;
    let mut asked = false;
    while child.try_wait()?.is_none() {
        match listener.accept() {
            Ok((stream, _)) => asked |= asks_to_upgrade(stream).unwrap_or(false),
            Err(_) => thread::sleep(STEP),
        }
        if Instant::now() > end {
            child.kill()?;
        }
    }
    Ok(asked)
}

/// Has the new firewall start as if to take over from the one with this control socket.
/// Fails with what it says if it does not come that far.
pub fn run(pid: i32, binary: &Path, arguments: &[String], socket: &Path) -> Result<(), Failure> {
    let shown = binary.display();
    let refused = |text: String| Failure::new(Exit::Refused, text);
    let fail = |error: std::io::Error| {
        let words = words(&error);
        refused(format!(
            "{shown} can't be tried beside {}: {words}",
            socket.display()
        ))
    };
    let stage = Stage::new(socket).map_err(fail)?;
    let mut arguments = arguments.to_vec();
    arguments.push(format!("--take-over={}", stage.path.display()));
    let mut child = super::start(&Orders {
        pid,
        binary: binary.to_owned(),
        arguments,
        rehearsal: true,
    })?;
    let stderr = child.stderr.take();
    let said = thread::spawn(move || {
        let mut text = String::new();
        // What is not text is no error line.
        let _ = stderr.map(|mut stderr| stderr.read_to_string(&mut text));
        text
    });
    let asked = watch(&mut child, &stage.listener).map_err(fail)?;
    let said = said.join().unwrap_or_default();
    if asked {
        return Ok(());
    }
    let error = said
        .lines()
        .rev()
        .find_map(|line| line.strip_prefix("error: "));
    let said = said.lines().last().unwrap_or("it said nothing");
    let said = error.unwrap_or(said);
    Err(refused(format!(
        "{shown} does not start, the old firewall goes on: {said}"
    )))
}
