// SPDX-License-Identifier: GPL-2.0-or-later
//! What is expected of the twins where they are meant to differ from the kernel: the third column of deviations.txt.
//! Whatever is expected, the twins agree with each other.

use anyhow::bail;

use crate::compare::Fate;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    /// The first hook where they differ has done as --fail truncated says, in both modes, and the packets count as
    /// undecidable.
    Fail,
    /// The packet goes the way of the same packet without what stands behind its IP header, by the kernel; it is not
    /// answered.
    Absent,
    /// The packet goes the same way with the same marks; the twins answer it, the kernel does not.
    Answered,
    /// The packet goes the same way with the same marks; the kernel answers it, the twins do not.
    Unanswered,
    /// The packet goes the same way with the same marks; the answers differ.
    Answers,
    /// Every packet goes the same way with the same marks; counters differ in chains that can see what the host sends.
    OwnCounters,
    /// nft gave the kernel another rule, which says nothing of the twins.
    Nft,
}

const WORDS: [(&str, Expected); 7] = [
    ("fail", Expected::Fail),
    ("absent", Expected::Absent),
    ("answered", Expected::Answered),
    ("unanswered", Expected::Unanswered),
    ("answers", Expected::Answers),
    ("own counters", Expected::OwnCounters),
    ("nft", Expected::Nft),
];

/// Reads the column: the word, a colon, and what it means.
pub fn read(column: &str) -> anyhow::Result<Expected> {
    let word = column.split(':').next().unwrap_or_default().trim();
    match WORDS.iter().find(|(known, _)| *known == word) {
        Some((_, expected)) => Ok(*expected),
        None => bail!("nothing is expected by the word {word}"),
    }
}

/// How the mode decides: whether packets that can't be decided pass.
pub type Open = bool;

/// Whether a packet's fates are as expected. Of `Absent`, the kernel's is that of the stand-in.
pub fn holds(expected: Expected, kernel: &Fate, twins: &[Fate], open: Open) -> bool {
    twins.windows(2).all(|pair| pair[0] == pair[1])
        && twins
            .iter()
            .all(|twin| twin == kernel || differs_as_expected(expected, kernel, twin, open))
}

fn differs_as_expected(expected: Expected, kernel: &Fate, twin: &Fate, open: Open) -> bool {
    let same_way = kernel.passed == twin.passed;
    let within = |few: &Fate, many: &Fate| few.answers.iter().all(|one| many.answers.contains(one));
    match expected {
        Expected::Fail => fails(kernel, twin, open),
        Expected::OwnCounters => false,
        Expected::Answered => same_way && within(kernel, twin),
        Expected::Unanswered => same_way && within(twin, kernel),
        Expected::Answers | Expected::Absent => same_way,
        Expected::Nft => true,
    }
}

/// Up to some hook all is the same; there, the twin let the packet pass if open, else stopped it. Hooks are in the order
/// of a packet's way.
fn fails(kernel: &Fate, twin: &Fate, open: Open) -> bool {
    let same = kernel
        .passed
        .iter()
        .zip(&twin.passed)
        .take_while(|(one, other)| one == other)
        .count();
    let (by_kernel, by_twin) = (kernel.passed.get(same), twin.passed.get(same));
    match open {
        true => by_twin.is_some(),
        // A packet that is dropped leaves no answer, and comes to no further hook.
        false => by_twin.is_none() && (by_kernel.is_some() || twin.answers.is_empty()),
    }
}
