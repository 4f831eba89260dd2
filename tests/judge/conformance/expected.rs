// SPDX-License-Identifier: GPL-2.0-or-later
//! Expected behaviour of the twins where they intentionally differ from the kernel: the third column of deviations.txt. In
//! all cases the twins agree with each other.

use anyhow::bail;

use crate::compare::Fate;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    /// At the first differing hook the twins act as --fail truncated specifies, in both modes of --fail, and the
    /// packets count as undecidable.
    Fail,
    /// The twins treat the packet as the kernel treats the same packet without the bytes after its IP header; no reject
    /// response is sent.
    Absent,
    /// The packet passes the same hooks with the same marks; the twins send a reject response, the kernel does not.
    Answered,
    /// The packet passes the same hooks with the same marks; the kernel sends a reject response, the twins do not.
    Unanswered,
    /// The packet passes the same hooks with the same marks; the reject responses differ.
    Answers,
    /// Every packet passes the same hooks with the same marks; counters differ in chains that can see the host's own
    /// packets.
    OwnCounters,
    /// nft loaded another rule than the policy's into the kernel, so the kernel's result says nothing about the twins.
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

/// Parses a column of the list of deviations: a word, a colon, and the word's explanation.
pub fn read(column: &str) -> anyhow::Result<Expected> {
    let word = column.split(':').next().unwrap_or_default().trim();
    match WORDS.iter().find(|(known, _)| *known == word) {
        Some((_, expected)) => Ok(*expected),
        None => bail!("nothing is expected by the word {word}"),
    }
}

/// Mode of --fail: true if undecidable packets pass.
pub type Open = bool;

/// Returns true if the twins' results for a packet are equal, and equal to the kernel's or different as expected. For
/// `Absent`, all results are those for the stand-in (the packet without the bytes after its IP header).
/// - open: mode of --fail; true if undecidable packets pass.
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

/// Returns true if the results agree up to some hook, where the twin accepted the packet if open and dropped it
/// otherwise. Hooks are in the order of a packet's path.
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
        // A dropped packet causes no response and reaches no further hook.
        false => by_twin.is_none() && (by_kernel.is_some() || twin.answers.is_empty()),
    }
}
