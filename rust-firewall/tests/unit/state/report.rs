// SPDX-License-Identifier: GPL-2.0-or-later
//! Tests of the exact text and JSON of the reports.

use rust_firewall::options::{parse, Options, OptionsAction};
use rust_firewall::packet::PacketStatus;
use rust_firewall::state::contract::{Contract, ContractRow};
use rust_firewall::state::report::{ledger, start, ReportReason};
use rust_firewall::worker::stats::{Ledger, Stats};

fn options(words: &str) -> Options {
    let words = ["rust-firewall"]
        .into_iter()
        .chain(words.split_whitespace());
    match parse(&words.map(Into::into).collect::<Vec<_>>()) {
        Ok(OptionsAction::Run(options)) => options,
        other => panic!("{other:?}"),
    }
}

/// Returns a contract with a row for each situation; the modes alternate between closed and open.
fn contract() -> Contract {
    let row = |(index, situation)| ContractRow {
        situation,
        mode: ["closed", "open"][index % 2],
        really: "it drops".to_owned(),
    };
    let situations = [
        "overload",
        "stall",
        "crash",
        "malformed",
        "truncated",
        "unknown",
    ];
    Contract {
        rows: situations.into_iter().enumerate().map(row).collect(),
    }
}

const CONTRACT_TEXT: &str = "  overload   closed  it drops
  stall      open    it drops
  crash      closed  it drops
  malformed  open    it drops
  truncated  closed  it drops
  unknown    open    it drops
";

const CONTRACT_JSON: &str = "\
    ,\"contract\":[{\"situation\":\"overload\",\"mode\":\"closed\",\"really\":\"it drops\"},\
    {\"situation\":\"stall\",\"mode\":\"open\",\"really\":\"it drops\"},\
    {\"situation\":\"crash\",\"mode\":\"closed\",\"really\":\"it drops\"},\
    {\"situation\":\"malformed\",\"mode\":\"open\",\"really\":\"it drops\"},\
    {\"situation\":\"truncated\",\"mode\":\"closed\",\"really\":\"it drops\"},\
    {\"situation\":\"unknown\",\"mode\":\"open\",\"really\":\"it drops\"}]";

fn quiet() -> Ledger {
    Ledger {
        known: true,
        reconciled: true,
        ..Ledger::default()
    }
}

fn busy() -> Ledger {
    let mut stats = Stats {
        received: 1000,
        netlink: 2,
        bytes: 64000,
        verdicts: [985, 10, 1, 2, 1, 1],
        beyond_copy: 4,
        truncated: 5,
        overruns: 6,
        refused: 7,
        without_id: 20,
        gaps: 21,
        send_retries: 22,
        ..Stats::default()
    };
    stats.malformed[PacketStatus::Ipv4Short as usize] = 3;
    stats.malformed[PacketStatus::TcpShort as usize] = 1;
    Ledger {
        number: 3,
        stats,
        known: true,
        offered: 1020,
        waiting: 1,
        queue_full: 11,
        user_drop: 12,
        unseen: 5,
        stalled: 8,
        lost: 23,
        difference: 5,
        reconciled: false,
    }
}

const BUSY: &str = "\
: received 1000 packets, 64000 bytes
  verdicts: accept 985, drop 10, reject 1, mark 2, repeat 1, requeue 1; refused by the kernel 7
  malformed: ipv4-short 3, tcp-short 1, netlink 2
  beyond copy 4, truncated 5, without id 20, gaps 21, overruns 6, send retries 22, stalled 8
  kernel: offered 1020, waiting 1, queue full 11, user drop 12, unseen 5
  ledger: NOT RECONCILED, difference 5, lost 23 in the queue
";

const QUIET: &str = "\
: received 0 packets, 0 bytes
  verdicts: accept 0, drop 0, reject 0, mark 0, repeat 0, requeue 0; refused by the kernel 0
  malformed: none
  beyond copy 0, truncated 0, without id 0, gaps 0, overruns 0, send retries 0, stalled 0
  kernel: offered 0, waiting 0, queue full 0, user drop 0, unseen 0
  ledger: reconciled, lost 0 in the queue
";

#[test]
fn the_start_line_tells_the_effective_settings() {
    assert_eq!(
        start(&options(""), None, 67108864, &contract(), 1),
        "ready: queue 0, backend raw, profile fast, copy 128 bytes, batch 64, receive buffer \
         67108864 bytes, queue length 131072, gso on, spin 50 us, coalesce 60 us, fail closed, \
         default accept\n"
            .to_owned()
            + CONTRACT_TEXT
    );
    assert_eq!(
        start(
            &options("--queue 0:3 --profile paper --fail open"),
            None,
            106496,
            &contract(),
            1
        ),
        "ready: queue 0:3, backend classic, profile paper, copy 65535 bytes, batch 1, receive \
         buffer 106496 bytes, queue length 1024, gso off, spin always, coalesce 0 us, fail open, \
         default accept\n"
            .to_owned()
            + CONTRACT_TEXT
    );
}

#[test]
fn the_start_object_is_one_line() {
    assert_eq!(
        start(
            &options("--json --queue 7:9 --default drop"),
            None,
            5,
            &contract(),
            1234
        ),
        "{\"event\":\"start\",\"program\":\"rust-firewall\",\"version\":\"0.1.0\",\
         \"time_ms\":1234,\"queues\":[7,8,9],\"backend\":\"raw\",\"profile\":\"fast\",\
         \"copy_bytes\":128,\"batch\":64,\"receive_buffer\":5,\"queue_length\":131072,\
         \"gso\":true,\"spin_us\":50,\"coalesce_us\":60,\"fail\":\"closed\",\"deadline_ms\":1000,\
         \"default\":\"drop\""
            .to_owned()
            + CONTRACT_JSON
            + "}\n"
    );
    let paper = start(
        &options("--json --profile paper"),
        None,
        5,
        &contract(),
        1234,
    );
    assert!(
        paper.contains("\"gso\":false,\"spin_us\":null,\"coalesce_us\":0,"),
        "{paper}"
    );
}

#[test]
fn one_queue_has_no_total() {
    let report = ledger(&options(""), ReportReason::Exit, 1, &[quiet()], None);
    assert_eq!(report, format!("queue 0{QUIET}"));
    let report = ledger(&options(""), ReportReason::Exit, 1, &[busy()], None);
    assert_eq!(report, format!("queue 3{BUSY}"));
}

#[test]
fn several_queues_have_a_total() {
    let report = ledger(
        &options(""),
        ReportReason::Signal,
        1,
        &[quiet(), busy()],
        None,
    );
    assert_eq!(report, format!("queue 0{QUIET}queue 3{BUSY}total{BUSY}"));
}

#[test]
fn messages_without_a_packet_alone_are_malformed_too() {
    let stats = Stats {
        netlink: 2,
        ..Stats::default()
    };
    let report = ledger(
        &options(""),
        ReportReason::Exit,
        1,
        &[Ledger { stats, ..quiet() }],
        None,
    );
    assert!(report.contains("\n  malformed: netlink 2\n"), "{report}");
}

const BUSY_OBJECT: &str = "\
    \"received\":1000,\"bytes\":64000,\"verdicts\":{\"accept\":985,\"drop\":10,\"reject\":1,\
    \"mark\":2,\"repeat\":1,\"requeue\":1},\"refused\":7,\"malformed\":{\"empty\":0,\
    \"version\":0,\"ipv4-short\":3,\"ipv4-header-length\":0,\"ipv4-total-length\":0,\
    \"ipv4-fragment-overflow\":0,\"ipv6-short\":0,\"ipv6-payload-length\":0,\
    \"ipv6-extension-short\":0,\"ipv6-extension-limit\":0,\"ipv6-fragment-overflow\":0,\
    \"tcp-short\":1,\"tcp-data-offset\":0,\"udp-short\":0,\"udp-length\":0,\"icmp-short\":0,\
    \"icmpv6-short\":0,\"netlink\":2},\"beyond_copy\":4,\"truncated\":5,\"without_id\":20,\
    \"gaps\":21,\"overruns\":6,\"send_retries\":22,\"undecidable\":0,\"undecided\":0,\
    \"without_ct_state\":0,\"restated\":0,\"replies\":{\"sent\":0,\"not_due\":0,\"failed\":0},\
    \"connections\":{\"opened\":0,\"other\":0,\"tls\":0,\"quic\":0,\"http\":0,\"dns\":0,\
    \"denied\":0,\"evasion\":0,\"unreadable\":0,\"evicted\":0},\"answers\":{\"learned\":0,\
    \"empty\":0,\"other\":0,\"unasked\":0,\"unreadable\":0},\
    \"elements\":{\"added\":0,\"failed\":0},\"stalled\":8,\
    \"kernel\":{\"offered\":1020,\"waiting\":1,\"queue_full\":11,\"user_drop\":12,\"unseen\":5},\
    \"lost\":23,\"difference\":5,\"reconciled\":false}";

#[test]
fn the_ledger_object_is_one_line() {
    for (reason, name) in [
        (ReportReason::Interval, "interval"),
        (ReportReason::Signal, "signal"),
        (ReportReason::Exit, "exit"),
    ] {
        assert_eq!(
            ledger(&options("--json"), reason, 1234, &[busy()], None),
            format!(
                "{{\"event\":\"stats\",\"program\":\"rust-firewall\",\"time_ms\":1234,\
                 \"reason\":\"{name}\",\"queues\":[{{\"queue\":3,{BUSY_OBJECT}],\
                 \"total\":{{{BUSY_OBJECT},\"reconciled\":false}}\n"
            )
        );
    }
    let report = ledger(
        &options("--json"),
        ReportReason::Exit,
        1,
        &[quiet(), quiet()],
        None,
    );
    assert!(report.ends_with("\"difference\":0,\"reconciled\":true},\"reconciled\":true}\n"));
    assert_eq!(report.matches("{\"queue\":0,").count(), 2);
}

#[test]
fn unknown_figures_are_not_zero() {
    let unknown = Ledger {
        stats: quiet().stats,
        ..Ledger::default()
    };
    let ledgers = [unknown];
    let text = ledger(&options(""), ReportReason::Exit, 1, &ledgers, None);
    let lines =
        "stalled 0\n  kernel: unknown, /proc/net/netfilter/nfnetlink_queue can't be read\n  \
         ledger: NOT RECONCILED, the losses are unknown\n";
    assert!(text.ends_with(lines), "{text}");
    let json = ledger(&options("--json"), ReportReason::Exit, 1, &ledgers, None);
    let figures = "\"kernel\":null,\"lost\":null,\"difference\":0,\"reconciled\":false}";
    assert_eq!(json.matches(figures).count(), 2, "{json}");
    assert!(json.ends_with(",\"reconciled\":false}\n"), "{json}");
}
