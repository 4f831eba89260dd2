// SPDX-License-Identifier: GPL-2.0-or-later
//! Executable and options of this process, for a client that starts another process like it.

use std::env;
use std::os::unix::ffi::OsStrExt;

use nix::unistd::{getpid, getuid};

use crate::base::object;
use crate::options::arguments::{self, ArgumentsOption};

/// Prefix of an --events value that names a listener's socket.
const UNIX_PREFIX: &str = "unix:";

/// Identity of this process in the answer to `status`.
pub struct ControlSelf {
    pub pid: i32,
    pub uid: u32,
    /// Absolute path of the executable; empty if the system does not report it.
    pub executable: String,
    /// Options of the command line except --take-over, as --NAME and VALUE, with absolute paths.
    pub arguments: Vec<String>,
}

/// Returns the prefix followed by the absolute path, in UTF-8 (`object::string_of`). The path is
/// unchanged if the current folder is unknown.
fn absolute(prefix: &str, path: &str) -> String {
    let folder = env::current_dir().ok();
    match folder.filter(|_| !path.starts_with('/')) {
        None => format!("{prefix}{path}"),
        Some(folder) => {
            let folder = folder.as_os_str().as_bytes();
            let parts = [prefix.as_bytes(), folder, b"/", path.as_bytes()];
            object::string_of(&parts.concat())
        }
    }
}

/// Returns an option's value for another process: relative paths become absolute. Must be called
/// before the sandbox, which does not allow getcwd.
/// - name: the option's name without its hyphens.
pub fn value_of(name: &str, value: &str) -> String {
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

/// Returns the options of the command line, except for --take-over.
fn read_arguments() -> Vec<String> {
    let words: Vec<_> = env::args_os().collect();
    // This can't fail, because main has parsed the same words.
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

/// Returns the identity of this process. The arguments omit --take-over, because the next process
/// takes over from this process. The executable is empty if /proc does not show it.
pub fn read() -> ControlSelf {
    let executable = env::current_exe().unwrap_or_default();
    ControlSelf {
        pid: getpid().as_raw(),
        uid: getuid().as_raw(),
        executable: object::string_of(executable.as_os_str().as_bytes()),
        arguments: read_arguments(),
    }
}
