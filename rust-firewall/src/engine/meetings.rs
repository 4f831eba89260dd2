// SPDX-License-Identifier: GPL-2.0-or-later
//! Meetings: places where ways of a packet continue as one way.
//!
//! Theory of operation: if the ways have different marks, the mark is unknown after the meeting, and a rule that reads it
//! may hold for each value, also for values that no way has. A packet that is accepted only thereby is accepted on no
//! way. So its evaluation is repeated with one of both marks at each meeting, for each choice.
#![deny(clippy::indexing_slicing)]

use crate::engine::frame::Mark;

/// Maximum number of meetings at which a mark is chosen. The mark stays unknown after later ones, so that a packet needs
/// at most 64 evaluations.
const CHOICES_MAX: u32 = 6;

/// Meetings of ways with different marks in an evaluation of a packet.
#[derive(Clone, Copy, Default)]
pub struct Meetings {
    /// Number of meetings until now.
    pub count: u32,
    /// True if a mark is chosen at each meeting: the evaluation has no effects and is not recorded.
    pub is_choosing: bool,
    /// Bit n is set if the second mark is chosen at meeting n.
    choices: u32,
}

/// Returns the mark where two ways meet.
pub fn join(meetings: &mut Meetings, one: Mark, other: Mark) -> Mark {
    match (one, other) {
        (Mark::None, mark) | (mark, Mark::None) => mark,
        _ if one == other => one,
        (Mark::Known(_), Mark::Known(_)) => {
            let number = meetings.count;
            meetings.count += 1;
            match (meetings.is_choosing && number < CHOICES_MAX, number) {
                (false, _) => Mark::Unknown,
                (true, number) if meetings.choices >> number & 1 == 0 => one,
                (true, _) => other,
            }
        }
        _ => Mark::Unknown,
    }
}

/// Begins the next evaluation with other choices. Returns false if all choices were made.
pub fn choose_again(meetings: &mut Meetings) -> bool {
    let mut number = meetings.count.min(CHOICES_MAX);
    meetings.count = 0;
    while number > 0 {
        number -= 1;
        let bit = 1 << number;
        if meetings.choices & bit == 0 {
            meetings.choices |= bit;
            return true;
        }
        meetings.choices &= !bit;
    }
    false
}

/// Begins the first evaluation with choices.
pub fn choose(meetings: &mut Meetings) {
    *meetings = Meetings {
        is_choosing: true,
        ..Meetings::default()
    };
}
