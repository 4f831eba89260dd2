// SPDX-License-Identifier: GPL-2.0-or-later
//! QUIC clients that complete and end a connection with an allowed name, and then send a denied name between the same
//! addresses and ports. By then the connection's class is final for the server's packets.

use std::net::SocketAddr;

use anyhow::Context;
use testbed::wait::{pause_for, PATIENCE};
use twinwall_tests::case::Case;

use super::packet::{self, Ids};
use super::setting::Setting::{self, QuinnV4, QuinnV6};
use super::ways::{halves, whole, Datagram, Opening, LATE_TIME};
use super::{all_completed, none_completed, patience, tried, Scene, Tried, QUIC_PORT};
use crate::evasion::datagrams;
use crate::evasion::net::{Net, Sees};
use crate::evasion::{By, ALLOWED, DENIED};
use crate::names::ends::{Hello, QuicClient};

/// Way to send the denied name.
struct Way {
    name: &'static str,
    /// True if the denied name is sent later than --hello-timeout after the allowed connection.
    late: bool,
    /// Function that returns a datagram of a given length. It goes before the datagrams with the name, in one packet
    /// that is split later (UDP_SEGMENT). None: a packet for each datagram.
    before: Option<fn(usize) -> Vec<u8>>,
    datagrams: fn(&Opening) -> Vec<Datagram>,
}

fn short_header(bytes: usize) -> Vec<u8> {
    vec![0x45; bytes]
}

fn way(name: &'static str, before: Option<fn(usize) -> Vec<u8>>) -> Way {
    Way {
        name,
        late: false,
        before,
        datagrams: whole,
    }
}

fn ways() -> Vec<Way> {
    let again = || way("another connection behind the answer", None);
    let hidden = || {
        way(
            "the same, behind a short header in one packet",
            Some(short_header),
        )
    };
    vec![
        again(),
        hidden(),
        Way {
            name: "the same, in two datagrams",
            datagrams: |o| halves(o).concat(),
            ..again()
        },
        Way {
            name: "the same, much later",
            late: true,
            ..again()
        },
        Way {
            name: "the same, behind a short header in one packet, much later",
            late: true,
            ..hidden()
        },
    ]
}

/// Completes a connection with an allowed name, ends it, and sends the denied name from the same port.
fn run(scene: &Scene, way: &Way, opening: &Opening, port: u16) -> anyhow::Result<()> {
    let config = scene.identity.client(Hello::Plain, None)?;
    let server = scene.setting.server();
    let client = QuicClient::new(&scene.net, port, server, config, ALLOWED, PATIENCE)?;
    let client = client.context("the allowed name is not answered")?;
    anyhow::ensure!(
        client.fetches(1, PATIENCE),
        "the allowed name is not served"
    );
    drop(client);
    if way.late {
        pause_for(LATE_TIME);
    }
    let ids = Ids::new(port);
    let server = SocketAddr::from((server, QUIC_PORT));
    let datagrams = (way.datagrams)(opening);
    let sealed = datagrams
        .iter()
        .map(|one| packet::datagram(&ids, &one.packets, &[]));
    let sealed = sealed.collect::<anyhow::Result<Vec<_>>>()?;
    let Some(before) = way.before else {
        let mut all = sealed.iter();
        return all.try_for_each(|one| datagrams::send(&scene.net, port, server, one, one.len()));
    };
    let bytes = sealed.iter().map(Vec::len).max().unwrap_or(0);
    let even = sealed.into_iter().map(|mut one| {
        one.resize(bytes, 0);
        one
    });
    let data = [before(bytes), even.collect::<Vec<_>>().concat()].concat();
    datagrams::send(&scene.net, port, server, &data, bytes)
}

fn try_all(scene: &Scene, answered: bool) -> anyhow::Result<Vec<Tried>> {
    let openings = scene.openings(DENIED, ALLOWED)?;
    let ways = ways();
    let jobs: Vec<_> = openings
        .iter()
        .flat_map(|opening| ways.iter().map(move |way| (opening, way)))
        .collect();
    let mut tried = tried::try_all(&scene.net, &jobs, |_, (opening, way)| {
        Tried::new(way.name, opening.what, answered, |port| {
            run(scene, way, opening, port)?;
            let patience = patience(answered);
            Ok(Some(tried::hears(&scene.heard, port, DENIED, patience)))
        })
    })?;
    tried::count_late(&mut tried, &scene.heard, DENIED);
    Ok(tried)
}

/// Tries all ways to send the denied name, and checks that a firewall with the policy `text` stops each.
pub fn hold(by: By, setting: Setting, text: &str) -> anyhow::Result<()> {
    let scene = Scene::new(by.net()?, setting)?;
    let running = by.start(&scene.net, text)?;
    let tried = try_all(&scene, false)?;
    none_completed(&tried)?;
    println!("{} tries: none completed", tried.len());
    running.finish()
}

/// Checks that all ways to send the denied name reach the server without a firewall.
fn nobody(setting: Setting) -> anyhow::Result<()> {
    all_completed(&try_all(
        &Scene::new(Net::new(Sees::Both)?, setting)?,
        true,
    )?)
}

pub fn cases() -> [Case; 2] {
    [
        ("quic-answered-nobody-looks-on", QuinnV4),
        ("quic-answered-nobody-looks-on-ipv6", QuinnV6),
    ]
    .map(|(name, setting)| Case::new(name, move || nobody(setting)))
}
