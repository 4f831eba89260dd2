// SPDX-License-Identifier: GPL-2.0-or-later
//! Tests that the control socket's answers equal those of the vectors, byte for byte.

use crate::support::snapshots;
use rust_firewall::base::log::LogLevel;
use rust_firewall::connection::listing::{ListedState, Page};
use rust_firewall::control;
use rust_firewall::control::process::ControlSelf;
use rust_firewall::names::NamesProtocol;
use rust_firewall::options::{Options, PROGRAM};
use rust_firewall::state::reload::ReloadResult;
use rust_firewall::state::report::{self, ReportReason};
use rust_firewall::state::snapshot::Snapshot;
use rust_firewall::worker::workers::Listing;

fn own() -> ControlSelf {
    ControlSelf {
        pid: 812,
        uid: 65534,
        executable: format!("/usr/sbin/{PROGRAM}"),
        arguments: ["--queue", "0:1", "--json"].map(str::to_owned).to_vec(),
    }
}

/// Returns a page of connections with IPv4 and IPv6, TCP and UDP, and different states and protocols.
fn listing() -> Listing {
    let mut page = Page {
        count: 3,
        ..Page::default()
    };
    let [first, second, third, ..] = &mut page.listed;
    first.key = [
        443 << 48 | 40000 << 32 | 4 << 8 | 6,
        0x0a09_0302_0a09_0142,
        0,
        0,
        0,
    ];
    first.state = ListedState::Named;
    first.protocol = NamesProtocol::Tls;
    first.host_length = 11;
    first.host[..11].copy_from_slice(b"a\x1bb.example");
    first.age_ns = 1_234_999_999;
    let low = 443 << 48 | 50000 << 32 | 6 << 8 | 17;
    second.key = [low, 0, 0x0102_0304, 0x2001_0db8_0000_0000, 1];
    second.is_udp = true;
    *third = *second;
    third.client_low = true;
    third.state = ListedState::Denied;
    third.protocol = NamesProtocol::Quic;
    third.age_ns = 9_000_000;
    Listing {
        number: 7,
        page,
        next: Some(4_294_967_552),
    }
}

/// Returns the answer to `stats` with the ledgers of a snapshot.
fn stats(snapshot: &Snapshot) -> String {
    let options = Options {
        json: true,
        ..(*snapshot.options).clone()
    };
    let ledgers = &snapshot.ledgers;
    let report = report::ledger(
        &options,
        ReportReason::Control,
        snapshot.time_ms,
        ledgers,
        None,
    );
    control::answer::stats(&report)
}

#[test]
fn says_what_the_vectors_say() {
    let reload = ReloadResult {
        generation: 3,
        rules: 12,
        kept: 9,
        added: 3,
        removed: 1,
        milliseconds: 4,
    };
    let (own, full, idle) = (own(), snapshots::full(), snapshots::idle());
    let counts = snapshots::counts();
    let error = "web.nft:6:2: found \"tcpp\", expected \\ or \x7fä";
    let answers = [
        ("error", control::answer::error(error)),
        (
            "status",
            control::answer::status(&own, &full, LogLevel::Debug, &counts),
        ),
        (
            "idle",
            control::answer::status(&own, &idle, LogLevel::Error, &counts),
        ),
        ("stats", stats(&full)),
        ("idle-stats", stats(&idle)),
        ("rules", control::answer::rules(&full)),
        ("no-rules", control::answer::rules(&idle)),
        ("connections", control::answer::connections(&listing())),
        (
            "no-connections",
            control::answer::connections(&Listing {
                number: 7,
                page: Page::default(),
                next: None,
            }),
        ),
        ("reload", control::answer::reload(&reload)),
        (
            "log",
            control::answer::log(LogLevel::Warning, LogLevel::Info),
        ),
        ("proof", control::answer::proof(4712, 7)),
        ("drain", control::answer::drain(10, 4711)),
    ];
    let expected = snapshots::vector("control-answers.txt");
    let mut expected = expected.split_inclusive('\n');
    for (name, answer) in answers {
        assert_eq!(Some(format!("{name} {answer}").as_str()), expected.next());
    }
    assert_eq!(expected.next(), None);
}
