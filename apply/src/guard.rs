// SPDX-License-Identifier: GPL-2.0-or-later
//! The orphan process that reverts a generation at its deadline, if systemd does not run in this network namespace.

use std::io::Write;
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use nix::sys::signal::{sigprocmask, SigSet, SigmaskHow, Signal};
use nix::unistd::daemon;

use crate::failure::{system, Result};
use crate::store::{self, Host, Store};
use crate::{clock, undo};

/// Line that the orphan process prints on stdout when it begins to wait for the deadline.
pub const ARMED: &str = "armed";
/// Maximum pause between two reads of the state, in milliseconds.
const LOOK_MS: u64 = 1000;

/// Returns the deadline of a generation in ms of boot time; None if the generation is no longer pending, or the state
/// can't be read.
fn deadline_of(folder: &Path, number: u64) -> Option<u64> {
    let pending = store::read(folder).ok()??.pending?;
    (pending.number == number).then_some(pending.deadline_ms)
}

/// Makes this process an orphan in a session of its own, and waits until the deadline of the pending generation.
/// Returns the generation's number at the deadline, or None if the generation is no longer pending before that, which
/// is checked every second.
fn wait(folder: &Path) -> Result<Option<u64>> {
    let fail = |error: nix::Error| {
        system(format_args!(
            "waiting for the deadline: {error}: run fwctl revert by hand"
        ))
    };
    let Some(pending) = store::read(folder)?.and_then(|state| state.pending) else {
        return Ok(None);
    };
    // These signals must not end or stop this process before the deadline.
    let polite = SigSet::from_iter([
        Signal::SIGHUP,
        Signal::SIGINT,
        Signal::SIGTERM,
        Signal::SIGTSTP,
    ]);
    sigprocmask(SigmaskHow::SIG_BLOCK, Some(&polite), None).map_err(fail)?;
    daemon(false, true).map_err(fail)?;
    println!("{ARMED}");
    let _ = std::io::stdout().flush();
    let null = std::fs::File::options()
        .read(true)
        .write(true)
        .open("/dev/null");
    if let Ok(null) = null {
        let _ = rustix::stdio::dup2_stdin(&null);
        let _ = rustix::stdio::dup2_stdout(&null);
        let _ = rustix::stdio::dup2_stderr(&null);
    }
    loop {
        let Some(deadline_ms) = deadline_of(folder, pending.number) else {
            return Ok(None);
        };
        let left_ms = deadline_ms.saturating_sub(clock::boot_ms());
        if left_ms == 0 {
            return Ok(Some(pending.number));
        }
        // The pause uses the monotonic clock, which stops in suspend, so the boot time is read at least once a second.
        // The folder is not watched (inotify): root has a limit of 128 instances per machine, and the revert must not
        // depend on a free one.
        sleep(Duration::from_millis(left_ms.min(LOOK_MS)));
    }
}

/// Waits for the deadline, and reverts the generation if it is still pending.
pub fn run(host: Host) -> Result<()> {
    let number = wait(host.folder)?;
    if number.is_some() {
        undo::at_deadline(&mut Store::seize(host)?, number)?;
    }
    Ok(())
}
