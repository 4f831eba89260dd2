// SPDX-License-Identifier: GPL-2.0-or-later
//! Packets that differ as a deviation says, sent once more alone.

use std::fs;
use std::thread;

use crate::answer::Answer;
use crate::cell::Shot;
use crate::compare::{differences, fate};
use crate::excuse::stand_in;

use super::deviations::{adds_errors, After};
use super::side::{Case, Side};
use super::Sitting;

/// Returns the packet to send alone: for `After::LeftOutIfAbsent` its stand-in (the IP headers), otherwise the whole
/// packet.
fn stand_in_of(shot: &Shot, after: After) -> Shot {
    match after {
        After::LeftOutIfAbsent => stand_in(shot),
        _ => shot.clone(),
    }
}

impl Sitting {
    /// Sends a packet after the earlier packets of its connection, with some rules removed from the whole policy.
    /// Returns the reason if the packet does not have the same result on both sides. The split side may add the host's
    /// own ICMP errors.
    /// - shots: the earlier packets, followed by the packet whose results are compared.
    /// - is_rule: returns true for the text of the rules that are removed.
    pub(super) fn without(
        &mut self,
        case: &Case,
        shots: &[Shot],
        is_rule: fn(&str) -> bool,
    ) -> anyhow::Result<Option<String>> {
        let lines = case.text.split_inclusive('\n');
        let text: String = lines.filter(|line| !is_rule(line)).collect();
        let policy = self.folder.join("without.nft");
        fs::write(&policy, &text)?;
        let fewer = Case {
            policy: &policy,
            text: &text,
            ..*case
        };
        let reports = match self.run(&fewer, shots)? {
            Ok(reports) => reports,
            Err(refused) => return Ok(Some(refused)),
        };
        let names: Vec<&'static str> = self.sides.iter().map(Side::name).collect();
        let outcomes: Vec<_> = reports.into_iter().map(|one| one.outcome).collect();
        let found = differences(&names, &outcomes, shots);
        let Some(last) = shots.last() else {
            return Ok(None);
        };
        let mut own = found.iter().filter(|one| one.number == Some(last.number));
        let Some(first) = own.next() else {
            return Ok(None);
        };
        let [whole, split] = [0, 2].map(|side| fate(&outcomes[side], last.number));
        if adds_errors(&whole, &split) {
            return self.alone(case, last, After::SameIfOwn, &split.answers);
        }
        Ok(Some(format!("without rules, {}", first.text)))
    }

    /// Sends a packet alone. Returns the reason if it does not have the result that a deviation requires for a packet
    /// sent alone.
    /// - answers: responses to the packet on the split side.
    pub(super) fn alone(
        &mut self,
        case: &Case,
        shot: &Shot,
        after: After,
        answers: &[Answer],
    ) -> anyhow::Result<Option<String>> {
        if after == After::SameIfOwn {
            let side = &mut self.sides[2];
            let run = thread::scope(|scope| scope.spawn(|| side.run_bare(shot)).join());
            let bare = fate(&run.expect("a run does not panic")?.outcome, shot.number);
            let is_own = answers.iter().all(|answer| bare.answers.contains(answer));
            let text = format!("packet {}: the answer is not the host's own", shot.number);
            return Ok((!is_own).then_some(text));
        }
        let absent = stand_in_of(shot, after);
        let shots = std::slice::from_ref(&absent);
        let names: Vec<&'static str> = self.sides.iter().map(Side::name).collect();
        let reports = match self.run(case, shots)? {
            Ok(reports) => reports,
            Err(refused) => return Ok(Some(refused)),
        };
        let outcomes: Vec<_> = reports.into_iter().map(|one| one.outcome).collect();
        let found = differences(&names, &outcomes, shots);
        let [whole, split] = [0, 2].map(|side| fate(&outcomes[side], shot.number));
        let is_within = |hook| whole.passed.contains(hook);
        let is_dropped = split.is_stopped() && split.passed.iter().all(is_within);
        // The name stage drops an IPv6 packet whose protocol is hidden.
        let is_ipv6 = shot.bytes.first().is_some_and(|first| first >> 4 == 6);
        if after == After::LeftOutIfAbsent && is_ipv6 && is_dropped && split.answers.is_empty() {
            return Ok(None);
        }
        let mut own = found.iter().filter(|one| one.number.is_some());
        Ok(own.next().map(|one| format!("alone, {}", one.text)))
    }
}
