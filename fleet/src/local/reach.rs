// SPDX-License-Identifier: GPL-2.0-or-later
//! Whether the store answers through the rules that the kernel holds. Root asks that itself, since an agent that was taken over
//! could say anything; but another process reads the answer, of a user without rights, since the store is not trusted either.

use std::io::Write;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::Duration;

use nix::sys::prctl;
use nix::unistd::geteuid;

use crate::etcd::Login;
use crate::failure::{system, unreachable, Result};
use crate::options::StoreOptions;

/// Debian's `nobody` and `nogroup`.
const NOBODY: u32 = 65534;
/// How long the store may take.
const LIMIT: Duration = Duration::from_secs(5);

/// Asks the store on a new connection, in a process without rights: this program again, with `--reach`.
pub fn check(store: &StoreOptions) -> Result<()> {
    let login = match &store.login {
        Some(path) => std::fs::read_to_string(path).map_err(crate::failure::at(path))?,
        None => String::new(),
    };
    let fail = |error: std::io::Error| system(format_args!("the check of the store: {error}"));
    // The file that runs now, wherever it was moved to.
    let mut command = Command::new("/proc/self/exe");
    command
        .args(std::env::args_os().skip(1))
        .arg("--reach")
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    if geteuid().is_root() {
        command.uid(NOBODY).gid(NOBODY);
    }
    let mut child = command.spawn().map_err(fail)?;
    if let Some(mut stdin) = child.stdin.take() {
        // It may have ended; it then says why.
        let _ = stdin.write_all(login.as_bytes());
    }
    let output = child.wait_with_output().map_err(fail)?;
    let said = String::from_utf8_lossy(&output.stderr);
    match output.status.success() {
        true => Ok(()),
        false => Err(unreachable(format_args!(
            "the store does not answer root's check: {}",
            said.lines()
                .next()
                .unwrap_or("it ended")
                .trim_start_matches("error: ")
        ))),
    }
}

/// That process: asks the store, and keeps others of its user away from its memory.
/// - login: USER:PASSWORD, or nothing.
pub fn ask(store: &StoreOptions, channel: &str, login: &str) -> Result<()> {
    prctl::set_dumpable(false).map_err(|error| system(format_args!("prctl: {error}")))?;
    let login = match login.trim() {
        "" => None,
        text => Some(Login::parse("the login", text)?),
    };
    store.open(&store.tls()?, login)?.reach(channel, LIMIT)
}
