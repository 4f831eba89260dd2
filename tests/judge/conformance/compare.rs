// SPDX-License-Identifier: GPL-2.0-or-later
//! Differences between the outcomes of subjects, each with a line of text.

use std::collections::HashMap;

use twinwall_judge::tree::Hook;

use crate::answer::Answer;
use crate::cell::Shot;
use crate::subject::Outcome;

pub struct Difference {
    /// Number of the packet; None if the counters differ.
    pub number: Option<u32>,
    /// Index of the counter, from 0; None if packets or the number of counters differ.
    pub counter: Option<usize>,
    pub text: String,
}

/// Result of a packet with one subject.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fate {
    /// Hooks that the packet passed, in order, with its mark at that time.
    pub passed: Vec<(Hook, u32)>,
    pub answers: Vec<Answer>,
}

impl Fate {
    /// Returns true if the packet did not pass its last hook.
    pub fn is_stopped(&self) -> bool {
        let is_last = |hook: &Hook| matches!(hook, Hook::Input | Hook::Postrouting);
        !self.passed.iter().any(|(hook, _)| is_last(hook))
    }
}

pub fn fate(outcome: &Outcome, number: u32) -> Fate {
    let mut passed = outcome.passed.get(&number).cloned().unwrap_or_default();
    let mut answers = outcome.answers.get(&number).cloned().unwrap_or_default();
    passed.sort_unstable();
    answers.sort_unstable();
    Fate { passed, answers }
}

fn fate_text(fate: &Fate) -> String {
    let mut words: Vec<String> = fate
        .passed
        .iter()
        .map(|(hook, mark)| match mark {
            0 => format!("passed {}", hook.text()),
            _ => format!("passed {} with mark {mark:#x}", hook.text()),
        })
        .collect();
    words.extend(
        fate.answers
            .iter()
            .map(|answer| format!("answered ({})", answer.0)),
    );
    if words.is_empty() {
        words.push("dropped".to_string());
    }
    words.join(", ")
}

/// Formats the subjects' results as `a and b: WHAT; c: WHAT`.
fn by_what(names: &[&str], what: &[String]) -> String {
    let mut groups: Vec<(&String, Vec<&str>)> = Vec::new();
    for (name, what) in names.iter().zip(what) {
        match groups.iter_mut().find(|(known, _)| *known == what) {
            Some((_, names)) => names.push(name),
            None => groups.push((what, vec![name])),
        }
    }
    let texts: Vec<String> = groups
        .iter()
        .map(|(what, names)| format!("{}: {what}", names.join(" and ")))
        .collect();
    texts.join("; ")
}

fn all_equal<T: PartialEq>(items: &[T]) -> bool {
    items.windows(2).all(|pair| pair[0] == pair[1])
}

/// Returns all differences; those of packets come first.
/// - names: names of the subjects, in the order of their outcomes.
pub fn differences(names: &[&str], outcomes: &[Outcome], shots: &[Shot]) -> Vec<Difference> {
    let mut found = Vec::new();
    for shot in shots {
        let fates: Vec<_> = outcomes
            .iter()
            .map(|outcome| fate(outcome, shot.number))
            .collect();
        if !all_equal(&fates) {
            let texts: Vec<String> = fates.iter().map(fate_text).collect();
            let text = format!(
                "packet {} by {}: {}",
                shot.number,
                shot.way.text(),
                by_what(names, &texts)
            );
            found.push(Difference {
                number: Some(shot.number),
                counter: None,
                text,
            });
        }
    }
    let counts: Vec<usize> = outcomes
        .iter()
        .map(|outcome| outcome.counters.len())
        .collect();
    if !all_equal(&counts) {
        let texts: Vec<String> = counts
            .iter()
            .map(|count| format!("{count} counters"))
            .collect();
        let text = by_what(names, &texts);
        found.push(Difference {
            number: None,
            counter: None,
            text,
        });
        return found;
    }
    for index in 0..counts.first().copied().unwrap_or(0) {
        let values: Vec<_> = outcomes
            .iter()
            .map(|outcome| outcome.counters[index])
            .collect();
        if !all_equal(&values) {
            let texts: Vec<String> = values
                .iter()
                .map(|(packets, bytes)| format!("packets {packets} bytes {bytes}"))
                .collect();
            let text = format!("counter {}: {}", index + 1, by_what(names, &texts));
            found.push(Difference {
                number: None,
                counter: Some(index),
                text,
            });
        }
    }
    found
}

/// Numbers of policies, packets, and packets by result, for the last line of output.
#[derive(Default)]
pub struct Tally {
    pub policies: u64,
    pub packets: u64,
    pub fates: HashMap<&'static str, u64>,
}

impl Tally {
    pub fn add(&mut self, outcome: &Outcome, shots: &[Shot]) {
        self.policies += 1;
        self.packets += shots.len() as u64;
        for shot in shots {
            let Fate { passed, answers } = fate(outcome, shot.number);
            let name = match (passed.is_empty(), answers.is_empty()) {
                (_, false) => "answered",
                (true, true) => "dropped",
                (false, true) if passed.iter().any(|(_, mark)| *mark != shot.mark) => "marked",
                (false, true) => "passed",
            };
            *self.fates.entry(name).or_default() += 1;
        }
    }

    pub fn text(&self) -> String {
        let mut fates: Vec<String> = self
            .fates
            .iter()
            .map(|(name, count)| format!("{count} {name}"))
            .collect();
        fates.sort_unstable();
        format!(
            "{} policies, {} packets: {}",
            self.policies,
            self.packets,
            fates.join(", ")
        )
    }
}
