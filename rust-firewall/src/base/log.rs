// SPDX-License-Identifier: GPL-2.0-or-later
// seccomp: write
//! Messages on stderr, one per line, and the end of a program that can't start or continue: one line "error: CAUSE:
//! CURE", and an exit code. Nothing here is called on the packet path, where events are counted instead.

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

/// Priorities of syslog(3), in the order of LogLevel, as the journal expects them at the start of a line.
const PRIORITIES: [&str; 4] = ["<3>", "<4>", "<6>", "<7>"];

static JOURNAL: AtomicBool = AtomicBool::new(false);
static LEVEL: AtomicU8 = AtomicU8::new(LogLevel::Info as u8);

/// Reason why the program can't start or continue, or why a reload, an upgrade or a request failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    pub code: LogExit,
    /// Text "CAUSE: CURE", without "error: " and without a line end.
    pub text: String,
}

/// Creates a failure from a code and a text.
pub fn failure_set(code: LogExit, text: impl Display) -> Failure {
    Failure {
        code,
        text: text.to_string(),
    }
}

/// Creates the failure of a call at the start or in a reload, for which there is no specific exit code (exit code 1).
/// - call: name of the call as in the manual.
pub fn failure_set_start(call: &str, error: Errno) -> Failure {
    let text = strerror(error);
    failure_set(
        LogExit::Call,
        format_args!("{call}: {text}: this is not a fault of the command line, please report it"),
    )
}

/// Creates the failure of a call while packets are filtered (exit code 1). Its text refers to the ledger, which is
/// printed before the program ends.
/// - call: name of the call as in the manual.
pub fn failure_set_running(call: &str, error: Errno) -> Failure {
    let text = strerror(error);
    failure_set(
        LogExit::Call,
        format_args!("{call}: {text}: the ledger above shows the losses"),
    )
}

/// Returns true if stderr is the stream that JOURNAL_STREAM names, as "DEVICE:INODE" (sd_journal_stream_fd(3)).
fn is_journal() -> bool {
    let stream = std::env::var("JOURNAL_STREAM").unwrap_or_default();
    fstat(io::stderr()).is_ok_and(|found| stream == format!("{}:{}", found.st_dev, found.st_ino))
}

/// Checks whether stderr belongs to the journal: then lines begin with their priority (sd-daemon(3)). Must be called
/// before any other function of this file.
pub fn open() {
    JOURNAL.store(is_journal(), Ordering::Relaxed);
}

/// Returns the prefix of a line by its level: "<3>" etc. for the journal, otherwise "".
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

/// Sets the log level, initially `Info`. Any thread may call it.
pub fn set_level(level: LogLevel) {
    LEVEL.store(level as u8, Ordering::Relaxed);
}

/// Returns the log level.
pub fn level() -> LogLevel {
    let level = LOG_LEVEL_NAMES.get(usize::from(LEVEL.load(Ordering::Relaxed)));
    level.map_or(LogLevel::Info, |(level, _)| *level)
}

/// Returns the name of a level, as on the command line.
pub fn level_name(level: LogLevel) -> &'static str {
    log_level_name(level)
}

/// Prints "LEVEL: TEXT" as one line on stderr, if the log level allows lines of the level `own`.
fn print_at(own: LogLevel, text: impl Display) {
    if own <= level() {
        print(own, format_args!("{}: {text}", level_name(own)));
    }
}

/// Prints "error: TEXT" as one line on stderr. Any thread may call this function and the following ones.
pub fn error(text: impl Display) {
    print_at(LogLevel::Error, text);
}

/// Prints "warning: TEXT", if the log level allows it.
pub fn warn(text: impl Display) {
    print_at(LogLevel::Warning, text);
}

/// Prints "info: TEXT", if the log level allows it.
pub fn info(text: impl Display) {
    print_at(LogLevel::Info, text);
}

/// Prints "debug: TEXT", if the log level allows it.
pub fn debug(text: impl Display) {
    print_at(LogLevel::Debug, text);
}

/// Makes a panic on any thread end the program at once, with one line; otherwise other threads would wait for ever.
/// (The C twin is ended by a signal.)
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

/// Prints a line on stderr in one piece, because other threads may print, too. Errors are ignored: the reader may have
/// closed stderr.
fn print(level: LogLevel, line: impl Display) {
    let line = format!("{}{line}\n", prefix(level));
    let _ = io::stderr().write_all(line.as_bytes());
}

/// Returns the C library's text for an errno; the number that the standard library adds is removed.
pub fn strerror(error: Errno) -> String {
    let text = io::Error::from(error).to_string();
    let number = format!(" (os error {})", error as i32);
    text.strip_suffix(&number)
        .map_or(text.clone(), str::to_owned)
}
