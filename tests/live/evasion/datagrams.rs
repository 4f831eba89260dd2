// SPDX-License-Identifier: GPL-2.0-or-later
//! Unprivileged DNS clients over UDP that hide a denied query in a message of another form, or among other messages in
//! one packet. The server reports the name of every message that has a question where a query has it, with the client's
//! port. It must never receive the denied name.

use std::fs;
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::thread;

use anyhow::Context;
use testbed::place::run;
use testbed::twin::{root, Twin};
use testbed::wait::{until, PATIENCE};
use twinwall_tests::case::{for_each_twin, Case, Row};

use super::net::{Net, Sees, SERVER, SERVER_6};
use super::queries::{labels, name_of, ALLOW_LIST, BLOCK_LIST, PORT};
use super::tried::{self, all_completed, none_completed, patience, Tried};
use super::{By, ALLOWED, DENIED};
use crate::names::ends::Heard;

/// Flags of a query (RFC 1035, section 4.1.1): recursion desired.
pub const FLAGS: u16 = 0x0100;
const QR: u16 = 0x8000;
/// DNS ids, each with a description. A message with this id, no flags and QUIC_QUESTIONS questions begins like a packet
/// of QUIC 1.
const QUIC: [(&str, u16); 4] = [
    ("as an Initial", 0xc000),
    ("as a packet of 0-RTT", 0xd000),
    ("as a Handshake packet", 0xe000),
    ("as a Retry", 0xf000),
];
const QUIC_QUESTIONS: u16 = 0x0100;
/// Length of a query that needs IP fragments, in bytes.
const FRAGMENTED_BYTES: usize = 4_000;

const ROWS: &[Row] = &[
    ("datagrams-block-list", |twin| {
        hold(By::Twin(twin), BLOCK_LIST)
    }),
    ("datagrams-allow-list", |twin| {
        hold(By::Twin(twin), ALLOW_LIST)
    }),
    ("datagrams-honest", |twin| honest(By::Twin(twin))),
    ("datagrams-in-fragments", reassembled),
];

pub fn cases() -> Vec<Case> {
    let calibration = Case::new("datagrams-nobody-looks-on", nobody);
    for_each_twin(ROWS)
        .into_iter()
        .chain([calibration])
        .collect()
}

/// Data that queries a name, and its division into datagrams.
struct Way {
    name: String,
    /// True if a plain client may send the same: an allowed name must pass.
    honest: bool,
    data: Vec<u8>,
    /// Size in bytes of the datagrams into which the kernel splits the data (UDP_SEGMENT of linux/udp.h); 0 = one
    /// datagram.
    segment: usize,
}

pub fn message(host: &str, [id, flags, questions]: [u16; 3]) -> Vec<u8> {
    let head = [id, flags, questions, 0, 0, 0].map(u16::to_be_bytes);
    [&head.concat()[..], &labels(host), &[0, 0, 1, 0, 1]].concat()
}

/// Returns all ways to query a host.
/// - other: a name of the same length, for additional queries.
fn ways(host: &str, other: &str) -> Vec<Way> {
    let way = |name: &str, data: Vec<u8>, segment| Way {
        name: name.to_owned(),
        honest: false,
        data,
        segment,
    };
    let asked = message(host, [1, FLAGS, 1]);
    let allowed = message(other, [2, FLAGS, 1]);
    let bytes = asked.len();
    let plain = Way {
        honest: true,
        ..way("plain", asked.clone(), 0)
    };
    let long_id = Way {
        honest: true,
        ..way("a high id", message(host, [0xc000, FLAGS, 1]), 0)
    };
    let alike = QUIC.map(|(name, id)| {
        let data = message(host, [id, 0, QUIC_QUESTIONS]);
        way(name, data, 0)
    });
    let others = [
        way("as an answer", message(host, [1, FLAGS | QR, 1]), 0),
        way("twice", asked.repeat(2), bytes),
        way("behind another", [&allowed[..], &asked].concat(), bytes),
        way(
            "among others",
            [&allowed[..], &asked, &allowed].concat(),
            bytes,
        ),
    ];
    let all = [plain, long_id].into_iter();
    all.chain(alike).chain(others).collect()
}

/// Network with DNS servers over IPv4 and IPv6, and the names that they received.
pub struct Scene {
    pub net: Net,
    pub heard: Heard,
}

/// Records the names that messages query, whatever else the messages contain.
fn serve(socket: &UdpSocket, heard: &Heard) {
    let mut message = [0; 8192];
    while let Ok((bytes, from)) = socket.recv_from(&mut message) {
        if let Some(name) = name_of(&message[..bytes]) {
            heard.lock().expect("no panic").push((from.port(), name));
        }
    }
}

impl Scene {
    pub fn new(net: Net) -> anyhow::Result<Scene> {
        let heard = Heard::default();
        for address in [IpAddr::from(SERVER), IpAddr::from(SERVER_6)] {
            let socket = net.server.enter(|| UdpSocket::bind((address, PORT)))?;
            let told = Arc::clone(&heard);
            thread::spawn(move || serve(&socket, &told));
        }
        Ok(Scene { net, heard })
    }
}

/// Sends data from a port through the client's kernel.
/// - segment: as in `Way`.
pub fn send(
    net: &Net,
    from: u16,
    to: SocketAddr,
    data: &[u8],
    segment: usize,
) -> anyhow::Result<()> {
    let any: IpAddr = match to {
        SocketAddr::V4(_) => [0; 4].into(),
        SocketAddr::V6(_) => [0_u16; 8].into(),
    };
    // A client that used the port before may not have closed its socket yet.
    let mut bound = None;
    until("the port is free", PATIENCE, || {
        match net.client.enter(|| UdpSocket::bind((any, from))) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => Ok(false),
            result => {
                bound = Some(result?);
                Ok(true)
            }
        }
    })?;
    let socket = bound.context("a socket")?;
    let size = segment as libc::c_int;
    // SAFETY: size is an int, the type of UDP_SEGMENT's value.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_UDP,
            libc::UDP_SEGMENT,
            (&raw const size).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    nix::errno::Errno::result(result).context("UDP_SEGMENT")?;
    socket.send_to(data, to)?;
    Ok(())
}

/// Runs the ways to query a host over both IP versions.
/// - answered: true if the server is expected to receive the name: a way is then tried up to TRIES times.
fn try_all(scene: &Scene, host: &str, answered: bool, ways: &[Way]) -> anyhow::Result<Vec<Tried>> {
    let servers = [
        ("IPv4", SocketAddr::from((SERVER, PORT))),
        ("IPv6", SocketAddr::from((SERVER_6, PORT))),
    ];
    let jobs: Vec<_> = servers
        .iter()
        .flat_map(|server| ways.iter().map(move |way| (server, way)))
        .collect();
    let mut tried = tried::try_all(&scene.net, &jobs, |_, ((over, server), way)| {
        Tried::new(&way.name, over, answered, |port| {
            send(&scene.net, port, *server, &way.data, way.segment)?;
            let patience = patience(answered);
            Ok(Some(tried::hears(&scene.heard, port, host, patience)))
        })
    })?;
    tried::count_late(&mut tried, &scene.heard, host);
    Ok(tried)
}

/// Checks that no way to hide a denied query passes a firewall with the policy `text`.
pub fn hold(by: By, text: &str) -> anyhow::Result<()> {
    let scene = Scene::new(by.net()?)?;
    let running = by.start(&scene.net, text)?;
    let tried = try_all(&scene, DENIED, false, &ways(DENIED, ALLOWED))?;
    none_completed(&tried)?;
    println!("{} tries: none completed", tried.len());
    running.finish()
}

/// Checks that a client with an allowed name passes.
pub fn honest(by: By) -> anyhow::Result<()> {
    let scene = Scene::new(by.net()?)?;
    let mut ways = ways(ALLOWED, DENIED);
    ways.retain(|way| way.honest);
    for text in [BLOCK_LIST, ALLOW_LIST] {
        let running = by.start_for_honest(&scene.net, text)?;
        all_completed(&try_all(&scene, ALLOWED, true, &ways)?)?;
        running.finish()?;
    }
    Ok(())
}

/// Checks that all ways to hide a query reach the server without a firewall.
fn nobody() -> anyhow::Result<()> {
    let scene = Scene::new(Net::new(Sees::Both)?)?;
    all_completed(&try_all(&scene, DENIED, true, &ways(DENIED, ALLOWED))?)
}

/// Returns a query in IP fragments, with padding after the query.
fn in_fragments(host: &str) -> Vec<Way> {
    let mut data = message(host, [1, FLAGS, 1]);
    data.resize(FRAGMENTED_BYTES, 0);
    vec![Way {
        name: "in fragments".to_owned(),
        honest: true,
        data,
        segment: 0,
    }]
}

/// Checks that an allowed query in fragments reaches the server, and that a denied query in fragments does not.
fn check_reassembled(scene: &Scene) -> anyhow::Result<()> {
    all_completed(&try_all(scene, ALLOWED, true, &in_fragments(ALLOWED))?)?;
    none_completed(&try_all(scene, DENIED, false, &in_fragments(DENIED))?)
}

/// Checks that queries in fragments are lost without the rules of rules/queue. With these rules, or with the rules that
/// doctor advises without nft, the kernel reassembles fragments, and the queries must be decided by name.
fn reassembled(twin: Twin) -> anyhow::Result<()> {
    let scene = Scene::new(Net::new(Sees::Both)?)?;
    let running = By::Twin(twin).start(&scene.net, BLOCK_LIST)?;
    none_completed(&try_all(&scene, ALLOWED, false, &in_fragments(ALLOWED))?)?;
    for file in ["input.nft", "host.nft"] {
        let rules = fs::read_to_string(root().join("rules/queue").join(file))?;
        // Omits the rules with nft's queue, which not every kernel has: the net has its own queue.
        let lines = rules.lines().filter(|line| !line.contains("queue num"));
        let lines: String = lines.flat_map(|line| [line, "\n"]).collect();
        scene.net.firewall.feed("nft", &["-f", "-"], &lines)?;
        check_reassembled(&scene)?;
    }
    running.finish()?;
    let scene = Scene::new(Net::new(Sees::Both)?)?;
    let running = By::Twin(twin).start(&scene.net, BLOCK_LIST)?;
    for tool in ["iptables", "ip6tables"] {
        let track = ["-w", "-I", "INPUT", "-m", "conntrack", "--ctstate", "NEW"];
        run(&scene.net.firewall, tool, &track)?;
    }
    check_reassembled(&scene)?;
    running.finish()
}
