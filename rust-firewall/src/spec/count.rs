// SPDX-License-Identifier: GPL-2.0-or-later
// Made by spec/generate from spec/metrics.toml.
//! What is counted for the whole process.

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
    /// Clients of the control socket refused by their credentials.
    ControlRefused,
    /// Clients of the control socket that found all places taken.
    ControlTooMany,
    /// Requests of the control socket that were not understood.
    ControlBad,
    /// Clients of the control socket closed as they did not read.
    ControlSlow,
    /// Requests for the metrics that were answered with them.
    MetricsRequests,
    /// Connections for metrics that ended without an understood request.
    MetricsUnanswered,
    /// Requests for something else than the metrics.
    MetricsRefused,
    /// Events that were written.
    EventsWritten,
    /// Events left out as there were too many a second.
    EventsLeftOut,
    /// Events lost as a ring was full.
    EventsLost,
    /// Events that could not be written.
    EventsFailed,
    /// Clients that followed the events.
    TailClients,
    /// Events that a following client read too slowly for.
    TailLost,
    /// Times that queues were handed over to another process.
    Upgrades,
    /// Times that handing over failed.
    UpgradesFailed,
    /// Addresses that sets which learn forgot before their time, for others.
    LearnedEvicted,
}

/// Every count with its name, in the enum's order.
pub const ALL: [(Count, &str); 22] = [
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
    (Count::MetricsRequests, "metrics_requests"),
    (Count::MetricsUnanswered, "metrics_unanswered"),
    (Count::MetricsRefused, "metrics_refused"),
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

/// The name of a count: that of the C twin's enum, as "reloads_failed".
pub fn name(count: Count) -> &'static str {
    ALL.get(count as usize).map_or("", |(_, name)| name)
}

/// Meaning of a count, as a sentence.
pub fn help(count: Count) -> &'static str {
    match count {
        Count::Reloads => "Reloads of the policy",
        Count::ReloadsFailed => "Reloads that left the old policy running",
        Count::Stalls => "Times that packets waited longer than the deadline",
        Count::StalledPackets => "Packets answered by the guard in all queues",
        Count::ControlClients => "Clients of the control socket that were served",
        Count::ControlRequests => "Requests of the control socket that were understood",
        Count::ControlRefused => "Clients of the control socket refused by their credentials",
        Count::ControlTooMany => "Clients of the control socket that found all places taken",
        Count::ControlBad => "Requests of the control socket that were not understood",
        Count::ControlSlow => "Clients of the control socket closed as they did not read",
        Count::MetricsRequests => "Requests for the metrics that were answered with them",
        Count::MetricsUnanswered => {
            "Connections for metrics that ended without an understood request"
        }
        Count::MetricsRefused => "Requests for something else than the metrics",
        Count::EventsWritten => "Events that were written",
        Count::EventsLeftOut => "Events left out as there were too many a second",
        Count::EventsLost => "Events lost as a ring was full",
        Count::EventsFailed => "Events that could not be written",
        Count::TailClients => "Clients that followed the events",
        Count::TailLost => "Events that a following client read too slowly for",
        Count::Upgrades => "Times that queues were handed over to another process",
        Count::UpgradesFailed => "Times that handing over failed",
        Count::LearnedEvicted => {
            "Addresses that sets which learn forgot before their time, for others"
        }
    }
}
