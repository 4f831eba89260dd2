// SPDX-License-Identifier: GPL-2.0-or-later
//! Tests that random policies have the same verdicts and counters with and without indexes, and in both twins.

use crate::support::engine::{engine, ifname, input, packet_bytes, policy_text, Engine, Random};
use rust_firewall::engine::compile;
use rust_firewall::engine::decide;
use rust_firewall::engine::flow;
use rust_firewall::engine::types::{
    CompilePlace, DecideInput, DecideOutcome, DecideRecorder, DecideSettings, DecideStep,
};
use rust_firewall::packet::verdict::Verdict;
use rust_firewall::packet::{self, Packet};

const POLICIES: usize = 60;
const PACKETS: usize = 400;
/// Hash of all results for the random numbers of seed 1; the same in both twins.
const DIGEST: u64 = 0x94b9_2399_67da_7d2c;

const SETTINGS: DecideSettings = DecideSettings {
    default_verdict: Verdict::Drop,
    malformed_open: false,
    truncated_open: false,
    malformed_by_policy: true,
    undecided_verdict: Verdict::Accept,
    unknown_open: false,
};

/// Recorder that counts the chains and rules that are reported.
#[derive(Default)]
struct Steps {
    rules: usize,
    chains: usize,
}

impl DecideRecorder for Steps {
    fn chain(&mut self, _chain: CompilePlace, _depth: u32) {
        self.chains += 1;
    }
    fn rule(&mut self, _step: &DecideStep) {
        self.rules += 1;
    }
}

fn mix(digest: &mut u64, number: u64) {
    *digest = (*digest ^ number).wrapping_mul(0x0000_0100_0000_01b3);
    *digest ^= *digest >> 29;
}

fn mix_outcome(digest: &mut u64, outcome: &DecideOutcome) {
    mix(digest, outcome.verdict as u64);
    mix(digest, outcome.by as u64);
    mix(digest, outcome.rule.into());
    mix(digest, outcome.chain.into());
    mix(digest, outcome.mark_set.into());
    mix(digest, outcome.mark.into());
    let reject = outcome.reject;
    mix(digest, reject.map_or(99, |reject| reject.kind as u64));
}

fn mix_counters(digest: &mut u64, engine: &Engine) {
    for counter in 0..compile::counters(&engine.compiled) {
        let (packets, bytes) = engine.counter(counter);
        mix(digest, packets);
        mix(digest, bytes);
    }
    for log in 0..compile::logs(&engine.compiled) {
        mix(digest, flow::logged(&engine.counters, log));
    }
}

/// Returns the number of captured bytes of a packet: a random number for one in four packets, otherwise all bytes.
fn captured_of(random: &mut Random, count: u32) -> u32 {
    match random.below(4) {
        0 => random.below(count + 1),
        _ => count,
    }
}

/// Checks that a packet has the same outcome with its captured bytes and with all bytes, unless the outcome is
/// undecidable.
fn assert_as_whole(text: &str, bytes: &[u8], input: &DecideInput) {
    let (of_part, of_whole) = (engine(text, false), engine(text, false));
    let mut packet = Packet::default();
    let status = packet::parse(bytes, bytes.len() as u32, &mut packet);
    let all = DecideInput {
        status,
        packet: &packet,
        ..*input
    };
    let part = decide::packet(&SETTINGS, Some(&of_part.policy()), input);
    let whole = decide::packet(&SETTINGS, Some(&of_whole.policy()), &all);
    assert!(!whole.undecidable);
    // Without a captured byte the packet's version is unknown.
    if !part.undecidable && !input.packet.bytes.is_empty() {
        assert_eq!(part, whole, "{bytes:02x?} of\n{text}");
    }
}

/// Decides packets by a policy compiled with indexes and without indexes.
/// - all, found: in/out: number of rules that were evaluated without indexes, and with indexes.
fn compare(random: &mut Random, digest: &mut u64, all: &mut Steps, found: &mut Steps) {
    let text = policy_text(random);
    let (indexed, linear) = (engine(&text, false), engine(&text, true));
    let seen = engine(&text, false);
    for number in 0..PACKETS {
        let bytes = packet_bytes(random);
        let mut parsed = Packet::default();
        let captured = captured_of(random, bytes.len() as u32);
        let copied = &bytes[..captured as usize];
        let status = packet::parse(copied, bytes.len() as u32, &mut parsed);
        let mut input = input(&parsed, status);
        input.mark = random.below(6);
        input.iif = 2 + random.below(4);
        input.iifname = ifname(&format!("eth{}", input.iif - 2));
        input.ct_state = (random.below(2) == 0).then(|| 1 << random.below(4));
        input.now_ns = number as u64 * 50_000_000;
        let outcome = decide::packet(&SETTINGS, Some(&indexed.policy()), &input);
        let traced = decide::trace(&SETTINGS, Some(&linear.policy()), &input, all);
        decide::trace(&SETTINGS, Some(&seen.policy()), &input, found);
        assert_eq!(outcome, traced, "packet {number} {bytes:02x?} of\n{text}");
        mix_outcome(digest, &outcome);
        mix(digest, outcome.undecidable.into());
        if copied.len() < bytes.len() && number % 16 == 0 {
            assert_as_whole(&text, &bytes, &input);
        }
    }
    for counter in 0..compile::counters(&indexed.compiled) {
        let (one, other) = (indexed.counter(counter), linear.counter(counter));
        assert_eq!(one, other, "counter {counter} of\n{text}");
    }
    mix_counters(digest, &indexed);
}

#[test]
fn indexes_and_twins_change_nothing() {
    let mut random = Random(1);
    let mut digest = 0;
    let (mut all, mut found) = (Steps::default(), Steps::default());
    for _ in 0..POLICIES {
        compare(&mut random, &mut digest, &mut all, &mut found);
    }
    assert_eq!(all.chains, found.chains);
    assert!(
        10 * found.rules < 8 * all.rules,
        "{} of {}",
        found.rules,
        all.rules
    );
    assert_eq!(digest, DIGEST, "{digest:#018x}");
}
