// SPDX-License-Identifier: GPL-2.0-or-later
//! A hunt for connections that are settled too early: random clients and servers, whose packets the test builds. When
//! the connection's mark says that a class is final, the bytes that the server has acknowledged show a name of this
//! class. If the policy drops a name, no server receives a whole hello with it.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::time::{Duration, Instant};

use anyhow::{ensure, Context};
use stage::Options;
use testbed::frames::Link;
use testbed::place::restore;
use testbed::twin::Twin;
use testbed::wait::PATIENCE;
use twinwall_judge::random::Random;
use twinwall_tests::case::Row;

use super::{split, Stage};
use crate::evasion::client::{Segment, ACK};
use crate::evasion::hello;
use crate::evasion::net::{Net, Sees};
use client::{shown, Client, NAMES};
use packet::{is_marker, marker, segment_of, To, PORT};
use server::{Server, State};

mod client;
mod packet;
mod server;

pub const ROWS: &[Row] = &[("hunt-for-settled-too-early", |twin| hunt(twin, SECONDS))];
/// The longer hunt of `make test-long`.
pub const LONG: &[Row] = &[("hunt-for-settled-too-early", |twin| {
    hunt(twin, LONG_SECONDS)
})];

const SECONDS: u64 = 4;
const LONG_SECONDS: u64 = 180;
/// Number of simultaneous connections, all of one batch.
const CONNECTIONS: u16 = 64;
/// Number of rounds of a batch. In each round first the clients may send segments, then the servers.
const ROUNDS: usize = 24;
const BATCHES: u64 = 16;
/// Lowest client port of the batches; each connection of a batch has its own port.
const FIRST_PORT: u16 = 10_000;

/// Policy of the hunt. `VERDICT` is replaced by `drop`, or by nothing, so that the second name is only counted.
const POLICY: &str = r#"
table inet filter {
	chain forward {
		type filter hook forward priority 0; policy accept;
		tls sni "www.amused.example" counter
		tls sni "www.denied.example" counter VERDICT
	}
}
"#;

/// Both ends of a connection, and the packets so far.
struct Pair {
    client: Client,
    server: Server,
    trace: Vec<String>,
    /// Bits of the stage's mask (class, generation, final) in the connection's mark, after the last step of the hunt.
    mark: u32,
}

/// Mark of a settled connection within the stage's mask (class, generation, final): for each of NAMES, and for a client
/// without a name.
type Marks = [u32; 4];

struct Scene<'a> {
    net: &'a Net,
    client: Link,
    server: Link,
    /// Hardware address of the last router's interface to the server.
    router: [u8; 6],
    mask: u32,
    number: u32,
}

/// Content of a stream at the place of a hello.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shown {
    /// No byte, or only the start of a hello.
    Nothing,
    /// Bytes that begin like a hello, but differ from it outside the name.
    Garbage,
    /// Index in NAMES, the last one for any unlisted name; NAMES.len() for bytes that begin no hello.
    Name(usize),
}

/// Returns the content of a stream at the place of a hello.
/// - index: 0 for the first hello, 1 for the second.
fn shown_by(bytes: &[u8], index: usize) -> Shown {
    let hello = hello::tls(NAMES[0], 0);
    let bytes = bytes.get(index * hello.bytes.len()..).unwrap_or_default();
    let is_name = |at: usize| (hello.name_at..hello.name_at + NAMES[0].len()).contains(&at);
    let mut both = bytes.iter().zip(&hello.bytes).enumerate();
    let is_other = both.any(|(at, (a, b))| a != b && !is_name(at));
    match bytes.first() {
        None => Shown::Nothing,
        Some(first) if *first != hello.bytes[0] => Shown::Name(NAMES.len()),
        Some(_) if is_other => Shown::Garbage,
        Some(_) if bytes.len() < hello.bytes.len() => Shown::Nothing,
        Some(_) => {
            let said = &bytes[hello.name_at..][..NAMES[0].len()];
            let place = NAMES.iter().position(|name| name.as_bytes() == said);
            Shown::Name(place.unwrap_or(NAMES.len() - 1))
        }
    }
}

/// Returns true if a stream shows a whole hello with a name.
/// - index: 0 for the first hello, 1 for the second.
fn shows_name(bytes: &[u8], index: usize) -> bool {
    matches!(shown_by(bytes, index), Shown::Name(name) if name < NAMES.len())
}

impl Scene<'_> {
    fn new<'a>(net: &'a Net, mask: &str) -> anyhow::Result<Scene<'a>> {
        // The test answers in place of the server's kernel.
        restore(
            &net.server,
            "iptables",
            &format!("-A INPUT -p tcp --dport {PORT} -j DROP\n-A INPUT -p udp -j DROP"),
        )?;
        let digits = mask.strip_prefix("0x").context("a hexadecimal mask")?;
        Ok(Scene {
            net,
            client: net.link()?,
            server: Link::open(&net.server, "left")?,
            router: net.router_address()?,
            mask: u32::from_str_radix(digits, 16)?,
            number: 0,
        })
    }

    /// Sends a marker to an end. Returns the packets that arrive at that end up to the marker.
    fn arrived(&mut self, to: To) -> anyhow::Result<Vec<Vec<u8>>> {
        self.number += 1;
        let number = self.number;
        let packet = marker(to, number);
        let mut packets = Vec::new();
        let deadline = Instant::now() + PATIENCE;
        let (from, at) = match to {
            To::Server => (&self.client, &self.server),
            To::Client => (&self.server, &self.client),
        };
        let hardware = if to == To::Server {
            self.net.gateway
        } else {
            self.router
        };
        from.send(hardware, &packet)?;
        loop {
            let come = at.receive(|_| true, 1, Duration::ZERO)?;
            let is_end = come.iter().any(|packet| is_marker(packet, to, number));
            packets.extend(come);
            if is_end {
                return Ok(packets);
            }
            ensure!(
                Instant::now() < deadline,
                "the marker {number} did not arrive"
            );
        }
    }

    /// Returns the bits of the stage's mask (class, generation, final) in the mark of each connection, by the client's
    /// port.
    fn marks(&self) -> anyhow::Result<BTreeMap<u16, u32>> {
        let listed = self
            .net
            .firewall
            .enter(|| fs::read_to_string("/proc/thread-self/net/nf_conntrack"))?;
        let marks = listed.lines().filter_map(|line| {
            let value = |key: &str| line.split(' ').find_map(|word| word.strip_prefix(key));
            let (sport, dport): (u16, u16) = (
                value("sport=")?.parse().ok()?,
                value("dport=")?.parse().ok()?,
            );
            let mark: u32 = value("mark=")?.parse().ok()?;
            let port = if dport == PORT { sport } else { dport };
            Some((port, mark & self.mask))
        });
        Ok(marks.collect())
    }

    fn settled(&self) -> u32 {
        1 << (u32::BITS - 1 - self.mask.leading_zeros())
    }

    /// Sends the clients' segments. Passes the segments that arrive to the model servers, and sends the servers' RSTs.
    fn deliver(
        &mut self,
        pairs: &mut BTreeMap<u16, Pair>,
        said: &[(u16, Segment)],
    ) -> anyhow::Result<()> {
        for (port, segment) in said {
            let pair = pairs.get_mut(port).context("a pair")?;
            pair.trace.push(format!("> {}", shown(segment)));
            let packet = pair.client.packet(segment, pair.server.shown());
            self.client.send(self.net.gateway, &packet)?;
        }
        let arrived = self.arrived(To::Server)?;
        for (port, tcp) in arrived.iter().filter_map(|packet| segment_of(packet)) {
            let Some(pair) = pairs.get_mut(&port) else {
                continue;
            };
            pair.trace.push("  arrived".to_owned());
            if let Some(refusal) = pair.server.receive(&tcp) {
                pair.trace.push("< RST".to_owned());
                self.server.send(self.router, &refusal.packet(port))?;
            }
        }
        Ok(())
    }

    /// Sends the segment of each server that sends one in this round.
    fn answer(
        &mut self,
        pairs: &mut BTreeMap<u16, Pair>,
        random: &mut Random,
    ) -> anyhow::Result<()> {
        for (port, pair) in &mut *pairs {
            if let Some(tcp) = pair.server.speak(random) {
                let known = pair.server.acknowledged;
                pair.trace
                    .push(format!("< {:#x} acknowledges {known}", tcp.flags));
                self.server.send(self.router, &tcp.packet(*port))?;
            }
        }
        self.arrived(To::Client).map(drop)
    }

    /// Opens a plain connection for each of NAMES, and one without a name. Returns their marks, which must be settled.
    /// - first_port: client's port of the first connection.
    fn calibrate(&mut self, first_port: u16, random: &mut Random) -> anyhow::Result<Marks> {
        let mut pairs = BTreeMap::new();
        for index in 0..=NAMES.len() {
            let port = first_port + index as u16;
            let pair = Pair {
                client: Client::plain(port, index),
                server: Server::plain(),
                trace: Vec::new(),
                mark: 0,
            };
            pairs.insert(port, pair);
        }
        for round in 0..ROUNDS {
            let said = pairs.iter().map(|(port, pair)| {
                let confirm = Segment {
                    flags: ACK,
                    ..Segment::data(1, &[])
                };
                let segment = match (round, pair.server.state) {
                    (0, _) => pair.client.syn(),
                    (_, State::Open) => pair.client.whole(),
                    _ => confirm,
                };
                (*port, segment)
            });
            let said: Vec<_> = said.collect();
            self.deliver(&mut pairs, &said)?;
            self.answer(&mut pairs, random)?;
        }
        let marks = self.marks()?;
        let mut found = Marks::default();
        for (index, (port, pair)) in pairs.iter().enumerate() {
            found[index] = marks.get(port).copied().unwrap_or(0);
            let is_settled = found[index] & self.settled() != 0;
            ensure!(
                is_settled,
                "{marks:x?}: no class for the plain connection {index}: {:#?}",
                pair.trace
            );
        }
        let [first, second, other, none] = found;
        ensure!(
            first != second && first != other && second != other && other == none,
            "{found:x?}"
        );
        Ok(found)
    }

    /// Checks that the mark of each settled open connection is that of the names in the bytes that the server has
    /// acknowledged. Returns the number of settled connections.
    /// - marks: marks of the settled classes.
    fn check(&self, pairs: &mut BTreeMap<u16, Pair>, marks: &Marks) -> anyhow::Result<usize> {
        let listed = self.marks()?;
        let mut settled = 0;
        for (port, pair) in pairs {
            let mark = listed.get(port).copied().unwrap_or(0);
            if mark != pair.mark {
                pair.trace.push(format!("= mark {mark:#x}"));
                pair.mark = mark;
            }
            let known = pair.server.known();
            if mark & self.settled() == 0 || !pair.server.is_connected() {
                continue;
            }
            for index in 0..pair.server.hellos() {
                let class = match shown_by(&known, index) {
                    Shown::Garbage => continue,
                    Shown::Nothing => None,
                    Shown::Name(name) => Some(marks[name]),
                };
                ensure!(
                    class == Some(mark),
                    "port {port}: {mark:#x} is settled, but hello {index} of the {} bytes that the server has \
                     acknowledged shows {class:x?}: {:#?}",
                    known.len(),
                    pair.trace
                );
            }
            settled += 1;
        }
        Ok(settled)
    }

    /// Runs a batch of connections. Returns the number of connections that are settled at the end; 0 without `marks`.
    /// - marks: those of the classes; None if the policy drops the second name.
    fn batch(&mut self, seed: u64, number: u64, marks: Option<&Marks>) -> anyhow::Result<usize> {
        let mut random = Random::split(seed, number);
        let first_port = FIRST_PORT + (number % 256) as u16 * CONNECTIONS;
        let mut pairs = BTreeMap::new();
        for port in first_port..first_port + CONNECTIONS {
            let client = Client::new(port, &mut random);
            let server = Server::new(&mut random);
            pairs.insert(
                port,
                Pair {
                    client,
                    server,
                    trace: Vec::new(),
                    mark: 0,
                },
            );
        }
        let mut settled = 0;
        for _ in 0..ROUNDS {
            let mut said = Vec::new();
            for (port, pair) in &mut pairs {
                let is_listening = pair.server.state == State::Listen;
                let segments = pair.client.speak(&mut random, is_listening);
                said.extend(segments.into_iter().map(|segment| (*port, segment)));
            }
            self.deliver(&mut pairs, &said)?;
            self.answer(&mut pairs, &mut random)?;
            match marks {
                Some(marks) => settled = self.check(&mut pairs, marks)?,
                None => {
                    for (port, pair) in &pairs {
                        let mut all = 0..pair.server.hellos();
                        let received = pair.server.received();
                        let came = all.any(|index| shown_by(&received, index) == Shown::Name(1));
                        ensure!(!came, "port {port}: a denied name came: {:#?}", pair.trace);
                    }
                }
            }
        }
        Ok(settled)
    }
}

fn seed() -> anyhow::Result<u64> {
    match env::var("TWINWALL_SEED") {
        Ok(seed) => seed.parse().context("TWINWALL_SEED is no number"),
        Err(_) => Ok(1),
    }
}

fn hunt(twin: Twin, seconds: u64) -> anyhow::Result<()> {
    let seed = seed()?;
    for verdict in ["", "drop"] {
        let net = Net::new(Sees::Both)?;
        let policy = POLICY.replace("VERDICT", verdict);
        let stage = Stage::start_split(&net, twin, split(&policy, Options::default())?, &[])?;
        let mut scene = Scene::new(&net, &stage.mask)?;
        let marks = match verdict {
            "" => Some(scene.calibrate(FIRST_PORT - 10, &mut Random::new(seed))?),
            _ => None,
        };
        let end = Instant::now() + Duration::from_secs(seconds) / 2;
        let (mut batches, mut settled) = (0, 0);
        // At least BATCHES, also on a slow machine.
        while batches < BATCHES || Instant::now() < end {
            let came = scene.batch(seed, batches, marks.as_ref());
            settled += came.with_context(|| format!("TWINWALL_SEED={seed}, batch {batches}"))?;
            batches += 1;
        }
        let count = batches * u64::from(CONNECTIONS);
        println!("seed {seed}, verdict `{verdict}`: {count} connections, {settled} settled");
        ensure!(marks.is_none() || settled > 0, "no connection was settled");
        stage.end()?;
    }
    Ok(())
}
