// SPDX-License-Identifier: GPL-2.0-or-later
//! DNS clients over TCP that hide a denied query after an allowed one on the same connection. The server reports the
//! queried names, with the client's port. It must never receive the denied name.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;

use twinwall_tests::case::{for_each_twin, Case, Row};

use super::client::{Client, Script, Segment};
use super::hello::Opening;
use super::net::{Net, Sees, SERVER};
use super::strategies::{cut, steps, STRATEGIES};
use super::tried::{self, all_completed, most_completed, none_completed, patience, Tried};
use super::wire::Version;
use super::{By, ALLOWED, DENIED};
use crate::names::ends::Heard;

pub const PORT: u16 = 53;
/// Length of a DNS message's header in bytes.
const HEADER_BYTES: usize = 12;
/// Number of allowed queries in one segment before the denied one.
const MANY: usize = 30;

pub const BLOCK_LIST: &str = r#"
table inet filter {
	set denied { type hostname; elements = { "denied.example", "*.denied.example" } }
	chain forward {
		type filter hook forward priority 0; policy accept;
		th dport 53 dns name @denied drop
	}
}
"#;

pub const ALLOW_LIST: &str = r#"
table inet filter {
	chain forward {
		type filter hook forward priority 0; policy accept;
		th dport 53 dns name != "*.amused.example" drop
		th dport 53 dns name missing drop
	}
}
"#;

const ROWS: &[Row] = &[
    ("queries-block-list", |twin| {
        hold(By::Twin(twin), BLOCK_LIST)
    }),
    ("queries-allow-list", |twin| {
        hold(By::Twin(twin), ALLOW_LIST)
    }),
    ("queries-honest", |twin| honest(By::Twin(twin))),
];

pub fn cases() -> Vec<Case> {
    let calibration = Case::new("queries-nobody-looks-on", nobody);
    for_each_twin(ROWS)
        .into_iter()
        .chain([calibration])
        .collect()
}

/// Returns a name's labels in DNS format, without the final empty label.
pub fn labels(host: &str) -> Vec<u8> {
    let labels = host.split('.').flat_map(|label| {
        let length = [label.len() as u8];
        [&length[..], label.as_bytes()].concat()
    });
    labels.collect()
}

/// Returns a query for a name, with its length in two bytes before it (RFC 1035, section 4.2.2).
pub fn question(host: &str) -> Vec<u8> {
    let head = [0x12, 0x34, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    let message = [&head[..], &labels(host), &[0, 0, 1, 0, 1]].concat();
    [&(message.len() as u16).to_be_bytes()[..], &message].concat()
}

/// Returns an allowed query, followed by the query for a host.
fn opening(host: &str) -> Opening {
    let first = question(ALLOWED);
    Opening {
        name_at: first.len() + 2 + HEADER_BYTES + 1,
        bytes: [first, question(host)].concat(),
        padding: 0,
        port: PORT,
        answer: b"",
    }
}

/// Way to send queries.
struct Way {
    name: String,
    /// True if a plain client may do the same, depending on its network.
    honest: bool,
    script: Script,
}

/// Returns ways to split the two queries at each byte, in both orders of the halves.
fn cuts(opening: &Opening) -> Vec<Way> {
    let way = |at: usize, is_reversed: bool| {
        let mut halves = cut(&opening.bytes, &[at]);
        if is_reversed {
            halves.reverse();
        }
        Some(Way {
            name: format!("cut at byte {at}, second half first: {is_reversed}"),
            honest: true,
            script: steps(halves)?,
        })
    };
    let places = 1..opening.bytes.len();
    let both = places.flat_map(|at| [way(at, false), way(at, true)]);
    both.flatten().collect()
}

/// Returns ways to send the queries in another order, or with additional queries.
fn orders(host: &str) -> Vec<Way> {
    let (allowed, asked) = (question(ALLOWED), question(host));
    let bytes = allowed.len();
    let many = allowed.repeat(MANY);
    let ways: [(&str, Vec<Segment>); 7] = [
        (
            "the other one in front",
            cut(&[&asked[..], &allowed].concat(), &[]),
        ),
        (
            "between two others",
            cut(&[&allowed[..], &asked, &allowed].concat(), &[]),
        ),
        (
            "behind many others",
            cut(&[&many[..], &asked].concat(), &[]),
        ),
        (
            "before what stands in front",
            vec![Segment::data(bytes, &asked), Segment::data(0, &allowed)],
        ),
        (
            "before what stands in front, which comes twice",
            vec![
                Segment::data(bytes, &asked),
                Segment::data(0, &allowed),
                Segment::data(0, &allowed),
            ],
        ),
        (
            "the last of three, between two others",
            vec![
                Segment::data(0, &allowed),
                Segment::data(2 * bytes, &allowed),
                Segment::data(bytes, &asked),
            ],
        ),
        (
            "a part of the one in front comes again with it",
            vec![
                Segment::data(0, &allowed),
                Segment::data(bytes - 5, &[&allowed[bytes - 5..], &asked].concat()),
            ],
        ),
    ];
    let way = |(name, segments): (&str, Vec<Segment>)| {
        Some(Way {
            name: name.to_owned(),
            honest: true,
            script: steps(segments)?,
        })
    };
    ways.into_iter().filter_map(way).collect()
}

/// Returns all ways to query a host.
/// - other: host in decoys.
fn ways(host: &str, other: &str) -> Vec<Way> {
    let (asked, decoy) = (opening(host), opening(other));
    let known = STRATEGIES.iter().filter_map(|strategy| {
        Some(Way {
            name: strategy.name.to_owned(),
            honest: strategy.honest,
            script: (strategy.script)(&asked, &decoy)?,
        })
    });
    known.chain(cuts(&asked)).chain(orders(host)).collect()
}

/// Returns the first name in a DNS message, in lower case; None if it can't be read.
pub fn name_of(message: &[u8]) -> Option<String> {
    let mut left = message.get(HEADER_BYTES..)?;
    let mut labels = Vec::new();
    loop {
        let (length, rest) = left.split_first()?;
        if *length == 0 {
            return Some(labels.join(".").to_lowercase());
        }
        let (label, rest) = rest.split_at_checked((*length).into())?;
        labels.push(String::from_utf8_lossy(label).into_owned());
        left = rest;
    }
}

/// Reads the queries of a client and answers each query before it reads the next.
fn answer(mut stream: TcpStream, heard: &Heard) -> io::Result<()> {
    let port = stream.peer_addr()?.port();
    loop {
        let mut length = [0; 2];
        stream.read_exact(&mut length)?;
        let mut message = vec![0; u16::from_be_bytes(length).into()];
        stream.read_exact(&mut message)?;
        if let Some(name) = name_of(&message) {
            heard.lock().expect("no panic").push((port, name));
        }
        if let Some(flags) = message.get_mut(2) {
            *flags |= 0x80;
        }
        stream.write_all(&[&length[..], &message].concat())?;
    }
}

/// Network with a DNS server, and the names that the server received.
struct Scene {
    net: Net,
    heard: Heard,
}

impl Scene {
    fn new(net: Net) -> anyhow::Result<Scene> {
        let heard = Heard::default();
        let address = SocketAddr::from((SERVER, PORT));
        let listener = net.server.enter(|| TcpListener::bind(address))?;
        let told = Arc::clone(&heard);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let told = Arc::clone(&told);
                // Its error is ignored: it is the client's end.
                thread::spawn(move || answer(stream, &told));
            }
        });
        Ok(Scene { net, heard })
    }
}

/// Runs every wanted way to hide a query for `host`.
/// - other: name in decoys.
/// - answered: true if the server is expected to receive the name: a way is then tried up to TRIES times.
fn try_all(
    scene: &Scene,
    (host, other): (&str, &str),
    answered: bool,
    wanted: fn(&Way) -> bool,
) -> anyhow::Result<Vec<Tried>> {
    let jobs: Vec<_> = ways(host, other).into_iter().filter(wanted).collect();
    let mut tried = tried::try_all(&scene.net, &jobs, |link, way| {
        Tried::new(&way.name, "DNS", answered, |port| {
            let client = Client {
                net: &scene.net,
                link,
                version: Version::V4,
                ports: (port, PORT),
                patience: patience(answered),
            };
            client.run(&way.script)?;
            Ok(Some(tried::hears(
                &scene.heard,
                port,
                host,
                client.patience,
            )))
        })
    })?;
    tried::count_late(&mut tried, &scene.heard, host);
    Ok(tried)
}

/// Checks that no way to hide a denied query passes a firewall with the policy `text`.
pub fn hold(by: By, text: &str) -> anyhow::Result<()> {
    let scene = Scene::new(by.net()?)?;
    let running = by.start(&scene.net, text)?;
    let tried = try_all(&scene, (DENIED, ALLOWED), false, |_| true)?;
    none_completed(&tried)?;
    println!("{} ways: none completed", tried.len());
    running.finish()
}

/// Allowed name that differs from the first query's name, so that it can be recognised.
const OTHER: &str = "xyz.amused.example";

/// Checks that a client with allowed names only passes.
pub fn honest(by: By) -> anyhow::Result<()> {
    let scene = Scene::new(by.net()?)?;
    for text in [BLOCK_LIST, ALLOW_LIST] {
        let running = by.start_for_honest(&scene.net, text)?;
        all_completed(&try_all(&scene, (OTHER, DENIED), true, |way| way.honest)?)?;
        running.finish()?;
    }
    Ok(())
}

/// Checks without a firewall that the ways marked honest (as of a plain client) reach the server, and more than half of
/// the others.
fn nobody() -> anyhow::Result<()> {
    let scene = Scene::new(Net::new(Sees::Both)?)?;
    let tried = try_all(&scene, (DENIED, ALLOWED), true, |way| way.honest)?;
    all_completed(&tried)?;
    println!("{} honest ways reach the server", tried.len());
    most_completed(&try_all(&scene, (DENIED, ALLOWED), false, |way| {
        !way.honest
    })?)
}
