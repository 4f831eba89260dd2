// SPDX-License-Identifier: GPL-2.0-or-later
//! Events about the program itself, and their figures.

pub use crate::spec::event::EventsKind;

/// Maximum number of clients that follow events at the same time.
pub const TAILS_MAX: usize = 8;

/// Members of an event about the program itself: its text, if it has one, and its numbers.
#[derive(Clone, Copy, Debug, Default)]
pub struct EventsFacts<'a> {
    pub text: Option<&'a str>,
    /// Numbers of the event, in the order of `spec::event`.
    pub figures: &'a [u64],
}
