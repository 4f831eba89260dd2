// SPDX-License-Identifier: GPL-2.0-or-later
//! Counters of a ledger, as text and as JSON, by the table of spec/counters.toml.

use std::fmt::Write as _;

use serde::{Serialize, Serializer};

use crate::spec::counter::{CounterText, CounterWord, Stats, COUNTER_WORDS};

/// Prints the counters that one line of the ledger's text lists, e.g. "gaps 0, overruns 0".
/// - text: the line: that of a queue, or of the policy.
pub fn print(out: &mut String, stats: &Stats, text: CounterText) {
    let words = COUNTER_WORDS.iter().zip(stats.words());
    let mut separator = "";
    for (word, count) in words.filter(|(word, _)| word.text == text) {
        let _ = write!(out, "{separator}{} {count}", word.key.replace('_', " "));
        separator = ", ";
    }
}

/// Prints the counts of malformed packets by reason, without zeros. Unreadable netlink messages are the last reason.
pub fn print_malformed(out: &mut String, stats: &Stats) {
    let words = COUNTER_WORDS.iter().zip(stats.words());
    let counted =
        words.filter(|(word, count)| word.shown && word.key == "malformed" && **count > 0);
    let mut separator = "";
    out.push_str("  malformed: ");
    for (word, count) in counted {
        let name = word.value.unwrap_or_default();
        let _ = write!(out, "{separator}{name} {count}");
        separator = ", ";
    }
    out.push_str(if separator.is_empty() { "none\n" } else { "\n" });
}

/// Counters under one key of the ledger's JSON object.
struct KeyObject<'a> {
    words: &'a [CounterWord],
    counts: &'a [u64],
}

impl Serialize for KeyObject<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if let ([CounterWord { value: None, .. }], [count]) = (self.words, self.counts) {
            return serializer.serialize_u64(*count);
        }
        let words = self.words.iter().zip(self.counts);
        let shown = words.filter(|(word, _)| word.shown);
        serializer.collect_map(shown.map(|(word, count)| (word.value.unwrap_or_default(), count)))
    }
}

/// Serializes the counters that the ledger shows, each under its key in the table of counters.
pub fn object<S: Serializer>(stats: &&Stats, serializer: S) -> Result<S::Ok, S::Error> {
    let counts: Vec<u64> = stats.words().copied().collect();
    let mut rest = counts.as_slice();
    let keys = COUNTER_WORDS.chunk_by(|one, next| one.key == next.key);
    serializer.collect_map(keys.map(|words| {
        let (counts, others) = rest.split_at(words.len());
        rest = others;
        (words[0].key, KeyObject { words, counts })
    }))
}
