// SPDX-License-Identifier: GPL-2.0-or-later
//! Matches of a rule: whether they hold for a packet's fields, and the reason if they don't.
#![deny(clippy::indexing_slicing)]

use std::slice;

use crate::engine::compiled::{CompileAsk, CompileOp, CompileWide, Compiled};
use crate::engine::fields::{self, Fields, KEY_WORDS_MAX};
use crate::engine::learned;
use crate::engine::lookup;
use crate::engine::set::{self, Set};
use crate::engine::types::{DecideStep, DecideWhy};
use crate::policy::Field;

/// Result of evaluating a match: its field lies beyond the captured bytes (`Beyond`), is unknown (`Unknown`) or is
/// absent from the packet (`Missing`); the match does not hold (`Not`) or holds (`Found`). From `find`, `Found` has the
/// number of the set's element.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Match {
    Beyond,
    Unknown,
    Missing,
    Not,
    Found(u32),
}

fn found_if(holds: bool) -> Match {
    if holds {
        Match::Found(0)
    } else {
        Match::Not
    }
}

/// Returns the result for a field that is not present.
fn not_present(fields: &Fields, field: Field) -> Match {
    if fields.beyond & fields::bit(field) != 0 {
        Match::Beyond
    } else if fields.unknown & fields::bit(field) != 0 {
        Match::Unknown
    } else {
        Match::Missing
    }
}

/// Evaluates a match of a narrow field.
#[inline]
pub fn narrow(
    fields: &Fields,
    field: Field,
    mask: u32,
    low: u32,
    span: u32,
    negated: bool,
) -> Match {
    if !fields::is_present(fields, field) {
        return not_present(fields, field);
    }
    let value = fields::narrow(fields, field) & mask;
    found_if((value.wrapping_sub(low) <= span) != negated)
}

/// Evaluates a match of a wide field, wides[wide].
#[inline]
pub fn wide(compiled: &Compiled, fields: &Fields, wide: u32, negated: bool) -> Match {
    let Some(wide) = compiled.wides.get(wide as usize) else {
        return Match::Missing;
    };
    if !fields::is_present(fields, wide.field) {
        return not_present(fields, wide.field);
    }
    let value = fields::wide(fields, wide.slot) & wide.mask;
    found_if((value.wrapping_sub(wide.low) <= wide.span) != negated)
}

fn found_element(element: Option<u32>) -> Match {
    element.map_or(Match::Not, Match::Found)
}

/// Returns the result of a match whose key has a field without a value. It is `Missing` if the packet lacks at least
/// one of the fields. Otherwise it is `Beyond` if at least one field lies beyond the captured bytes, and `Unknown` if
/// none does.
fn key_not_present(fields: &Fields, key: &[Field]) -> Match {
    let bits = key.iter().fold(0, |bits, &field| bits | fields::bit(field));
    match bits & !fields.present {
        open if open & !(fields.beyond | fields.unknown) != 0 => Match::Missing,
        open if open & fields.beyond != 0 => Match::Beyond,
        _ => Match::Unknown,
    }
}

fn find_key(fields: &Fields, set: &Set, key: &[Field]) -> Match {
    let mut words = [0; KEY_WORDS_MAX];
    let Some(words) = fields::words(fields, key, &mut words).and_then(|count| words.get(..count))
    else {
        return key_not_present(fields, key);
    };
    found_element(set::find(set, fields, key, words))
}

fn find_wide(fields: &Fields, set: &Set, wide: &CompileWide) -> Match {
    if !fields::is_present(fields, wide.field) {
        return not_present(fields, wide.field);
    }
    let value = fields::wide(fields, wide.slot) & wide.mask;
    found_element(lookup::find_wide(&set.single, value))
}

#[inline(always)]
fn find_narrow(fields: &Fields, set: &Set, field: Field, mask: u32) -> Match {
    if !fields::is_present(fields, field) {
        return not_present(fields, field);
    }
    let value = fields::narrow(fields, field) & mask;
    found_element(lookup::find(&set.single, value))
}

/// Searches sets[set] for a packet's key.
#[inline(always)]
pub fn find(compiled: &Compiled, fields: &Fields, set: u32, ask: CompileAsk) -> Match {
    let Some(set) = compiled.sets.get(set as usize) else {
        return Match::Missing;
    };
    match ask {
        CompileAsk::Narrow { field, mask } => find_narrow(fields, set, field, mask),
        CompileAsk::Wide(wide) => match compiled.wides.get(wide as usize) {
            Some(wide) => find_wide(fields, set, wide),
            None => Match::Missing,
        },
        CompileAsk::Key(key) => match compiled.keys.get(key as usize) {
            Some(key) => find_key(fields, set, &key.fields),
            None => Match::Missing,
        },
    }
}

/// Evaluates a match with the values of sets[set].
#[inline(always)]
pub fn set(
    compiled: &Compiled,
    fields: &Fields,
    set: u32,
    ask: CompileAsk,
    negated: bool,
) -> Match {
    match find(compiled, fields, set, ask) {
        Match::Beyond => Match::Beyond,
        Match::Unknown => Match::Unknown,
        Match::Missing => Match::Missing,
        found => found_if((found != Match::Not) != negated),
    }
}

/// Evaluates a match with the learned addresses of learning[learning].
#[cold]
#[inline(never)]
pub fn learned(
    compiled: &Compiled,
    fields: &Fields,
    learning: u32,
    ask: CompileAsk,
    negated: bool,
    now_ns: u64,
) -> Match {
    let (field, address) = match ask {
        CompileAsk::Narrow { field, mask } => {
            (field, (fields::narrow(fields, field) & mask).into())
        }
        CompileAsk::Wide(wide) => match compiled.wides.get(wide as usize) {
            Some(wide) => (wide.field, fields::wide(fields, wide.slot) & wide.mask),
            None => return Match::Missing,
        },
        CompileAsk::Key(_) => return Match::Missing,
    };
    if !fields::is_present(fields, field) {
        return not_present(fields, field);
    }
    let learning = compiled.learning.get(learning as usize);
    let known = learning.zip(compiled.learned.as_ref());
    let found = known.is_some_and(|(learning, learned)| {
        learned::find(learned, learning.identity, address, now_ns)
    });
    found_if(found != negated)
}

/// Returns the reason why a match did not hold or its result is unknown; `Held` if it held.
pub fn why_not(found: Match) -> DecideWhy {
    match found {
        Match::Found(_) => DecideWhy::Held,
        Match::Not => DecideWhy::Differs,
        Match::Missing => DecideWhy::Missing,
        Match::Beyond => DecideWhy::Beyond,
        Match::Unknown => DecideWhy::Unknown,
    }
}

/// Returns the key of a match or map; empty for other statements.
fn key_of<'a>(compiled: &'a Compiled, op: &'a CompileOp) -> &'a [Field] {
    let of_wide = |wide: u32| {
        let wide = compiled.wides.get(wide as usize);
        wide.map_or(&[] as &[Field], |wide| slice::from_ref(&wide.field))
    };
    match op {
        CompileOp::Narrow { field, .. } => slice::from_ref(field),
        CompileOp::Wide { wide, .. } => of_wide(*wide),
        CompileOp::Set { ask, .. }
        | CompileOp::Learned { ask, .. }
        | CompileOp::MarkMap { ask, .. }
        | CompileOp::Vmap { ask, .. } => match ask {
            CompileAsk::Key(key) => match compiled.keys.get(*key as usize) {
                Some(key) => &key.fields,
                None => &[],
            },
            CompileAsk::Wide(wide) => of_wide(*wide),
            CompileAsk::Narrow { field, .. } => slice::from_ref(field),
        },
        _ => &[],
    }
}

/// Returns the bits of the fields that a match or map reads.
pub fn looks_at(compiled: &Compiled, op: &CompileOp) -> u64 {
    let key = key_of(compiled, op).iter();
    key.fold(0, |bits, &field| bits | fields::bit(field))
}

/// Stores in step the values of the fields that a match or map reads. If a field has no value or several possible
/// values, and step.why is the reason for this or is `Differs`, stores only the first of these fields, in step.missing.
/// Does nothing for other statements.
pub fn note_values(compiled: &Compiled, fields: &Fields, op: &CompileOp, step: &mut DecideStep) {
    for &field in key_of(compiled, op) {
        if !fields::is_present(fields, field) {
            let why = why_not(not_present(fields, field));
            if step.why != DecideWhy::Differs && step.why != why {
                continue;
            }
            step.missing = Some(field);
            step.values_count = 0;
            return;
        }
        if let Some(value) = step.values.get_mut(step.values_count as usize) {
            *value = fields::value(fields, field);
            step.values_count += 1;
        }
    }
}
