// SPDX-License-Identifier: GPL-2.0-or-later
// seccomp: write
//! What the program says on stderr, a line at a time. How it ends when it cannot start or go on: one
//! line "error: CAUSE: CURE" and an exit code of its own. Nothing of this is called on the packet
//! path; there things are counted.

use std::fmt::Display;
use std::io::{self, Write};
use std::panic;
use std::process;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

use nix::errno::Errno;
use nix::sys::stat::fstat;

pub use crate::spec::exit::LogExit;
use crate::spec::option::log_level_name;
pub use crate::spec::option::{LogLevel, LOG_LEVEL_NAMES};

/// The priorities of syslog(3), in the order of LogLevel, as the journal reads them off the start
/// of a line.
const PRIORITIES: [&str; 4] = ["<3>", "<4>", "<6>", "<7>"];

static JOURNAL: AtomicBool = AtomicBool::new(false);
static LEVEL: AtomicU8 = AtomicU8::new(LogLevel::Info as u8);

/// Why the program cannot start or go on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    pub code: LogExit,
    /// "CAUSE: CURE", without "error: " and without a line end.
    pub text: String,
}

/// A failure of this code and text.
pub fn failure_set(code: LogExit, text: impl Display) -> Failure {
    Failure {
        code,
        text: text.to_string(),
    }
}

/// A call failed at start for none of the reasons that have a code of their own (exit code 1).
/// call: its name as in the manual.
pub fn failure_set_start(call: &str, error: Errno) -> Failure {
    let text = strerror(error);
    failure_set(
        LogExit::Call,
        format_args!("{call}: {text}: this is not a fault of the command line, please report it"),
    )
}

/// A call failed while packets were running (exit code 1); the ledger is printed before this.
/// call: its name as in the manual.
pub fn failure_set_running(call: &str, error: Errno) -> Failure {
    let text = strerror(error);
    failure_set(
        LogExit::Call,
        format_args!("{call}: {text}: the ledger above tells what was lost"),
    )
}

/// Whether JOURNAL_STREAM, "DEVICE:INODE", is what stderr is (sd_journal_stream_fd(3)).
fn is_journal() -> bool {
    let stream = std::env::var("JOURNAL_STREAM").unwrap_or_default();
    fstat(io::stderr()).is_ok_and(|found| stream == format!("{}:{}", found.st_dev, found.st_ino))
}

/// Checks whether stderr is the journal's: then lines begin with their priority (sd-daemon(3)). To be
/// called first.
pub fn open() {
    JOURNAL.store(is_journal(), Ordering::Relaxed);
}

/// Prefix of a line by its level: "<3>" and so on where the journal reads, else nothing.
pub fn prefix(level: LogLevel) -> &'static str {
    let priority = PRIORITIES.get(level as usize);
    let priority = priority.filter(|_| JOURNAL.load(Ordering::Relaxed));
    priority.copied().unwrap_or_default()
}

/// Prints "error: TEXT" as one line on stderr. Returns the failure's exit code.
pub fn fail(failure: &Failure) -> LogExit {
    print(LogLevel::Error, format_args!("error: {}", failure.text));
    failure.code
}

/// Sets the level, which is `Info` at first. Any thread may call this.
pub fn set_level(level: LogLevel) {
    LEVEL.store(level as u8, Ordering::Relaxed);
}

/// The level.
pub fn level() -> LogLevel {
    let level = LOG_LEVEL_NAMES.get(usize::from(LEVEL.load(Ordering::Relaxed)));
    level.map_or(LogLevel::Info, |(level, _)| *level)
}

/// The name of a level, as on the command line.
pub fn level_name(level: LogLevel) -> &'static str {
    log_level_name(level)
}

/// Prints a line, unless the level is lower than its own.
fn print_at(own: LogLevel, text: impl Display) {
    if own <= level() {
        print(own, format_args!("{}: {text}", level_name(own)));
    }
}

/// Prints "error: TEXT" as one line on stderr. Any thread may print this and the following.
pub fn error(text: impl Display) {
    print_at(LogLevel::Error, text);
}

/// Prints "warning: TEXT", if the level lets it.
pub fn warn(text: impl Display) {
    print_at(LogLevel::Warning, text);
}

/// Prints "info: TEXT", if the level lets it.
pub fn info(text: impl Display) {
    print_at(LogLevel::Info, text);
}

/// Prints "debug: TEXT", if the level lets it.
pub fn debug(text: impl Display) {
    print_at(LogLevel::Debug, text);
}

/// Has a fault of the program, on whatever thread, end it at once, with one line: other threads would
/// wait for what never comes. (The C twin ends by itself: by a signal.)
pub fn abort_on_panic() {
    panic::set_hook(Box::new(|fault| {
        let place = fault.location().map(ToString::to_string);
        let cause = fault.payload().downcast_ref::<&str>().copied();
        let cause = cause.or_else(|| fault.payload().downcast_ref().map(String::as_str));
        let text = format_args!(
            "error: a fault of the firewall at {}: {}: please report it",
            place.unwrap_or_default(),
            cause.unwrap_or_default()
        );
        print(LogLevel::Error, text);
        process::abort();
    }));
}

/// A line on stderr, in one piece: others may be printing as well. Nobody may be reading there any
/// more, which is no reason to end.
fn print(level: LogLevel, line: impl Display) {
    let line = format!("{}{line}\n", prefix(level));
    let _ = io::stderr().write_all(line.as_bytes());
}

/// The C library's text for an errno: the standard library adds the number, which is cut here.
pub fn strerror(error: Errno) -> String {
    let text = io::Error::from(error).to_string();
    let number = format!(" (os error {})", error as i32);
    text.strip_suffix(&number)
        .map_or(text.clone(), str::to_owned)
}
