// SPDX-License-Identifier: GPL-2.0-or-later
//! Possible marks of a packet of which a rule reads unknown values.
//!
//! Theory of operation: a rule that may hold and sets the mark gives the packet one mark if it holds, and leaves
//! another one if not. Each value that the mark may have is a bit, so that the possible marks at a place are a word,
//! and those of ways that meet are the union of two words.
#![deny(clippy::indexing_slicing)]

use arrayvec::ArrayVec;

/// Maximum number of mark values in a `MarkValues`. Further values are ANY.
pub const VALUES_MAX: usize = 63;

/// Set of marks: bit n stands for the mark with the index n in `MarkValues`, and ANY for a mark that is not known.
pub type MarkSet = u64;
pub const NONE: MarkSet = 0;
pub const ANY: MarkSet = 1 << VALUES_MAX;

/// Marks for which the bits of a `MarkSet` stand.
pub type MarkValues = ArrayVec<u32, VALUES_MAX>;

/// Returns the set that contains only this value. Assigns a bit to a new value; returns ANY if all bits are assigned.
pub fn one(values: &mut MarkValues, value: u32) -> MarkSet {
    let known = values.iter().position(|&known| known == value);
    match known {
        Some(number) => 1 << number,
        None => match values.try_push(value) {
            Ok(()) => 1 << (values.len() - 1),
            Err(_) => ANY,
        },
    }
}

/// Returns the set of marks that contains several values.
pub fn all(values: &mut MarkValues, several: &[u32]) -> MarkSet {
    let sets = several.iter().map(|&value| one(values, value));
    sets.fold(NONE, |all, set| all | set)
}

/// Returns the set that contains only the first mark of a set; NONE for an empty set.
pub fn first(set: MarkSet) -> MarkSet {
    set & set.wrapping_neg()
}

/// Returns the value of a set that contains a single mark. None: the set is empty or has several marks, or the value is
/// not known.
pub fn value(values: &MarkValues, set: MarkSet) -> Option<u32> {
    match set == first(set) && set != NONE {
        true => values.get(set.trailing_zeros() as usize).copied(),
        false => None,
    }
}

/// Returns the set of the marks after a statement that sets the mark to (mark & keep) ^ toggle.
pub fn changed(values: &mut MarkValues, set: MarkSet, keep: u32, toggle: u32) -> MarkSet {
    let (mut left, mut changed) = (set, NONE);
    while left != NONE {
        let mark = first(left);
        left &= !mark;
        changed |= match value(values, mark) {
            Some(value) => one(values, (value & keep) ^ toggle),
            None if keep == 0 => one(values, toggle),
            None => ANY,
        };
    }
    changed
}
