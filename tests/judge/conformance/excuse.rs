// SPDX-License-Identifier: GPL-2.0-or-later
//! Checks whether differing packets behave as deviations.txt expects. The packets are sent again without the other
//! packets. Undecidable packets are also sent in the other --fail mode. Packets in which the kernel finds no field are
//! also sent as stand-ins (see below).

use std::path::Path;

use twinwall_judge::packet::{folded, sum};
use twinwall_judge::tree::Hook;

use crate::cell::Shot;
use crate::compare::{fate, Fate};
use crate::deviations::{self, Case, Deviation};
use crate::expected::{holds, Expected};
use crate::subject::{Outcome, Subject, Told, Who};

/// Policy, hooks and settings for a repeated run.
pub struct Again<'a> {
    pub path: &'a Path,
    /// Text of the policy.
    pub policy: &'a str,
    pub hooks: &'a [Hook],
    pub told: Told,
}

/// Length of the IPv6 fragment header.
const FRAGMENT_BYTES: usize = 8;

/// A differing packet, and the deviations that it matches.
struct Suspect<'a> {
    shot: &'a Shot,
    met: Vec<usize>,
}

/// Outcomes of the suspects, by subject.
type Outcomes = Vec<(Who, Outcome)>;

/// Returns the packet's stand-in: a copy that ends after the IP header or, for a later fragment, after the fragment
/// header. The kernel finds no transport field in it. A later fragment in IPv6 becomes a first fragment: for a later
/// fragment ipv6_find_hdr returns no transport offset, and nft_payload_fast_eval uses offset 0 and reads the fields of
/// the IPv6 header itself.
pub fn stand_in(shot: &Shot) -> Shot {
    let mut shot = shot.clone();
    let end = deviations::end_of_headers(&shot.bytes);
    shot.bytes.truncate(end);
    let length = (end as u16).to_be_bytes();
    match shot.bytes[0] >> 4 {
        4 => {
            shot.bytes[2..4].copy_from_slice(&length);
            shot.bytes[10..12].fill(0);
            let checksum = folded(sum(&shot.bytes, 0)).to_be_bytes();
            shot.bytes[10..12].copy_from_slice(&checksum);
        }
        _ => {
            shot.bytes[4..6].copy_from_slice(&(end as u16 - 40).to_be_bytes());
            let fragment = end - FRAGMENT_BYTES;
            let more = shot.bytes[fragment + 3] & 1;
            shot.bytes[fragment + 2..fragment + 4].copy_from_slice(&[0, more]);
        }
    }
    shot
}

/// Returns true if a policy can tell a packet from its stand-in, a shorter copy: it reads a length or counts bytes.
fn reads_length(policy: &str) -> bool {
    ["length", "quota", "bytes"]
        .iter()
        .any(|word| policy.contains(word))
}

/// Sends packets to the subjects that `whom` selects. Fails if a subject refuses the policy, which it has loaded
/// before.
fn run(
    subjects: &mut [Subject],
    again: &Again,
    shots: &[Shot],
    told: Told,
    whom: impl Fn(Who) -> bool,
) -> anyhow::Result<Outcomes> {
    let mut outcomes = Vec::new();
    for subject in subjects.iter_mut().filter(|subject| whom(subject.who)) {
        match subject.run(again.path, again.hooks, shots, told)? {
            Ok(outcome) => outcomes.push((subject.who, outcome)),
            Err(refused) => anyhow::bail!("it is refused now: {}", refused.0),
        }
    }
    Ok(outcomes)
}

/// Returns the results of a packet: the kernel's, and those of the twins.
fn fates(outcomes: &Outcomes, number: u32) -> (Option<Fate>, Vec<Fate>) {
    let of = |kernel: bool| {
        outcomes
            .iter()
            .filter(move |(who, _)| (*who == Who::Kernel) == kernel)
            .map(move |(_, outcome)| fate(outcome, number))
    };
    (of(true).next(), of(false).collect())
}

/// Returns true if each twin's count of undecidable packets is at least the number of packets that differ from the
/// kernel.
fn are_counted(outcomes: &Outcomes, suspects: &[Suspect]) -> bool {
    let differ = suspects.iter().filter(|suspect| {
        let (kernel, twins) = fates(outcomes, suspect.shot.number);
        kernel.is_some_and(|kernel| twins.iter().any(|twin| *twin != kernel))
    });
    let differ = differ.count() as u64;
    outcomes
        .iter()
        .all(|(who, outcome)| *who == Who::Kernel || outcome.undecidable >= differ)
}

/// Sends suspects (differing packets) together. Returns those that behave as expected: (number of the packet, index of
/// the deviation).
fn judge(
    subjects: &mut [Subject],
    again: &Again,
    deviations: &[Deviation],
    suspects: &[Suspect],
) -> anyhow::Result<Vec<(u32, usize)>> {
    let expects = |suspect: &Suspect, expected: Expected| {
        suspect
            .met
            .iter()
            .any(|place| deviations[*place].expected == expected)
    };
    let shots: Vec<Shot> = suspects
        .iter()
        .map(|suspect| suspect.shot.clone())
        .collect();
    let outcomes = run(subjects, again, &shots, again.told, |_| true)?;
    let opposite = Told {
        open: !again.told.open,
        ..again.told
    };
    let mut otherwise = Vec::new();
    if suspects.iter().any(|one| expects(one, Expected::Fail)) {
        otherwise = run(subjects, again, &shots, opposite, |_| true)?;
    }
    let mut stood_in = Vec::new();
    if suspects.iter().any(|one| expects(one, Expected::Absent)) {
        let stand_ins: Vec<Shot> = shots.iter().map(stand_in).collect();
        stood_in = run(subjects, again, &stand_ins, again.told, |_| true)?;
    }
    let as_expected = |suspect: &Suspect, expected: Expected| {
        let number = suspect.shot.number;
        let in_mode = |outcomes: &Outcomes, open: bool| {
            let (kernel, twins) = fates(outcomes, number);
            kernel.is_some_and(|kernel| holds(expected, &kernel, &twins, open))
        };
        match expected {
            Expected::Fail => {
                in_mode(&outcomes, again.told.open)
                    && in_mode(&otherwise, opposite.open)
                    && are_counted(&outcomes, suspects)
                    && are_counted(&otherwise, suspects)
            }
            Expected::Absent => {
                // All subjects agree on the stand-in. The twins agree on the packet, and send no response to it. The
                // twins treat both alike, unless the policy can distinguish them.
                let (_, twins) = fates(&outcomes, number);
                let (_, of_stand_in) = fates(&stood_in, number);
                let same_way = twins
                    .iter()
                    .zip(&of_stand_in)
                    .all(|(one, other)| one.passed == other.passed);
                in_mode(&stood_in, again.told.open)
                    && twins.windows(2).all(|pair| pair[0] == pair[1])
                    && twins.iter().all(|twin| twin.answers.is_empty())
                    && (same_way || reads_length(again.policy))
            }
            _ => in_mode(&outcomes, again.told.open),
        }
    };
    let mut found = Vec::new();
    for suspect in suspects {
        let mut met = suspect.met.iter();
        if let Some(place) = met.find(|place| as_expected(suspect, deviations[**place].expected)) {
            found.push((suspect.shot.number, *place));
        }
    }
    Ok(found)
}

/// Sends the differing packets that meet a deviation again. Returns the numbers of those that behave as the deviation
/// expects, and counts the deviations. If the policy has a limit or quota, each packet is sent alone, because its
/// result depends on the others. Otherwise the packets are sent together, and then each alone if one does not behave as
/// expected.
pub fn excused(
    subjects: &mut [Subject],
    again: &Again,
    deviations: &mut [Deviation],
    differ: &[&Shot],
) -> anyhow::Result<Vec<u32>> {
    let mut suspects: Vec<Suspect> = Vec::new();
    for &shot in differ {
        let case = Case {
            policy: again.policy,
            shot,
            copy_bytes: again.told.copy_bytes,
        };
        let met = deviations::met(deviations, &case);
        if !met.is_empty() {
            suspects.push(Suspect { shot, met });
        }
    }
    if suspects.is_empty() || !subjects.iter().any(|subject| subject.who == Who::Kernel) {
        return Ok(Vec::new());
    }
    let limited = again.policy.contains("limit") || again.policy.contains("quota");
    let together = if limited { 1 } else { suspects.len() };
    let mut found = Vec::new();
    for group in suspects.chunks(together) {
        let of_group = judge(subjects, again, deviations, group)?;
        if of_group.len() < group.len() && group.len() > 1 {
            for one in group.chunks(1) {
                found.extend(judge(subjects, again, deviations, one)?);
            }
        } else {
            found.extend(of_group);
        }
    }
    for (_, place) in &found {
        deviations[*place].met += 1;
    }
    Ok(found.into_iter().map(|(number, _)| number).collect())
}
