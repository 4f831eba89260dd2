// SPDX-License-Identifier: GPL-2.0-or-later
//! Whether the store answers through the rules that the kernel holds. Root asks that itself, since an agent that was taken over
//! could say anything; but another process reads the answer, of a user without rights, since the store is not trusted either.

use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::Duration;

use nix::unistd::geteuid;

use crate::failure::{system, unreachable, Kind, Result};
use crate::options::StoreOptions;

/// Debian's `nobody` and `nogroup`.
const NOBODY: u32 = 65534;
/// How long the store may take.
const LIMIT: Duration = Duration::from_secs(5);

/// Asks the store on a new connection, in a process without rights: this program again, with `--reach`.
pub fn check() -> Result<()> {
    let fail = |error: std::io::Error| system(format_args!("the check of the store: {error}"));
    // The file that runs now, wherever it was moved to.
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

/// That process: asks the store. Without a login etcd answers by a refusal, which is an answer: each login would cost it some ten
/// milliseconds of CPU (bcrypt), and a password would be in a process of `nobody`.
pub fn ask(store: &StoreOptions, channel: &str) -> Result<()> {
    match store.open(&store.tls()?, None)?.reach(channel, LIMIT) {
        Err(failure) if failure.kind == Kind::Refused => Ok(()),
        reached => reached,
    }
}
