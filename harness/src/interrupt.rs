// SPDX-License-Identifier: GPL-2.0-or-later
//! Handles SIGINT, SIGTERM and SIGHUP: the run ends in order, rules are removed and completed measurements are saved.

use std::io::Read;
use std::os::fd::{IntoRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::thread;

use anyhow::{bail, Result};
use nix::sys::signal::{kill, sigaction, SaFlags, SigAction, SigHandler, SigSet, Signal};
use nix::unistd::{pipe, Pid};
use testbed::proc::children;

static INTERRUPTED: AtomicBool = AtomicBool::new(false);
/// Write end of the pipe that wakes the watching thread.
static WAKE: AtomicI32 = AtomicI32::new(-1);

/// Installs handlers of SIGINT, SIGTERM and SIGHUP: they no longer end the process, and [`check`] reports them. At a
/// signal the running children receive SIGTERM, so that a long load ends early.
pub fn watch() -> Result<()> {
    let (read, write) = pipe()?;
    WAKE.store(write.into_raw_fd(), Ordering::Relaxed);
    thread::spawn(move || end_children(read));
    // A handler and no mask: children would inherit a mask and never receive their signals.
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
            // A child that has ended in the meantime keeps its number until a thread waits for it, so the number can
            // hardly be reused yet.
            let _ = kill(Pid::from_raw(pid as i32), Signal::SIGTERM);
        }
    }
}

pub fn interrupted() -> bool {
    INTERRUPTED.load(Ordering::Relaxed)
}

/// Fails if SIGINT, SIGTERM or SIGHUP has arrived since [`watch`].
pub fn check() -> Result<()> {
    if interrupted() {
        bail!("interrupted");
    }
    Ok(())
}
