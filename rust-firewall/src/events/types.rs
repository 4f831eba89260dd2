// SPDX-License-Identifier: GPL-2.0-or-later
//! The program's own events, and what is told of one.

/// Clients that follow at a time.
pub const TAILS_MAX: usize = 8;

/// The program's own events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventsKind {
    Started,
    Stopped,
    Reload,
    ReloadFailed,
    Stall,
    Overload,
    Upgrade,
    /// By --events-rate.
    LeftOut,
    /// For want of room.
    Lost,
}

/// What is told of one: its text ("text"), if it has any, and figures by their names.
#[derive(Clone, Copy, Debug, Default)]
pub struct EventsFacts<'a> {
    pub text: Option<&'a str>,
    pub figures: &'a [(&'static str, u64)],
}
