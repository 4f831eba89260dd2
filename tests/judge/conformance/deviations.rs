// SPDX-License-Identifier: GPL-2.0-or-later
//! Known and intended deviations of the twins from the kernel: tests/judge/conformance/deviations.txt lists them, this
//! file recognises them. An unlisted deviation, or one listed for another kernel, counts as a disagreement.

use std::fs;
use std::path::Path;

use anyhow::{ensure, Context};
use testbed::twin::root;
use twinwall_judge::field::{ICMP, ICMPV6, TCP, UDP};
use twinwall_judge::packet::{folded, sum};
use twinwall_judge::packet::{AH, DESTINATION, FRAGMENT, HOP_BY_HOP, MOBILITY, NO_NEXT, ROUTING};

use crate::bench::is_tracked;
use crate::cell::Shot;
use crate::expected::{self, Expected};

/// A packet that the twins and the kernel decide differently.
pub struct Case<'a> {
    /// Text of the policy.
    pub policy: &'a str,
    pub shot: &'a Shot,
    /// Number of bytes that the twins copy. None means the number that the policy requires.
    pub copy_bytes: Option<u32>,
}

/// Function that returns true if a packet matches a deviation.
type Recognise = fn(case: &Case) -> bool;

const RECOGNISERS: &[(&str, Recognise)] = &[
    ("later-fragment-ports", later_fragment_ports),
    ("headers-beyond-the-copy", headers_beyond_the_copy),
    ("answer-to-bad-checksum", answer_to_bad_checksum),
    ("no-answer-to-malformed", no_answer_to_malformed),
    ("answer-to-no-host", answer_to_no_host),
    ("answer-has-an-owner", answer_has_an_owner),
    (MERGES, |case| nft_merges(case.policy)),
    ("nft-rejects-by-one-family", nft_rejects_by_one_family),
    (ANSWERS, |_| false),
    (ERRORS, |_| false),
];

/// Words in policies for fields after the network header.
const TRANSPORT: [&str; 6] = ["sport", "dport", "tcp flags", "icmp", "icmpv6", "tcp reset"];

fn looks_behind_the_header(policy: &str) -> bool {
    TRANSPORT.iter().any(|word| policy.contains(word))
}

fn later_fragment_ports(case: &Case) -> bool {
    looks_behind_the_header(case.policy) && is_later_fragment(&case.shot.bytes)
}

/// Maximum number of bytes that the twins copy of a packet, without --copy-bytes, for a policy that tests fields after
/// the IPv6 header.
const REQUIRED_BYTES: usize = 128;
/// Maximum number of bytes of a transport header that a policy's tests compare.
const HEADER_BYTES: usize = 20;

fn headers_beyond_the_copy(case: &Case) -> bool {
    let packet = &case.shot.bytes;
    let end = extensions(packet)
        .map(|(_, _, end)| end)
        .last()
        .unwrap_or(0);
    case.copy_bytes.is_none() && packet[0] >> 4 == 6 && end + HEADER_BYTES > REQUIRED_BYTES
}

fn answer_to_bad_checksum(case: &Case) -> bool {
    case.policy.contains("reject") && !checksum_verified(&case.shot.bytes)
}

/// Returns the protocol after the IP header and the offset of its header, skipping the extension headers that `known`
/// accepts.
pub fn transport(packet: &[u8], known: impl Fn(u8) -> bool) -> (u8, usize) {
    match packet[0] >> 4 {
        4 => (packet[9], usize::from(packet[0] & 15) * 4),
        _ => extensions(packet)
            .take_while(|(kind, ..)| known(*kind))
            .last()
            .map_or((packet[6], 40), |(_, header, end)| (header[0], end)),
    }
}

/// Maximum number of extension headers in a packet that is not malformed.
const EXTENSIONS_MAX: usize = 8;

fn no_answer_to_malformed(case: &Case) -> bool {
    let packet = &case.shot.bytes;
    let (protocol, offset) = transport(packet, |_| true);
    let rest = packet.get(offset..).unwrap_or_default();
    let is_fragment = match packet[0] >> 4 {
        4 => be16(&packet[6..8]) & 0x3fff != 0,
        _ => extensions(packet).any(|(kind, ..)| kind == FRAGMENT),
    };
    let malformed = match (protocol, packet[0] >> 4) {
        (TCP, _) => {
            rest.len() < 20 || rest[12] < 0x50 || usize::from(rest[12] >> 4) * 4 > rest.len()
        }
        (UDP, _) => {
            let said = rest.get(4..6).map_or(0, |bytes| usize::from(be16(bytes)));
            rest.len() < 8 || said < 8 || said > rest.len() && !is_fragment
        }
        (ICMP, 4) | (ICMPV6, 6) => rest.len() < 8,
        _ => false,
    };
    let too_many = extensions(packet).count() > EXTENSIONS_MAX;
    case.policy.contains("reject") && (malformed || too_many)
}

fn answer_to_no_host(case: &Case) -> bool {
    let packet = &case.shot.bytes;
    let no_host = match packet[0] >> 4 {
        4 => packet[16] >= 224 || packet[16..20] == [0; 4],
        _ => packet[24] == 0xff || packet[24..40] == [0; 16],
    };
    case.policy.contains("reject") && no_host
}

fn answer_has_an_owner(case: &Case) -> bool {
    let has = |word| case.policy.contains(word);
    has("reject")
        && (has("skuid") || has("skgid"))
        && (has("hook output") || has("hook postrouting"))
}

fn nft_rejects_by_one_family(case: &Case) -> bool {
    let mut rules = case.policy.lines();
    rules.any(|rule| rule.contains("nfproto") && rule.contains('{') && rule.contains("reject"))
}

const MERGES: &str = "nft-merges-neighbours";

/// Fields that are adjacent in a header.
const NEIGHBOURS: [(&str, &str); 5] = [
    ("sport", "dport"),
    ("ip ttl", "ip protocol"),
    ("ip6 nexthdr", "ip6 hoplimit"),
    ("icmp type", "icmp code"),
    ("icmpv6 type", "icmpv6 code"),
];

/// Returns true if a rule tests adjacent fields with a statement between them that has an effect, or both with `!=`.
fn nft_merges(policy: &str) -> bool {
    const EFFECTS: [&str; 5] = ["counter", "limit", "quota", "log", " set "];
    let merges = |rule: &str, one: &str, other: &str| {
        let (Some(one), Some(other)) = (rule.find(one), rule.rfind(other)) else {
            return false;
        };
        let between = &rule[one.min(other)..one.max(other)];
        let behind = &rule[one.max(other)..];
        let unequal = |text: &str| text.contains("!=") || text.contains(" ne ");
        EFFECTS.iter().any(|effect| between.contains(effect)) || unequal(between) && unequal(behind)
    };
    policy.lines().any(|rule| {
        let mut pairs = NEIGHBOURS.iter();
        pairs.any(|(one, other)| merges(rule, one, other) || merges(rule, other, one))
    })
}

/// Names of the deviations that concern counters, not packets.
const ANSWERS: &str = "answers-in-own-chains";
const ERRORS: &str = "errors-of-tracked-packets";

/// Returns the hook of the base chain that contains the rule at `FILE:LINE`. None for other chains, and if the chain is
/// unknown: the rule is in another file, or a command adds it to a chain.
fn hook_of<'a>(file: &Path, policy: &'a str, rule: &str) -> Option<&'a str> {
    let (of, line) = rule.rsplit_once(':')?;
    let line: usize = line.parse().ok().filter(|_| Path::new(of) == file)?;
    let upto: usize = policy.split_inclusive('\n').take(line).map(str::len).sum();
    let last = policy[..upto].lines().next_back()?.trim_start();
    if ["add ", "insert ", "create "]
        .iter()
        .any(|word| last.starts_with(word))
    {
        return None;
    }
    let chain = policy[..upto].rfind("chain ")?;
    let (_, body) = policy[chain..].split_once('{')?;
    let body = body.split(['}', ';']).next().unwrap_or_default();
    let mut words = body.split_whitespace().skip_while(|word| *word != "hook");
    words.nth(1)
}

/// Returns true if a rule's chain can see the host's own packets: the base chains of output and postrouting, and all
/// chains without a known hook.
pub fn sees_own(file: &Path, policy: &str, rule: &str) -> bool {
    matches!(
        hook_of(file, policy, rule),
        None | Some("output" | "postrouting")
    )
}

/// Counts the deviation that explains different counters under a policy. Returns true if there is such a deviation: nft
/// merges tests of adjacent fields, or the policy sees the host's own packets, and rejects packets or tests the
/// connection state.
/// - own: the counters that differ are in chains that see own packets.
pub fn counts_own(deviations: &mut [Deviation], policy: &str, own: bool) -> bool {
    let sees = ["hook output", "hook postrouting"]
        .iter()
        .any(|hook| policy.contains(hook));
    let name = match (policy.contains("reject"), is_tracked(policy)) {
        _ if nft_merges(policy) => MERGES,
        _ if !own => return false,
        (true, _) if sees => ANSWERS,
        (false, true) if sees => ERRORS,
        _ => return false,
    };
    let found = deviations.iter_mut().find(|one| one.name == name);
    found.map(|one| one.met += 1).is_some()
}

/// Returns true if the kernel's reject accepts a packet's checksum: nf_reject_verify_csum exempts the packet, or
/// nf_ip_checksum or nf_ip6_checksum finds the checksum right. All protocols except EXEMPT are assumed to have an
/// Internet checksum over everything after the IP header.
fn checksum_verified(packet: &[u8]) -> bool {
    const EXEMPT: [u8; 5] = [47, 51, 50, 132, 136];
    // ipv6_skip_exthdr does not skip the mobility header.
    let (protocol, offset) = transport(packet, |kind| kind != MOBILITY);
    let pseudo = if packet[0] >> 4 == 4 {
        &packet[12..20]
    } else {
        &packet[8..40]
    };
    // Data must follow the IPv6 headers.
    let Some(rest) = packet
        .get(offset..)
        .filter(|rest| packet[0] >> 4 == 4 || !rest.is_empty())
    else {
        return false;
    };
    let optional = protocol == UDP && rest.get(6..8) == Some(&[0, 0]);
    if EXEMPT.contains(&protocol) || optional {
        return true;
    }
    let mut so_far = sum(rest, 0);
    if packet[0] >> 4 == 6 || matches!(protocol, TCP | UDP) {
        so_far = sum(pseudo, so_far) + u32::from(protocol) + rest.len() as u32;
    }
    folded(so_far) == 0
}

/// Returns the offset of the data in a later fragment: after the IPv4 header, or after the IPv6 fragment header.
pub fn end_of_headers(packet: &[u8]) -> usize {
    match packet[0] >> 4 {
        4 => usize::from(packet[0] & 15) * 4,
        _ => extensions(packet)
            .find(|(kind, header, _)| *kind == FRAGMENT && be16(&header[2..4]) & 0xfff8 != 0)
            .map_or(packet.len(), |(_, _, end)| end),
    }
}

fn is_later_fragment(packet: &[u8]) -> bool {
    match packet[0] >> 4 {
        4 => (u16::from(packet[6]) << 8 | u16::from(packet[7])) & 0x1fff != 0,
        _ => extensions(packet)
            .any(|(kind, header, _)| kind == FRAGMENT && be16(&header[2..4]) & 0xfff8 != 0),
    }
}

/// Returns true if a packet has an authentication header.
pub fn is_authenticated(packet: &[u8]) -> bool {
    packet[0] >> 4 == 4 && packet[9] == AH || extensions(packet).any(|(kind, ..)| kind == AH)
}

/// Returns true if the extension headers of an IPv6 packet reach beyond its end.
pub fn is_cut(packet: &[u8]) -> bool {
    let (protocol, offset) = transport(packet, |_| true);
    let is_extension = [FRAGMENT, AH, HOP_BY_HOP, ROUTING, DESTINATION].contains(&protocol);
    packet[0] >> 4 == 6 && (offset > packet.len() || is_extension)
}

fn be16(bytes: &[u8]) -> u16 {
    u16::from_be_bytes([bytes[0], bytes[1]])
}

/// Iterates over the extension headers of an IPv6 packet: type, bytes from the header on, and offset of the next
/// header. Empty for IPv4.
fn extensions(packet: &[u8]) -> impl Iterator<Item = (u8, &[u8], usize)> {
    let mut kind = if packet[0] >> 4 == 6 {
        packet[6]
    } else {
        NO_NEXT
    };
    let mut offset = 40;
    std::iter::from_fn(move || {
        let header = packet.get(offset..).filter(|header| header.len() >= 8)?;
        let this = kind;
        let bytes = match this {
            FRAGMENT => 8,
            AH => (usize::from(header[1]) + 2) * 4,
            HOP_BY_HOP | ROUTING | DESTINATION | MOBILITY => (usize::from(header[1]) + 1) * 8,
            _ => return None,
        };
        kind = header[0];
        offset += bytes;
        Some((this, header, offset))
    })
}

pub struct Deviation {
    pub name: String,
    /// Prefix of the kernel's version, such as `6.18`; `*` means any.
    kernel: String,
    recognise: Recognise,
    pub expected: Expected,
    /// Number of differences that the deviation explained: packets, and policies with different counters.
    pub met: u64,
}

/// Parses the deviations for the running kernel.
pub fn read() -> anyhow::Result<Vec<Deviation>> {
    let path = root().join("tests/judge/conformance/deviations.txt");
    let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    let release = fs::read_to_string("/proc/sys/kernel/osrelease")?;
    let mut deviations = Vec::new();
    for line in text
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
    {
        let fields: Vec<&str> = line.split('|').map(str::trim).collect();
        ensure!(
            fields.len() == 5 && fields.iter().all(|field| !field.is_empty()),
            "a deviation is NAME | KERNEL | EXPECTED | HOW TO RECOGNISE IT | REASON: {line}"
        );
        let found = RECOGNISERS.iter().find(|(name, _)| *name == fields[0]);
        let (name, recognise) =
            found.with_context(|| format!("no code recognises {}", fields[0]))?;
        deviations.push(Deviation {
            name: name.to_string(),
            kernel: fields[1].to_string(),
            recognise: *recognise,
            expected: expected::read(fields[2])?,
            met: 0,
        });
    }
    for (name, _) in RECOGNISERS {
        ensure!(
            deviations.iter().any(|one| one.name == *name),
            "{name} is not listed"
        );
    }
    deviations.retain(|one| one.kernel == "*" || release.starts_with(&one.kernel));
    Ok(deviations)
}

/// Returns the indices of the deviations that a packet matches.
pub fn met(deviations: &[Deviation], case: &Case) -> Vec<usize> {
    let all = deviations.iter().enumerate();
    all.filter(|(_, one)| (one.recognise)(case))
        .map(|(place, _)| place)
        .collect()
}
