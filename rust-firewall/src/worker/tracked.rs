// SPDX-License-Identifier: GPL-2.0-or-later
//! Check that packets have a connection state (conntrack) if the policy reads the state. The kernel tracks connections
//! only if a rule of the kernel requires tracking. Without tracking, a policy with `ct state established accept` drops
//! every reply to this host.

/// Number of packets of all workers without a connection state after which the state counts as missing, if no packet
/// had a state.
pub const PACKETS_LEAST: u64 = 10;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
/// Result of the check whether the kernel provides the connection state (conntrack) of packets.
pub enum Tracked {
    /// Too few packets were seen, or the policy does not read the connection state.
    #[default]
    Unknown,
    /// At least one packet had a connection state.
    Seen,
    /// None of at least PACKETS_LEAST packets had a connection state.
    Missing,
}

/// State of the check whether packets have a connection state. The default value is the state before the first call of
/// `look`.
#[derive(Clone, Copy, Debug, Default)]
pub struct TrackedWatch {
    /// Generation of the policy to which the check belongs; 0 means none.
    pub generation: u32,
    /// Number of answered packets of all queues when the check of this policy began.
    decided: u64,
    /// Number of packets without a connection state, of all queues, when the check of this policy began.
    without: u64,
    /// Result of the last call of `look`.
    tracked: Tracked,
}

/// Updates the check with the current counters of all queues. Returns the check's result.
/// - generation: generation of the policy; a new generation restarts the check.
/// - asks: true if the policy reads the connection state.
/// - decided, without: numbers of answered packets and of packets without a connection state; the caller reads them in
///   this order.
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

/// Returns the name of a result of the check in the reply to `status`; None for Unknown.
pub fn name(tracked: Tracked) -> Option<&'static str> {
    match tracked {
        Tracked::Seen => Some("seen"),
        Tracked::Missing => Some("missing"),
        Tracked::Unknown => None,
    }
}
