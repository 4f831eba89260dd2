// SPDX-License-Identifier: GPL-2.0-or-later
//! Tests decisions about packets: the test vectors that both twins share, and cases that the vectors can't express.

use crate::support::engine::{compile_text, engine, ifname, input, Engine};
use crate::support::lines;
use crate::support::vectors;
use crate::support::vectors::Block;
use rust_firewall::engine::compile;
use rust_firewall::engine::decide;
use rust_firewall::engine::types::{
    CompilePlace, DecideBy, DecideInput, DecideOutcome, DecideRecorder, DecideSettings, DecideStep,
    DecideWhy,
};
use rust_firewall::packet::verdict::{self, Verdict};
use rust_firewall::packet::{self, Packet, PacketStatus, STATUSES};
use rust_firewall::policy::{Field, Verdict as RuleVerdict};

/// Table before the tested table, so that the tested sets and chains do not have the first numbers.
const BEFORE: &str = "table inet before { set first { type ipv4_addr; elements = { 9.9.9.9 }; }; \
                      chain first { accept; }; };";
const SETS: &str = "set numbers { type inet_service; elements = { 22, 80 }; }; map names { type \
                    inet_service : verdict; elements = { 80 : jump there }; };";
const CHAINS: &str = "chain back { return; }\n chain there { drop; }\n \
                      chain over { jump back; goto back; drop; }\n";

fn settings(default_verdict: Verdict, open: bool) -> DecideSettings {
    DecideSettings {
        default_verdict,
        malformed_open: open,
        truncated_open: open,
        malformed_by_policy: false,
        undecided_verdict: Verdict::Accept,
        unknown_open: false,
    }
}

/// Packet of the test vectors in transport.txt.
struct Sample {
    bytes: Vec<u8>,
    original: u32,
}

fn sample(name: &str) -> Sample {
    let blocks = vectors::read("transport.txt");
    let is_named = |block: &&Block| block.name() == name;
    let block = blocks.iter().find(is_named).expect("a packet of this name");
    let bytes = block.bytes();
    let original = block
        .value("original")
        .map_or(bytes.len() as u32, vectors::number);
    Sample { bytes, original }
}

impl Sample {
    fn parse(&self) -> (Packet<'_>, PacketStatus) {
        let mut packet = Packet::default();
        let status = packet::parse(&self.bytes, self.original, &mut packet);
        (packet, status)
    }
}

/// Returns a policy with a base chain of the hook input whose policy is accept.
/// - rules: rules of the base chain, separated by "; ".
fn policy_of(family: &str, rules: &str) -> String {
    let rules = rules.replace("; ", "\n");
    format!(
        "{BEFORE} table {family} t {{ {SETS}\n {CHAINS} chain c {{\n type filter hook input \
         priority 0; policy accept;\n {rules}\n }}\n}}\n"
    )
}

fn decide(engine: &Engine, settings: &DecideSettings, input: &DecideInput) -> DecideOutcome {
    decide::packet(settings, Some(&engine.policy()), input)
}

/// Returns the outcome in the format of decide.txt.
fn describe(engine: &Engine, outcome: &DecideOutcome) -> String {
    let by = match outcome.by {
        DecideBy::Rule => {
            let place = compile::rule_at(&engine.compiled, outcome.rule);
            format!("rule {}", place.rule)
        }
        DecideBy::Policy => "policy".to_owned(),
        DecideBy::Default => "default".to_owned(),
        DecideBy::Fail => "fail".to_owned(),
        DecideBy::Undecided => "undecided".to_owned(),
        DecideBy::Connection => "connection".to_owned(),
    };
    let mark = match outcome.mark_set {
        true => format!(" mark {}", outcome.mark),
        false => String::new(),
    };
    format!("{} {by}{mark}", verdict::name(outcome.verdict))
}

#[test]
fn vectors_are_decided_as_expected() {
    let lines = lines::lines("decide.txt");
    assert!(lines.len() > 150, "only {} vectors", lines.len());
    for line in &lines {
        let parts: Vec<&str> = line.split('\t').collect();
        let &[family, name, rules, expected] = parts.as_slice() else {
            panic!("{line}");
        };
        let sample = sample(name);
        let (packet, status) = sample.parse();
        let mut input = input(&packet, status);
        input.mark = 5;
        input.iif = 2;
        input.iifname = ifname("eth0");
        input.uid = Some(1000);
        input.gid = Some(1000);
        input.ct_state = Some(8);
        let by_policy = DecideSettings {
            malformed_by_policy: true,
            ..settings(Verdict::Drop, false)
        };
        for linear in [false, true] {
            let engine = engine(&policy_of(family, rules), linear);
            let outcome = decide(&engine, &by_policy, &input);
            assert_eq!(describe(&engine, &outcome), expected, "{line}");
        }
    }
}

#[test]
fn without_a_policy_the_default_is_for_what_could_be_read() {
    let packet = Packet::default();
    for (status, name) in STATUSES {
        for (default, malformed_open, truncated_open) in [
            (Verdict::Accept, false, false),
            (Verdict::Drop, true, false),
            (Verdict::Drop, false, true),
        ] {
            let settings = DecideSettings {
                malformed_open,
                truncated_open,
                ..settings(default, false)
            };
            let outcome = decide::packet(&settings, None, &input(&packet, status));
            let failed = packet::is_malformed(status);
            let fail = |open| match open {
                true => Verdict::Accept,
                false => Verdict::Drop,
            };
            assert_eq!(
                outcome.verdict,
                if failed {
                    fail(malformed_open)
                } else {
                    default
                },
                "{name}"
            );
            assert_eq!(outcome.by == DecideBy::Fail, failed, "{name}");
            assert_eq!(decide::decide(&settings, status, false), outcome.verdict);
            assert_eq!(
                decide::decide(&settings, status, true),
                fail(truncated_open)
            );
        }
    }
}

#[test]
fn truncated_gets_the_fail_mode_whatever_the_status() {
    let packet = Packet::default();
    let engine = engine(&policy_of("inet", "drop"), false);
    let by_policy = DecideSettings {
        malformed_by_policy: true,
        ..settings(Verdict::Drop, true)
    };
    for (status, name) in STATUSES {
        let mut input = input(&packet, status);
        input.truncated = true;
        let outcome = decide(&engine, &by_policy, &input);
        assert_eq!(outcome.verdict, Verdict::Accept, "{name}");
        assert_eq!(outcome.by, DecideBy::Fail, "{name}");
    }
}

#[test]
fn malformed_gets_the_fail_mode_unless_the_policy_is_to_decide() {
    let sample = sample("ipv4-tcp-4-bytes");
    let (packet, status) = sample.parse();
    let engine = engine(&policy_of("inet", "tcp dport 80 accept; drop"), false);
    let mut settings = settings(Verdict::Drop, false);
    let outcome = decide(&engine, &settings, &input(&packet, status));
    assert_eq!(describe(&engine, &outcome), "drop fail");
    assert!(!outcome.undecidable);
    settings.truncated_open = true;
    let outcome = decide(&engine, &settings, &input(&packet, status));
    assert_eq!(describe(&engine, &outcome), "drop fail");
    settings.malformed_open = true;
    let outcome = decide(&engine, &settings, &input(&packet, status));
    assert_eq!(describe(&engine, &outcome), "accept fail");
    settings.malformed_by_policy = true;
    let outcome = decide(&engine, &settings, &input(&packet, status));
    assert_eq!(describe(&engine, &outcome), "accept rule 0");
    let outcome = decide::packet(&settings, None, &input(&packet, status));
    assert_eq!(outcome.by, DecideBy::Fail);
}

#[test]
fn what_is_cut_cannot_be_decided_by_a_rule_that_reads_it() {
    let sample = sample("ipv4-options-uncopied");
    let (packet, status) = sample.parse();
    assert_eq!(status, PacketStatus::BeyondCopy);
    let mut settings = settings(Verdict::Accept, false);
    let network = engine(&policy_of("inet", "ip saddr 10.9.0.1 accept"), false);
    let outcome = decide(&network, &settings, &input(&packet, status));
    assert_eq!(describe(&network, &outcome), "accept rule 0");
    let transport = engine(
        &policy_of("inet", "ip saddr 10.9.0.9 accept; th dport 1 drop"),
        false,
    );
    settings.malformed_open = true;
    let outcome = decide(&transport, &settings, &input(&packet, status));
    assert_eq!(describe(&transport, &outcome), "drop fail");
    assert!(outcome.undecidable);
    settings.truncated_open = true;
    let outcome = decide(&transport, &settings, &input(&packet, status));
    assert_eq!(describe(&transport, &outcome), "accept fail");
    // An earlier rule decides without the missing field.
    let before_it = engine(
        &policy_of("inet", "ip saddr 10.9.0.1 accept; th dport 1 drop"),
        false,
    );
    let outcome = decide(&before_it, &settings, &input(&packet, status));
    assert_eq!(describe(&before_it, &outcome), "accept rule 0");
    let sample = self::sample("ipv6-extension-uncopied");
    let (packet6, status6) = sample.parse();
    assert_eq!(status6, PacketStatus::BeyondCopy);
    // Missing fields of another family have no effect.
    let icmp = engine(&policy_of("inet", "icmp type 1 drop"), false);
    let outcome = decide(&icmp, &settings, &input(&packet6, status6));
    assert_eq!(describe(&icmp, &outcome), "accept policy");
    let other = engine(&policy_of("inet", "icmpv6 type 1 drop"), false);
    let outcome = decide(&other, &settings, &input(&packet, status));
    assert_eq!(describe(&other, &outcome), "accept policy");
}

#[test]
fn chains_see_their_hook_and_family() {
    let sample = sample("ipv6-tcp");
    let (packet, status) = sample.parse();
    let engine = engine(&policy_of("ip6", "drop"), false);
    let settings = settings(Verdict::Accept, false);
    let mut input = input(&packet, status);
    assert_eq!(decide(&engine, &settings, &input).by, DecideBy::Rule);
    input.nfproto = 10;
    assert_eq!(decide(&engine, &settings, &input).by, DecideBy::Rule);
    // The kernel's protocol (nfproto) decides, not the version in the packet.
    input.nfproto = 2;
    assert_eq!(decide(&engine, &settings, &input).by, DecideBy::Default);
    input.nfproto = 7;
    assert_eq!(decide(&engine, &settings, &input).by, DecideBy::Default);
    input.nfproto = 0;
    for hook in [0, 2, 3, 4, 5, 255] {
        input.hook = hook;
        assert_eq!(decide(&engine, &settings, &input).by, DecideBy::Default);
    }
}

/// Recorder of the chains and rules of a walk.
#[derive(Default)]
struct Notes {
    chains: Vec<(CompilePlace, u32)>,
    steps: Vec<DecideStep>,
}

impl DecideRecorder for Notes {
    fn chain(&mut self, chain: CompilePlace, depth: u32) {
        self.chains.push((chain, depth));
    }
    fn rule(&mut self, step: &DecideStep) {
        self.steps.push(*step);
    }
}

fn trace(text: &str, name: &str) -> (Notes, DecideOutcome) {
    let sample = sample(name);
    let (packet, status) = sample.parse();
    let engine = engine(text, true);
    let mut notes = Notes::default();
    let outcome = decide::trace(
        &settings(Verdict::Drop, false),
        Some(&engine.policy()),
        &input(&packet, status),
        &mut notes,
    );
    (notes, outcome)
}

#[test]
fn base_chains_run_by_priority_and_of_one_the_last_declared_first() {
    let base = |name: &str, hook: &str, priority: i32, rules: &str| {
        format!("chain {name} {{\n type filter hook {hook} priority {priority};\n {rules}\n }}\n")
    };
    let text = format!(
        "table inet a {{\n{}{}{}}}\ntable ip b {{\n{}{}}}\n",
        base("x", "input", 5, "accept"),
        base("y", "input", -5, "accept"),
        base("z", "output", -9, "drop"),
        base("x", "input", 5, "counter"),
        base("y", "input", 9, "drop"),
    );
    let (notes, outcome) = trace(&text, "ipv4-tcp");
    let order: Vec<(u32, u32)> = notes
        .chains
        .iter()
        .map(|(place, _)| (place.table, place.chain))
        .collect();
    assert_eq!(order, [(0, 1), (1, 0), (0, 0), (1, 1)]);
    assert_eq!((outcome.verdict, outcome.chain), (Verdict::Drop, 4));
    let (notes, outcome) = trace(&text, "ipv6-tcp");
    assert_eq!(notes.chains.len(), 2);
    assert_eq!(
        (outcome.verdict, outcome.by),
        (Verdict::Accept, DecideBy::Rule)
    );
}

#[test]
fn statements_run_from_left_to_right() {
    let sample = sample("ipv4-tcp");
    let (packet, status) = sample.parse();
    let settings = settings(Verdict::Drop, false);
    let rules = "counter limit rate 1/hour burst 2 packets counter drop; \
                 counter limit rate 1/hour counter drop; ip saddr 9.9.9.9 counter";
    let engine = engine(&policy_of("ip", rules), false);
    let verdicts: Vec<Verdict> = (0..9)
        .map(|_| decide(&engine, &settings, &input(&packet, status)).verdict)
        .collect();
    let dropped = verdicts.iter().filter(|&&verdict| verdict == Verdict::Drop);
    assert_eq!(dropped.count(), 7);
    let counters: Vec<(u64, u64)> = (0..5).map(|counter| engine.counter(counter)).collect();
    // The default burst is 5.
    assert_eq!(counters, [(9, 360), (2, 80), (7, 280), (5, 200), (0, 0)]);
    let place = compile::counter_at(&engine.compiled, 1);
    assert_eq!((place.chain, place.rule, place.statement), (3, 0, 2));
}

#[test]
fn a_walk_tells_how_far_each_rule_came() {
    let rules = "tcp dport 80 counter ip saddr 10.0.0.0/8 jump over; \
                 ip saddr . udp dport { 1.2.3.4 . 5 } drop; ip saddr != 10.9.0.1 drop; \
                 limit rate over 1/second drop; quota over 1 mbytes drop; \
                 reject with icmpv6 no-route; tcp dport vmap { 80 : accept }; drop";
    let (notes, outcome) = trace(&policy_of("inet", rules), "ipv4-tcp");
    let depths: Vec<u32> = notes.chains.iter().map(|&(_, depth)| depth).collect();
    // The chains c, over, back by a jump, and back by a goto.
    assert_eq!(depths, [0, 1, 2, 2]);
    let told = |step: &DecideStep| {
        let place = step.place;
        (
            place.chain,
            place.rule,
            place.statement,
            step.depth,
            step.why,
        )
    };
    let steps: Vec<_> = notes.steps.iter().map(told).collect();
    assert_eq!(
        steps,
        [
            (3, 0, 4, 0, DecideWhy::Held),
            (2, 0, 1, 1, DecideWhy::Held),
            (0, 0, 1, 2, DecideWhy::Held),
            (2, 1, 1, 1, DecideWhy::Held),
            (0, 0, 1, 2, DecideWhy::Held),
            (3, 1, 0, 0, DecideWhy::Missing),
            (3, 2, 0, 0, DecideWhy::Differs),
            (3, 3, 0, 0, DecideWhy::Limit),
            (3, 4, 0, 0, DecideWhy::Quota),
            (3, 5, 0, 0, DecideWhy::NoAnswer),
            (3, 6, 1, 0, DecideWhy::Held),
        ]
    );
    let verdicts: Vec<Option<RuleVerdict>> = notes.steps.iter().map(|step| step.verdict).collect();
    assert_eq!(verdicts[0], Some(RuleVerdict::Jump));
    assert_eq!(verdicts[2], Some(RuleVerdict::Return));
    assert_eq!(verdicts[5], None);
    assert_eq!(verdicts[10], Some(RuleVerdict::Accept));
    assert_eq!(notes.steps[5].missing, Some(Field::UdpDport));
    assert_eq!(notes.steps[6].values_count, 1);
    assert_eq!(notes.steps[6].values[0], 0x0a09_0001);
    assert_eq!(outcome.verdict, Verdict::Accept);
}

#[test]
fn a_way_of_sixteen_chains_is_walked() {
    let mut text = String::from("table ip t {\n");
    for number in (1..16).rev() {
        let next = match number {
            15 => "counter".to_owned(),
            _ => format!("jump c{}", number + 1),
        };
        text += &format!(" chain c{number} {{\n {next}\n counter\n }}\n");
    }
    text += " chain c0 {\n type filter hook input priority 0;\n jump c1\n drop\n }\n}\n";
    let (notes, outcome) = trace(&text, "ipv4-tcp");
    assert_eq!(notes.chains.len(), 16);
    assert_eq!(notes.steps.len(), 2 + 15 * 2);
    assert_eq!(outcome.verdict, Verdict::Drop);
    assert_eq!(notes.steps.last().map(|step| step.depth), Some(0));
}

#[test]
fn rules_behind_a_jump_of_an_indexed_chain_run_once() {
    // The first rule has too many intervals for the index.
    let mut rules = "tcp dport 60-200 counter; ".to_owned();
    for port in (60..120).step_by(2) {
        rules += &format!("tcp dport {port} counter jump back; ");
    }
    rules += "tcp dport 80 counter; th dport 80 counter; tcp dport 80 counter jump over; counter";
    let sample = sample("ipv4-tcp");
    let (packet, status) = sample.parse();
    let engine = engine(&policy_of("ip", &rules), false);
    let outcome = decide(
        &engine,
        &settings(Verdict::Drop, false),
        &input(&packet, status),
    );
    assert_eq!(describe(&engine, &outcome), "accept policy");
    let hit: Vec<u32> = (0..35)
        .filter(|&counter| engine.counter(counter) == (1, 40))
        .collect();
    assert_eq!(hit, [0, 11, 31, 32, 33, 34]);
}

#[test]
fn interfaces_can_be_asked_to_exist() {
    let made = |rules: &str, must_exist: bool| {
        let made = compile_text(&policy_of("ip", rules), false, must_exist);
        made.err().map(|failure| failure.text)
    };
    let refused =
        "\"eth9\": there is no network interface of this name: create it first, or match \
                   its name with iifname or oifname";
    assert_eq!(made("iif eth0 drop", true), None);
    assert_eq!(made("iif { eth0, eth9 } drop", false), None);
    assert_eq!(
        made("iif eth9 drop", true),
        Some(format!("policy.nft:7:2: {refused}"))
    );
    assert_eq!(
        made("counter; iif { eth0, eth9 } drop", true),
        Some(format!("policy.nft:8:13: {refused}"))
    );
}
