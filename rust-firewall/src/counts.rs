// SPDX-License-Identifier: GPL-2.0-or-later
//! What happened beside the way of a packet, or rarely on it, counted for the whole process. Any
//! thread may count and read.

use std::sync::atomic::{AtomicU64, Ordering};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Count {
    Reloads,
    ReloadsFailed,
    Stalls,
    /// Answered by the guard.
    StalledPackets,
    ControlClients,
    ControlRequests,
    /// By their credentials.
    ControlRefused,
    /// Clients at a time.
    ControlTooMany,
    /// Requests that were not understood.
    ControlBad,
    /// Clients closed as they did not read.
    ControlSlow,
    MetricsRequests,
    /// Connections that ended without an answer.
    MetricsUnanswered,
    MetricsRefused,
    EventsWritten,
    /// By --events-rate.
    EventsLeftOut,
    /// As a worker's ring was full.
    EventsLost,
    /// Could not be written.
    EventsFailed,
    TailClients,
    TailLost,
    Upgrades,
    UpgradesFailed,
}

/// Every count with its name, in the enum's order.
pub const ALL: [(Count, &str); 21] = [
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
];

static COUNTS: [AtomicU64; ALL.len()] = [const { AtomicU64::new(0) }; ALL.len()];

/// Adds to a count.
pub fn add(count: Count, amount: u64) {
    if let Some(counted) = COUNTS.get(count as usize) {
        counted.fetch_add(amount, Ordering::Relaxed);
    }
}

/// A count so far.
pub fn get(count: Count) -> u64 {
    let counted = COUNTS.get(count as usize);
    counted.map_or(0, |counted| counted.load(Ordering::Relaxed))
}

/// The name of a count: that of the C twin's enum, as "reloads_failed".
pub fn name(count: Count) -> &'static str {
    ALL.get(count as usize).map_or("", |(_, name)| name)
}
