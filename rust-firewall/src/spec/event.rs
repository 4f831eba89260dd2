// SPDX-License-Identifier: GPL-2.0-or-later
// Made by spec/generate from spec/events.toml.
//! The program's own events.

/// The program's own events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventsKind {
    /// Packets are decided.
    Started,
    /// The firewall was told to end.
    Stopped,
    /// The policy was read anew: its number, its rules, and how many of them are as before, new, or gone.
    Reload,
    /// The old policy stays: `text` says why.
    ReloadFailed,
    /// The guard answered packets of a queue: how many at first.
    Stall,
    /// The kernel dropped packets of a queue: how many since it was looked last.
    Overload,
    /// In place of `started`, by a firewall that took over.
    Upgrade,
    /// By the rate: how many events.
    LeftOut,
    /// How many events, and for want of room where (`text`): `ring`, `sink`, `tail`.
    Lost,
}

/// What an event is called in a line, and its figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventsNames {
    pub name: &'static str,
    pub figures: &'static [&'static str],
}

static NAMES: [EventsNames; 9] = [
    EventsNames {
        name: "started",
        figures: &[],
    },
    EventsNames {
        name: "stopped",
        figures: &[],
    },
    EventsNames {
        name: "reload",
        figures: &["generation", "rules", "kept", "added", "removed"],
    },
    EventsNames {
        name: "reload_failed",
        figures: &[],
    },
    EventsNames {
        name: "stall",
        figures: &["queue", "packets"],
    },
    EventsNames {
        name: "overload",
        figures: &["queue", "lost"],
    },
    EventsNames {
        name: "upgrade",
        figures: &[],
    },
    EventsNames {
        name: "left_out",
        figures: &["events"],
    },
    EventsNames {
        name: "lost",
        figures: &["events"],
    },
];

/// What an event is called in a line, and its figures.
pub fn names(kind: EventsKind) -> &'static EventsNames {
    &NAMES[kind as usize]
}
