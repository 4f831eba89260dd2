// SPDX-License-Identifier: GPL-2.0-or-later
//! Intended deviations of a split policy from the whole policy: deviations.txt lists them, this file recognises them
//! and checks what is expected.

use std::collections::BTreeSet;
use std::fs;

use anyhow::{ensure, Context};
use testbed::twin::root;
use twinwall_judge::field::{TCP, UDP};

use crate::cell::Way;
use crate::compare::Fate;
use crate::deviations::{self, Case};
use crate::expected::{self, Expected};

use super::sequence::Act;

/// A packet whose results differ between the whole and the split policy (the two sides).
pub struct Differing<'a> {
    pub policy: &'a str,
    pub act: &'a Act,
    pub whole: &'a Fate,
    pub split: &'a Fate,
    /// True if conntrack assigns the packet to no connection.
    pub is_lost: bool,
    /// True if the split policy queues the packet for its names.
    pub is_asked: bool,
    /// True if an earlier packet of its connection was stopped on both sides.
    pub is_denied: bool,
    /// True if the split policy queues no packet of its connection, and an earlier packet of the connection was sent.
    pub is_unasked: bool,
}

/// Effect of a deviation on the packets after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum After {
    /// No effect: both sides have the same state.
    Same,
    /// The packet is left out, and so is the rest of its connection.
    LeftOut,
    /// The same, if both sides treat the packet alike when it is sent alone.
    LeftOutIfAlike,
    /// The same, if the packet has the same result once the whole policy has no rules with keys of names.
    LeftOutIfExcluded,
    /// The same, if the packet has the same result once the whole policy has no rules that set marks by names.
    LeftOutIfUnmarked,
    /// The same, if both sides treat the packet alike without the bytes after its IP header.
    LeftOutIfAbsent,
    /// No effect, if the host answers the packet alike without a policy.
    SameIfOwn,
}

impl After {
    /// Returns the test of the rules without which the whole policy must decide like the split one. None: it is the whole
    /// policy that must do so.
    pub fn without(self) -> Option<fn(&str) -> bool> {
        match self {
            After::LeftOutIfExcluded => Some(has_element_key),
            After::LeftOutIfUnmarked => Some(sets_mark_by_name),
            _ => None,
        }
    }
}

pub struct Deviation {
    pub name: &'static str,
    recognise: fn(&Differing) -> bool,
    pub after: After,
    /// Number of packets that matched the deviation.
    pub met: u64,
}

impl Deviation {
    /// Returns true if a packet is recognised.
    /// - is_certain: true for deviations that need no run with the packet alone, false for the others.
    fn is_met(&self, case: &Differing, is_certain: bool) -> bool {
        matches!(self.after, After::Same | After::LeftOut) == is_certain && (self.recognise)(case)
    }
}

/// Names of the deviations that may appear as different counters although no packet differs.
pub const NO_CONNECTION: &str = "no-connection";
pub const DENIED: &str = "denied-connection";
pub const AUTHENTICATED: &str = "behind-authentication";
/// Name of the deviation that appears only as different counters.
pub const BOTH_WAYS: &str = "dropped-on-both-ways";

/// Names of the deviations that packets of undecided names may also cause as different counters.
const MARKED: &str = "marked-by-a-name";
const KEY: &str = "key-with-a-name";

/// Name of a deviation, test of a differing packet, and effect on the packets after it.
type Recogniser = (&'static str, fn(&Differing) -> bool, After);

const RECOGNISERS: [Recogniser; 14] = [
    ("number-of-the-reset", number_of_the_reset, After::Same),
    (
        "reset-of-the-other-end",
        reset_of_the_other_end,
        After::Same,
    ),
    (DENIED, denied_connection, After::LeftOut),
    ("unseen-beginning", unseen_beginning, After::LeftOut),
    (NO_CONNECTION, no_connection, After::LeftOut),
    (
        "unasked-connection",
        unasked_connection,
        After::LeftOutIfAlike,
    ),
    (AUTHENTICATED, behind_authentication, After::LeftOut),
    ("answers-in-own-chains", answers_in_own_chains, After::Same),
    ("own-errors", own_errors, After::SameIfOwn),
    (
        "no-route-from-loopback",
        no_route_from_loopback,
        After::LeftOut,
    ),
    ("reads-what-it-sets", reads_what_it_sets, After::LeftOut),
    (BOTH_WAYS, |_| false, After::LeftOut),
    (MARKED, marked_by_a_name, After::LeftOutIfUnmarked),
    (KEY, key_with_a_name, After::LeftOutIfExcluded),
];

fn number_of_the_reset(case: &Differing) -> bool {
    let ends = |fate: &Fate| -> BTreeSet<String> {
        let answers = fate.answers.iter();
        let ends = answers.filter_map(|answer| answer.0.split(" flags").next());
        ends.map(str::to_owned).collect()
    };
    case.whole.passed == case.split.passed
        && case.act.connection.is_some()
        && ends(case.whole) == ends(case.split)
        && ends(case.whole)
            .iter()
            .all(|ends| ends.starts_with("tcp reset"))
}

fn reset_of_the_other_end(case: &Differing) -> bool {
    let (whole, split) = (&case.whole.answers, &case.split.answers);
    case.whole.passed == case.split.passed
        && case.act.connection.is_some()
        && (whole.len(), split.len()) == (1, 2)
        && whole.iter().all(|answer| split.contains(answer))
        && split.iter().all(|answer| answer.0.starts_with("tcp reset"))
}

fn own_errors(case: &Differing) -> bool {
    let is_known = |answer| case.whole.answers.contains(answer);
    !key_with_a_name(case)
        && case.whole.passed == case.split.passed
        && case
            .whole
            .answers
            .iter()
            .all(|answer| case.split.answers.contains(answer))
        && case
            .split
            .answers
            .iter()
            .all(|answer| is_known(answer) || answer.0.starts_with("icmp type"))
}

/// Returns true if a packet is a TCP segment without data.
fn is_empty_segment(packet: &[u8]) -> bool {
    let (protocol, header) = match packet[0] >> 4 {
        4 => (packet[9], usize::from(packet[0] & 15) * 4),
        _ => (packet[6], 40),
    };
    let words = packet.get(header + 12).map_or(0, |byte| byte >> 4);
    protocol == TCP && packet.len() <= header + usize::from(words) * 4
}

fn denied_connection(case: &Differing) -> bool {
    let is_within = |hook| case.split.passed.contains(hook);
    let is_dropped = case.whole.passed.iter().all(is_within);
    case.is_denied && (is_dropped || is_empty_segment(&case.act.shot.bytes))
}

fn unseen_beginning(case: &Differing) -> bool {
    let is_within = |hook| case.whole.passed.contains(hook);
    case.is_denied
        && case.split.is_stopped()
        && case.split.passed.iter().all(is_within)
        && case.split.answers.is_empty()
}

fn no_connection(case: &Differing) -> bool {
    let is_within = |hook| case.whole.passed.contains(hook);
    case.is_lost
        && case.split.is_stopped()
        && case.split.passed.iter().all(is_within)
        && case.split.answers.is_empty()
}

fn unasked_connection(case: &Differing) -> bool {
    let is_within = |hook| case.split.passed.contains(hook);
    case.is_unasked
        && case.whole.is_stopped()
        && case.whole.answers.is_empty()
        && case.whole.passed.iter().all(is_within)
}

fn has_name(rule: &str) -> bool {
    ["tls ", "http ", "dns "]
        .iter()
        .any(|word| rule.contains(word))
}

fn marked_by_a_name(case: &Differing) -> bool {
    marks_by_name(case.policy)
}

/// Returns the destination port of a TCP or UDP packet.
fn destination_port(packet: &[u8]) -> Option<u16> {
    let (protocol, header) = deviations::transport(packet, |_| true);
    let port = packet.get(header + 2..header + 4)?;
    [TCP, UDP]
        .contains(&protocol)
        .then(|| u16::from_be_bytes([port[0], port[1]]))
}

/// Returns true if an element of a key of ports and names contains a port. An element is `VALUE . "HOST"`, and a host's
/// name has a dot.
fn fits_an_element(policy: &str, port: u16) -> bool {
    let last = |text: &str| -> Option<(u16, u16)> {
        let word = text.rsplit([' ', '{', '\t', '\n']).next()?;
        let (low, high) = word.split_once('-').unwrap_or((word, word));
        Some((low.parse().ok()?, high.parse().ok()?))
    };
    let is_host = |behind: &str| {
        behind
            .split('"')
            .next()
            .is_some_and(|word| word.contains('.'))
    };
    let mut elements = policy.match_indices(" . \"");
    elements.any(|(at, dot)| {
        // A key of other fields than ports fits all packets.
        let range = last(&policy[..at]);
        is_host(&policy[at + dot.len()..])
            && range.is_none_or(|(low, high)| (low..=high).contains(&port))
    })
}

fn key_with_a_name(case: &Differing) -> bool {
    let port = destination_port(&case.act.shot.bytes);
    case.policy.lines().any(has_element_key)
        && port.is_some_and(|port| !fits_an_element(case.policy, port))
}

fn behind_authentication(case: &Differing) -> bool {
    let is_within = |hook| case.whole.passed.contains(hook);
    deviations::is_authenticated(&case.act.shot.bytes)
        && (case.is_asked || case.is_lost)
        && case.split.is_stopped()
        && case.split.passed.iter().all(is_within)
        && case.split.answers.is_empty()
}

fn answers_in_own_chains(case: &Differing) -> bool {
    let sees_own = ["hook output", "hook postrouting"]
        .iter()
        .any(|hook| case.policy.contains(hook));
    sees_own && case.policy.contains("reject") && case.whole.passed == case.split.passed
}

fn no_route_from_loopback(case: &Differing) -> bool {
    let bytes = &case.act.shot.bytes;
    let is_ipv4 = bytes.first().is_some_and(|first| first >> 4 == 4);
    case.act.shot.way == Way::Out
        && is_ipv4
        && bytes.get(12) == Some(&127)
        && case.split.passed.is_empty()
        && case.split.answers.is_empty()
}

fn reads_what_it_sets(case: &Differing) -> bool {
    let words: Vec<&str> = case.policy.split_whitespace().collect();
    let is_set = |pair: &&[&str]| pair[0] == "mark" && pair[1] == "set";
    let is_read = |pair: &&[&str]| pair[0] == "mark" && pair[1] != "set";
    let is_within = |hook| case.whole.passed.contains(hook);
    words.windows(2).any(|pair| is_set(&pair))
        && words.windows(2).any(|pair| is_read(&pair))
        && case.split.is_stopped()
        && case.split.passed.iter().all(is_within)
}

/// Reads the list of deviations. Fails if its names are not those of [`RECOGNISERS`], in the same order.
pub fn read() -> anyhow::Result<Vec<Deviation>> {
    let path = root().join("tests/judge/conformance/split/deviations.txt");
    let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let mut listed = Vec::new();
    for line in lines {
        let fields: Vec<&str> = line.split('|').map(str::trim).collect();
        ensure!(
            fields.len() == 4 && fields.iter().all(|field| !field.is_empty()),
            "a deviation is NAME | EXPECTED OF THE SPLIT | HOW TO RECOGNISE IT | REASON: {line}"
        );
        listed.push(fields[0].to_owned());
    }
    let known = RECOGNISERS.map(|(name, ..)| name);
    ensure!(
        listed == known,
        "{listed:?} are listed, {known:?} recognised"
    );
    let deviation = |(name, recognise, after)| Deviation {
        name,
        recognise,
        after,
        met: 0,
    };
    Ok(RECOGNISERS.map(deviation).into())
}

/// Returns true if a rule sets a mark to a value that it finds by a name.
fn sets_mark_by_name(rule: &str) -> bool {
    let value = rule.split_once("mark set ").map_or("", |(_, value)| value);
    has_name(value) && value.contains(" map ")
}

fn marks_by_name(policy: &str) -> bool {
    policy.lines().any(sets_mark_by_name)
}

fn is_key_rule(rule: &str) -> bool {
    has_name(rule) && rule.contains(" . ")
}

/// Returns true if a rule does not apply to packets for which a key with a name has no element.
fn has_element_key(rule: &str) -> bool {
    let mut names = rule.split(" . ").filter(|part| has_name(part));
    is_key_rule(rule) && names.all(|part| part.split(' ').nth(2) != Some("!="))
}

fn has_key(policy: &str) -> bool {
    policy.lines().any(is_key_rule)
}

/// Returns true if the sides may count packets with unknown names differently. Limits and quotas would then decide
/// packets.
pub fn counts_vary(policy: &str) -> bool {
    marks_by_name(policy) || has_key(policy)
}

/// Returns the name of the deviation by which the sides may count packets with unknown names differently.
pub fn of_counts(policy: &str) -> &'static str {
    match marks_by_name(policy) {
        true => MARKED,
        false => KEY,
    }
}

/// Adds packets to the count of a deviation.
pub fn count(own: &mut [Deviation], name: &str, packets: usize) {
    for deviation in own.iter_mut().filter(|one| one.name == name) {
        deviation.met += packets as u64;
    }
}

/// Counts the deviation that explains a differing packet, and returns its effect on the packets after it. None: no
/// deviation explains the packet.
pub fn excuse(
    own: &mut [Deviation],
    of_kernel: &mut [deviations::Deviation],
    case: &Differing,
) -> Option<After> {
    if let Some(found) = own.iter_mut().find(|one| one.is_met(case, true)) {
        found.met += 1;
        return Some(found.after);
    }
    let same = Case {
        policy: case.policy,
        shot: &case.act.shot,
        copy_bytes: None,
    };
    for place in deviations::met(of_kernel, &same) {
        if of_kernel[place].expected == Expected::Absent {
            of_kernel[place].met += 1;
            return Some(After::LeftOutIfAbsent);
        }
        let whole = std::slice::from_ref(case.whole);
        if expected::holds(of_kernel[place].expected, case.split, whole, false) {
            of_kernel[place].met += 1;
            return Some(After::LeftOut);
        }
    }
    let found = own.iter_mut().find(|one| one.is_met(case, false))?;
    found.met += 1;
    Some(found.after)
}
