// SPDX-License-Identifier: GPL-2.0-or-later
//! Unprivileged QUIC clients whose kernel splits one packet into several datagrams (UDP_SEGMENT). The first datagrams
//! hide the start of a hello.

use std::net::SocketAddr;

use twinwall_tests::case::{for_each_twin, Case, Row};

use super::packet::{self, Ids};
use super::setting::Setting::{self, QuinnV4, QuinnV6};
use super::ways::{halves, whole, Datagram, Opening};
use super::{all_completed, none_completed, patience, Tried};
use super::{tried, Scene, ALLOW_LIST, QUIC_PORT};
use crate::evasion::datagrams;
use crate::evasion::net::{Net, Sees};
use crate::evasion::{By, ALLOWED, BLOCK_LIST, DENIED};

const ROWS: &[Row] = &[
    ("quic-segments-block-list", |twin| {
        hold(By::Twin(twin), QuinnV4, BLOCK_LIST)
    }),
    ("quic-segments-allow-list", |twin| {
        hold(By::Twin(twin), QuinnV4, ALLOW_LIST)
    }),
    ("quic-segments-ipv6", |twin| {
        hold(By::Twin(twin), QuinnV6, BLOCK_LIST)
    }),
    ("quic-segments-honest", |twin| honest(By::Twin(twin))),
];

pub fn cases() -> Vec<Case> {
    let calibration = Case::new("quic-segments-nobody-looks-on", nobody);
    for_each_twin(ROWS)
        .into_iter()
        .chain([calibration])
        .collect()
}

/// Way to send a hello after a segment that has the same length as each of the hello's datagrams.
struct Way {
    name: &'static str,
    honest: bool,
    before: fn(usize) -> Vec<u8>,
    datagrams: fn(&Opening) -> Vec<Datagram>,
}

/// Returns a datagram with a long header of QUIC 1, whose connection id belongs to no connection.
/// - first: first byte, with the packet type.
/// - rest: bytes after the connection ids.
/// - bytes: length of the datagram.
fn long(first: u8, rest: &[u8], bytes: usize) -> Vec<u8> {
    let mut datagram = [&[first, 0, 0, 0, 1, 8][..], &[9; 8], &[0], rest].concat();
    datagram.resize(bytes, 0x33);
    datagram
}

/// Returns the length field of a packet that would end within the next datagram.
/// - bytes: length of each datagram.
fn too_long(bytes: usize) -> Vec<u8> {
    packet::variable(2 * bytes - 24)
}

const WAYS: &[Way] = &[
    Way {
        name: "the datagrams as they are",
        honest: true,
        before: |_| Vec::new(),
        datagrams: |o| halves(o).concat(),
    },
    Way {
        name: "behind a Retry",
        honest: false,
        before: |bytes| long(0xf0, &[], bytes),
        datagrams: whole,
    },
    Way {
        name: "in what a packet of 0-RTT says that it has",
        honest: false,
        before: |bytes| long(0xd0, &too_long(bytes), bytes),
        datagrams: whole,
    },
    Way {
        name: "in what a Handshake packet says that it has",
        honest: false,
        before: |bytes| long(0xe0, &too_long(bytes), bytes),
        datagrams: whole,
    },
    Way {
        name: "behind a version that nobody knows",
        honest: false,
        before: |bytes| {
            let mut datagram = long(0xc0, &[], bytes);
            datagram[1..5].copy_from_slice(&[0x1a, 0x2a, 0x3a, 0x4a]);
            datagram
        },
        datagrams: whole,
    },
    Way {
        name: "behind a short header",
        honest: false,
        before: |bytes| vec![0x45; bytes],
        datagrams: whole,
    },
];

/// Runs every wanted way with every opening (a client's first bytes) for `host`.
/// - other: name in decoys.
/// - answered: true if the server is expected to receive the name: a way is then tried up to TRIES times.
fn try_all(
    scene: &Scene,
    (host, other): (&str, &str),
    answered: bool,
    wanted: fn(&Way) -> bool,
) -> anyhow::Result<Vec<Tried>> {
    let openings = scene.openings(host, other)?;
    let ways: Vec<&Way> = WAYS.iter().filter(|way| wanted(way)).collect();
    let jobs: Vec<_> = openings
        .iter()
        .flat_map(|opening| ways.iter().map(move |way| (opening, *way)))
        .collect();
    let server = SocketAddr::from((scene.setting.server(), QUIC_PORT));
    let mut tried = tried::try_all(&scene.net, &jobs, |_, (opening, way)| {
        Tried::new(way.name, opening.what, answered, |port| {
            let ids = Ids::new(port);
            let datagrams = (way.datagrams)(opening);
            let sealed = datagrams
                .iter()
                .map(|one| packet::datagram(&ids, &one.packets, &[]));
            let sealed = sealed.collect::<anyhow::Result<Vec<_>>>()?;
            let bytes = sealed.iter().map(Vec::len).max().unwrap_or(0);
            // After a packet with a long header, bytes that begin with 0 are no packet.
            let even = sealed.into_iter().map(|mut one| {
                one.resize(bytes, 0);
                one
            });
            let data = [(way.before)(bytes), even.collect::<Vec<_>>().concat()].concat();
            datagrams::send(&scene.net, port, server, &data, bytes)?;
            let patience = patience(answered);
            Ok(Some(tried::hears(&scene.heard, port, host, patience)))
        })
    })?;
    tried::count_late(&mut tried, &scene.heard, host);
    Ok(tried)
}

/// Checks that no way to hide a denied hello passes a firewall with the policy `text`.
pub fn hold(by: By, setting: Setting, text: &str) -> anyhow::Result<()> {
    let scene = Scene::new(by.net()?, setting)?;
    let running = by.start(&scene.net, text)?;
    let tried = try_all(&scene, (DENIED, ALLOWED), false, |_| true)?;
    none_completed(&tried)?;
    println!("{} tries: none completed", tried.len());
    running.finish()
}

/// Checks that a plain client passes whose kernel splits packets in the same way.
pub fn honest(by: By) -> anyhow::Result<()> {
    let scene = Scene::new(by.net()?, QuinnV4)?;
    for text in [BLOCK_LIST, ALLOW_LIST] {
        let running = by.start_for_honest(&scene.net, text)?;
        all_completed(&try_all(&scene, (ALLOWED, DENIED), true, |way| way.honest)?)?;
        running.finish()?;
    }
    Ok(())
}

/// Checks that all ways to hide a hello reach the server without a firewall.
fn nobody() -> anyhow::Result<()> {
    for setting in [QuinnV4, QuinnV6] {
        let scene = Scene::new(Net::new(Sees::Both)?, setting)?;
        all_completed(&try_all(&scene, (DENIED, ALLOWED), true, |_| true)?)?;
    }
    Ok(())
}
