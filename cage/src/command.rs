// SPDX-License-Identifier: GPL-2.0-or-later
//! Signals for the command. The command receives the terminal's signals directly, since it is in the same foreground
//! process group as fwctl. Signals of other processes to fwctl are forwarded.

use std::os::fd::OwnedFd;
use std::sync::mpsc::Sender;
use std::thread;

use rustix::process::{pidfd_send_signal, Signal};
use signal_hook::consts::{
    SIGALRM, SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGWINCH,
};
use signal_hook::iterator::exfiltrator::origin::WithOrigin;
use signal_hook::iterator::SignalsInfo;
use signal_hook::low_level::siginfo::{Cause, Sent};

use crate::failure::Failure;
use crate::run::Happened;

const SIGNALS: [i32; 9] = [
    SIGALRM, SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGWINCH,
];

/// Starts a thread that reports signals which other processes send to this process.
pub fn watch_signals(to: Sender<Happened>) -> Result<(), Failure> {
    let mut signals = SignalsInfo::<WithOrigin>::new(SIGNALS).map_err(Failure::at("signals"))?;
    thread::spawn(move || {
        for origin in signals.forever() {
            // Signals of the terminal come from the kernel. They are not reported.
            let is_sent = matches!(
                origin.cause,
                Cause::Sent(Sent::User | Sent::TKill | Sent::Queue)
            );
            if is_sent && to.send(Happened::Signal(origin.signal)).is_err() {
                return;
            }
        }
    });
    Ok(())
}

/// Sends a signal to the command. Does nothing if the command has ended.
pub fn signal(command: &OwnedFd, number: i32) {
    if let Some(signal) = Signal::from_named_raw(number) {
        let _ = pidfd_send_signal(command, signal);
    }
}
