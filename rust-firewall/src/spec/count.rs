// SPDX-License-Identifier: GPL-2.0-or-later
// Made by spec/generate from spec/metrics.toml.
//! Counts of the whole process.

/// Counters of events in the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Count {
    /// Reloads of the policy.
    Reloads,
    /// Reloads that left the old policy running.
    ReloadsFailed,
    /// Times that packets waited longer than the deadline.
    Stalls,
    /// Packets answered by the guard in all queues.
    StalledPackets,
    /// Clients of the control socket that were served.
    ControlClients,
    /// Requests of the control socket that were understood.
    ControlRequests,
    /// Clients and take-overs of the control socket refused by their credentials.
    ControlRefused,
    /// Clients of the control socket that found all places taken.
    ControlTooMany,
    /// Requests of the control socket that were not understood.
    ControlBad,
    /// Clients of the control socket closed because they did not read.
    ControlSlow,
    /// Events that were written.
    EventsWritten,
    /// Events left out because there were too many a second.
    EventsLeftOut,
    /// Events lost: a ring was full, or a packet passed more than 8 log statements.
    EventsLost,
    /// Events that could not be written.
    EventsFailed,
    /// Clients that followed the events.
    TailClients,
    /// Events that a following client read too slowly for.
    TailLost,
    /// Handovers of the queues to another process.
    Upgrades,
    /// Handovers that failed.
    UpgradesFailed,
    /// Addresses that sets forgot before their time to learn others.
    LearnedEvicted,
}

/// Every count with its name, in the enum's order.
pub const ALL: [(Count, &str); 19] = [
    (Count::Reloads, "reloads"),
    (Count::ReloadsFailed, "reloads_failed"),
    (Count::Stalls, "stalls"),
    (Count::StalledPackets, "stalled_packets"),
    (Count::ControlClients, "control_clients"),
    (Count::ControlRequests, "control_requests"),
    (Count::ControlRefused, "control_refused"),
    (Count::ControlTooMany, "control_too_many"),
    (Count::ControlBad, "control_bad"),
    (Count::ControlSlow, "control_slow"),
    (Count::EventsWritten, "events_written"),
    (Count::EventsLeftOut, "events_left_out"),
    (Count::EventsLost, "events_lost"),
    (Count::EventsFailed, "events_failed"),
    (Count::TailClients, "tail_clients"),
    (Count::TailLost, "tail_lost"),
    (Count::Upgrades, "upgrades"),
    (Count::UpgradesFailed, "upgrades_failed"),
    (Count::LearnedEvicted, "learned_evicted"),
];

/// Returns the name of a count: that of the C twin's enum, as "reloads_failed".
pub fn name(count: Count) -> &'static str {
    ALL.get(count as usize).map_or("", |(_, name)| name)
}
