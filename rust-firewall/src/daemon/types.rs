// SPDX-License-Identifier: GPL-2.0-or-later
//! All that runs, for those who start it, act on it and end it.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use nix::sys::signalfd::SignalFd;

use crate::daemon::watchdog::Watchdog;
use crate::guard::Guard;
use crate::handover::give::HandoverGiving;
use crate::state::State;

/// All that runs, but for the control socket, whose clients act on it.
pub struct Daemon {
    pub state: Arc<State>,
    /// The control socket, to be handed over.
    pub control_listener: Option<OwnedFd>,
    pub guard: Guard,
    /// Under a systemd that has a watchdog.
    pub watchdog: Option<Watchdog>,
    pub signals: SignalFd,
    /// When a drain ends at the latest, by wait::clock; u64::MAX = none.
    pub drain_end_ns: u64,
    /// The end has come.
    pub stopped: bool,
    /// Another firewall prepares to take over.
    pub giving: Option<HandoverGiving>,
    /// All is another firewall's, which takes over or goes on.
    pub handed_over: bool,
}
