// SPDX-License-Identifier: GPL-2.0-or-later
//! QUIC clients that hide a denied name. The servers are quinn, and aioquic, which supports version 2. The servers
//! report the requested names, with the client's port. They must never receive the denied name.

use std::time::{Duration, Instant};

use anyhow::Context;
use testbed::frames::Link;
use twinwall_judge::quic as packet;
use twinwall_tests::case::{for_each_twin, Case, Row};

mod again;
pub mod answered;
mod over_ipv6;
pub mod segments;
pub mod setting;
mod versions;
mod ways;

use packet::{Ids, Packet, SOURCES, VERSION_1};
use setting::Kind;
use setting::Setting::{self, AioquicV4, AioquicV6, QuinnV4, QuinnV6};
use testbed::wait::pause_for;
use ways::{Datagram, Opening, Rest, Step, Way};

use super::client::QUIET;
use super::net::{Net, Sees};
use super::tried::{self, all_completed, most_completed, none_completed, patience, Tried};
use super::wire::{self, UDP};
use super::{By, ALLOWED, BLOCK_LIST, DENIED};
use crate::names::ends::{self, Heard, Hello, Identity, QUIC_PORT};
use crate::names::programs::{self, First, Server, Told};

/// Difference between the two ports of a client that uses two.
const OTHER_PORT: u16 = 20_000;
/// Port of the server that validates each client by a Retry packet.
const RETRY_PORT: u16 = 4433;
/// Port of the server that requests another hello; only aioquic does.
const AGAIN_PORT: u16 = 4434;

pub const ALLOW_LIST: &str = r#"
table inet filter {
	chain forward {
		type filter hook forward priority 0; policy accept;
		udp dport { 443, 4433, 4434 } tls sni != "*.amused.example" drop
		udp dport { 443, 4433, 4434 } tls sni missing drop
	}
}
"#;

const ROWS: &[Row] = &[
    ("quic-block-list", |twin| {
        hold(By::Twin(twin), QuinnV4, BLOCK_LIST)
    }),
    ("quic-allow-list", |twin| {
        hold(By::Twin(twin), QuinnV4, ALLOW_LIST)
    }),
    ("quic-honest", |twin| honest(By::Twin(twin), QuinnV4)),
    ("quic-block-list-ipv6", |twin| {
        hold(By::Twin(twin), QuinnV6, BLOCK_LIST)
    }),
    ("quic-allow-list-ipv6", |twin| {
        hold(By::Twin(twin), QuinnV6, ALLOW_LIST)
    }),
    ("quic-honest-ipv6", |twin| honest(By::Twin(twin), QuinnV6)),
    ("quic-block-list-version-2", |twin| {
        hold(By::Twin(twin), AioquicV4, BLOCK_LIST)
    }),
    ("quic-allow-list-version-2", |twin| {
        hold(By::Twin(twin), AioquicV4, ALLOW_LIST)
    }),
    ("quic-block-list-version-2-ipv6", |twin| {
        hold(By::Twin(twin), AioquicV6, BLOCK_LIST)
    }),
    ("quic-answered-block-list", |twin| {
        answered::hold(By::Twin(twin), QuinnV4, BLOCK_LIST)
    }),
    ("quic-answered-ipv6", |twin| {
        answered::hold(By::Twin(twin), QuinnV6, BLOCK_LIST)
    }),
    ("quic-honest-version-2", |twin| {
        honest(By::Twin(twin), AioquicV4)
    }),
    ("quic-honest-version-2-ipv6", |twin| {
        honest(By::Twin(twin), AioquicV6)
    }),
];

pub fn cases() -> Vec<Case> {
    let calibrations = [
        ("quic-nobody-looks-on", QuinnV4),
        ("quic-nobody-looks-on-ipv6", QuinnV6),
        ("quic-nobody-looks-on-version-2", AioquicV4),
        ("quic-nobody-looks-on-version-2-ipv6", AioquicV6),
    ];
    let calibrations = calibrations.map(|(name, setting)| Case::new(name, move || nobody(setting)));
    for_each_twin(ROWS)
        .into_iter()
        .chain(calibrations)
        .chain(segments::cases())
        .chain(answered::cases())
        .collect()
}

/// Returns the first datagram of a client, with 1 / `parts` of a hello.
/// - number: number of the client, which selects its connection ids.
pub fn first_datagram(host: &str, number: u16, parts: usize) -> anyhow::Result<Vec<u8>> {
    let config = Identity::new(&[host])?.client(Hello::Plain, None)?;
    let version = packet::version_of(VERSION_1);
    let bytes = ends::quic_hello(config, host, version, SOURCES[0])?;
    let initial = Packet {
        version: VERSION_1,
        frames: packet::crypto(&bytes, 0, bytes.len() / parts),
        ..Packet::default()
    };
    packet::datagram(&Ids::new(number), &[initial], &[])
}

/// Returns a UDP datagram to port 443 with half of a hello; source port and checksum are 0.
pub fn half_hello(host: &str) -> anyhow::Result<Vec<u8>> {
    let data = first_datagram(host, 0, 2)?;
    let length = (8 + data.len() as u16).to_be_bytes();
    let port = QUIC_PORT.to_be_bytes();
    Ok([&[0, 0][..], &port, &length, &[0, 0], &data].concat())
}

/// Network with QUIC servers, and the names that they received. A server uses Retry, a server does not, and (aioquic
/// only) a server requests another hello.
struct Scene {
    setting: Setting,
    net: Net,
    identity: Identity,
    heard: Heard,
    _servers: Vec<Server>,
}

impl Scene {
    fn new(net: Net, setting: Setting) -> anyhow::Result<Scene> {
        if setting.is_aioquic() {
            programs::file(programs::AIOQUIC)?;
        }
        let identity = Identity::new(&[ALLOWED, DENIED])?;
        let told = Told::default();
        let mut servers = Vec::new();
        let kinds = [
            (QUIC_PORT, First::Plain),
            (RETRY_PORT, First::Retry),
            (AGAIN_PORT, First::Again),
        ];
        for (port, first) in kinds {
            if setting.is_aioquic() {
                servers.push(programs::serve_quic(&net, port, first, &told)?);
            } else if first != First::Again {
                let is_retry = first == First::Retry;
                ends::serve_quic(&net, &identity, port, is_retry, &told.hellos)?;
            }
        }
        Ok(Scene {
            setting,
            net,
            identity,
            heard: told.hellos,
            _servers: servers,
        })
    }

    fn opening(&self, kind: &Kind, (host, other): (&str, &str)) -> anyhow::Result<Opening> {
        let hello = |name: &str, source: &[u8]| -> anyhow::Result<Vec<u8>> {
            let config = self.identity.client(kind.hello, None)?;
            ends::quic_hello(config, name, packet::version_of(kind.version), source)
        };
        let bytes = hello(host, SOURCES[0])?;
        let mut places = bytes.windows(host.len());
        let name_at = places.position(|part| part == host.as_bytes());
        let name_at = name_at.context("a hello without its name")?;
        let (before, behind) = (&bytes[..name_at], &bytes[name_at + host.len()..]);
        Ok(Opening {
            what: kind.what,
            version: kind.version,
            other_version: kind.other_version,
            decoy: [before, other.as_bytes(), behind].concat(),
            name_at,
            name_bytes: host.len(),
            other: hello(other, SOURCES[1])?,
            bytes,
        })
    }

    fn openings(&self, host: &str, other: &str) -> anyhow::Result<Vec<Opening>> {
        let kinds = self.setting.kinds().iter();
        kinds
            .map(|kind| self.opening(kind, (host, other)))
            .collect()
    }
}

/// Client with its own port.
struct Client<'a> {
    scene: &'a Scene,
    link: &'a Link,
    /// Ports of the client and of the server.
    ports: (u16, u16),
}

impl Client<'_> {
    fn send(&self, ids: &Ids, datagram: &Datagram) -> anyhow::Result<()> {
        let version = self.scene.setting.version();
        let behind: &[u8] = match datagram.rest {
            Rest::Short => &[0x45; 60],
            _ => &[],
        };
        let packets = packet::datagram(ids, &datagram.packets, behind)?;
        let data = match datagram.rest {
            Rest::UnknownVersion => packet::unknown_version(ids),
            Rest::ServersHandshake => packet::handshake(ids, true),
            Rest::ZeroRttFirst => {
                let of_version = datagram.packets.first().context("a packet behind")?.version;
                [packet::zero_rtt(ids, of_version), packets].concat()
            }
            _ => packets,
        };
        let port = match datagram.other_port {
            true => self.ports.0 + OTHER_PORT,
            false => self.ports.0,
        };
        let ends = match datagram.outside.is_forged {
            true => (self.ports.1, port),
            false => (port, self.ports.1),
        };
        let mut udp = wire::datagram(version, ends, &data);
        if datagram.wrong_checksum {
            udp[6] ^= 0x55;
        }
        let outside = &datagram.outside;
        for packet in wire::packets(version, UDP, self.ports.0, outside, &udp) {
            self.link.send(self.scene.net.gateway, &packet)?;
        }
        Ok(())
    }

    /// Waits for a Retry packet, and stores its connection id and token. Without such a packet the ids don't change.
    fn take_retry(&self, ids: &mut Ids, patience: Duration) -> anyhow::Result<()> {
        let version = self.scene.setting.version();
        let said = |packet: &[u8]| {
            let udp = wire::carried(packet, version, UDP, self.ports)?;
            packet::retry(udp.get(8..)?)
        };
        let deadline = Instant::now() + patience;
        while Instant::now() < deadline {
            let packets = self
                .link
                .receive(|packet| said(packet).is_some(), 0, QUIET)?;
            if let Some((id, token)) = packets.first().and_then(|packet| said(packet)) {
                ids.servers[0] = id;
                ids.token = token;
                return Ok(());
            }
        }
        Ok(())
    }

    /// Executes all steps. Returns true if the server receives `host` before the time limit ends.
    fn run(&self, steps: &[Step], host: &str, patience: Duration) -> anyhow::Result<bool> {
        let mut ids = Ids::new(self.ports.0);
        for step in steps {
            match step {
                Step::Send(datagram) => self.send(&ids, datagram)?,
                Step::Pause(pause) => pause_for(*pause),
                Step::Retry => self.take_retry(&mut ids, patience)?,
            }
        }
        let heard = &self.scene.heard;
        let is_heard = tried::hears(heard, self.ports.0, host, patience);
        let other = self.ports.0 + OTHER_PORT;
        Ok(is_heard || tried::hears(heard, other, host, Duration::ZERO))
    }
}

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
    let pairs = openings.iter().flat_map(|opening| {
        let ways = scene.setting.ways().filter(|way| wanted(way));
        ways.map(move |way| (way, opening))
    });
    let jobs: Vec<_> = pairs
        .filter_map(|(way, opening)| Some((way, opening, (way.steps)(opening)?)))
        .collect();
    let mut tried = tried::try_all(&scene.net, &jobs, |link, (way, opening, steps)| {
        let to = match way {
            Way { retried: true, .. } => RETRY_PORT,
            Way { again: true, .. } => AGAIN_PORT,
            _ => QUIC_PORT,
        };
        Tried::new(way.name, opening.what, answered, |port| {
            let ports = (port, to);
            let client = Client { scene, link, ports };
            client.run(steps, host, patience(answered)).map(Some)
        })
    })?;
    tried::count_late(&mut tried, &scene.heard, host);
    Ok(tried)
}

/// Checks that no way to hide a denied name passes a firewall with the policy `text`.
pub fn hold(by: By, setting: Setting, text: &str) -> anyhow::Result<()> {
    let scene = Scene::new(by.net()?, setting)?;
    let running = by.start(&scene.net, text)?;
    let tried = try_all(&scene, (DENIED, ALLOWED), false, |_| true)?;
    none_completed(&tried)?;
    let (ways, tries) = (setting.ways().count(), tried.len());
    println!("{ways} ways, {tries} tries: none completed");
    running.finish()
}

/// Checks that a client with an allowed name passes.
pub fn honest(by: By, setting: Setting) -> anyhow::Result<()> {
    let scene = Scene::new(by.net()?, setting)?;
    for text in [BLOCK_LIST, ALLOW_LIST] {
        let running = by.start_for_honest(&scene.net, text)?;
        all_completed(&try_all(&scene, (ALLOWED, DENIED), true, |way| way.honest)?)?;
        running.finish()?;
    }
    Ok(())
}

/// Checks without a firewall that the ways marked honest (as of a plain client) reach the server, and more than half of
/// the others.
fn nobody(setting: Setting) -> anyhow::Result<()> {
    let scene = Scene::new(Net::new(Sees::Both)?, setting)?;
    all_completed(&try_all(&scene, (DENIED, ALLOWED), true, |way| way.honest)?)?;
    most_completed(&try_all(&scene, (DENIED, ALLOWED), false, |way| {
        !way.honest
    })?)
}
