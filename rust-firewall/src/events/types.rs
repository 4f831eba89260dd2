// SPDX-License-Identifier: GPL-2.0-or-later
//! The program's own events, and the figures of each.

pub use crate::spec::event::EventsKind;

/// Clients that follow at a time.
pub const TAILS_MAX: usize = 8;

/// Members of an event: its text ("text"), if it has any, and its figures.
#[derive(Clone, Copy, Debug, Default)]
pub struct EventsFacts<'a> {
    pub text: Option<&'a str>,
    /// In the order of `spec::event`.
    pub figures: &'a [u64],
}
