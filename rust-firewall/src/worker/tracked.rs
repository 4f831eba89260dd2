// SPDX-License-Identifier: GPL-2.0-or-later
//! Whether packets have a connection state where the policy asks for it. The kernel tracks nothing
//! until a rule of its own asks for connections: then a policy with `ct state established accept`
//! drops every answer that this host gets.

/// How many packets without a state, and none with one, are needed before it is said.
pub const PACKETS_LEAST: u64 = 10;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tracked {
    /// Too few packets, or the policy does not ask.
    #[default]
    Unknown,
    /// Some had a state.
    Seen,
    /// None had.
    Missing,
}

/// Observations so far. By default they begin with the first reading.
#[derive(Clone, Copy, Debug, Default)]
pub struct TrackedWatch {
    /// The generation of the policy; 0 = none.
    pub generation: u32,
    /// Packets of all queues, when it looked at this policy first.
    decided: u64,
    without: u64,
    tracked: Tracked,
}

/// Reads the sums of all queues: packets answered, and those without a state, read in this order.
/// generation: of the policy; another one begins anew. asks: whether it asks for the state. Returns
/// what is known now.
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

/// Its name in the answer to `status`, if anything is known.
pub fn name(tracked: Tracked) -> Option<&'static str> {
    match tracked {
        Tracked::Seen => Some("seen"),
        Tracked::Missing => Some("missing"),
        Tracked::Unknown => None,
    }
}
