// SPDX-License-Identifier: GPL-2.0-or-later
//! HTTP clients that hide a request to a denied host after one to an allowed host on the same connection. The server
//! keeps connections open, supports Multipath TCP and reports the requested hosts. It must never receive the denied
//! host.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::sync::Arc;
use std::thread;

use twinwall_tests::case::{for_each_twin, Case, Row};

use super::client::{Client, Script, Segment};
use super::hello::{self, Opening};
use super::multipath;
use super::net::{Net, Sees, SERVER, SERVER_6};
use super::strategies::{cut, steps, STRATEGIES};
use super::tried::{self, all_completed, most_completed, none_completed, patience, Tried};
use super::wire::Version;
use super::{By, ALLOWED, BLOCK_LIST, DENIED};
use crate::names::ends::Heard;

pub const PORT: u16 = 8080;
/// Number of allowed requests in one segment before the denied one.
const MANY: usize = 30;
/// Distance in bytes between two tried split points.
const STEP: usize = 5;

pub const ALLOW_LIST: &str = r#"
table inet filter {
	chain forward {
		type filter hook forward priority 0; policy accept;
		tcp dport 8080 http host != "*.amused.example" drop
		tcp dport 8080 http host missing drop
	}
}
"#;

const ROWS: &[Row] = &[
    ("requests-block-list", |twin| {
        hold(By::Twin(twin), Version::V4, BLOCK_LIST)
    }),
    ("requests-block-list-ipv6", |twin| {
        hold(By::Twin(twin), Version::V6, BLOCK_LIST)
    }),
    ("requests-allow-list", |twin| {
        hold(By::Twin(twin), Version::V4, ALLOW_LIST)
    }),
    ("requests-honest", |twin| honest(By::Twin(twin))),
];

pub fn cases() -> Vec<Case> {
    let calibration = Case::new("requests-nobody-looks-on", nobody);
    for_each_twin(ROWS)
        .into_iter()
        .chain([calibration])
        .collect()
}

/// Returns a request.
/// - lines: header lines after Host, each with its line end.
fn request(method: &str, host: &str, lines: &str, body: &str) -> Vec<u8> {
    format!("{method} / HTTP/1.1\r\nHost: {host}\r\n{lines}\r\n{body}").into_bytes()
}

/// Returns a request for an allowed host, followed by the request for a host.
fn opening(host: &str) -> Opening {
    let first = request("GET", ALLOWED, "", "");
    let opening = hello::http(host, "\r\n");
    Opening {
        name_at: first.len() + opening.name_at,
        bytes: [first, opening.bytes].concat(),
        port: PORT,
        ..opening
    }
}

/// Way to send requests.
struct Way {
    name: String,
    /// True if a plain client may do the same, depending on its network.
    honest: bool,
    script: Script,
}

/// Returns ways to split the two requests, in both orders of the halves.
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
    let places = (1..opening.bytes.len()).step_by(STEP);
    let both = places.flat_map(|at| [way(at, false), way(at, true)]);
    both.flatten().collect()
}

/// Returns ways to send a request for a host after an allowed request of each kind: in one segment, or in two segments
/// in both orders.
fn behind(host: &str) -> Vec<Way> {
    let asked = request("GET", host, "", "");
    let posted = "body of an allowed request";
    let length = format!("Content-Length: {}\r\n", posted.len());
    let chunks = format!("{:x}\r\n{posted}\r\n3\r\nabc\r\n0\r\n\r\n", posted.len());
    let chunked = "Transfer-Encoding: chunked\r\n";
    let get = request("GET", ALLOWED, "", "");
    let firsts = [
        ("HEAD", request("HEAD", ALLOWED, "", "")),
        ("OPTIONS", request("OPTIONS", ALLOWED, "", "")),
        ("a body", request("POST", ALLOWED, &length, posted)),
        (
            "an empty body",
            request("POST", ALLOWED, "Content-Length: 0\r\n", ""),
        ),
        ("chunks", request("POST", ALLOWED, chunked, &chunks)),
        (
            "Upgrade",
            request("GET", ALLOWED, "Upgrade: websocket\r\n", ""),
        ),
        (
            "Upgrade to h2c",
            request("GET", ALLOWED, "Upgrade: h2c\r\n", ""),
        ),
        ("an empty line", [&get[..], b"\r\n"].concat()),
        ("many others", get.repeat(MANY)),
        ("no host", b"GET / HTTP/1.1\r\n\r\n".to_vec()),
    ];
    let ways = firsts.into_iter().flat_map(|(name, first)| {
        let bytes = [&first[..], &asked].concat();
        let within = first.len() - 1;
        [
            (format!("behind {name}"), cut(&bytes, &[])),
            (format!("behind {name}, apart"), cut(&bytes, &[first.len()])),
            (format!("behind {name}, cut in it"), cut(&bytes, &[within])),
            (
                format!("behind {name}, which comes last"),
                vec![Segment::data(first.len(), &asked), Segment::data(0, &first)],
            ),
        ]
    });
    let way = |(name, segments): (String, Vec<Segment>)| {
        Some(Way {
            honest: !name.contains("no host"),
            name,
            script: steps(segments)?,
        })
    };
    ways.filter_map(way).collect()
}

/// Returns all ways to request a host.
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
    let [alone, before] = [host, other].map(|host| request("GET", host, "", ""));
    let over_several = multipath::ways(&alone, &before);
    let over_several = over_several
        .into_iter()
        .chain([multipath::within(host, other)]);
    let over_several = over_several.map(|(name, script)| Way {
        name: name.to_owned(),
        honest: false,
        script,
    });
    known
        .chain(cuts(&asked))
        .chain(behind(host))
        .chain(over_several)
        .collect()
}

/// Reads a line. Returns it in lower case, without its end.
fn line(reader: &mut impl BufRead) -> io::Result<String> {
    let mut bytes = Vec::new();
    if reader.read_until(b'\n', &mut bytes)? == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(String::from_utf8_lossy(&bytes).trim().to_lowercase())
}

/// Reads and discards a chunked body, to its end.
fn skip_chunks(reader: &mut impl BufRead) -> io::Result<()> {
    loop {
        let size = u64::from_str_radix(&line(reader)?, 16).map_err(io::Error::other)?;
        io::copy(&mut reader.take(size), &mut io::sink())?;
        line(reader)?;
        if size == 0 {
            return Ok(());
        }
    }
}

/// Reads the requests of a client and answers each request before it reads the next. It never switches to another
/// protocol.
fn answer(stream: &TcpStream, heard: &Heard) -> io::Result<()> {
    let port = stream.peer_addr()?.port();
    let mut reader = BufReader::new(stream);
    loop {
        let (mut host, mut length, mut is_chunked) = (None, 0, false);
        while line(&mut reader)?.is_empty() {}
        loop {
            let field = line(&mut reader)?;
            let part = field.split_once(':');
            match part.map(|(name, value)| (name, value.trim())) {
                Some(("host", value)) => host = Some(value.to_owned()),
                Some(("content-length", value)) => {
                    length = value.parse().map_err(io::Error::other)?;
                }
                Some(("transfer-encoding", _)) => is_chunked = true,
                _ if field.is_empty() => break,
                _ => {}
            }
        }
        if let Some(host) = host {
            heard.lock().expect("no panic").push((port, host));
        }
        match is_chunked {
            true => skip_chunks(&mut reader)?,
            false => drop(io::copy(&mut (&mut reader).take(length), &mut io::sink())?),
        }
        (&mut &*stream).write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")?;
    }
}

/// Network with HTTP servers, and the hosts that were requested from them.
struct Scene {
    net: Net,
    heard: Heard,
}

impl Scene {
    fn new(net: Net) -> anyhow::Result<Scene> {
        let heard = Heard::default();
        for address in [IpAddr::from(SERVER), IpAddr::from(SERVER_6)] {
            let address = SocketAddr::from((address, PORT));
            let listener = net.server.enter(|| multipath::listen(address))?;
            let told = Arc::clone(&heard);
            thread::spawn(move || {
                for stream in listener.incoming().flatten() {
                    let told = Arc::clone(&told);
                    // Its error is ignored: it is the client's end.
                    thread::spawn(move || answer(&stream, &told));
                }
            });
        }
        Ok(Scene { net, heard })
    }
}

/// Runs every wanted way to hide a request for `host`.
/// - other: name in decoys.
/// - answered: true if the server is expected to receive the name: a way is then tried up to TRIES times.
fn try_all(
    scene: &Scene,
    version: Version,
    (host, other): (&str, &str),
    answered: bool,
    wanted: fn(&Way) -> bool,
) -> anyhow::Result<Vec<Tried>> {
    let jobs: Vec<_> = ways(host, other).into_iter().filter(wanted).collect();
    let mut tried = tried::try_all(&scene.net, &jobs, |link, way| {
        Tried::new(&way.name, "HTTP", answered, |port| {
            let client = Client {
                net: &scene.net,
                link,
                version,
                ports: (port, PORT),
                patience: patience(answered).max(scene.net.lateness),
            };
            client.run(&way.script)?;
            let patience = client.patience;
            Ok(Some(tried::hears(&scene.heard, port, host, patience)))
        })
    })?;
    tried::count_late(&mut tried, &scene.heard, host);
    Ok(tried)
}

/// Checks that no way of hiding a request to a denied host passes a firewall with the policy `text`.
pub fn hold(by: By, version: Version, text: &str) -> anyhow::Result<()> {
    hold_in(by.net()?, by, version, text)
}

/// Checks in an existing net that no way of hiding a request to a denied host passes a firewall with the policy `text`.
pub fn hold_in(net: Net, by: By, version: Version, text: &str) -> anyhow::Result<()> {
    let scene = Scene::new(net)?;
    let running = by.start(&scene.net, text)?;
    let tried = try_all(&scene, version, (DENIED, ALLOWED), false, |_| true)?;
    none_completed(&tried)?;
    println!("{} ways: none completed", tried.len());
    running.finish()
}

/// Allowed host that differs from the first request's host, so that it can be recognised.
const OTHER: &str = "xyz.amused.example";

/// Checks that a client with allowed hosts only passes.
pub fn honest(by: By) -> anyhow::Result<()> {
    let scene = Scene::new(by.net()?)?;
    for text in [BLOCK_LIST, ALLOW_LIST] {
        let running = by.start_for_honest(&scene.net, text)?;
        let hosts = (OTHER, DENIED);
        all_completed(&try_all(&scene, Version::V4, hosts, true, |way| {
            way.honest
        })?)?;
        running.finish()?;
    }
    Ok(())
}

/// Checks without a firewall that the ways marked honest (as of a plain client) reach the server, and more than half of
/// the others.
fn nobody() -> anyhow::Result<()> {
    let scene = Scene::new(Net::new(Sees::Both)?)?;
    let hosts = (DENIED, ALLOWED);
    let tried = try_all(&scene, Version::V4, hosts, true, |way| way.honest)?;
    all_completed(&tried)?;
    println!("{} honest ways reach the server", tried.len());
    let tried = try_all(&scene, Version::V4, hosts, false, |way| !way.honest)?;
    most_completed(&tried)
}
