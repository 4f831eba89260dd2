// SPDX-License-Identifier: GPL-2.0-or-later
//! Check that packets have a connection state (conntrack) if the policy reads it. The kernel tracks
//! connections only if a rule of the kernel requires it. Without tracking, a policy with `ct state
//! established accept` drops every reply to this host.

/// Number of packets without a state, and none with one, after which the state counts as missing.
pub const PACKETS_LEAST: u64 = 10;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
/// Result of the check.
pub enum Tracked {
    /// Too few packets were seen, or the policy does not read the state.
    #[default]
    Unknown,
    /// Some packets had a state.
    Seen,
    /// No packet had a state.
    Missing,
}

/// Observations so far. The default value begins with the first call of `look`.
#[derive(Clone, Copy, Debug, Default)]
pub struct TrackedWatch {
    /// Generation of the policy; 0 means none.
    pub generation: u32,
    /// Answered packets of all queues at the first look at this policy.
    decided: u64,
    without: u64,
    /// Result of the last look.
    tracked: Tracked,
}

/// Updates the check with the current counters of all queues. Returns its result.
/// - generation: generation of the policy; a new generation restarts the check.
/// - asks: true if the policy reads the connection state.
/// - decided, without: packets answered, and packets without a state, read in this order.
pub fn look(
    watch: &mut TrackedWatch,
    generation: u32,
    asks: bool,
    decided: u64,
    without: u64,
) -> Tracked {
    if watch.generation != generation {
        *watch = TrackedWatch {
            generation,
            decided,
            without,
            tracked: Tracked::Unknown,
        };
    }
    if !asks || watch.tracked == Tracked::Seen {
        return watch.tracked;
    }
    let without = without.wrapping_sub(watch.without);
    // Packets count as without a state before they count as answered.
    if decided.wrapping_sub(watch.decided) > without {
        watch.tracked = Tracked::Seen;
    } else if without >= PACKETS_LEAST {
        watch.tracked = Tracked::Missing;
    }
    watch.tracked
}

/// Returns the name of a result in the reply to `status`; None for Unknown.
pub fn name(tracked: Tracked) -> Option<&'static str> {
    match tracked {
        Tracked::Seen => Some("seen"),
        Tracked::Missing => Some("missing"),
        Tracked::Unknown => None,
    }
}
