// SPDX-License-Identifier: GPL-2.0-or-later
//! Fuzzer of the data that an old firewall sends in an upgrade.
//!
//! Input: a byte that selects the kind of data, then the data: a line of state, or the memory of rules, of states, of
//! connections or of learned addresses. Before the memory of states, five bytes say how many values it has.
#![no_main]

use std::sync::Arc;

use libfuzzer_sys::{fuzz_target, Corpus};
use rust_firewall::connection::{follow, ConnectionSettings};
use rust_firewall::engine::compile::{self, CompileSettings};
use rust_firewall::engine::compiled::{Compiled, LIMIT_SIZE_MAX};
use rust_firewall::engine::learned;
use rust_firewall::handover;
use rust_firewall::handover::Handover;
use rust_firewall::policy::parse;
use rust_firewall::ruleset::migration::{self, MigrationKind};
use rust_firewall::worker::WorkerHandover;

const LINE: u8 = 0;
const RULES: u8 = 1;
const STATES: u8 = 2;
const CONNECTIONS: u8 = 3;
const LEARNED: u8 = 4;
const PLACES_MAX: u8 = 4;
const LIMIT_SIZE: i64 = 1000;
const SETTINGS: ConnectionSettings = ConnectionSettings {
    connections: 16,
    hello_bytes: 16384,
    hello_timeout_ns: 10_000_000_000,
    undecided_bytes: 8192,
};
const NOW_NS: u64 = 1_000_000_000_000;

fuzz_target!(|input: &[u8]| -> Corpus {
    match input.split_first() {
        Some((&LINE, rest)) => fuzz_line(rest),
        Some((&RULES, rest)) => fuzz_rules(rest),
        Some((&STATES, rest)) => fuzz_states(rest),
        Some((&CONNECTIONS, rest)) => fuzz_connections(rest),
        Some((&LEARNED, rest)) => fuzz_learned(rest),
        _ => return Corpus::Reject,
    }
    Corpus::Keep
});

/// Checks that each accepted line of state can be printed, and that the printed line is accepted.
fn fuzz_line(line: &[u8]) {
    let (mut told, mut again) = (Handover::default(), Handover::default());
    match handover::state::parse(line, &mut told) {
        Ok(()) => {
            let printed = handover::state::print(&told);
            handover::state::parse(printed.as_bytes(), &mut again).expect("what was printed");
            assert_eq!(
                (told.queues.len(), told.pid),
                (again.queues.len(), again.pid)
            );
        }
        Err(failure) => assert!(!failure.text.contains('\n')),
    }
}

/// Checks the accepted memory of rules: the totals are the sums over all rules, the sizes of the limits' buckets are
/// valid, and all rules are paired if the rules are paired with themselves.
fn fuzz_rules(bytes: &[u8]) {
    let Some(side) = handover::rules::parse(bytes) else {
        return;
    };
    let mut totals = side.totals.map(|_| 0);
    for rule in &side.rules {
        for (total, count) in totals.iter_mut().zip(rule.count) {
            *total += u32::from(count);
        }
    }
    assert_eq!(totals, side.totals);
    assert_eq!(
        side.limit_sizes.len(),
        totals[MigrationKind::Limits as usize] as usize
    );
    for size in &side.limit_sizes {
        assert!((1..=LIMIT_SIZE_MAX).contains(size));
    }
    let carry = migration::pair(&side.rules, &side.rules);
    let figures = (carry.kept as usize, carry.added, carry.removed);
    assert_eq!(figures, (side.rules.len(), 0, 0));
}

fn places(count: u8) -> Vec<Option<usize>> {
    let place = |place: u8| (place % 2 == 1).then_some(place.into());
    (0..count % PLACES_MAX).map(place).collect()
}

/// Checks that the accepted states of limits and quotas lie within their bounds.
fn fuzz_states(input: &[u8]) {
    let Some(([counts, stats, queues, limits, quotas], rest)) = input.split_first_chunk() else {
        return;
    };
    let mut taken = Handover {
        count_places: places(*counts),
        stat_places: places(*stats),
        queues: (0..1 + queues % 2)
            .map(|_| WorkerHandover::default())
            .collect(),
        ..Handover::default()
    };
    taken.side.limit_sizes = vec![LIMIT_SIZE; (limits % PLACES_MAX).into()];
    taken.side.totals[MigrationKind::Limits as usize] = (limits % PLACES_MAX).into();
    taken.side.totals[MigrationKind::Quotas as usize] = (quotas % PLACES_MAX).into();
    let mut bytes = rest.to_vec();
    bytes.resize(handover::counted::states_bytes(&taken) as usize, 0);
    if handover::counted::parse_states(&bytes, &mut taken).is_ok() {
        let states = &taken.states;
        assert_eq!(states.tokens.len(), taken.side.limit_sizes.len());
        assert!(states
            .tokens
            .iter()
            .all(|tokens| (0..=LIMIT_SIZE).contains(tokens)));
        assert_eq!(states.used.len(), usize::from(quotas % PLACES_MAX));
        assert!(states.used.iter().all(|used| *used <= i64::MAX as u64));
    }
}

/// Parses the connections of a hand-over into an empty table, and writes the table. Returns the written bytes; None if
/// the parser refuses `bytes`, which leaves the table empty.
fn again(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut connections = follow::make(&SETTINGS);
    let parsed = handover::connections::parse(bytes, &mut connections, NOW_NS);
    let taken = parsed.map_or(0, |followed| followed.taken);
    assert_eq!(u64::from(follow::count(&connections)), taken);
    parsed.ok()?;
    let mut memory = handover::memory::make().expect("memory");
    handover::connections::write(&mut memory, &mut connections, u64::MAX, NOW_NS).expect("room");
    handover::memory::seal(&mut memory).expect("a seal");
    let fd = handover::memory::fd(&memory).try_clone_to_owned();
    let sealed = handover::memory::open(fd.expect("a descriptor"), u64::MAX).expect("a memory");
    Some(handover::memory::read(&sealed).expect("bytes"))
}

/// Checks that accepted connections are written as bytes that stay the same if they are parsed and written again.
fn fuzz_connections(bytes: &[u8]) {
    if let Some(first) = again(bytes) {
        assert_eq!(again(&first), Some(first));
    }
}

const ADDRESSES: u32 = 64;
const LEARNING: &str = "table inet t {
	set cdn { type ipv4_addr; learn dns \"a.example\"; }
	set cdn6 { type ipv6_addr; learn dns \"a.example\"; }
}
";

/// Compiles the policy that the test vectors of learned addresses need, with empty learning sets.
fn make_learning() -> Compiled {
    let policy = parse::text("t", LEARNING.as_bytes());
    let policy = policy.unwrap_or_else(|failure| panic!("{}", failure.text));
    let settings = CompileSettings {
        linear: false,
        interface_index: &|_| 0,
        interfaces_must_exist: false,
    };
    let compiled = compile::policy(&policy, &settings);
    let mut compiled = compiled.unwrap_or_else(|failure| panic!("{}", failure.text));
    compiled.learned = Some(Arc::new(learned::make(ADDRESSES)));
    compiled
}

/// Checks that accepted learned addresses are stored, and that they are accepted again after they are written.
fn fuzz_learned(bytes: &[u8]) {
    thread_local! {
        static COMPILED: Compiled = make_learning();
    }
    COMPILED.with(|compiled| {
        let learned = compiled.learned.as_ref().expect("room");
        learned::forget_all(learned);
        let Ok(taken) = handover::learned::parse(bytes, compiled, NOW_NS) else {
            assert_eq!(learned::count(learned, NOW_NS), 0);
            return;
        };
        assert_eq!(learned::count(learned, NOW_NS), taken.taken);
        let mut memory = handover::memory::make().expect("memory");
        handover::learned::write(&mut memory, compiled, NOW_NS).expect("room");
        handover::memory::seal(&mut memory).expect("a seal");
        let fd = handover::memory::fd(&memory).try_clone_to_owned();
        let sealed = handover::memory::open(fd.expect("a descriptor"), u64::MAX).expect("memory");
        let written = handover::memory::read(&sealed).expect("bytes");
        learned::forget_all(learned);
        let second =
            handover::learned::parse(&written, compiled, NOW_NS).expect("what was written");
        let figures = (second.taken, second.left_out, second.other);
        assert_eq!(figures, (taken.taken, 0, 0));
    });
}
