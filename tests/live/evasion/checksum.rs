// SPDX-License-Identifier: GPL-2.0-or-later
//! A client that leaves a checksum to the kernel, as a virtual machine does: the kernel stores the checksum after the
//! firewall, in the middle of the name. The firewall must see the same bytes as the server.

use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};

use anyhow::ensure;
use testbed::frames::{self, Link};
use testbed::twin::Twin;
use twinwall_tests::case::{for_each_twin, Case, Row};

use testbed::wait::PATIENCE;

use super::client::{Client, Segment, Unsummed};
use super::datagrams;
use super::hello;
use super::net::{Net, Sees, SERVER, SERVER_6};
use super::queries;
use super::strategies::steps;
use super::tried::{self, all_completed, none_completed, patience, Tried};
use super::wire::{self, Outside, Version};
use super::{By, Running, ALLOWED, ALLOW_LIST, BLOCK_LIST, DENIED};

/// Offset within the name of the two bytes that the checksum replaces.
const WITHIN_NAME: usize = 6;
/// Offset within a query of the two bytes that the checksum replaces. It is even, because the query's id sets the
/// checksum.
const WITHIN_QUERY: usize = 20;
/// Offset of a hello's random bytes. Two of them are chosen so that the checksum, which the kernel writes into the
/// name, completes ALMOST.
const RANDOM: usize = 11;
/// Denied name that the server receives. Before the checksum is stored, it reads as the allowed name DECOY, which the
/// server answers in another way.
const ALMOST: &str = "xyz.amxxed.example";
const SEEN: [u8; 2] = *b"us";

const ROWS: &[Row] = &[
    ("checksum-filled-in", |twin| filled_in(By::Twin(twin), &[])),
    ("checksum-filled-in-without-gso", |twin| {
        filled_in(By::Twin(twin), &["--gso", "off"])
    }),
    ("checksum-of-a-query-filled-in", query_filled_in),
    ("checksum-honest", honest),
];

pub fn cases() -> Vec<Case> {
    for_each_twin(ROWS)
}

/// Returns a segment with a hello for ALMOST. Two bytes of the name are SEEN until the kernel stores the checksum there.
fn changing() -> Segment {
    let mut opening = hello::tls(ALMOST, 0);
    let place = opening.name_at + WITHIN_NAME;
    let start = RANDOM + (place - RANDOM) % 2;
    let bytes = &mut opening.bytes;
    bytes[start..start + 2].fill(0);
    let rest = wire::checksum(&[&SEEN, &bytes[start..]]);
    bytes[start..start + 2].copy_from_slice(&rest);
    let unsummed = Unsummed {
        start,
        place,
        seen: SEEN,
    };
    Segment {
        unsummed: Some(unsummed),
        ..Segment::data(0, bytes)
    }
}

/// Sends the segment of `changing` over IPv4 and IPv6.
/// - answered: true if the server is expected to answer: the segment is then sent up to TRIES times.
fn try_both(net: &Net, link: &Link, answered: bool) -> anyhow::Result<Vec<Tried>> {
    let versions = [("IPv4", Version::V4), ("IPv6", Version::V6)];
    let script = steps([changing()]).unwrap_or_default();
    let tries = versions.into_iter().map(|(over, version)| {
        Tried::new("a checksum filled in", over, answered, |port| {
            let client = Client {
                net,
                link,
                version,
                ports: (port, 443),
                patience: patience(answered),
            };
            let answer = client.run(&script)?;
            let expected = hello::tls(ALMOST, 0).answer;
            Ok(answer.map(|answer| answer.starts_with(expected)))
        })
    });
    tries.collect()
}

/// Returns a net whose firewall's kernel stores checksums in software, and a link that leaves them to it.
fn unsummed() -> anyhow::Result<(Net, Link)> {
    let net = Net::new(Sees::Both)?;
    frames::sum_in_software(&net.firewall, "right")?;
    let mut link = net.link()?;
    link.leave_checksums()?;
    Ok((net, link))
}

/// Checks that a firewall has given at least `least` packets back to the kernel for their checksums, or none if `least`
/// is 0.
fn check_restated(running: &Running, least: u64) -> anyhow::Result<()> {
    let restated = running.restated()?;
    let is_expected = restated >= least && (least > 0 || restated == 0);
    ensure!(is_expected, "{restated} packets given back, not {least}");
    Ok(())
}

/// Checks that the server answers the denied name without a firewall, and not with a firewall. Without options, the
/// packets must be given back to the kernel for their checksums. With `--gso off`, the kernel writes the checksums
/// before it queues the packets.
/// - options: additional options of a twin that decides: none, or `--gso off`.
pub fn filled_in(by: By, options: &[&str]) -> anyhow::Result<()> {
    let block_list = BLOCK_LIST.replace("denied.example", "amxxed.example");
    for text in [&block_list, ALLOW_LIST] {
        let (net, link) = unsummed()?;
        all_completed(&try_both(&net, &link, true)?)?;
        let running = by.start_with(&net, text, options)?;
        none_completed(&try_both(&net, &link, false)?)?;
        check_restated(&running, if options.is_empty() { 2 } else { 0 })?;
        running.finish()?;
    }
    Ok(())
}

/// Sends a query whose name is changed by the checksum, over IPv4 and IPv6.
/// - answered: true if the server is expected to receive the query: it is then sent up to TRIES times.
fn ask_both(scene: &datagrams::Scene, link: &Link, answered: bool) -> anyhow::Result<Vec<Tried>> {
    let tries = [("IPv4", Version::V4), ("IPv6", Version::V6)].map(|(over, version)| {
        Tried::new("a checksum filled in a query", over, answered, |port| {
            let mut data = datagrams::message(DENIED, [0, datagrams::FLAGS, 1]);
            let seen = *b"xx";
            // The query's id is chosen so that the checksum has the wanted value.
            let rest = wire::checksum(&[&seen, &data]);
            data[..2].copy_from_slice(&rest);
            let udp = wire::datagram(version, (port, queries::PORT), &data);
            for mut packet in wire::packets(version, wire::UDP, port, &Outside::default(), &udp) {
                let start = packet.len() - data.len();
                let place = start + WITHIN_QUERY;
                packet[place..place + 2].copy_from_slice(&seen);
                link.send_unsummed(scene.net.gateway, &packet, start, place)?;
            }
            let patience = patience(answered);
            Ok(Some(tried::hears(&scene.heard, port, DENIED, patience)))
        })
    });
    tries.into_iter().collect()
}

/// Checks that a server receives a denied query without a firewall, and not with a twin.
fn query_filled_in(twin: Twin) -> anyhow::Result<()> {
    let scene = datagrams::Scene::new(Net::new(Sees::Both)?)?;
    frames::sum_in_software(&scene.net.firewall, "right")?;
    let mut link = scene.net.link()?;
    link.leave_checksums()?;
    all_completed(&ask_both(&scene, &link, true)?)?;
    let running = By::Twin(twin).start(&scene.net, queries::BLOCK_LIST)?;
    none_completed(&ask_both(&scene, &link, false)?)?;
    check_restated(&running, 2)?;
    running.finish()
}

/// Checks that clients reach the server if their kernel leaves the TCP checksum, in the TCP header as usual, to the
/// firewall's kernel. Their SYN, ACK and hello must be given back to the kernel for it.
fn honest(twin: Twin) -> anyhow::Result<()> {
    let net = Net::new(Sees::Both)?;
    let hello = hello::tls(ALLOWED, 0);
    for text in [BLOCK_LIST, ALLOW_LIST] {
        let running = By::Twin(twin).start(&net, text)?;
        for server in [IpAddr::from(SERVER), IpAddr::from(SERVER_6)] {
            let to = SocketAddr::from((server, 443));
            let mut stream = net
                .client
                .enter(|| TcpStream::connect_timeout(&to, PATIENCE))?;
            stream.set_read_timeout(Some(PATIENCE))?;
            stream.write_all(&hello.bytes)?;
            let mut answer = vec![0; hello.answer.len()];
            stream.read_exact(&mut answer)?;
            ensure!(answer == hello.answer, "{to} answers {answer:?}");
        }
        check_restated(&running, 6)?;
        running.finish()?;
    }
    Ok(())
}
