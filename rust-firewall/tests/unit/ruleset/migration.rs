// SPDX-License-Identifier: GPL-2.0-or-later
//! Tests of the counters, logs, limits and quotas that a policy takes over from its predecessor.

use std::fs;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::Arc;

use rust_firewall::engine::compiled::{FlowLimit, FlowQuota};
use rust_firewall::engine::flow::{self, FlowCounter};
use rust_firewall::handover;
use rust_firewall::options::{parse, OptionsAction};
use rust_firewall::ruleset::load::{self, Loaded};
use rust_firewall::ruleset::migration::{self, Migration, MigrationStates};

const SECOND: u64 = 1_000_000_000;
const NOW_NS: u64 = 1000 * SECOND;
/// Rule with a limit of more packets per second than nanoseconds: a packet costs nothing.
const ENDLESS: &str = "limit rate 2000000000/second burst 4 packets comment \"a\"\n";

/// Writes a text to a file, and loads the file like the firewall.
fn loaded(text: &str) -> Loaded {
    static FILES: AtomicU32 = AtomicU32::new(0);
    let number = FILES.fetch_add(1, Ordering::Relaxed);
    let name = format!("twinwall-migration-{}-{number}.nft", std::process::id());
    let path = std::env::temp_dir().join(name);
    fs::write(&path, text).expect("a file");
    let words = ["rust-firewall", "--policy", path.to_str().expect("a path")];
    let Ok(OptionsAction::Run(options)) = parse(&words.map(Into::into)) else {
        panic!("{words:?}");
    };
    let loaded = load::load(&options);
    fs::remove_file(&path).expect("a file");
    loaded.expect("a policy").expect("a policy")
}

/// Returns a table with one chain of these rules.
fn chain(rules: &str) -> String {
    format!("table inet t {{\n chain c {{\n{rules} }}\n}}\n")
}

/// Replaces `old` by `new`, as in a reload. The counters and logs of `old` have the values 1, 2, 3, … at this time.
fn exchange(old: &Loaded, new: &mut Loaded) -> Migration {
    let began = load::began(old).clone();
    let count = |number| FlowCounter {
        packets: number,
        bytes: 10 * number,
    };
    let counters: Vec<_> = (1..=began.counters.len() as u64).map(count).collect();
    let logged: Vec<_> = (1..=began.logged.len() as u64).collect();
    let migration = migration::begin(old, new, NOW_NS);
    migration::end(&migration, &counters, &logged, new);
    migration
}

/// Replaces `old`, whose counters have the values 1, 2, 3, …, by `new`. Returns the initial value of each counter of
/// `new`: the number (from 1) of the counter of `old` that continues, or the value in the text of `new`.
fn counters(old: &str, new: &str) -> Vec<u64> {
    let mut new = loaded(new);
    exchange(&loaded(old), &mut new);
    let began = load::began(&new);
    for counter in &began.counters {
        assert!(counter.packets > 9 || counter.bytes == 10 * counter.packets);
    }
    began
        .counters
        .iter()
        .map(|counter| counter.packets)
        .collect()
}

/// Returns the result of `counters` for two policies, each with one chain of the given rules.
fn counters_of_rules(old: &str, new: &str) -> Vec<u64> {
    counters(&chain(old), &chain(new))
}

#[test]
fn the_same_text_stays_wherever_it_stands() {
    let old = "tcp dport 1 counter\n tcp dport 2 counter accept\n";
    let new = "tcp dport 2 counter accept\n tcp dport 3 counter\n tcp dport 1 counter\n";
    assert_eq!(counters_of_rules(old, new), [2, 0, 1]);
}

#[test]
fn numbers_that_counters_start_with_are_no_part_of_the_text() {
    let old = "tcp dport 1 counter packets 5 bytes 6\n";
    let new = "tcp dport 1 counter packets 70 bytes 80\n tcp dport 2 counter packets 90 bytes 91\n";
    assert_eq!(counters_of_rules(old, new), [1, 90]);
}

#[test]
fn a_comment_is_no_part_of_the_text() {
    let old = "tcp dport 1 counter\n tcp dport 2 counter comment \"b\"\n";
    let new = "tcp dport 1 counter comment \"a\"\n tcp dport 2 counter\n";
    assert_eq!(counters_of_rules(old, new), [1, 2]);
}

#[test]
fn a_rule_with_the_same_comment_stays_whatever_it_says() {
    let old = "tcp dport 1 counter comment \"web\"\n tcp dport 2 counter\n";
    let new = "tcp dport 2 counter comment \"web\"\n tcp dport 1 counter\n";
    // Rules are paired by comments first. Then the second new rule finds no old rule with its text, because that rule
    // has a partner.
    assert_eq!(counters_of_rules(old, new), [1, 0]);
}

#[test]
fn a_comment_that_is_there_twice_tells_no_rule() {
    let old = "tcp dport 1 counter comment \"a\"\n tcp dport 2 counter comment \"a\"\n";
    let new = "tcp dport 2 counter comment \"a\"\n tcp dport 3 counter\n";
    assert_eq!(counters_of_rules(old, new), [2, 0]);
    assert_eq!(counters_of_rules(new, old), [0, 1]);
}

#[test]
fn the_nth_of_equals_is_the_nth() {
    let old = "counter\n tcp dport 1 accept\n counter\n counter\n";
    assert_eq!(counters_of_rules(old, "counter\n counter\n"), [1, 2]);
    let more = "counter\n counter\n counter\n counter\n";
    assert_eq!(counters_of_rules(old, more), [1, 2, 3, 0]);
}

#[test]
fn rules_are_looked_for_in_their_own_chain() {
    let rule = "tcp dport 1 counter comment \"a\"\n";
    let other_chain = format!("table inet t {{\n chain d {{\n{rule} }}\n}}\n");
    let other_table = format!("table inet u {{\n chain c {{\n{rule} }}\n}}\n");
    let other_family = format!("table ip t {{\n chain c {{\n{rule} }}\n}}\n");
    assert_eq!(counters(&chain(rule), &chain(rule)), [1]);
    for other in [other_chain, other_table, other_family] {
        assert_eq!(counters(&chain(rule), &other), [0], "{other}");
    }
}

#[test]
fn the_nth_counter_of_a_rule_is_the_nth() {
    let old = "counter\n counter tcp dport 1 counter comment \"a\"\n";
    let new = "counter tcp dport 2 counter tcp sport 3 counter comment \"a\"\n";
    assert_eq!(counters_of_rules(old, new), [2, 3, 0]);
}

#[test]
fn logs_go_on_too() {
    let old = loaded(&chain("log\n tcp dport 1 log\n"));
    let mut new = loaded(&chain("tcp dport 1 log\n tcp dport 2 log\n log\n"));
    exchange(&old, &mut new);
    assert_eq!(load::began(&new).logged, [2, 0, 1]);
}

#[test]
fn rules_are_counted() {
    let old = loaded(&chain("tcp dport 1 accept\n tcp dport 2 accept\n drop\n"));
    let mut new = loaded(&chain(
        "drop\n tcp dport 2 accept\n tcp dport 3 drop\n udp dport 4 drop\n",
    ));
    let migration = exchange(&old, &mut new);
    assert_eq!(
        (migration.kept, migration.added, migration.removed),
        (2, 2, 1)
    );
}

#[test]
fn a_quota_goes_on_while_both_policies_decide() {
    let old = loaded(&chain("quota 100 bytes counter\n"));
    let mut new = loaded(&chain(
        "quota 100 bytes counter\n quota 100 bytes used 90 bytes\n",
    ));
    exchange(&old, &mut new);
    let holds = |policy: &Loaded, index, bytes| {
        let quota = FlowQuota {
            bytes: 100,
            used: 0,
            over: false,
        };
        flow::quota_holds(&policy.flow, index, &quota, bytes)
    };
    assert!(holds(&new, 0, 60));
    assert!(holds(&old, 0, 40));
    assert!(!holds(&new, 0, 1), "what the old policy let through counts");
    assert!(!holds(&new, 1, 11), "a new rule is as its text says");
}

fn limit_of(policy: &Loaded) -> &FlowLimit {
    &policy.compiled.limits[0]
}

/// Returns the number of packets, of `packets` packets, for which a policy's limit holds.
fn limit_holds(policy: &Loaded, packets: u32) -> usize {
    (0..packets)
        .filter(|_| flow::limit_holds(&policy.flow, 0, limit_of(policy), 60, NOW_NS))
        .count()
}

#[test]
fn a_limit_goes_on_while_both_policies_decide() {
    let text = chain("limit rate 1/hour burst 2 packets accept\n");
    let old = loaded(&text);
    let mut new = loaded(&text);
    exchange(&old, &mut new);
    assert_eq!(limit_holds(&old, 1), 1);
    assert_eq!(limit_holds(&new, 1), 1);
    assert_eq!(limit_holds(&old, 1), 0, "two packets, for both together");
    assert_eq!(limit_holds(&new, 1), 0);
}

#[test]
fn a_limit_with_other_figures_is_as_full_as_it_was() {
    let old = loaded(&chain("limit rate 1/hour burst 4 packets comment \"a\"\n"));
    let mut new = loaded(&chain("limit rate 1/day burst 40 packets comment \"a\"\n"));
    assert_eq!(limit_holds(&old, 3), 3, "a quarter is left");
    exchange(&old, &mut new);
    assert_eq!(limit_holds(&new, 40), 10);
}

#[test]
fn a_full_limit_stays_full() {
    let old = loaded(&chain("limit rate 1/hour burst 4 packets comment \"a\"\n"));
    let mut new = loaded(&chain("limit rate 1/hour burst 7 packets comment \"a\"\n"));
    exchange(&old, &mut new);
    assert_eq!(limit_holds(&new, 40), 7);
}

#[test]
fn a_limit_that_is_never_exceeded_is_full_at_another_rate() {
    let old = loaded(&chain(ENDLESS));
    let mut new = loaded(&chain("limit rate 1/hour burst 4 packets comment \"a\"\n"));
    assert_eq!(limit_holds(&old, 100), 100);
    exchange(&old, &mut new);
    assert_eq!(limit_holds(&new, 40), 4);
}

#[test]
fn a_limit_that_is_never_exceeded_is_handed_over() {
    let old = loaded(&chain(ENDLESS));
    let mut writing = handover::rules::begin(Some(&old)).expect("memory");
    let more = handover::rules::write(&mut writing, Some(&old));
    assert_eq!(more, Ok(false));
    let fd = handover::memory::fd(&writing.memory).try_clone_to_owned();
    let fd = fd.expect("a descriptor");
    let sealed = handover::memory::open(fd, handover::rules::BYTES_MAX).expect("sealed memory");
    let bytes = handover::memory::read(&sealed).expect("bytes");
    let side = handover::rules::parse(&bytes).expect("rules");
    assert_eq!(side.limit_sizes, [limit_of(&old).size]);
}

#[test]
fn what_goes_over_outlives_the_old_policy() {
    let old = loaded(&chain("quota 100 bytes\n"));
    let mut new = loaded(&chain("quota 100 bytes\n"));
    exchange(&old, &mut new);
    assert_eq!(Arc::strong_count(&new.flow.quotas[0]), 2);
    drop(old);
    assert_eq!(Arc::strong_count(&new.flow.quotas[0]), 1);
}

/// Transfers the state of another process's policy to a policy, as in an upgrade.
/// - tokens: tokens of the limit of `old`.
/// - used: number of bytes that the quota of `old` has used.
fn refill(old: &Loaded, new: &Loaded, tokens: i64, used: u64) {
    let states = MigrationStates {
        tokens: vec![tokens],
        used: vec![used],
    };
    let migration = migration::pair(&migration::rules(old), &migration::rules(new));
    let sizes = [limit_of(old).size];
    migration::refill(&migration, &sizes, &states, new, NOW_NS);
}

#[test]
fn states_of_another_process_go_on() {
    let text = "limit rate 1/hour burst 4 packets comment \"a\"\n quota 100 bytes\n";
    let other = "limit rate 1/day burst 40 packets comment \"a\"\n quota 100 bytes\n";
    let (old, same) = (loaded(&chain(text)), loaded(&chain(text)));
    let size = limit_of(&old).size;
    refill(&old, &same, size / 4, 60);
    assert_eq!(limit_holds(&same, 40), 1);
    let quota = FlowQuota {
        bytes: 100,
        used: 0,
        over: false,
    };
    assert!(flow::quota_holds(&same.flow, 0, &quota, 40));
    assert!(!flow::quota_holds(&same.flow, 0, &quota, 1));
    for (tokens, packets) in [(size / 4, 10), (size, 40), (0, 0)] {
        let new = loaded(&chain(other));
        refill(&old, &new, tokens, 0);
        assert_eq!(limit_holds(&new, 50), packets);
    }
}
