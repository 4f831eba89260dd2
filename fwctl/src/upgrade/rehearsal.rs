// SPDX-License-Identifier: GPL-2.0-or-later
//! Starts the new firewall up to the point of taking over, so that its error messages are visible: later its stderr is the
//! old firewall's.
//!
//! Theory of operation: the new firewall receives a control socket of this process in place of the old firewall's. When it
//! requests to take over there, it has parsed its command line and its policy and found all it needs; it is refused and
//! ends.

use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::{chown, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use nix::unistd::mkdtemp;

use super::orders::Orders;
use super::program::Program;
use super::started::{last_error, Output, Started};
use crate::failure::{words, Exit, Failure};

/// Time limit of a rehearsal; long, because a policy may take long to compile.
const PATIENCE: Duration = Duration::from_secs(60);
const STEP: Duration = Duration::from_millis(5);
/// Largest number of bytes of a request that are read.
const REQUEST_MAX: u64 = 65536;

/// Socket in a separate folder, at which the new firewall requests to take over. Deleted on drop.
struct Stage {
    folder: PathBuf,
    listener: UnixListener,
}

impl Stage {
    /// Creates the socket in a folder where no other user can replace it.
    /// - user: owner of the socket: the user of the new firewall, which connects to it. None: the caller.
    fn new(user: Option<u32>) -> io::Result<Stage> {
        let place = match nix::unistd::geteuid().is_root() {
            true => PathBuf::from("/run"),
            false => std::env::temp_dir(),
        };
        let folder = mkdtemp(&place.join("fwctl-upgrade-XXXXXX"))?;
        let path = folder.join("control");
        let made = UnixListener::bind(&path)
            .and_then(|listener| listener.set_nonblocking(true).map(|()| listener))
            .and_then(|listener| chown(&path, user, None).map(|()| listener))
            .and_then(|listener| {
                let let_through = fs::Permissions::from_mode(0o711);
                fs::set_permissions(&folder, let_through).map(|()| listener)
            });
        match made {
            Ok(listener) => Ok(Stage { folder, listener }),
            Err(error) => {
                let _ = fs::remove_dir_all(&folder);
                Err(error)
            }
        }
    }

    fn path(&self) -> PathBuf {
        self.folder.join("control")
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Returns true if a client requests to take over. The request is refused.
fn asks_to_take_over(stream: UnixStream) -> io::Result<bool> {
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut request = String::new();
    BufReader::new(&stream)
        .take(REQUEST_MAX)
        .read_line(&mut request)?;
    let request: serde_json::Value = serde_json::from_str(&request)?;
    let refusal = "{\"ok\":false,\"error\":\"this is a rehearsal\"}\n";
    (&stream).write_all(refusal.as_bytes())?;
    // A new firewall that takes over begins with this request.
    Ok(request["command"] == "proof")
}

/// Waits for the end of the new firewall, and kills it after PATIENCE. Returns true if it requested to take over.
fn watch(started: &mut Started, listener: &UnixListener) -> io::Result<bool> {
    let end = Instant::now() + PATIENCE;
    let mut asked = false;
    while started.ended().is_none() {
        match listener.accept() {
            Ok((stream, _)) => asked |= asks_to_take_over(stream).unwrap_or(false),
            Err(_) => thread::sleep(STEP),
        }
        if Instant::now() > end {
            started.kill();
        }
    }
    Ok(asked)
}

/// Starts the new firewall with these orders, and refuses its request to take over. Fails with the new firewall's error
/// message if it ends without this request.
/// - orders: in/out: unchanged at the end.
/// - socket: the old firewall's control socket, for messages only.
pub fn run(program: &Program, orders: &mut Orders, socket: &Path) -> Result<(), Failure> {
    let shown = program.path.display();
    let refused = |text: String| Failure::new(Exit::Refused, text);
    let fail = |error: io::Error| {
        let words = words(&error);
        refused(format!(
            "{shown} can't be rehearsed with {}: {words}",
            socket.display()
        ))
    };
    let stage = Stage::new(orders.rights.as_ref().map(|rights| rights.uid)).map_err(fail)?;
    let option = format!("--take-over={}", stage.path().display());
    orders.arguments.push(option);
    let started = Started::start(program, orders, None, Output::Here, false);
    orders.arguments.pop();
    let mut started = started?;
    let stderr = started.child.as_mut().and_then(|child| child.stderr.take());
    let said = thread::spawn(move || {
        let mut text = String::new();
        // Output that is not text is no error line.
        let _ = stderr.map(|mut stderr| stderr.read_to_string(&mut text));
        text
    });
    let asked = watch(&mut started, &stage.listener).map_err(fail)?;
    let said = said.join().unwrap_or_default();
    if asked {
        return Ok(());
    }
    let last = said.lines().last().unwrap_or("it said nothing");
    let said = last_error(&said).unwrap_or(last);
    Err(refused(format!(
        "{shown} does not start, the old firewall stays: {said}"
    )))
}
