// SPDX-License-Identifier: GPL-2.0-or-later
//! The process that becomes the new firewall: it receives orders, gives up its rights, and executes the firewall's
//! program.

use std::convert::Infallible;
use std::ffi::CString;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use nix::sys::socket::{getsockopt, sockopt};
use nix::unistd::{chdir, dup2_stdin, fexecve, getppid, setsid};
use rust_firewall::handover;
use rust_firewall::queue;
use rustix::io::{fcntl_setfd, FdFlags};

use super::orders::{self, Descriptors, Orders};
use super::surroundings::Surroundings;
use super::SELF;
use crate::failure::{tell, words, Exit, Failure};

/// PATH of the firewall. The fwctl that the firewall starts finds nft and iptables-save by it.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// Interval between checks whether the parent has ended.
const STEP: Duration = Duration::from_millis(1);

/// Returns a function that formats the reason why a step failed.
fn because<E: Into<io::Error>>(step: &'static str) -> impl Fn(E) -> String {
    move |error| format!("{step}: {}", words(&error.into()))
}

fn words_of(texts: impl Iterator<Item = Vec<u8>>) -> Result<Vec<CString>, String> {
    let words: Result<_, _> = texts.map(CString::new).collect();
    words.map_err(|_| "a word of the command line has a NUL byte".to_owned())
}

/// Clears a descriptor's close-on-exec flag, so that the program which this process executes inherits it. Returns the
/// descriptor's number as text.
fn leave(fd: BorrowedFd) -> Result<String, String> {
    fcntl_setfd(fd, FdFlags::empty()).map_err(because("fcntl"))?;
    Ok(fd.as_raw_fd().to_string())
}

/// Connects to a control socket. Fails if another process than `pid` listens there.
fn connect(path: &Path, pid: i32) -> Result<UnixStream, String> {
    let stream = UnixStream::connect(path).map_err(because("the control socket"))?;
    let listener = getsockopt(&stream, sockopt::PeerCredentials);
    match listener.is_ok_and(|listener| listener.pid() == pid) {
        true => Ok(stream),
        false => Err(format!(
            "{}: another than pid {pid} listens",
            path.display()
        )),
    }
}

/// Becomes the new firewall. Returns only on failure.
fn become_firewall(orders: Orders, descriptors: &Descriptors) -> Result<Infallible, String> {
    // A separate session, independent of this session's terminal.
    setsid().map_err(because("setsid"))?;
    chdir("/").map_err(because("chdir"))?;
    let notes = orders.surroundings.as_ref().map(Surroundings::apply);
    let mut variables = orders.environment;
    variables.push(("PATH".to_owned(), PATH.to_owned()));
    if let Some(figures) = &descriptors.figures {
        variables.push((queue::proc::GIVEN.to_owned(), leave(figures.as_fd())?));
    }
    let connection = orders
        .connect
        .map(|(path, pid)| connect(&path, pid))
        .transpose()?;
    if let Some(connection) = &connection {
        variables.push((
            handover::channel::GIVEN.to_owned(),
            leave(connection.as_fd())?,
        ));
    }
    if let Some(rights) = &orders.rights {
        rights.apply()?;
    }
    // Warnings are printed after giving up the rights, because stderr is the old firewall's.
    for note in notes.into_iter().flatten() {
        tell("warning", note);
    }
    let name = orders.name.as_os_str().as_bytes().to_vec();
    let arguments = orders.arguments.into_iter().map(String::into_bytes);
    let arguments = words_of([name].into_iter().chain(arguments))?;
    let variables = variables
        .iter()
        .map(|(name, value)| format!("{name}={value}").into_bytes());
    let variables = words_of(variables)?;
    let nothing = File::open("/dev/null").map_err(because("/dev/null"))?;
    dup2_stdin(nothing).map_err(because("dup2"))?;
    let Err(error) = fexecve(&descriptors.program, &arguments, &variables);
    Err(format!(
        "{}: {}: is it a firewall for this machine?",
        orders.name.display(),
        words(&error.into())
    ))
}

/// Waits until the parent process has ended, so that init has adopted this process.
fn wait_for_orphanage(parent: i32) {
    while getppid().as_raw() == parent {
        thread::sleep(STEP);
    }
}

/// Starts this program again; the new process becomes an orphan when this process ends.
fn detach() -> io::Result<()> {
    let own = std::process::id().to_string();
    let mut command = Command::new(SELF);
    command.args(["launch", "--orphan", &own]);
    command.stdin(Stdio::inherit()).spawn().map(drop)
}

/// Executes the orders from stdin, a socket. Sends its process id, and the reason of a failure, over the same socket,
/// which the executed program does not inherit.
/// - orphan: process id of the parent, whose end is awaited first; None: nothing is awaited.
/// - is_to_detach: true: only starts this program again, as a process that becomes an orphan.
pub fn run(orphan: Option<i32>, is_to_detach: bool) -> Result<Exit, Failure> {
    let failed = |error: io::Error| {
        let words = words(&error);
        Failure::new(
            Exit::Usage,
            format_args!("launch: {words}: only fwctl upgrade starts it"),
        )
    };
    if is_to_detach {
        detach().map_err(failed)?;
        return Ok(Exit::Fine);
    }
    if let Some(parent) = orphan {
        wait_for_orphanage(parent);
    }
    let mut stream = io::stdin()
        .as_fd()
        .try_clone_to_owned()
        .map(UnixStream::from)
        .map_err(failed)?;
    writeln!(stream, "{}", std::process::id()).map_err(failed)?;
    let (orders, descriptors) = orders::receive(&stream).map_err(failed)?;
    let Err(text) = become_firewall(orders, &descriptors);
    let _ = stream.write_all(text.as_bytes()); // the sender of the orders may be gone
    Ok(Exit::Refused)
}
