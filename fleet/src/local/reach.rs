// SPDX-License-Identifier: GPL-2.0-or-later
//! Check that the store can be reached under the rules in the kernel. Root checks this itself, because an agent that an
//! attacker controls could lie. A separate process without privileges reads the store's answer, because the store is
//! not trusted either.

use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::Duration;

use nix::unistd::geteuid;

use crate::failure::{system, unreachable, Kind, Result};
use crate::options::StoreOptions;

/// User and group ids of Debian's `nobody` and `nogroup`.
const NOBODY: u32 = 65534;
/// Time limit for etcd's answer, divided among its servers.
const LIMIT: Duration = Duration::from_secs(5);

/// Checks on a new connection that the store answers. A process without privileges does this: this program again, with
/// `--reach`.
pub fn check() -> Result<()> {
    let fail = |error: std::io::Error| system(format_args!("the check of the store: {error}"));
    // The file that runs now, even if it was moved.
    let mut command = Command::new("/proc/self/exe");
    command
        .args(std::env::args_os().skip(1))
        .arg("--reach")
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    if geteuid().is_root() {
        command.uid(NOBODY).gid(NOBODY);
    }
    let output = command.output().map_err(fail)?;
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

/// Checks that the store answers, in the process without privileges. It does not log in: etcd then answers with a
/// refusal, which counts as an answer. A login would cost etcd some ten milliseconds of CPU time (bcrypt), and a
/// password would be in a process of `nobody`.
pub fn ask(store: &StoreOptions, channel: &str) -> Result<()> {
    match store.open(&store.tls()?, None)?.reach(channel, LIMIT) {
        Err(failure) if failure.kind == Kind::Refused => Ok(()),
        reached => reached,
    }
}
