// SPDX-License-Identifier: GPL-2.0-or-later
//! How this process was started, for who wants to start another one like it.

use std::env;

use nix::unistd::{getpid, getuid};

use crate::options::arguments::{self, ArgumentsOption};

/// How --events names a listener's socket.
const UNIX_PREFIX: &str = "unix:";

pub struct ControlSelf {
    pub pid: i32,
    pub uid: u32,
    /// Absolute; empty where the system does not tell.
    pub executable: String,
    /// The options that were given, as --NAME and VALUE, with absolute paths.
    pub arguments: Vec<String>,
}

/// A path from the root, if the system tells where we are.
fn absolute(prefix: &str, path: &str) -> String {
    let folder = env::current_dir().ok();
    match folder.filter(|_| !path.starts_with('/')) {
        None => format!("{prefix}{path}"),
        Some(folder) => format!("{prefix}{}/{path}", folder.display()),
    }
}

/// The value as another process may be given it.
fn value_of(name: &str, value: &str) -> String {
    let is = |option| name == arguments::name(option);
    if is(ArgumentsOption::Policy) || is(ArgumentsOption::Control) {
        return absolute("", value);
    }
    if !is(ArgumentsOption::Events) || value == "-" {
        return value.to_owned();
    }
    match value.strip_prefix(UNIX_PREFIX) {
        Some(path) => absolute(UNIX_PREFIX, path),
        None => absolute("", value),
    }
}

/// All that were given.
fn read_arguments() -> Vec<String> {
    let words: Vec<_> = env::args_os().collect();
    // main took them as well.
    let Ok(values) = arguments::parse(&words) else {
        return Vec::new();
    };
    let mut all = Vec::new();
    for (name, value) in arguments::values(&values) {
        if name == arguments::name(ArgumentsOption::TakeOver) {
            continue;
        }
        all.push(format!("--{name}"));
        if !value.is_empty() {
            all.push(value_of(name, &String::from_utf8_lossy(value)));
        }
    }
    all
}

/// Reads it. --take-over is left out, as the next process takes over from this one. What /proc does
/// not tell is left empty.
pub fn read() -> ControlSelf {
    let executable = env::current_exe().unwrap_or_default();
    ControlSelf {
        pid: getpid().as_raw(),
        uid: getuid().as_raw(),
        executable: executable.to_string_lossy().into_owned(),
        arguments: read_arguments(),
    }
}
