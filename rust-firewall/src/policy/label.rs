// SPDX-License-Identifier: GPL-2.0-or-later
//! Conversion of labels with non-ASCII letters to A-labels (RFC 5890).
//!
//! Theory of operation: both twins have the same table of letters (spec/letter), which holds only letters that UTS 46
//! leaves unchanged, and capital letters. Nothing is normalised: a label that is not in Normalization Form C (UAX 15),
//! or that has a letter outside the table, is refused. So a label is either stored exactly as every client sends it, or
//! not at all, whatever version of Unicode the client has.

use arrayvec::{ArrayString, ArrayVec};

use crate::names::HOST_BYTES;
use crate::spec::letter::{LETTER_CAPITALS, LETTER_PAIRS, LETTER_RUNS};

/// Maximum length of a label (RFC 1035, section 2.3.4).
pub const LABEL_BYTES: usize = 63;
/// Maximum length of a name with a final dot.
pub const NAME_BYTES: usize = HOST_BYTES + 1;

pub const TOO_LONG: &str = "longer than the 253 bytes of a host's name";
pub const LABEL_TOO_LONG: &str = "a label of more than 63 bytes";
const UNKNOWN: &str =
    "names can't be written with this character here: write the name as in DNS, \"xn--...\"";

/// Parameters of Punycode (RFC 3492, section 5).
const BASE: u32 = 36;
const LEAST: u32 = 1;
const MOST: u32 = 26;
const SKEW: u32 = 38;
const DAMP: u32 = 700;
const BIAS: u32 = 72;
const FIRST: u32 = 128;

/// Returns the small letter for a capital letter; other characters unchanged.
fn small(letter: u32) -> u32 {
    let behind = LETTER_CAPITALS.partition_point(|some| some.first <= letter);
    let some = behind.checked_sub(1).and_then(|i| LETTER_CAPITALS.get(i));
    match some {
        Some(some) if letter <= some.last && (letter - some.first) % some.step == 0 => {
            letter.wrapping_add_signed(some.offset)
        }
        _ => match char::from_u32(letter) {
            Some(ascii) => ascii.to_ascii_lowercase().into(),
            None => letter,
        },
    }
}

/// Returns the canonical combining class of an ASCII character or a letter of the table; None for other characters.
fn class_of(letter: u32) -> Option<u8> {
    if letter < FIRST {
        return Some(0);
    }
    let behind = LETTER_RUNS.partition_point(|run| run.first <= letter);
    let run = LETTER_RUNS.get(behind.checked_sub(1)?)?;
    (letter <= run.last).then_some(run.class)
}

/// Returns true if Normalization Form C replaces these two adjacent characters by a single letter.
fn is_pair(first: u32, second: u32) -> bool {
    LETTER_PAIRS
        .iter()
        .any(|pair| pair.second == second && pair.first == first)
}

/// Returns the letters of a label, as small letters. Fails if a letter is not allowed, or if there are too many.
fn decode_letters(text: &str) -> Result<ArrayVec<u32, LABEL_BYTES>, &'static str> {
    let mut letters = ArrayVec::new();
    let (mut before, mut before_class) = (0, 0);
    for letter in text.chars() {
        let letter = small(letter.into());
        let class = class_of(letter).ok_or(UNKNOWN)?;
        if class > 0 && class < before_class || is_pair(before, letter) {
            return Err(UNKNOWN);
        }
        letters.try_push(letter).map_err(|_| LABEL_TOO_LONG)?;
        (before, before_class) = (letter, class);
    }
    Ok(letters)
}

/// Returns the bias after a delta (RFC 3492, section 6.1).
fn adapt(delta: u32, count: u32, is_first: bool) -> u32 {
    let mut delta = if is_first { delta / DAMP } else { delta / 2 };
    let mut bias = 0;
    delta += delta / count;
    while delta > (BASE - LEAST) * MOST / 2 {
        delta /= BASE - LEAST;
        bias += BASE;
    }
    bias + (BASE - LEAST + 1) * delta / (delta + SKEW)
}

/// Appends a character to a label.
fn append_byte(label: &mut ArrayString<LABEL_BYTES>, byte: u8) -> Result<(), &'static str> {
    label.try_push(byte.into()).map_err(|_| LABEL_TOO_LONG)
}

/// Appends a digit of Punycode to a label.
fn append_digit(label: &mut ArrayString<LABEL_BYTES>, digit: u32) -> Result<(), &'static str> {
    let digit = digit as u8;
    append_byte(
        label,
        if digit < 26 {
            b'a' + digit
        } else {
            b'0' + digit - 26
        },
    )
}

/// Appends a delta to a label, as digits of Punycode (RFC 3492, section 3.3).
fn append_delta(
    label: &mut ArrayString<LABEL_BYTES>,
    mut delta: u32,
    bias: u32,
) -> Result<(), &'static str> {
    let mut k = BASE;
    loop {
        let threshold = k.saturating_sub(bias).clamp(LEAST, MOST);
        if delta < threshold {
            return append_digit(label, delta);
        }
        let rest = delta - threshold;
        append_digit(label, threshold + rest % (BASE - threshold))?;
        delta = rest / (BASE - threshold);
        k += BASE;
    }
}

/// Appends letters to a label as Punycode (RFC 3492, section 6.3).
fn encode(letters: &[u32], label: &mut ArrayString<LABEL_BYTES>) -> Result<(), &'static str> {
    let mut done = 0;
    let (mut delta, mut bias, mut next) = (0, BIAS, FIRST);
    for letter in letters.iter().filter(|letter| **letter < FIRST) {
        append_byte(label, *letter as u8)?;
        done += 1;
    }
    let basic = done;
    if basic > 0 {
        append_byte(label, b'-')?;
    }
    while (done as usize) < letters.len() {
        let least = letters.iter().filter(|letter| **letter >= next).min();
        let least = least.copied().unwrap_or(next);
        delta += (least - next) * (done + 1);
        next = least;
        for letter in letters {
            if *letter < next {
                delta += 1;
            }
            if *letter == next {
                append_delta(label, delta, bias)?;
                bias = adapt(delta, done + 1, done == basic);
                delta = 0;
                done += 1;
            }
        }
        delta += 1;
        next += 1;
    }
    Ok(())
}

/// Converts each label of a name to an A-label if it has non-ASCII letters. Fails with the cause, for the message of
/// `Lexer::wrong`.
pub fn to_ascii(text: &str) -> Result<ArrayString<NAME_BYTES>, &'static str> {
    let mut name = ArrayString::new();
    for (i, part) in text.split('.').enumerate() {
        let mut label = ArrayString::from("xn--").map_err(|_| LABEL_TOO_LONG)?;
        let part = match part.is_ascii() {
            true => part,
            false => {
                encode(&decode_letters(part)?, &mut label)?;
                &label
            }
        };
        let dot = if i > 0 { "." } else { "" };
        name.try_push_str(dot).map_err(|_| TOO_LONG)?;
        name.try_push_str(part).map_err(|_| TOO_LONG)?;
    }
    Ok(name)
}
