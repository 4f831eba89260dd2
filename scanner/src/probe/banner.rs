// SPDX-License-Identifier: GPL-2.0-or-later
//! What a server says of its own accord: its first bytes, until it has been quiet, ends, or has said enough.

use super::{Scan, Step, Talk};
use crate::state::Finding;

/// Enough to tell a service by.
const LONGEST_BANNER: usize = 512;

pub struct Banner;

impl Scan for Banner {
    fn room(&self) -> (usize, usize) {
        (LONGEST_BANNER, 0)
    }

    fn opened(&mut self, _talk: &mut Talk) -> Step {
        Step::Receive
    }

    /// A line is a banner; what is no line is one when the time is over.
    fn received(&mut self, talk: &mut Talk) -> Step {
        match talk.heard().contains(&b'\n') || *talk.filled == talk.input.len() {
            true => Step::Done(Finding::Answer),
            false => Step::Receive,
        }
    }

    fn ended(&mut self, talk: &mut Talk, why: Finding) -> Finding {
        match talk.heard() {
            [] => why,
            _ => Finding::Answer,
        }
    }

    fn answer<'a>(&'a mut self, talk: &'a Talk) -> &'a [u8] {
        talk.heard()
    }
}
