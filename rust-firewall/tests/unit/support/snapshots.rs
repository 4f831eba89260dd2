// SPDX-License-Identifier: GPL-2.0-or-later
//! Snapshots of a firewall's state, equal in the tests of both twins. The vectors contain the twins' outputs for them.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use rust_firewall::base::counts;
use rust_firewall::options::{self, Options, OptionsAction, PROGRAM, VERSION};
use rust_firewall::packet::PacketStatus;
use rust_firewall::policy::requirement::Requirement;
use rust_firewall::state::contract::{Contract, ContractRow};
use rust_firewall::state::snapshot::{
    Snapshot, SnapshotCounter, SnapshotLog, SnapshotPolicy, SnapshotRule,
};
use rust_firewall::worker::stats::{Ledger, Stats};
use rust_firewall::worker::tracked::Tracked;

/// Returns the options of an empty command line.
fn options() -> Arc<Options> {
    match options::parse(&[PROGRAM.into()]) {
        Ok(OptionsAction::Run(options)) => Arc::new(options),
        _ => panic!("a command line without options is good"),
    }
}

fn contract() -> Arc<Contract> {
    let row = |(situation, mode, really): (&'static str, &'static str, &str)| ContractRow {
        situation,
        mode,
        really: really.to_owned(),
    };
    let rows = [
        ("overload", "closed", "dropped"),
        ("stall", "open", "accepted"),
        ("crash", "closed", "the rules decide"),
        ("malformed", "closed", "dropped"),
        ("truncated", "open", "accepted"),
        ("unknown", "closed", "dropped"),
    ];
    Arc::new(Contract {
        rows: rows.map(row).to_vec(),
    })
}

fn busy() -> Ledger {
    let mut stats = Stats {
        received: 1000,
        without_id: 12,
        netlink: 1,
        bytes: 5_000_000_000,
        verdicts: [900, 60, 20, 10, 6, 4],
        beyond_copy: 5,
        truncated: 6,
        overruns: 7,
        refused: 8,
        undecidable: 9,
        undecided: 10,
        without_ct_state: 11,
        restated: 12,
        gaps: 13,
        send_retries: 14,
        replies: [17, 2, 1],
        connections: [30, 31, 32, 33, 34, 35, 36, 37, 38, 39],
        answers: [40, 41, 42, 43, 44],
        ..Stats::default()
    };
    stats.malformed[PacketStatus::TcpDataOffset as usize] = 3;
    stats.malformed[PacketStatus::Empty as usize] = 1;
    Ledger {
        number: 0,
        stats,
        known: true,
        offered: 1060,
        waiting: 12,
        queue_full: 13,
        user_drop: 14,
        unseen: 15,
        stalled: 21,
        lost: 27,
        difference: 16,
        reconciled: false,
    }
}

fn quiet() -> Ledger {
    Ledger {
        number: 65535,
        known: true,
        reconciled: true,
        ..Ledger::default()
    }
}

fn counter(statement: u32, packets: u64, bytes: u64) -> SnapshotCounter {
    SnapshotCounter {
        statement,
        packets,
        bytes,
    }
}

fn rule(rule: &str, chain: &str, text: &str) -> SnapshotRule {
    SnapshotRule {
        rule: rule.to_owned(),
        table: "inet filter".to_owned(),
        chain: chain.to_owned(),
        text: text.to_owned(),
        ..SnapshotRule::default()
    }
}

fn rules() -> Vec<SnapshotRule> {
    vec![
        SnapshotRule {
            comment: Some("web \"in\" \\ \n".to_owned()),
            counters: vec![counter(1, 12, 720), counter(3, 2, 80)],
            logs: vec![SnapshotLog {
                statement: 2,
                packets: 4,
            }],
            ..rule("web.nft:6", "input", "tcp dport 80 counter")
        },
        rule("web.nft:6", "input", "drop"),
        SnapshotRule {
            counters: vec![counter(0, i64::MAX as u64, 1)],
            ..rule("web.nft:9", "other", "counter accept")
        },
    ]
}

/// Returns a snapshot with two queues and a policy of three rules. One queue has lost packets and does not reconcile.
pub fn full() -> Snapshot {
    let policy = SnapshotPolicy {
        file: "/etc/web.nft".to_owned(),
        generation: 3,
        loaded_ms: 1_700_000_005_000,
        chain_count: 2,
        rule_count: 3,
        tracked: Tracked::Unknown,
        learned: 17,
        requirement: Requirement {
            copy_bytes: 80,
            layer4: true,
            reject: true,
            ..Requirement::default()
        },
        rules: rules(),
    };
    Snapshot {
        time_ms: 1_700_000_009_999,
        started_ms: 1_700_000_000_001,
        uptime_ms: 9998,
        policy: Some(policy),
        ledgers: vec![busy(), quiet()],
        stalled: vec![21, 0],
        reload_error: Some("web.nft:6:2: found \"tcpp\"".to_owned()),
        options: options(),
        contract: contract(),
        guard_ended: true,
    }
}

/// Returns a snapshot with one idle queue and no policy.
pub fn idle() -> Snapshot {
    Snapshot {
        time_ms: 2000,
        started_ms: 1000,
        uptime_ms: 1000,
        policy: None,
        ledgers: vec![quiet()],
        stalled: vec![0],
        reload_error: None,
        options: options(),
        contract: Arc::default(),
        guard_ended: false,
    }
}

/// Returns a value for each of the process's counts (`counts::ALL`): ten times its index, plus one.
pub fn counts() -> Vec<u64> {
    (0..counts::ALL.len() as u64)
        .map(|place| place * 10 + 1)
        .collect()
}

/// Returns the text of a file in tests/corpus/vectors, with every PROGRAM, VERSION and TWIN replaced by this twin's.
pub fn vector(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/corpus/vectors");
    let text = fs::read_to_string(folder.join(name)).expect("a vector");
    text.replace("PROGRAM", PROGRAM)
        .replace("VERSION", VERSION)
        .replace("TWIN", "rust")
}
