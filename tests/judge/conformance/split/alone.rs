// SPDX-License-Identifier: GPL-2.0-or-later
//! Packets that differ as a deviation says, sent once more alone.

use crate::answer::Answer;
use crate::cell::Shot;
use crate::compare::{differences, fate};
use crate::excuse::stand_in;

use super::deviations::After;
use super::side::{Case, Side, Unknown, OPEN, STRICT};
use super::Sitting;

/// Returns the packet to send: for `After::LeftOutIfAbsent` without the bytes after its IP header.
fn stand_in_of(shot: &Shot, after: After) -> Shot {
    match after {
        After::LeftOutIfAbsent => stand_in(shot),
        _ => shot.clone(),
    }
}

impl Sitting {
    /// Sends a packet alone. Returns the reason if it does not have the result that a deviation requires then.
    /// - answers: responses to the packet on the split side.
    pub(super) fn alone(
        &mut self,
        case: &Case,
        shot: &Shot,
        after: After,
        answers: &[Answer],
    ) -> anyhow::Result<Option<String>> {
        if after == After::SameIfOwn {
            let bare = fate(&self.sides[2].run_bare(shot)?.outcome, shot.number);
            let is_own = answers.iter().all(|answer| bare.answers.contains(answer));
            let text = format!("packet {}: the answer is not the host's own", shot.number);
            return Ok((!is_own).then_some(text));
        }
        let treatments: &[Unknown] = match after {
            After::LeftOutIfUnknown => &[OPEN, STRICT],
            _ => &[case.unknown],
        };
        let absent = stand_in_of(shot, after);
        let shots = std::slice::from_ref(&absent);
        let names: Vec<&'static str> = self.sides.iter().map(Side::name).collect();
        let mut wrong = None;
        for unknown in treatments {
            let case = Case {
                unknown: *unknown,
                ..*case
            };
            let reports = match self.run(&case, shots)? {
                Ok(reports) => reports,
                Err(refused) => return Ok(Some(refused)),
            };
            let outcomes: Vec<_> = reports.into_iter().map(|one| one.outcome).collect();
            let found = differences(&names, &outcomes, shots);
            match found.iter().find(|one| one.number.is_some()) {
                None => return Ok(None),
                Some(one) => wrong = Some(format!("alone, {}", one.text)),
            }
        }
        Ok(wrong)
    }
}
