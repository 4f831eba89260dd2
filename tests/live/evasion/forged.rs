// SPDX-License-Identifier: GPL-2.0-or-later
//! DNS clients over UDP that send packets in the server's name, to themselves: before a denied query, or as the answer
//! to a query whose addresses a set learns. Also a server that itself sends a packet of QUIC first.

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::thread;
use std::time::Instant;

use anyhow::{ensure, Context};
use testbed::frames::Link;
use testbed::wait::{until, PATIENCE};
use twinwall_tests::case::{for_each_twin, Case, Row};

use super::client::QUIET;
use super::net::{Net, Sees, CLIENT, CLIENT_6, SERVER, SERVER_6};
use super::queries::{labels, name_of, ALLOW_LIST, BLOCK_LIST, PORT};
use super::quic::first_datagram;
use super::tried::{self, all_completed, none_completed, patience, Tried};
use super::wire::{self, Outside, Version, UDP};
use super::{By, ALLOWED, DENIED};
use crate::names::ends::Heard;
use crate::names::learn::PENDING;
use crate::names::{is_answered, words};

/// Flags of a DNS message: QUERY of a query, ANSWER of its answer.
pub const QUERY: u16 = 0x0100;
pub const ANSWER: u16 = 0x8180;
/// Fields of an address record: type (A or AAAA), class, and lifetime in seconds.
pub const A: u16 = 1;
pub const AAAA: u16 = 28;
pub const IN: u16 = 1;
pub const TTL: u32 = 300;
/// Name whose addresses a set learns.
pub const LEARNED: &str = "www.cdn.example";
/// Port from which the client queries LEARNED.
const LEARNER: u16 = 4_000;

/// Policy that learns from DNS over UDP and TCP.
pub const LEARNING: &str = r#"
table inet filter {
	set cdn { type ipv4_addr; learn dns "*.cdn.example"; }
	set cdn6 { type ipv6_addr; learn dns "*.cdn.example"; }
	chain forward {
		type filter hook forward priority 0; policy drop;
		th dport 53 accept
		th sport 53 accept
		tcp sport 80 accept
		tcp dport 80 ip daddr @cdn accept
		tcp dport 80 ip6 daddr @cdn6 accept
	}
}
"#;

const ROWS: &[Row] = &[
    ("forged-block-list", |twin| hold(By::Twin(twin), BLOCK_LIST)),
    ("forged-allow-list", |twin| hold(By::Twin(twin), ALLOW_LIST)),
    ("forged-answer", |twin| hold_answer(By::Twin(twin))),
];

pub fn cases() -> Vec<Case> {
    let calibration = Case::new("forged-nobody-looks-on", nobody);
    for_each_twin(ROWS)
        .into_iter()
        .chain([calibration])
        .collect()
}

/// IP version, with the addresses of the client and the server in it.
pub struct Over {
    pub name: &'static str,
    pub version: Version,
    client: IpAddr,
    pub server: IpAddr,
}

pub fn both_versions() -> [Over; 2] {
    [
        Over {
            name: "IPv4",
            version: Version::V4,
            client: CLIENT.into(),
            server: SERVER.into(),
        },
        Over {
            name: "IPv6",
            version: Version::V6,
            client: CLIENT_6.into(),
            server: SERVER_6.into(),
        },
    ]
}

/// Sender of the packet before the query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sender {
    /// The client, in the server's name.
    Client,
    Server,
}

/// Packet that precedes a query, and its sender.
struct Way {
    name: &'static str,
    sender: Sender,
    before: fn(u16) -> anyhow::Result<Vec<u8>>,
}

pub fn message(host: &str, flags: u16, kind: u16, record: &[u8]) -> Vec<u8> {
    let records = u16::from(!record.is_empty());
    let head = [1, flags, 1, records, 0, 0].map(u16::to_be_bytes).concat();
    let question = [kind, IN].map(u16::to_be_bytes).concat();
    [&head[..], &labels(host), &[0], &question, record].concat()
}

/// Returns a packet of QUIC with an allowed name.
fn quic(port: u16) -> anyhow::Result<Vec<u8>> {
    first_datagram(ALLOWED, port, 1)
}

const WAYS: &[Way] = &[
    Way {
        name: "a packet of QUIC in the server's name first",
        sender: Sender::Client,
        before: quic,
    },
    Way {
        name: "a packet of QUIC of the server first",
        sender: Sender::Server,
        before: quic,
    },
    Way {
        name: "an answer in the server's name first",
        sender: Sender::Client,
        before: |_| Ok(message(ALLOWED, ANSWER, A, &[])),
    },
];

/// Network with DNS servers over IPv4 and IPv6, in this order.
struct Scene {
    net: Net,
    heard: Heard,
    servers: Vec<UdpSocket>,
}

impl Scene {
    fn new(net: Net) -> anyhow::Result<Scene> {
        let heard = Heard::default();
        let mut servers = Vec::new();
        for over in both_versions() {
            let socket = net.server.enter(|| UdpSocket::bind((over.server, PORT)))?;
            servers.push(socket.try_clone()?);
            let told = Arc::clone(&heard);
            thread::spawn(move || serve(&socket, &told));
        }
        Ok(Scene {
            net,
            heard,
            servers,
        })
    }

    /// Sends a packet of the client to the server or, if it is forged, a packet in the server's name to the client.
    fn send(
        &self,
        link: &Link,
        over: &Over,
        port: u16,
        is_forged: bool,
        data: &[u8],
    ) -> anyhow::Result<()> {
        let ends = if is_forged {
            (PORT, port)
        } else {
            (port, PORT)
        };
        let udp = wire::datagram(over.version, ends, data);
        let outside = Outside {
            is_forged,
            ..Outside::default()
        };
        for packet in wire::packets(over.version, UDP, port, &outside, &udp) {
            link.send(self.net.gateway, &packet)?;
        }
        Ok(())
    }

    /// Sends a way's packet, and the query for a host after it.
    fn run(
        &self,
        link: &Link,
        over: &Over,
        way: &Way,
        port: u16,
        host: &str,
    ) -> anyhow::Result<()> {
        let before = (way.before)(port)?;
        match way.sender {
            Sender::Client => self.send(link, over, port, true, &before)?,
            Sender::Server => {
                let index = usize::from(over.version == Version::V6);
                let to = SocketAddr::from((over.client, port));
                self.servers[index].send_to(&before, to)?;
                let ports = (port, PORT);
                let of_server =
                    |packet: &[u8]| wire::carried(packet, over.version, UDP, ports).is_some();
                link.receive(of_server, 0, QUIET)?;
            }
        }
        self.send(link, over, port, false, &message(host, QUERY, A, &[]))
    }
}

fn serve(socket: &UdpSocket, heard: &Heard) {
    let mut message = [0; 8192];
    while let Ok((bytes, from)) = socket.recv_from(&mut message) {
        if let Some(name) = name_of(&message[..bytes]) {
            heard.lock().expect("no panic").push((from.port(), name));
        }
    }
}

/// Queries a host after the packet of each way, over both IP versions.
/// - answered: true if the server is expected to receive the query: a way is then tried up to TRIES times.
fn try_all(scene: &Scene, host: &str, answered: bool) -> anyhow::Result<Vec<Tried>> {
    let versions = both_versions();
    let jobs: Vec<_> = versions
        .iter()
        .flat_map(|over| WAYS.iter().map(move |way| (over, way)))
        .collect();
    let mut tried = tried::try_all(&scene.net, &jobs, |link, (over, way)| {
        Tried::new(way.name, over.name, answered, |port| {
            scene.run(link, over, way, port, host)?;
            let patience = patience(answered);
            Ok(Some(tried::hears(&scene.heard, port, host, patience)))
        })
    })?;
    tried::count_late(&mut tried, &scene.heard, host);
    Ok(tried)
}

/// Checks that no packet before a denied query gets the query past a firewall with the policy `text`.
pub fn hold(by: By, text: &str) -> anyhow::Result<()> {
    let scene = Scene::new(by.net()?)?;
    let running = by.start(&scene.net, text)?;
    let tried = try_all(&scene, DENIED, false)?;
    none_completed(&tried)?;
    println!("{} tries: none completed", tried.len());
    running.finish()
}

/// Checks that the query reaches the server in all ways without a firewall.
fn nobody() -> anyhow::Result<()> {
    let scene = Scene::new(Net::new(Sees::Both)?)?;
    all_completed(&try_all(&scene, DENIED, true)?)
}

/// Returns the answer to a query for LEARNED, with the server's own address.
pub fn answer(over: &Over) -> Vec<u8> {
    let (kind, address) = match over.server {
        IpAddr::V4(address) => (A, address.octets().to_vec()),
        IpAddr::V6(address) => (AAAA, address.octets().to_vec()),
    };
    let words = [0xc00c, kind, IN].map(u16::to_be_bytes).concat();
    let length = (address.len() as u16).to_be_bytes();
    let record = [&words[..], &TTL.to_be_bytes(), &length, &address].concat();
    message(LEARNED, ANSWER, kind, &record)
}

/// Returns true if curl reaches the server.
pub fn is_reached(net: &Net, server: IpAddr) -> anyhow::Result<bool> {
    let url = match server {
        IpAddr::V4(_) => format!("http://{server}/"),
        IpAddr::V6(_) => format!("http://[{server}]/"),
    };
    let command = words(&["curl", "-s", "--max-time", "2", &url]);
    is_answered(&net.client, &command, "here")
}

/// Checks over an IP version that a set learns no address from an answer that a client sends in the server's name, and
/// learns the address from the server's answer. Returns false without the server's answer if the firewall may no longer
/// wait for it.
fn hold_answer_over(
    scene: &Scene,
    link: &Link,
    over: &Over,
    server: &UdpSocket,
) -> anyhow::Result<bool> {
    let net = &scene.net;
    let kind = if over.version == Version::V4 { A } else { AAAA };
    let asked = message(LEARNED, QUERY, kind, &[]);
    let begun = Instant::now();
    scene.send(link, over, LEARNER, false, &asked)?;
    ensure!(
        tried::hears(&scene.heard, LEARNER, LEARNED, PATIENCE),
        "{}: the query is lost",
        over.name
    );
    scene.heard.lock().expect("no panic").clear();
    let answer = answer(over);
    let ports = (LEARNER, PORT);
    let of_server = |packet: &[u8]| wire::carried(packet, over.version, UDP, ports).is_some();
    scene.send(link, over, LEARNER, true, &answer)?;
    link.receive(of_server, 0, QUIET)?;
    ensure!(
        !is_reached(net, over.server)?,
        "{}: learned from the client",
        over.name
    );
    if begun.elapsed() > PENDING / 2 {
        return Ok(false);
    }
    server.send_to(&answer, (over.client, LEARNER))?;
    link.receive(of_server, 1, QUIET)
        .context("the server's answer")?;
    let what = format!("{}: learned from the server", over.name);
    until(&what, PATIENCE, || is_reached(net, over.server))?;
    Ok(true)
}

/// Checks the same as `hold_answer_over`, over both IP versions.
pub fn hold_answer(by: By) -> anyhow::Result<()> {
    let scene = Scene::new(by.net()?)?;
    let net = &scene.net;
    for over in both_versions() {
        until(over.name, PATIENCE, || is_reached(net, over.server))?;
    }
    let running = by.start(net, LEARNING)?;
    let link = net.link()?;
    for (over, server) in both_versions().iter().zip(&scene.servers) {
        let what = format!("{}: answers in time", over.name);
        until(&what, PATIENCE, || {
            hold_answer_over(&scene, &link, over, server)
        })?;
    }
    running.finish()
}
