// SPDX-License-Identifier: GPL-2.0-or-later
//! Ways in which a client opens another connection between the same ends while the firewall still has the previous one:
//! with a SYN that the server answers late, or beside a connection that the server answers, too (SYN cookies).

use testbed::place::run;
use twinwall_tests::case::{for_each_twin, Case, Row};

use super::client::{Script, Segment, Step, RST, SYN};
use super::hello::{self, Opening};
use super::net::{Net, Sees};
use super::strategies::{cut, dies_early, in_name, Strategy};
use super::tried::{self, all_completed, none_completed, Tried};
use super::wire::Version::{self, V4, V6};
use super::{openings, try_one, By, ALLOWED, ALLOW_LIST, BLOCK_LIST, DENIED};

/// Distance of the first sequence numbers of two connections: the first connection's bytes are far after the second
/// connection's hello.
const BESIDE: i64 = -5_000;
/// Extension of a hello that offers TLS 1.3 only.
const TLS_1_3: [u8; 7] = [0, 43, 0, 3, 2, 3, 4];

const ROWS: &[Row] = &[
    ("reopened-block-list", |twin| {
        hold(By::Twin(twin), V4, BLOCK_LIST)
    }),
    ("reopened-allow-list", |twin| {
        hold(By::Twin(twin), V4, ALLOW_LIST)
    }),
    ("reopened-block-list-ipv6", |twin| {
        hold(By::Twin(twin), V6, BLOCK_LIST)
    }),
];

pub fn cases() -> Vec<Case> {
    for_each_twin(ROWS)
}

/// Returns a SYN that does not reach the server.
fn lost_syn(offset: i64) -> Segment {
    Segment {
        flags: SYN,
        outside: dies_early(),
        offset,
        ..Segment::data(0, &[])
    }
}

/// Returns a client that completes a hello for an allowed name and ends this connection by a RST. Then it opens another
/// connection; before the server's answer arrives, it sends a second SYN, which does not reach the server.
/// - lost: the second SYN.
fn behind_another_syn(opening: &Opening, lost: Segment) -> Option<Script> {
    let first = match opening.port {
        443 => hello::tls(ALLOWED, opening.padding),
        _ => hello::http(ALLOWED, "\r\n"),
    };
    let end = Segment {
        flags: RST,
        ..Segment::data(first.bytes.len(), &[])
    };
    Some(Script {
        steps: vec![
            Segment::data(0, &first.bytes).step(),
            Step::Hear,
            end.step(),
            Step::OpenBehind(lost),
            Segment::data(0, &opening.bytes).step(),
        ],
        is_race: true,
        ..Script::default()
    })
}

/// Returns a client that repeats its SYN, and sends the first half before the server's repeated answer arrives.
fn syn_again(opening: &Opening) -> Option<Script> {
    let again = Segment {
        flags: SYN,
        ..Segment::data(0, &[])
    };
    let mut halves = cut(&opening.bytes, &[in_name(opening)]).into_iter();
    Some(Script {
        is_silent: true,
        steps: vec![
            again.step(),
            halves.next()?.step(),
            Step::AnswerAgain,
            halves.next()?.step(),
        ],
        is_race: true,
        ..Script::default()
    })
}

const REOPENED: &[Strategy] = &[
    Strategy {
        name: "RST, and another connection, followed by a SYN that does not reach the server",
        honest: false,
        script: |o, _| behind_another_syn(o, lost_syn(1_000)),
    },
    Strategy {
        name: "RST, and another connection, followed by a SYN in the server's name",
        honest: false,
        script: |o, _| {
            let mut lost = lost_syn(1_000);
            lost.outside.is_forged = true;
            behind_another_syn(o, lost)
        },
    },
    Strategy {
        name: "the SYN again, and the first half before its answer",
        honest: false,
        script: |o, _| syn_again(o),
    },
];

/// Returns a hello for an allowed name without TLS 1.3, so that no server may request a second hello.
fn without_retry() -> Vec<u8> {
    let mut bytes = hello::tls(ALLOWED, 0).bytes;
    let places = bytes.windows(TLS_1_3.len());
    let place = places.clone().position(|part| part == TLS_1_3);
    if let Some(place) = place {
        bytes[place + TLS_1_3.len() - 1] = 3;
    }
    bytes
}

/// Returns a client that opens two connections to a TLS server, which answers both. In the second connection it sends
/// an allowed name that does not reach the server; then it continues the first connection.
fn beside(opening: &Opening) -> Option<Script> {
    (opening.port == 443).then_some(())?;
    let decoy = Segment {
        outside: dies_early(),
        ..Segment::data(0, &without_retry())
    };
    Some(Script {
        is_silent: true,
        steps: vec![
            Step::OpenBeside(BESIDE),
            decoy.step(),
            Step::Return,
            Segment::data(0, &opening.bytes).step(),
        ],
        ..Script::default()
    })
}

/// Ways with a server that answers every SYN (SYN cookies).
const WITH_COOKIES: &[Strategy] = &[Strategy {
    name: "two connections that the server answers, the first one continued",
    honest: false,
    script: |o, _| beside(o),
}];

fn try_all(
    net: &Net,
    version: Version,
    ways: &'static [Strategy],
    answered: bool,
) -> anyhow::Result<Vec<Tried>> {
    let openings = openings(DENIED).into_iter();
    let jobs: Vec<_> = openings
        .flat_map(|(name, opening)| {
            ways.iter().filter_map(move |way| {
                let script = (way.script)(&opening, &opening)?;
                Some((way, name, opening.clone(), script))
            })
        })
        .collect();
    tried::try_all(net, &jobs, |link, job| {
        try_one(net, version, link, job, answered)
    })
}

/// Checks that each way reaches the server without a firewall, and that none does with a firewall that has the policy
/// `text`.
pub fn hold(by: By, version: Version, text: &str) -> anyhow::Result<()> {
    let net = Net::new(Sees::Both)?;
    all_completed(&try_all(&net, version, REOPENED, true)?)?;
    let cookies = |value| {
        let setting = format!("net.ipv4.tcp_syncookies={value}");
        run(&net.server, "sysctl", &["-qw", &setting])
    };
    cookies(2)?;
    all_completed(&try_all(&net, version, WITH_COOKIES, true)?)?;
    cookies(1)?;
    let running = by.start(&net, text)?;
    let tried = try_all(&net, version, REOPENED, false)?;
    cookies(2)?;
    let tried = [tried, try_all(&net, version, WITH_COOKIES, false)?].into_iter();
    let tried: Vec<_> = tried.flatten().collect();
    none_completed(&tried)?;
    println!("{} tries: none completed", tried.len());
    running.finish()
}
