// SPDX-License-Identifier: GPL-2.0-or-later
//! A set of numbers below a length, as text: the unanswered targets of an interrupted SYN scan, which may be thousands of
//! millions in any pattern. It stores the lengths of runs, alternating between numbers inside and outside, as Elias gamma
//! codes (Elias 1975), six bits per character. A long run needs a few characters; the text needs at most a quarter of a
//! character per number.

use std::ops::Range;

use serde::{Deserialize, Serialize};

const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
const BITS_A_LETTER: u32 = 6;

#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Runs(String);

impl Runs {
    /// Encodes a set.
    /// - inside: flag of each number, beginning with number 0; at least one flag.
    pub fn of(inside: impl Iterator<Item = bool>) -> Runs {
        let mut bits = Writer::default();
        let mut run: Option<(bool, u64)> = None;
        for is_inside in inside {
            run = match run {
                None => {
                    bits.push(is_inside);
                    Some((is_inside, 1))
                }
                Some((kind, length)) if kind == is_inside => Some((kind, length + 1)),
                Some((_, length)) => {
                    bits.gamma(length);
                    Some((is_inside, 1))
                }
            };
        }
        if let Some((_, length)) = run {
            bits.gamma(length);
        }
        Runs(bits.end())
    }

    /// Passes each run of successive numbers in the set to `take`. Returns None if the text does not encode a set below
    /// `len`; some runs may have been passed before.
    pub fn each(&self, len: u64, mut take: impl FnMut(Range<u64>)) -> Option<()> {
        let mut bits = Reader {
            letters: self.0.as_bytes().iter(),
            letter: 0,
            left: 0,
        };
        let mut is_inside = bits.next()?;
        let mut at = 0;
        while at < len {
            let end = at.checked_add(bits.gamma()?).filter(|&end| end <= len)?;
            if is_inside {
                take(at..end);
            }
            (at, is_inside) = (end, !is_inside);
        }
        bits.is_at_end().then_some(())
    }

    /// Returns the number of members; None if the text does not encode a set below `len`.
    pub fn count(&self, len: u64) -> Option<u64> {
        let mut count = 0;
        self.each(len, |run| count += run.end - run.start)?;
        Some(count)
    }
}

#[derive(Default)]
struct Writer {
    text: String,
    letter: u8,
    filled: u32,
}

impl Writer {
    fn push(&mut self, bit: bool) {
        self.letter = self.letter << 1 | u8::from(bit);
        self.filled += 1;
        if self.filled == BITS_A_LETTER {
            self.text
                .push(char::from(LETTERS[usize::from(self.letter)]));
            (self.letter, self.filled) = (0, 0);
        }
    }

    /// Appends a gamma code: as many zeros as the number has bits after the first, then the number.
    fn gamma(&mut self, number: u64) {
        let beyond = number.ilog2();
        (0..beyond).for_each(|_| self.push(false));
        (0..=beyond)
            .rev()
            .for_each(|bit| self.push(number >> bit & 1 == 1));
    }

    fn end(mut self) -> String {
        while self.filled != 0 {
            self.push(false);
        }
        self.text
    }
}

struct Reader<'a> {
    letters: std::slice::Iter<'a, u8>,
    letter: u8,
    left: u32,
}

impl Reader<'_> {
    fn next(&mut self) -> Option<bool> {
        if self.left == 0 {
            self.letter = match *self.letters.next()? {
                letter @ b'A'..=b'Z' => letter - b'A',
                letter @ b'a'..=b'z' => letter - b'a' + 26,
                letter @ b'0'..=b'9' => letter - b'0' + 52,
                b'-' => 62,
                b'_' => 63,
                _ => return None,
            };
            self.left = BITS_A_LETTER;
        }
        self.left -= 1;
        Some(self.letter >> self.left & 1 == 1)
    }

    fn gamma(&mut self) -> Option<u64> {
        let mut beyond = 0;
        while !self.next()? {
            beyond += 1;
        }
        let mut number = 1u64;
        for _ in 0..beyond {
            number = number.checked_mul(2)? | u64::from(self.next()?);
        }
        Some(number)
    }

    /// Returns true if only padding zeros of the last letter are left.
    fn is_at_end(&self) -> bool {
        self.letters.len() == 0 && self.letter & ((1 << self.left) - 1) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn members(runs: &Runs, len: u64) -> Option<Vec<bool>> {
        let mut inside = vec![false; len as usize];
        runs.each(len, |run| {
            inside[run.start as usize..run.end as usize].fill(true)
        })?;
        Some(inside)
    }

    fn patterns() -> Vec<Vec<bool>> {
        let noise = |odds: u64| {
            (0..5000u64)
                .map(|at| (at * at * 2_654_435_761) >> 7 & 15 < odds)
                .collect()
        };
        let mut all: Vec<Vec<bool>> = (1..16).map(noise).collect();
        for len in 1..70 {
            all.push(vec![true; len]);
            all.push(vec![false; len]);
            all.push((0..len).map(|at| at % 2 == 0).collect());
            all.push((0..len).map(|at| at + 1 == len).collect());
        }
        all
    }

    #[test]
    fn what_is_written_is_read() {
        for inside in patterns() {
            let len = inside.len() as u64;
            let runs = Runs::of(inside.iter().copied());
            assert_eq!(members(&runs, len).as_ref(), Some(&inside), "{runs:?}");
            let count = inside.iter().filter(|&&one| one).count() as u64;
            assert_eq!(runs.count(len), Some(count));
            assert!(runs.0.len() <= inside.len() / 4 + 2, "{}", runs.0.len());
        }
    }

    #[test]
    fn a_long_silence_is_short() {
        let runs = Runs::of((0..1 << 20).map(|at| at != 77));
        assert!(runs.0.len() < 15, "{runs:?}");
    }

    #[test]
    fn a_text_of_another_length_is_refused() {
        for inside in patterns() {
            let len = inside.len() as u64;
            let runs = Runs::of(inside.into_iter());
            assert_eq!(runs.count(len + 1), None, "{runs:?}");
            assert_eq!(runs.count(len - 1), None, "{runs:?}");
            let (cut, more) = (&runs.0[..runs.0.len() - 1], format!("{}A", runs.0));
            assert_eq!(Runs(cut.into()).count(len), None);
            assert_eq!(Runs(more).count(len), None);
        }
        for text in ["", "A", "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA", "?", "é"] {
            assert_eq!(Runs(text.into()).count(100), None, "{text}");
        }
    }
}
