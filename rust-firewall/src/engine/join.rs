// SPDX-License-Identifier: GPL-2.0-or-later
//! Join points: places where ways of a packet continue as one way.
//!
//! Theory of operation: if the ways have different marks, the mark is unknown after the join point. A rule that reads it
//! may then hold for every value, also for values that no way has, and accept a packet that no way accepts. So a packet
//! that would pass is evaluated again with one of both marks at each join point, for each choice of marks.
#![deny(clippy::indexing_slicing)]

use crate::engine::frame::Mark;

/// Maximum number of join points at which a mark is chosen. The mark stays unknown after later ones, so that a packet
/// needs at most 64 evaluations.
const CHOICES_MAX: u32 = 6;

/// Join points of ways with different marks in an evaluation of a packet.
#[derive(Clone, Copy, Default)]
pub struct JoinPoints {
    /// Number of join points until now.
    pub count: u32,
    /// True if a mark is chosen at each join point: the evaluation has no effects and is not recorded.
    pub is_choosing: bool,
    /// Bit n is set if the second mark is chosen at join point n.
    choices: u32,
}

/// Returns the mark where two ways meet.
pub fn marks(points: &mut JoinPoints, one: Mark, other: Mark) -> Mark {
    match (one, other) {
        (Mark::None, mark) | (mark, Mark::None) => mark,
        _ if one == other => one,
        (Mark::Known(_), Mark::Known(_)) => {
            let number = points.count;
            points.count += 1;
            match points.is_choosing && number < CHOICES_MAX {
                false => Mark::Unknown,
                true if points.choices >> number & 1 == 0 => one,
                true => other,
            }
        }
        _ => Mark::Unknown,
    }
}

/// Begins the next evaluation with other choices. Returns false if all choices were made.
pub fn choose_again(points: &mut JoinPoints) -> bool {
    let mut number = points.count.min(CHOICES_MAX);
    points.count = 0;
    while number > 0 {
        number -= 1;
        let bit = 1 << number;
        if points.choices & bit == 0 {
            points.choices |= bit;
            return true;
        }
        points.choices &= !bit;
    }
    false
}

/// Begins the first evaluation with choices.
pub fn choose(points: &mut JoinPoints) {
    *points = JoinPoints {
        is_choosing: true,
        ..JoinPoints::default()
    };
}
