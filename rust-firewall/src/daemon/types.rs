// SPDX-License-Identifier: GPL-2.0-or-later
//! Types of the running firewall.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use nix::sys::signalfd::SignalFd;

use crate::daemon::watchdog::Watchdog;
use crate::guard::Guard;
use crate::handover::give::HandoverGiving;
use crate::handover::FD_COUNT;
use crate::state::State;

/// State of the running firewall. The control socket is not part of it, because the commands of the socket's clients
/// change this state.
pub struct Daemon {
    pub state: Arc<State>,
    /// Descriptor of the control socket, which an upgrade hands over to the new firewall; None without --control.
    pub control_listener: Option<OwnedFd>,
    /// Values of --control and --events with absolute paths, for an upgrade.
    pub values: [Option<String>; FD_COUNT],
    pub guard: Guard,
    /// Watchdog thread, if systemd has a watchdog for this service.
    pub watchdog: Option<Watchdog>,
    pub signals: SignalFd,
    /// Deadline of a drain (wait::clock); u64::MAX = no drain.
    pub drain_end_ns: u64,
    /// True if an event has reported the start of this firewall.
    pub started: bool,
    /// True as soon as the firewall must end.
    pub stopped: bool,
    /// Upgrade in progress: another firewall prepares to take over.
    pub giving: Option<HandoverGiving>,
    /// True while queues and sockets belong to another firewall: to the new firewall of an upgrade, or to the old
    /// firewall until it has handed them over.
    pub handed_over: bool,
}
