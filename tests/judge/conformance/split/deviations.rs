// SPDX-License-Identifier: GPL-2.0-or-later
//! Intended deviations of a split policy from the whole policy: deviations.txt lists them, this file recognises them
//! and checks what is expected.

use std::collections::BTreeSet;
use std::fs;

use anyhow::{ensure, Context};
use testbed::twin::root;
use twinwall_judge::field::{TCP, UDP};
use twinwall_judge::packet::AH;
use twinwall_judge::tree::Hook;

use crate::cell::{Way, OWN};
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
    /// True if the packet is not the first of its connection, and the split policy queues no packet of the connection,
    /// or no earlier packet, because the earlier packets have an authentication header.
    pub is_unasked: bool,
    /// True if an earlier QUIC packet of another connection had its destination connection ID.
    pub is_id_reused: bool,
}

/// Effect of a deviation on the packets after it. If an effect has a condition that does not hold, the difference
/// counts as a disagreement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum After {
    /// No effect: both sides have the same state.
    Same,
    /// The packet and the rest of its connection are removed from the sequence; the comparison is repeated without
    /// them.
    LeftOut,
    /// As `LeftOut`, if both sides treat the packet alike when it is sent alone.
    LeftOutIfAlike,
    /// As `LeftOut`, if the packet has the same result on both sides once the whole policy has no rules with keys of
    /// names, and none that set marks by names.
    LeftOutIfExcluded,
    /// As `LeftOut`, if the packet has the same result on both sides once the whole policy has no rules that set marks
    /// by names.
    LeftOutIfUnmarked,
    /// As `LeftOut`, if both sides treat the packet alike without the bytes after its IP header.
    LeftOutIfAbsent,
    /// No effect, if the host answers the packet alike without a policy.
    SameIfOwn,
}

impl After {
    /// Returns a function that selects rules. Without these rules, the whole policy must decide like the split policy.
    /// None: the whole policy must do so with all its rules.
    pub fn without(self) -> Option<fn(&str) -> bool> {
        match self {
            After::LeftOutIfExcluded => {
                Some(|rule| has_element_key(rule) || sets_mark_by_name(rule))
            }
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
    /// Returns true if the deviation has an effect of the wanted kind, and explains the packet.
    /// - is_certain: kind of the effect: true for effects without a condition (`Same`, `LeftOut`), false for all
    ///   others.
    fn is_met(&self, case: &Differing, is_certain: bool) -> bool {
        matches!(self.after, After::Same | After::LeftOut) == is_certain && (self.recognise)(case)
    }
}

/// Names of the deviations that may appear as different counters although no packet differs.
pub const NO_CONNECTION: &str = "no-connection";
pub const DENIED: &str = "denied-connection";
pub const AUTHENTICATED: &str = "behind-authentication";
/// Name of the deviation that also appears as different counters.
pub const BOTH_WAYS: &str = "dropped-on-both-ways";

/// Names of the deviations that may also appear as different counters, because of packets with undecided names.
const MARKED: &str = "marked-by-a-name";
const KEY: &str = "key-with-a-name";
const READS: &str = "reads-what-it-sets";

/// Name of a deviation, test of a differing packet, and effect on the packets after it.
type Recogniser = (&'static str, fn(&Differing) -> bool, After);

const RECOGNISERS: [Recogniser; 16] = [
    ("number-of-the-reset", number_of_the_reset, After::Same),
    (
        "reset-of-the-other-end",
        reset_of_the_other_end,
        After::LeftOut,
    ),
    (DENIED, denied_connection, After::LeftOut),
    ("unseen-beginning", unseen_beginning, After::LeftOut),
    (NO_CONNECTION, no_connection, After::LeftOut),
    (
        "unasked-connection",
        unasked_connection,
        After::LeftOutIfAlike,
    ),
    (
        "id-of-another-connection",
        id_of_another_connection,
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
    ("copy-of-a-broadcast", copy_of_a_broadcast, After::LeftOut),
    (READS, reads_what_it_sets, After::LeftOut),
    (BOTH_WAYS, dropped_on_both_ways, After::Same),
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
        && whole
            .iter()
            .all(|answer| split.contains(answer) || answer.0.starts_with("icmp type"))
        && split.iter().all(|answer| answer.0.starts_with("tcp reset"))
}

/// Returns true if a packet passes the same hooks with the same marks on both sides, and only the split side adds ICMP
/// errors.
pub fn adds_errors(whole: &Fate, split: &Fate) -> bool {
    let is_known = |answer| whole.answers.contains(answer);
    let mut kept = whole.answers.iter();
    let mut answers = split.answers.iter();
    whole.passed == split.passed
        && kept.all(|answer| split.answers.contains(answer))
        && answers.all(|answer| is_known(answer) || answer.0.starts_with("icmp type"))
}

fn own_errors(case: &Differing) -> bool {
    !key_with_a_name(case) && adds_errors(case.whole, case.split)
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
    let is_stopped = case.whole.is_stopped()
        && case.split.is_stopped()
        && case.whole.answers == case.split.answers;
    case.is_denied && (is_dropped || is_stopped || is_empty_segment(&case.act.shot.bytes))
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
    (case.is_lost || deviations::is_cut(&case.act.shot.bytes))
        && case.split.is_stopped()
        && case.split.passed.iter().all(is_within)
        && case.split.answers.is_empty()
}

/// Returns true if the whole policy drops a packet without an answer, after hooks that the packet also passes under the
/// split policy.
fn is_dropped_by_whole(case: &Differing) -> bool {
    let is_within = |hook| case.split.passed.contains(hook);
    case.whole.is_stopped()
        && case.whole.answers.is_empty()
        && case.whole.passed.iter().all(is_within)
}

fn unasked_connection(case: &Differing) -> bool {
    case.is_unasked && is_dropped_by_whole(case)
}

fn id_of_another_connection(case: &Differing) -> bool {
    case.is_id_reused && is_dropped_by_whole(case)
}

/// Protocols whose names rules read, each with the second words of its fields: the word `http` alone may be a port.
const NAMES: [(&str, &[&str]); 3] = [
    ("tls", &["sni", "alpn", "ech", "version"]),
    ("http", &["host", "method"]),
    ("dns", &["name", "type"]),
];

/// Returns true if the words of a text begin with a field of names.
fn begins_with_name<'a>(mut words: impl Iterator<Item = &'a str>) -> bool {
    let Some((protocol, field)) = words.next().zip(words.next()) else {
        return false;
    };
    let is_of = |(name, fields): &(&str, &[&str])| *name == protocol && fields.contains(&field);
    NAMES.iter().any(is_of)
}

fn has_name(rule: &str) -> bool {
    let words: Vec<&str> = rule.split_whitespace().collect();
    let mut starts = 0..words.len();
    starts.any(|start| begins_with_name(words[start..].iter().copied()))
}

/// Returns the fields of names in a rule's keys (`tcp dport . tls sni`), each with the words up to the next ` . `.
fn names_of_keys(rule: &str) -> Vec<String> {
    let parts: Vec<Vec<&str>> = rule
        .split(" . ")
        .map(|part| part.split_whitespace().collect())
        .collect();
    let last = parts.len() - 1;
    let of_part = |(number, words): (usize, &Vec<&str>)| {
        let begins = number > 0 && begins_with_name(words.iter().copied());
        let end = words.len().saturating_sub(2);
        let ends = number < last && begins_with_name(words[end..].iter().copied());
        match (begins, ends) {
            (true, _) => Some(words.join(" ")),
            (false, true) => Some(words[end..].join(" ")),
            (false, false) => None,
        }
    };
    parts.iter().enumerate().filter_map(of_part).collect()
}

fn marked_by_a_name(case: &Differing) -> bool {
    marks_by_name(case.policy) && !key_with_a_name(case)
}

/// Returns the destination port that the kernel's rules read in a TCP or UDP packet. In a packet with an authentication
/// header, they take the reserved bytes of this header for the port. None for other packets.
fn destination_port(packet: &[u8]) -> Option<u16> {
    let (protocol, header) = deviations::transport(packet, |kind| kind != AH);
    let port = packet.get(header + 2..header + 4)?;
    [TCP, UDP, AH]
        .contains(&protocol)
        .then(|| u16::from_be_bytes([port[0], port[1]]))
}

/// Returns true if a policy has an element `VALUE . "HOST"` whose value contains a port, or is no port. A host's name
/// has a dot.
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

fn dropped_on_both_ways(case: &Differing) -> bool {
    let rejects = case.policy.contains("reject");
    case.is_asked
        && rejects
        && case.split.is_stopped()
        && case.whole.passed == case.split.passed
        && case.whole.answers.is_empty()
}

/// Returns true if the host itself sends the packet, by IPv4.
fn is_sent_by_ipv4(case: &Differing) -> bool {
    let first = case.act.shot.bytes.first();
    case.act.shot.way == Way::Out && first.is_some_and(|first| first >> 4 == 4)
}

fn no_route_from_loopback(case: &Differing) -> bool {
    let bytes = &case.act.shot.bytes;
    is_sent_by_ipv4(case)
        && bytes.get(12) == Some(&127)
        && case.split.passed.is_empty()
        && case.split.answers.is_empty()
}

fn copy_of_a_broadcast(case: &Differing) -> bool {
    let bytes = &case.act.shot.bytes;
    let is_group = |address: &[u8]| address == [255; 4] || address[0] >> 4 == 14;
    let is_own = bytes.get(12..16) == Some(&(OWN.0 as u32).to_be_bytes());
    // Only a packet with another source is routed through another interface, and then received.
    let is_compared = |hook: Hook| is_own || matches!(hook, Hook::Output | Hook::Postrouting);
    let once = |fate: &Fate| {
        let passed = fate.passed.iter().copied();
        let mut passed: Vec<_> = passed.filter(|(hook, _)| is_compared(*hook)).collect();
        passed.dedup();
        passed
    };
    is_sent_by_ipv4(case)
        && bytes.get(16..20).is_some_and(is_group)
        && once(case.split) == once(case.whole)
        && case.split.answers == case.whole.answers
}

/// Returns true if a policy sets a mark and reads one.
fn sets_and_reads(policy: &str) -> bool {
    let words: Vec<&str> = policy.split_whitespace().collect();
    let is_set = |pair: &[&str]| pair[0] == "mark" && pair[1] == "set";
    let is_read = |pair: &[&str]| pair[0] == "mark" && pair[1] != "set";
    words.windows(2).any(is_set) && words.windows(2).any(is_read)
}

fn reads_what_it_sets(case: &Differing) -> bool {
    let is_within = |hook| case.whole.passed.contains(hook);
    sets_and_reads(case.policy)
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
    !names_of_keys(rule).is_empty()
}

/// Returns true if a rule has keys with names, and does not match packets whose key is no element: it has no `!=`.
fn has_element_key(rule: &str) -> bool {
    let names = names_of_keys(rule);
    let is_equal = |name: &String| name.split(' ').nth(2) != Some("!=");
    !names.is_empty() && names.iter().all(is_equal)
}

fn has_key(policy: &str) -> bool {
    policy.lines().any(is_key_rule)
}

/// Returns true if the whole policy and the split policy may count packets with unknown names differently. Their limits
/// and quotas would then decide later packets differently.
pub fn counts_vary(policy: &str) -> bool {
    marks_by_name(policy) || has_key(policy) || sets_and_reads(policy)
}

/// Returns the name of the deviation by which the whole policy and the split policy may count packets with unknown
/// names differently.
pub fn of_counts(policy: &str) -> &'static str {
    match (marks_by_name(policy), has_key(policy)) {
        (true, _) => MARKED,
        (false, true) => KEY,
        (false, false) => READS,
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
/// - own: in/out: deviations of split policies from whole policies.
/// - of_kernel: in/out: deviations of the twins from the kernel.
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
