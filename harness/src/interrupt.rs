// SPDX-License-Identifier: GPL-2.0-or-later
//! SIGINT, SIGTERM and SIGHUP end a run in order: rules are taken back, what was measured is kept.

use std::io::Read;
use std::os::fd::{IntoRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::thread;

use anyhow::{bail, Result};
use nix::sys::signal::{kill, sigaction, SaFlags, SigAction, SigHandler, SigSet, Signal};
use nix::unistd::{pipe, Pid};
use testbed::proc::children;

static INTERRUPTED: AtomicBool = AtomicBool::new(false);
/// The writing end of the pipe that wakes the watching thread.
static WAKE: AtomicI32 = AtomicI32::new(-1);

/// From now on the three signals don't end the process but are found by [`check`]. Children that
/// run at that moment get SIGTERM, so that a load of a minute isn't waited for.
pub fn watch() -> Result<()> {
    let (read, write) = pipe()?;
    WAKE.store(write.into_raw_fd(), Ordering::Relaxed);
    thread::spawn(move || end_children(read));
    // A handler and no mask: a mask would be inherited by the children, and they would not see
    // their signals.
    let action = SigAction::new(
        SigHandler::Handler(on_signal),
        SaFlags::SA_RESTART,
        SigSet::empty(),
    );
    for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP] {
        // SAFETY: the handler stores to atomics and calls write(2), which signal-safety(7) lists.
        unsafe { sigaction(signal, &action)? };
    }
    Ok(())
}

extern "C" fn on_signal(_: libc::c_int) {
    INTERRUPTED.store(true, Ordering::Relaxed);
    // SAFETY: one byte of a static is written to a descriptor of our own, which is never closed.
    unsafe { libc::write(WAKE.load(Ordering::Relaxed), b"!".as_ptr().cast(), 1) };
}

fn end_children(wake: OwnedFd) {
    let mut wake = std::fs::File::from(wake);
    while wake.read(&mut [0]).is_ok_and(|bytes| bytes > 0) {
        for pid in children(std::process::id()) {
            // A child that has ended meanwhile has not been waited for, so its number can't be
            // another's yet.
            let _ = kill(Pid::from_raw(pid as i32), Signal::SIGTERM);
        }
    }
}

pub fn interrupted() -> bool {
    INTERRUPTED.load(Ordering::Relaxed)
}

/// Fails if a signal has come.
pub fn check() -> Result<()> {
    if interrupted() {
        bail!("interrupted");
    }
    Ok(())
}
