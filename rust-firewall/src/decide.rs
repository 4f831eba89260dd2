// SPDX-License-Identifier: GPL-2.0-or-later
//! From what a packet is to what happens with it. No system call, no allocation, no state.

use crate::packet::{self, PacketStatus};
use crate::verdict::Verdict;

#[derive(Clone, Copy, Debug)]
pub struct DecideSettings {
    /// --default: `Accept` or `Drop`.
    pub default_verdict: Verdict,
    /// --fail open.
    pub fail_open: bool,
}

/// The verdict for a packet: --default for `Ok` and `Cut`, the --fail mode (accept if open, drop if
/// closed) for malformed and truncated ones.
/// truncated: the netlink message did not fit its slot; status is not looked at then.
pub fn decide(settings: &DecideSettings, status: PacketStatus, truncated: bool) -> Verdict {
    if truncated || packet::is_malformed(status) {
        return if settings.fail_open {
            Verdict::Accept
        } else {
            Verdict::Drop
        };
    }
    settings.default_verdict
}
