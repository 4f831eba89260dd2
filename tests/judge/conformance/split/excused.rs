// SPDX-License-Identifier: GPL-2.0-or-later
//! Comparison of differences with the deviations.

use std::collections::{BTreeMap, BTreeSet};

use crate::cell::Shot;
use crate::compare::{fate, Difference};
use crate::deviations as of_kernel;

use super::deviations::{self, After, Differing};
use super::sequence::Act;
use super::side::{self, Case, Report};
use super::uncounted::{authenticated, denied, lost, reused, stopped, unasked};
use super::Sitting;

/// Result of comparing the differences with the known deviations.
#[derive(Default)]
pub struct Excused {
    /// Numbers of the packets to leave out.
    pub left_out: BTreeSet<u32>,
    /// Effects of the deviations of packets that must be sent again to check them (see [`After`]), by packet number.
    pub alone: BTreeMap<u32, After>,
    /// The first difference that is not expected.
    pub wrong: Option<String>,
}

impl Sitting {
    /// Compares differences with the deviations.
    pub(super) fn excuse(
        &mut self,
        case: &Case,
        acts: &[Act],
        reports: &[Report],
        found: &[Difference],
    ) -> anyhow::Result<Excused> {
        let differ: BTreeMap<u32, &Difference> = found
            .iter()
            .filter_map(|one| Some((one.number?, one)))
            .collect();
        let (unasked, reused) = (unasked(acts, reports), reused(acts));
        let (mut excused, mut denied) = (Excused::default(), BTreeSet::new());
        let mut ended = BTreeSet::new();
        for act in acts {
            let number = act.shot.number;
            let fates: Vec<_> = reports
                .iter()
                .map(|one| fate(&one.outcome, number))
                .collect();
            if act.connection.is_some_and(|one| ended.contains(&one)) {
                excused.left_out.insert(number);
                continue;
            }
            if let Some(difference) = differ.get(&number) {
                let alike = fates[0] == fates[1] && fates[2] == fates[3];
                let differing = Differing {
                    policy: case.text,
                    act,
                    whole: &fates[0],
                    split: &fates[2],
                    is_lost: reports[2].lost.contains(&number),
                    is_asked: reports[2].asked.contains(&number),
                    is_denied: act.connection.is_some_and(|one| denied.contains(&one)),
                    is_unasked: unasked.contains(&number),
                    is_id_reused: reused.contains(&number),
                };
                let after = match alike {
                    true => deviations::excuse(&mut self.own, &mut self.of_kernel, &differing),
                    false => None,
                };
                match after {
                    Some(After::Same) => {}
                    Some(After::SameIfOwn) => {
                        excused.alone.insert(number, After::SameIfOwn);
                    }
                    Some(after) => {
                        excused.left_out.insert(number);
                        ended.extend(act.connection);
                        if after != After::LeftOut {
                            excused.alone.insert(number, after);
                        }
                    }
                    None => excused.wrong = excused.wrong.or(Some(difference.text.clone())),
                }
            }
            if fates[0].is_stopped() && fates[2].is_stopped() {
                denied.extend(act.connection);
            }
        }
        if !excused.left_out.is_empty() {
            return Ok(excused);
        }
        let has_limits = ["limit ", "quota "]
            .iter()
            .any(|word| case.text.contains(word));
        match excused.wrong {
            None => return self.excuse_counters(case, acts, reports, found),
            Some(_) if has_limits => excused.left_out = self.uncounted(acts, reports),
            Some(_) => {}
        }
        Ok(excused)
    }

    /// Returns the packets that only one side counts because of a deviation, and adds their number to the deviation:
    /// those of the first deviation that has such packets. A limit or quota that counts them decides later packets.
    fn uncounted(&mut self, acts: &[Act], reports: &[Report]) -> BTreeSet<u32> {
        let all = [
            (deviations::NO_CONNECTION, lost(acts, reports)),
            (deviations::DENIED, denied(acts, reports)),
            (deviations::AUTHENTICATED, authenticated(acts, reports)),
            (deviations::BOTH_WAYS, stopped(acts, reports)),
        ];
        let first = all.into_iter().find(|(_, uncounted)| !uncounted.is_empty());
        let Some((name, uncounted)) = first else {
            return BTreeSet::new();
        };
        deviations::count(&mut self.own, name, uncounted.len());
        uncounted
    }

    /// Returns the packets that the kernel's rules and the twins' rules read differently, and counts their deviations.
    /// Packets that were left out are not in `acts`.
    fn read_otherwise(&mut self, policy: &str, acts: &[Act]) -> BTreeSet<u32> {
        let mut numbers = BTreeSet::new();
        for act in acts {
            let case = of_kernel::Case {
                policy,
                shot: &act.shot,
                copy_bytes: None,
            };
            for place in of_kernel::met(&self.of_kernel, &case) {
                self.of_kernel[place].met += 1;
                numbers.insert(act.shot.number);
            }
        }
        numbers
    }

    /// Compares the differences of counters with the known deviations; `excuse` calls it after it has excused all
    /// differences of packets.
    fn excuse_counters(
        &mut self,
        case: &Case,
        acts: &[Act],
        reports: &[Report],
        found: &[Difference],
    ) -> anyhow::Result<Excused> {
        let counters: Vec<_> = found.iter().filter(|one| one.number.is_none()).collect();
        let Some(first) = counters.first() else {
            return Ok(Excused::default());
        };
        let mut excused = Excused {
            left_out: self.uncounted(acts, reports),
            ..Excused::default()
        };
        if excused.left_out.is_empty() {
            excused.left_out = self.read_otherwise(case.text, acts);
        }
        if !excused.left_out.is_empty() {
            return Ok(excused);
        }
        let rules = &reports[0].outcome.counter_rules;
        let sees_own = |one: &&Difference| {
            let rule = one.counter.and_then(|counter| rules.get(counter));
            rule.is_some_and(|rule| of_kernel::sees_own(case.policy, case.text, rule))
        };
        let own = counters.iter().all(sees_own);
        if of_kernel::counts_own(&mut self.of_kernel, case.text, own) {
            return Ok(excused);
        }
        if deviations::counts_vary(case.text) {
            excused.left_out = self.undecided(case, acts, &reports[0])?;
            let name = deviations::of_counts(case.text);
            deviations::count(&mut self.own, name, excused.left_out.len());
        }
        if excused.left_out.is_empty() {
            excused.wrong = Some(first.text.clone());
        }
        Ok(excused)
    }

    /// Returns the packets of connections of which a rule reads a name that is not known yet: the whole policy drops
    /// such packets with `--undecided drop` only.
    /// - report: the whole policy's results without this option.
    fn undecided(
        &mut self,
        case: &Case,
        acts: &[Act],
        report: &Report,
    ) -> anyhow::Result<BTreeSet<u32>> {
        let shots: Vec<Shot> = acts.iter().map(|act| act.shot.clone()).collect();
        let strict = Case {
            unknown: side::STRICT,
            ..*case
        };
        let Ok(strict) = self.sides[0].run(&strict, &shots)? else {
            return Ok(BTreeSet::new());
        };
        let is_stopped =
            |report: &Report, act: &Act| fate(&report.outcome, act.shot.number).is_stopped();
        let is_met = |act: &&Act| is_stopped(&strict, act) && !is_stopped(report, act);
        let met: Vec<&Act> = acts.iter().filter(is_met).collect();
        let is_of_met = |act: &&Act| {
            met.iter().any(|one| {
                one.shot.number == act.shot.number
                    || one.connection.is_some() && one.connection == act.connection
            })
        };
        let numbers = acts.iter().filter(is_of_met).map(|act| act.shot.number);
        Ok(numbers.collect())
    }
}
