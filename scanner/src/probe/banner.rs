// SPDX-License-Identifier: GPL-2.0-or-later
//! Banner probe: a server's first bytes, until it sends a line, pauses until the time-out, closes, or fills the buffer.

use super::{Scan, Step, Talk};
use crate::state::Finding;

/// Maximum banner length, enough to identify a service.
const LONGEST_BANNER: usize = 512;

pub struct Banner;

impl Scan for Banner {
    fn room(&self) -> (usize, usize) {
        (LONGEST_BANNER, 0)
    }

    fn opened(&mut self, _talk: &mut Talk) -> Step {
        Step::Receive
    }

    /// Accepts a whole line, or a full buffer, as the banner. Other bytes become the banner when the conversation ends:
    /// at the time-out, or because the peer has closed or reset.
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
