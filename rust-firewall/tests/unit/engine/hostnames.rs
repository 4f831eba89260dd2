// SPDX-License-Identifier: GPL-2.0-or-later
//! Tests the search for a client's names among a policy's names, and decisions by them.

use std::sync::Arc;

use crate::support::engine::{engine, input, Engine, Random};
use crate::support::lines::lines;
use rust_firewall::engine::decide;
use rust_firewall::engine::flow::DecidePolicy;
use rust_firewall::engine::hostnames::{self, HostNumbers};
use rust_firewall::engine::lookup::LookupRange;
use rust_firewall::engine::types::{DecideBy, DecideOutcome, DecideSettings};
use rust_firewall::names::{Names, NamesProtocol, NamesState};
use rust_firewall::packet::verdict::{self, Verdict};
use rust_firewall::packet::{self, Packet};
use rust_firewall::policy::forest;
use rust_firewall::policy::hostname::{self, Hostnames};

const LABELS: [&str; 4] = ["a", "b", "c", "dd"];
const ROUNDS: u32 = 200;
/// Number of random rules of a chain.
const RULES: u32 = 20;
/// Number of packets that a random policy decides.
const PACKETS: u32 = 50;
/// Number of host names in random rules.
const HOSTS: u32 = 30;

/// IPv4 packet with a TCP segment from port 40000 to port 443.
const PACKET: [u8; 40] = [
    0x45, 0, 0, 40, 0, 0, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2, 0x9c, 0x40, 1, 0xbb, 0,
    0, 0, 0, 0, 0, 0, 0, 0x50, 0x10, 0xff, 0xff, 0, 0, 0, 0,
];

const SETTINGS: DecideSettings = DecideSettings {
    default_verdict: Verdict::Drop,
    malformed_open: false,
    truncated_open: false,
    malformed_by_policy: false,
    undecided_verdict: Verdict::Accept,
    unknown_open: false,
};

fn split(name: &str) -> (&str, bool) {
    match name.strip_prefix("*.") {
        Some(rest) => (rest, true),
        None => (name, false),
    }
}

fn make(patterns: &[String]) -> (Arc<Hostnames>, HostNumbers) {
    let mut all = Hostnames::default();
    for pattern in patterns {
        let (name, wildcard) = split(pattern);
        hostname::add(&mut all, name.as_bytes(), wildcard);
    }
    forest::make(&mut all);
    let all = Arc::new(all);
    let numbers = hostnames::make(&all);
    (all, numbers)
}

/// Returns the policy's pattern (a name or a wildcard) that has a number; "-" = none.
fn pattern_of(all: &Hostnames, numbers: &HostNumbers, number: u32) -> String {
    let mut ids = 0..hostname::count(all);
    let found = ids.find(|&id| hostnames::interval(numbers, id).low == u128::from(number));
    found.map_or("-".to_owned(), |id| hostname::text(all, id))
}

#[test]
fn names_are_found_as_in_the_vectors() {
    let mut made = make(&[]);
    let mut count = 0;
    for line in lines("hostnames.txt") {
        if let Some(patterns) = line.strip_prefix("patterns ") {
            let patterns: Vec<String> = patterns.split(' ').map(str::to_owned).collect();
            made = make(&patterns);
        } else if let Some((name, expected)) = line
            .strip_prefix("find ")
            .and_then(|rest| rest.split_once(" = "))
        {
            let number = hostnames::find(&made.1, name.as_bytes());
            assert_eq!(pattern_of(&made.0, &made.1, number), expected, "{line}");
            count += 1;
        }
    }
    assert!(count >= 20, "only {count} vectors");
}

fn random_name(random: &mut Random) -> String {
    let labels: Vec<&str> = (0..=random.below(4))
        .map(|_| LABELS[random.below(4) as usize])
        .collect();
    labels.join(".")
}

/// Returns true if a pattern matches a name.
fn covers(pattern: &str, name: &str) -> bool {
    match split(pattern) {
        (rest, true) => name.ends_with(&format!(".{rest}")),
        (rest, false) => rest == name,
    }
}

/// Returns the pattern that must be found for a name: the name itself, otherwise the longest pattern that matches it;
/// "-" = none.
fn best<'a>(patterns: &'a [String], name: &str) -> &'a str {
    let covering = patterns.iter().filter(|pattern| covers(pattern, name));
    let best = covering.max_by_key(|pattern| (pattern.as_str() == name, pattern.len()));
    best.map_or("-", String::as_str)
}

#[test]
fn random_names_are_found_as_one_by_one() {
    let mut random = Random(7);
    for _ in 0..ROUNDS {
        let patterns: Vec<String> = (0..random.below(12))
            .map(|_| {
                let front = ["", "*."][random.below(2) as usize];
                format!("{front}{}", random_name(&mut random))
            })
            .collect();
        let (all, numbers) = make(&patterns);
        for _ in 0..40 {
            let name = random_name(&mut random);
            let number = hostnames::find(&numbers, name.as_bytes());
            let found = pattern_of(&all, &numbers, number);
            assert_eq!(found, best(&patterns, &name), "{name} in {patterns:?}");
            for pattern in &patterns {
                let (rest, wildcard) = split(pattern);
                let id = hostname::find(&all, rest.as_bytes(), wildcard).expect("a pattern");
                let interval = hostnames::interval(&numbers, id);
                let within = (interval.low..=interval.high).contains(&number.into());
                assert_eq!(within, covers(pattern, &name), "{name} and {pattern}");
            }
        }
    }
}

#[test]
fn names_have_as_many_labels_as_fit() {
    let (longest, above) = (["a"; 127].join("."), ["a"; 126].join("."));
    let patterns = [format!("*.{above}"), "*.a".to_owned()];
    let (all, numbers) = make(&patterns);
    let found = |name: &str| {
        let number = hostnames::find(&numbers, name.as_bytes());
        pattern_of(&all, &numbers, number)
    };
    assert_eq!(found(&longest), patterns[0]);
    assert_eq!(found(&above), patterns[1]);
    // These texts are no valid names, but can be searched.
    assert_eq!(found(&".".repeat(253)), "-");
    assert_eq!(found(&format!("{}a", ".".repeat(252))), patterns[1]);
}

#[test]
fn what_lies_inside_is_kept() {
    let range = |low, high, value| LookupRange { low, high, value };
    let mut ranges = vec![
        range(1, 10, 1),
        range(2, 5, 2),
        range(3, 3, 3),
        range(7, 7, 1),
        range(12, 12, 4),
    ];
    hostnames::part(&mut ranges);
    let expected = [
        range(1, 1, 1),
        range(2, 2, 2),
        range(3, 3, 3),
        range(4, 5, 2),
        range(6, 10, 1),
        range(12, 12, 4),
    ];
    assert_eq!(ranges, expected);
}

/// Returns a client's names from the words of a test vector.
fn names_of(words: &[&str]) -> Names {
    let [state, protocol, host, alpn, version, ech, method, kind] = *words else {
        panic!("eight words: {words:?}");
    };
    let given = |word: &str| {
        if word == "-" {
            String::new()
        } else {
            word.to_owned()
        }
    };
    let mut names = Names {
        state: match state {
            "none" => NamesState::None,
            "undecided" => NamesState::Undecided,
            "known" => NamesState::Known,
            _ => NamesState::Unreadable,
        },
        protocol: match protocol {
            "tls" => NamesProtocol::Tls,
            "quic" => NamesProtocol::Quic,
            "http" => NamesProtocol::Http,
            "dns" => NamesProtocol::Dns,
            _ => NamesProtocol::Other,
        },
        ech: ech == "ech",
        version: u16::from_str_radix(version, 16).unwrap_or(0),
        dns_type: kind.parse().unwrap_or(0),
        ..Names::default()
    };
    let (host, method) = (given(host), given(method));
    names.host_length = host.len() as u8;
    names.host[..host.len()].copy_from_slice(host.as_bytes());
    names.method_length = method.len() as u8;
    names.method[..method.len()].copy_from_slice(method.as_bytes());
    let alpn = given(alpn);
    let mut list = Vec::new();
    for name in alpn.split(',').filter(|name| !name.is_empty()) {
        list.push(name.len() as u8);
        list.extend(name.as_bytes());
    }
    names.alpn_length = list.len() as u8;
    names.alpn[..list.len()].copy_from_slice(&list);
    names
}

fn ask(engine: &Engine, names: &Names, settings: &DecideSettings, bytes: &[u8]) -> DecideOutcome {
    let mut parsed = Packet::default();
    let status = packet::parse(bytes, PACKET.len() as u32, &mut parsed);
    let mut input = input(&parsed, status);
    input.names = Some(names);
    (input.host_number, input.alpn_bits) = hostnames::resolve(&engine.compiled.hosts, names);
    let policy = DecidePolicy {
        compiled: &engine.compiled,
        flow: &engine.flow,
        counters: &engine.counters,
    };
    decide::packet(settings, Some(&policy), &input)
}

fn said(outcome: &DecideOutcome) -> String {
    let by = match outcome.by {
        DecideBy::Rule => "rule",
        DecideBy::Policy => "policy",
        DecideBy::Default => "default",
        DecideBy::Fail => "fail",
        DecideBy::Undecided => "undecided",
        DecideBy::Connection => "connection",
    };
    let read = if outcome.read_names { " read" } else { "" };
    format!("{} {by}{read}", verdict::name(outcome.verdict))
}

fn policy_text(rules: &str) -> String {
    format!(
        "table inet t {{\nchain c {{\ntype filter hook input priority 0; policy drop;\n{rules}\n}}\n}}\n"
    )
}

#[test]
fn packets_are_decided_as_in_the_vectors() {
    let mut engines = [true, false].map(|linear| engine(&policy_text("accept"), linear));
    let mut count = 0;
    let mut asked = String::new();
    for line in lines("names-decide.txt") {
        if let Some(rules) = line.strip_prefix("policy ") {
            asked = rules.to_owned();
            let text = policy_text(&rules.replace("\\n", "\n"));
            engines = [true, false].map(|linear| engine(&text, linear));
        } else if let Some((words, expected)) = line.split_once(" = ") {
            let names = names_of(&words.split(' ').collect::<Vec<_>>());
            for engine in &engines {
                let outcome = ask(engine, &names, &SETTINGS, &PACKET);
                assert_eq!(said(&outcome), expected, "{asked}: {line}");
            }
            count += 1;
        }
    }
    assert!(count >= 120, "only {count} vectors");
}

/// Returns random rules, most of which begin like another rule and test one field of names, so that an index finds
/// them.
/// - target: verdict of some rules.
fn random_rules(random: &mut Random, target: &str) -> String {
    let all = [
        "",
        "tcp dport 443 ",
        "tcp dport 80 ",
        "tcp dport { 80, 443 } ",
        "meta mark 1 ",
        "ip daddr != 10.0.0.3 ",
        "counter ",
    ];
    let begins = [0; 2].map(|_| all[random.below(all.len() as u32) as usize]);
    let field = ["tls sni", "http host", "dns name"][random.below(3) as usize];
    let mut text = String::new();
    for _ in 0..RULES {
        let number = random.below(HOSTS);
        let begin = begins[random.below(2) as usize];
        let name = match random.below(16) {
            0 => "tls sni exists".to_owned(),
            1 => "dns name missing".to_owned(),
            2 => format!("tcp dport {number}"),
            _ => format!("{field} \"a{number}.example\""),
        };
        let behind = match random.below(4) {
            0 => format!("tcp dport {number}"),
            1 => format!("ip saddr 10.0.0.{number}"),
            _ => String::new(),
        };
        let end = match random.below(7) {
            0 => "accept",
            1 => "drop",
            2 => "reject",
            3 => "meta mark set 1",
            4 => "tcp sport 40000 limit rate over 1/day burst 1 packets drop",
            5 => target,
            _ => "counter",
        };
        text += &format!("{begin}{name} {behind} {end}\n");
    }
    text
}

fn random_names(random: &mut Random) -> Names {
    let states = ["known", "known", "known", "undecided", "unreadable", "none"];
    let protocols = ["tls", "quic", "http", "dns", "other"];
    let state = states[random.below(states.len() as u32) as usize];
    let protocol = protocols[random.below(protocols.len() as u32) as usize];
    let host = match random.below(4) {
        0 => "-".to_owned(),
        _ => format!("a{}.example", random.below(2 * HOSTS)),
    };
    names_of(&[state, protocol, &host, "-", "-", "-", "-", "1"])
}

#[test]
fn an_index_by_names_changes_no_outcome() {
    let mut random = Random(3);
    for _ in 0..ROUNDS {
        let rules = random_rules(&mut random, "jump x");
        let others = random_rules(&mut random, "return");
        let text = policy_text(&format!("{rules}}}\nchain x {{\n{others}"));
        let engines = [true, false].map(|linear| engine(&text, linear));
        for _ in 0..PACKETS {
            let names = random_names(&mut random);
            let captured = if random.below(4) == 0 {
                20
            } else {
                PACKET.len()
            };
            let outcomes = engines
                .each_ref()
                .map(|engine| ask(engine, &names, &SETTINGS, &PACKET[..captured]));
            assert_eq!(outcomes[0], outcomes[1], "{names:?}\n{text}");
        }
    }
}

#[test]
fn the_stricter_holds_if_bytes_are_missing_too() {
    let text = policy_text("tls sni . tcp dport { \"a.example\" . 443 } drop\naccept");
    let engine = engine(&text, false);
    let cut = &PACKET[..20];
    for (state, truncated_open, undecided_verdict, unknown_open, expected) in [
        (
            NamesState::Undecided,
            true,
            Verdict::Accept,
            false,
            "accept undecided",
        ),
        (
            NamesState::Undecided,
            true,
            Verdict::Drop,
            true,
            "drop undecided",
        ),
        (
            NamesState::Undecided,
            false,
            Verdict::Accept,
            true,
            "drop fail",
        ),
        (
            NamesState::Unreadable,
            true,
            Verdict::Drop,
            true,
            "accept fail",
        ),
        (
            NamesState::Unreadable,
            true,
            Verdict::Accept,
            false,
            "drop fail",
        ),
        (
            NamesState::Unreadable,
            false,
            Verdict::Accept,
            true,
            "drop fail",
        ),
        (NamesState::Known, true, Verdict::Drop, false, "accept fail"),
    ] {
        let settings = DecideSettings {
            truncated_open,
            undecided_verdict,
            unknown_open,
            ..SETTINGS
        };
        let names = Names {
            state,
            protocol: NamesProtocol::Tls,
            host_length: 1,
            ..Names::default()
        };
        let outcome = ask(&engine, &names, &settings, cut);
        let said = said(&outcome);
        assert_eq!(said.trim_end_matches(" read"), expected, "{state:?}");
        assert!(outcome.undecidable);
        assert_eq!(outcome.undecided, state != NamesState::Known);
    }
}

#[test]
fn thirty_two_protocols_are_the_most() {
    let rules = |count: u32| -> String {
        let rules = (0..count).map(|n| format!("tls alpn \"p{n}\" accept\n"));
        rules.collect()
    };
    let engine = engine(&policy_text(&rules(32)), false);
    let names = names_of(&["known", "tls", "-", "p31", "-", "-", "-", "-"]);
    assert_eq!(
        said(&ask(&engine, &names, &SETTINGS, &PACKET)),
        "accept rule read"
    );
    let failure = crate::support::engine::compile_text(&policy_text(&rules(33)), false, false);
    assert_eq!(
        failure.err().map(|failure| failure.text),
        Some("policy.nft:36:1: \"p32\": more than 32 protocols of tls alpn in a policy".to_owned())
    );
}
