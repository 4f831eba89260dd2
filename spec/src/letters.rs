// SPDX-License-Identifier: GPL-2.0-or-later
//! Non-ASCII letters of host names, according to UTS 46, where a label needs no normalisation.
//!
//! A label of these letters is in form C (UAX 15) if its combining classes don't decrease within a run of marks and
//! none of its pairs composes. Excluded are letters that UTS 46 maps to anything but themselves or their small letter,
//! and marks that compose with a preceding letter. Not excluded are second halves of vowels that are starters (class 0;
//! in Bengali, Tamil and similar scripts): `pairs` lists their compositions.

use std::collections::BTreeSet;

use icu_normalizer::properties::{
    CanonicalCombiningClassMapBorrowed, CanonicalCompositionBorrowed,
    CanonicalDecompositionBorrowed, Decomposed,
};
use icu_normalizer::uts46::Uts46MapperBorrowed;
use serde::Serialize;

/// The joiners, which names may contain in a few contexts only (RFC 5892, appendix A), and the capital sharp s, which
/// older programs write as "ss" and newer ones as one letter.
const UNSETTLED: [char; 3] = ['\u{200c}', '\u{200d}', '\u{1e9e}'];

/// Consecutive characters of one canonical combining class.
#[derive(Debug, PartialEq, Serialize)]
pub struct Run {
    pub first: u32,
    pub last: u32,
    pub class: u8,
}

/// Capitals at a fixed distance of code points, and the offset to their small letters.
#[derive(Debug, PartialEq, Serialize)]
pub struct Capitals {
    pub first: u32,
    pub last: u32,
    pub step: u32,
    pub offset: i64,
}

/// Two letters that compose to a third.
#[derive(Debug, PartialEq, Serialize)]
pub struct Pair {
    pub first: u32,
    pub second: u32,
}

#[derive(Serialize)]
pub struct Letters {
    pub runs: Vec<Run>,
    pub capitals: Vec<Capitals>,
    pub pairs: Vec<Pair>,
}

/// Returns every non-ASCII character except those in UNSETTLED.
fn others() -> impl Iterator<Item = char> {
    ('\u{80}'..=char::MAX).filter(|letter| !UNSETTLED.contains(letter))
}

/// Returns the small letter to which UTS 46 maps a character, which may be the character itself. None if UTS 46 does
/// not allow the character, or maps it to several letters, to ASCII, or to a letter that is not its small letter.
fn small(letter: char) -> Option<char> {
    let mapper = Uts46MapperBorrowed::new();
    let mut mapped = mapper.map_normalize(std::iter::once(letter));
    let small = mapped.next()?;
    let is_small = small == letter || letter.to_lowercase().eq([small]);
    let is_other = !small.is_ascii() && small != char::REPLACEMENT_CHARACTER;
    (mapped.next().is_none() && is_small && is_other).then_some(small)
}

/// Returns the pairs of letters that compose, with their composition.
fn pairs() -> Vec<(char, Pair)> {
    let decomposition = CanonicalDecompositionBorrowed::new();
    let pair = |letter| match decomposition.decompose(letter) {
        Decomposed::Expansion(first, second)
            if CanonicalCompositionBorrowed::new().compose(first, second) == Some(letter) =>
        {
            let (first, second) = (first.into(), second.into());
            Some((letter, Pair { first, second }))
        }
        _ => None,
    };
    others().filter_map(pair).collect()
}

/// Returns true if a character is a Hangul syllable. The table omits the vowels and final consonants of which these
/// syllables are composed: there are thousands of pairs, and Hangul is written in syllables.
fn is_hangul(letter: char) -> bool {
    ('\u{ac00}'..='\u{d7a3}').contains(&letter)
}

/// Adds a letter to the last run if it follows the run's last letter and has its class; otherwise begins a run.
fn add_letter(runs: &mut Vec<Run>, letter: u32, class: u8) {
    match runs.last_mut() {
        Some(run) if run.last + 1 == letter && run.class == class => run.last = letter,
        _ => runs.push(Run {
            first: letter,
            last: letter,
            class,
        }),
    }
}

/// Adds a capital to the last run if it has the run's distance (one or two code points) and offset; otherwise begins a
/// run.
fn add_capital(all: &mut Vec<Capitals>, letter: u32, offset: i64) {
    let step = all.last().map_or(0, |capitals| letter - capitals.last);
    match all.last_mut() {
        Some(capitals)
            if capitals.offset == offset
                && step <= 2
                && (capitals.first == capitals.last || capitals.step == step) =>
        {
            (capitals.last, capitals.step) = (letter, step);
        }
        _ => all.push(Capitals {
            first: letter,
            last: letter,
            step: 1,
            offset,
        }),
    }
}

/// Makes the table of letters from the Unicode data of icu_normalizer.
pub fn make() -> Letters {
    let class = |letter| CanonicalCombiningClassMapBorrowed::new().get_u8(letter);
    let pairs = pairs();
    let left_out: BTreeSet<char> = pairs
        .iter()
        .filter_map(|(made, pair)| {
            let second = char::from_u32(pair.second)?;
            (is_hangul(*made) || class(second) > 0).then_some(second)
        })
        .collect();
    let mut letters = Letters {
        runs: Vec::new(),
        capitals: Vec::new(),
        pairs: Vec::new(),
    };
    for letter in others() {
        let Some(small) = small(letter).filter(|small| !left_out.contains(small)) else {
            continue;
        };
        add_letter(&mut letters.runs, letter.into(), class(small));
        if small != letter {
            let offset = i64::from(u32::from(small)) - i64::from(u32::from(letter));
            add_capital(&mut letters.capitals, letter.into(), offset);
        }
    }
    let is_kept = |(made, pair): &(char, Pair)| {
        !is_hangul(*made) && char::from_u32(pair.second).is_some_and(|second| class(second) == 0)
    };
    let kept = pairs.into_iter().filter(is_kept).map(|(_, pair)| pair);
    letters.pairs = kept.collect();
    letters.pairs.sort_by_key(|pair| (pair.second, pair.first));
    letters
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holds(letters: &Letters, letter: char) -> bool {
        let is_in = |run: &Run| (run.first..=run.last).contains(&u32::from(letter));
        letters.runs.iter().any(is_in)
    }

    #[test]
    fn letters_are_taken_in_either_case_and_other_forms_are_not() {
        let letters = make();
        for letter in "éÉßжЖ例भாক한".chars() {
            assert!(holds(&letters, letter), "{letter}");
        }
        for letter in "ﬁａ\u{212a}\u{200d}\u{ad}\u{301}ẞ\u{1161}\u{f900}\u{3002}".chars() {
            assert!(!holds(&letters, letter), "{letter:?}");
        }
    }

    #[test]
    fn every_other_capital_is_one_entry() {
        let mut all = Vec::new();
        for letter in [0x100, 0x102, 0x104, 0x110, 0x111] {
            add_capital(&mut all, letter, 1);
        }
        let ends = all.iter().map(|some| (some.first, some.last, some.step));
        assert!(ends.eq([(0x100, 0x104, 2), (0x110, 0x111, 1)]));
    }
}
