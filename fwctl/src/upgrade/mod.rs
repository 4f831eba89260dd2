// SPDX-License-Identifier: GPL-2.0-or-later
//! `upgrade`: replaces the running firewall by another binary without losing a packet.
//!
//! Theory of operation: the caller has more rights than the firewall, which may be compromised. So no file that the
//! firewall names is run, opened or entered. `peer` identifies its process through the kernel; `program` accepts only a
//! file that no other user could have made. The new program has the firewall's user and no more capabilities (`rights`)
//! from its first instruction on. Only after that are the firewall's own arguments used: they can't make the new
//! firewall do more than the old one could. Arguments from the operator or from systemd (`unit`) are trusted, and get
//! all rights that they need.

pub mod launch;
mod orders;
pub mod peer;
pub mod program;
mod rehearsal;
mod rights;
mod started;
mod surroundings;
pub mod unit;

use std::ffi::OsString;
use std::fs::{self, File};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Instant;

use nix::unistd::geteuid;
use rust_firewall::options::{self, Options, OptionsAction};
use rust_firewall::privilege::user;
use rust_firewall::queue;
use serde_json::json;

use crate::answer::Status;
use crate::arguments::Arguments;
use crate::failure::{words, Exit, Failure};
use crate::output;
use crate::running;

use orders::Orders;
use peer::Peer;
use program::Program;
use rights::Rights;
use started::{OldOutput, Output, Started};
use surroundings::Surroundings;
use unit::Unit;

/// Path by which this program starts itself, as the process that becomes the new firewall.
const SELF: &str = "/proc/self/exe";

fn refused(text: impl std::fmt::Display) -> Failure {
    Failure::new(Exit::Refused, text)
}

/// Quotes words as a shell would, for a message. Control characters become `?`: a firewall may report any character.
fn quoted(words: &[String]) -> String {
    let quote = |word: &String| {
        let word = word.replace(|c: char| c.is_control(), "?");
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,@%+".contains(c);
        match !word.is_empty() && word.chars().all(is_plain) {
            true => word,
            false => format!("'{}'", word.replace('\'', "'\\''")),
        }
    };
    words.iter().map(quote).collect::<Vec<_>>().join(" ")
}

/// Returns the arguments that a firewall reports as its own. Fails if a compromised firewall could do harm by them: if
/// the firewall runs as root, or if the arguments switch off the sandbox or contain `--take-over`.
fn claimed(peer: &Peer) -> Result<Vec<String>, Failure> {
    let options = running::options(&peer.status)?;
    let why = match peer.uid {
        0 => "runs as root",
        _ if !options.sandbox => "says that it has no sandbox",
        _ if options.take_over.is_some() => "says that it takes over from another",
        _ => return Ok(peer.status.arguments.clone()),
    };
    Err(refused(format_args!(
        "the firewall {why}, so fwctl does not trust the arguments that it reports: check them, and \
         give them after BINARY --: {}",
        quoted(&peer.status.arguments)
    )))
}

/// Parses the operator's arguments for the new firewall. Fails if they do not start a firewall (`--help`), or contain
/// `--take-over`.
fn read(arguments: &[String]) -> Result<Options, Failure> {
    let words = [options::PROGRAM].into_iter().map(OsString::from);
    let words: Vec<_> = words.chain(arguments.iter().map(OsString::from)).collect();
    match options::parse(&words)? {
        OptionsAction::Run(options) if options.take_over.is_none() => Ok(options),
        _ => Err(Failure::new(
            Exit::Usage,
            "the arguments after -- do not start a firewall: leave out --take-over, --help, --version and \
             commands",
        )),
    }
}

/// Returns the rights of a new firewall whose arguments come from root. Its user is that of `--user`, or the old
/// firewall's user if `--user` is missing. Fails if there is no such user.
fn named_rights(peer: &Peer, options: &Options) -> Result<Rights, Failure> {
    let Some(name) = options.user.as_deref() else {
        return Ok(Rights::of_roots_word(peer.uid, peer.gid));
    };
    let user = user::find(Some(name))?;
    Ok(Rights::of_roots_word(user.uid.as_raw(), user.gid.as_raw()))
}

/// Fails unless the operator's arguments name the old firewall's control socket: fwctl waits there for the new firewall.
fn check_control(options: &Options, socket: &Path) -> Result<(), Failure> {
    let file_of = |path: &Path| {
        let data = fs::metadata(path).ok()?;
        Some((data.dev(), data.ino()))
    };
    let given = options
        .control
        .as_deref()
        .and_then(|path| file_of(Path::new(path)));
    if given.is_some() && given == file_of(socket) {
        return Ok(());
    }
    Err(Failure::new(
        Exit::Usage,
        format_args!(
            "the arguments after -- do not name the old firewall's control socket: add --control {}",
            socket.display()
        ),
    ))
}

/// Returns the orders for the new firewall. Fails if the caller is neither root nor the old firewall's user.
/// - socket: control socket of the old firewall.
/// - given: the operator's arguments for the new firewall. Empty: those that the old firewall reports.
fn orders_for(
    socket: &Path,
    peer: &Peer,
    program: &Program,
    given: &[String],
) -> Result<Orders, Failure> {
    let is_root = geteuid().is_root();
    if !is_root && peer.uid != geteuid().as_raw() {
        return Err(refused(format_args!(
            "the firewall is user {}'s: upgrade as that user or as root",
            peer.uid
        )));
    }
    let own = Rights::of(peer)?;
    let (arguments, rights) = match given {
        [] => (claimed(peer)?, own),
        given => {
            let options = read(given)?;
            check_control(&options, socket)?;
            (given.to_vec(), named_rights(peer, &options)?)
        }
    };
    Ok(Orders {
        name: program.path.clone(),
        arguments,
        environment: Vec::new(),
        connect: None,
        // A caller other than root has no rights to give up, and the program's file grants the rights that a firewall needs.
        rights: is_root.then_some(rights),
        surroundings: is_root.then(|| Surroundings::of(peer)).transpose()?,
    })
}

/// Makes the program take over from a firewall that is not a systemd service. Returns the new firewall.
/// - given: the operator's arguments for the new firewall. Empty: those that the old firewall reports.
fn take_over(
    socket: &Path,
    old: &Peer,
    program: &Program,
    given: &[String],
) -> Result<Peer, Failure> {
    let mut orders = orders_for(socket, old, program, given)?;
    // Only root can open the file with the kernel's counters of queues. The firewalls can do without it.
    let figures = File::open(queue::proc::QUEUES).ok();
    rehearsal::run(program, &mut orders, socket)?;
    let option = format!("--take-over={}", socket.display());
    orders.arguments.push(option);
    orders.connect = Some((socket.to_owned(), old.pid));
    let output = Output::Old(OldOutput::of(old));
    old.check()?;
    let figures = figures.as_ref().map(AsFd::as_fd);
    Started::start(program, &orders, figures, output, false)?.wait_for(socket, old)
}

fn line(
    arguments: &Arguments,
    (old, old_pid): (&Status, i32),
    new: &Peer,
    begun: Instant,
) -> String {
    let milliseconds = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
    let is = &new.status;
    if arguments.json {
        return json!({
            "ok": true,
            "was": {"program": old.program, "version": old.version, "pid": old_pid},
            "is": {"program": is.program, "version": is.version, "pid": new.pid},
            "milliseconds": milliseconds,
        })
        .to_string();
    }
    format!(
        "upgraded from {} {} (pid {old_pid}) to {} {} (pid {}) in {milliseconds} ms",
        old.program, old.version, is.program, is.version, new.pid
    )
}

pub fn run(
    arguments: &Arguments,
    binary: Option<&Path>,
    given: &[String],
) -> Result<Exit, Failure> {
    let old = Peer::find(&arguments.socket)?;
    let begun = Instant::now();
    let socket = &std::path::absolute(&arguments.socket).map_err(|error| refused(words(&error)))?;
    let new = match Unit::of(&old)? {
        Some(unit) if !given.is_empty() => {
            let text = format!(
                "the arguments of {} are in its unit: change them there",
                unit.name
            );
            return Err(Failure::new(Exit::Usage, text));
        }
        Some(unit) => {
            let program = Program::named(binary.unwrap_or(&unit.program))?;
            unit.take_over(&old, &program, socket)?
        }
        None => {
            old.check_namespaces()?;
            let program = binary.map_or_else(|| Program::of(&old), Program::named)?;
            take_over(socket, &old, &program, given)?
        }
    };
    output::line(&line(arguments, (&old.status, old.pid), &new, begun));
    Ok(Exit::Fine)
}
