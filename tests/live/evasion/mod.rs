// SPDX-License-Identifier: GPL-2.0-or-later
//! Clients that hide a denied name from the firewall, by every way that is known. None may complete a handshake.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU16, AtomicUsize, Ordering};
use std::sync::Mutex;
use std::thread;
use std::time::Duration;

use anyhow::{bail, ensure, Context};
use testbed::firewall::Firewall;
use testbed::folder::Folder;
use testbed::frames::Link;
use testbed::twin::Twin;
use twinwall_tests::case::{for_each_twin, Case, Row};

use crate::capture::Recorder;
use crate::names::judge;

mod client;
mod hello;
pub mod net;
mod over_ipv6;
pub mod queries;
pub mod quic;
mod strategies;
mod wire;

use client::{Client, Script, QUIET};
use hello::Opening;
use net::{Net, Sees};
use over_ipv6::OVER_IPV6;
use strategies::{Strategy, STRATEGIES};
use wire::Version;

const DENIED: &str = "www.denied.example";
/// As long as the denied one, so that each byte has its place.
const ALLOWED: &str = "www.amused.example";

const BLOCK_LIST: &str = r#"
table inet filter {
	set denied { type hostname; elements = { "denied.example", "*.denied.example" } }
	chain forward {
		type filter hook forward priority 0; policy accept;
		tls sni @denied drop
		http host @denied drop
	}
}
"#;

const ALLOW_LIST: &str = r#"
table inet filter {
	chain forward {
		type filter hook forward priority 0; policy accept;
		tcp dport 443 tls sni != "*.amused.example" drop
		tcp dport 443 tls sni missing drop
		tcp dport 80 http host != "*.amused.example" drop
		tcp dport 80 http host missing drop
	}
}
"#;

/// Clients at once: most of the time they wait.
const CLIENTS: usize = 8;
/// Of a client whose packets may get lost.
const TRIES: usize = 5;
/// For an answer that must come.
const ANSWERED: Duration = Duration::from_secs(3);
/// The next client's port: no two of a case share one.
static PORT: AtomicU16 = AtomicU16::new(20_000);

fn next_port() -> u16 {
    PORT.fetch_add(1, Ordering::Relaxed)
}

const ROWS: &[Row] = &[
    ("block-list-sees-both", 120, |twin| {
        hold(twin, Sees::Both, Version::V4, BLOCK_LIST)
    }),
    ("block-list-sees-client", 120, |twin| {
        hold(twin, Sees::Client, Version::V4, BLOCK_LIST)
    }),
    ("allow-list-sees-both", 120, |twin| {
        hold(twin, Sees::Both, Version::V4, ALLOW_LIST)
    }),
    ("block-list-ipv6", 120, |twin| {
        hold(twin, Sees::Both, Version::V6, BLOCK_LIST)
    }),
    ("honest-sees-both", 120, |twin| honest(twin, Version::V4)),
    ("honest-ipv6", 120, |twin| honest(twin, Version::V6)),
];

pub fn cases() -> Vec<Case> {
    let calibration = Case::new("nobody-looks-on", 120, nobody);
    for_each_twin(ROWS)
        .into_iter()
        .chain([calibration])
        .chain(queries::cases())
        .chain(quic::cases())
        .collect()
}

/// What a client with a name says: TLS, TLS with the name far behind as a post-quantum share moves it, and HTTP.
fn openings(host: &str) -> [Opening; 3] {
    [
        hello::tls(host, 0),
        hello::tls(host, 1_400),
        hello::http(host, "\r\n"),
    ]
}

/// What came of a client.
struct Tried {
    strategy: &'static Strategy,
    opening: usize,
    completed: bool,
    /// Of its tries, each of which is a connection.
    ports: Vec<u16>,
}

/// Runs a script; gives whether the server answers as it does to a whole opening. Packets that are lost on the way count
/// for nothing: another client tries again. ports: get those of its tries.
fn try_one(
    net: &Net,
    version: Version,
    link: &Link,
    opening: &Opening,
    script: &Script,
    answered: bool,
    ports: &mut Vec<u16>,
) -> anyhow::Result<bool> {
    let mut completed = None;
    for _ in 0..TRIES {
        let port = next_port();
        ports.push(port);
        let client = Client {
            net,
            link,
            version,
            ports: (port, opening.port),
            patience: if answered { ANSWERED } else { QUIET },
        };
        let answer = client.run(script)?;
        completed = answer.map(|answer| answer.starts_with(opening.answer));
        if completed == Some(true) || completed == Some(false) && !answered {
            break;
        }
    }
    // A SYN that carries a whole opening is dropped with it.
    ensure!(
        completed.is_some() || !script.on_syn.is_empty(),
        "no SYN-ACK of the server"
    );
    Ok(completed == Some(true))
}

/// Runs every wanted strategy with every opening; over IPv6, which carries the same bytes, with the first one only.
fn try_all(
    net: &Net,
    version: Version,
    host: &str,
    other: &str,
    answered: bool,
    wanted: fn(&Strategy) -> bool,
) -> anyhow::Result<Vec<Tried>> {
    let (own, openings_max) = match version {
        Version::V4 => (&[][..], usize::MAX),
        Version::V6 => (OVER_IPV6, 1),
    };
    let pairs = openings(host).into_iter().zip(openings(other));
    let pairs = pairs.enumerate().take(openings_max);
    let jobs: Vec<_> = pairs
        .flat_map(|(number, (opening, decoy))| {
            STRATEGIES
                .iter()
                .chain(own)
                .filter(|strategy| wanted(strategy))
                .filter_map(move |strategy| {
                    let script = (strategy.script)(&opening, &decoy)?;
                    Some((strategy, number, opening.clone(), script))
                })
                .collect::<Vec<_>>()
        })
        .collect();
    let next = AtomicUsize::new(0);
    let tried = Mutex::new(Vec::new());
    let work = || -> anyhow::Result<()> {
        let link = net.link()?;
        while let Some((strategy, number, opening, script)) =
            jobs.get(next.fetch_add(1, Ordering::Relaxed))
        {
            let mut ports = Vec::new();
            let completed = try_one(net, version, &link, opening, script, answered, &mut ports);
            let completed = completed.context(strategy.name)?;
            tried.lock().expect("no panic").push(Tried {
                strategy,
                opening: *number,
                completed,
                ports,
            });
        }
        Ok(())
    };
    thread::scope(|scope| -> anyhow::Result<()> {
        let workers: Vec<_> = (0..CLIENTS).map(|_| scope.spawn(work)).collect();
        for worker in workers {
            match worker.join() {
                Ok(result) => result?,
                Err(_) => bail!("a client panicked"),
            }
        }
        Ok(())
    })?;
    Ok(tried.into_inner()?)
}

/// The names of some, for a message.
fn names(tried: &[Tried], completed: bool) -> Vec<String> {
    const OPENINGS: [&str; 3] = ["TLS", "TLS, long", "HTTP"];
    let some = tried.iter().filter(|one| one.completed == completed);
    some.map(|one| format!("{} ({})", one.strategy.name, OPENINGS[one.opening]))
        .collect()
}

fn start(net: &Net, twin: Twin, text: &str) -> anyhow::Result<(Firewall, Folder)> {
    let folder = Folder::shared()?;
    let policy = folder.write("policy.nft", text)?;
    let arguments = ["--policy", &policy, "--hello-timeout", "1"];
    Ok((Firewall::start(&net.firewall, twin, &arguments)?, folder))
}

/// No way leads past the firewall.
fn hold(twin: Twin, sees: Sees, version: Version, text: &str) -> anyhow::Result<()> {
    let net = Net::new(sees)?;
    let (firewall, _folder) = start(&net, twin, text)?;
    let tried = try_all(&net, version, DENIED, ALLOWED, false, |_| true)?;
    let passed = names(&tried, true);
    ensure!(
        passed.is_empty(),
        "{} of {} completed: {passed:#?}",
        passed.len(),
        tried.len()
    );
    let ways: BTreeSet<_> = tried.iter().map(|one| one.strategy.name).collect();
    println!(
        "{} strategies, {} tries: none completed",
        ways.len(),
        tried.len()
    );
    firewall.finish()?;
    Ok(())
}

/// Whoever asks for another name comes through, however his network cuts what he says.
fn honest(twin: Twin, version: Version) -> anyhow::Result<()> {
    let net = Net::new(Sees::Both)?;
    for text in [BLOCK_LIST, ALLOW_LIST] {
        let (firewall, _folder) = start(&net, twin, text)?;
        let tried = try_all(&net, version, ALLOWED, DENIED, true, |strategy| {
            strategy.honest
        })?;
        let failed = names(&tried, false);
        ensure!(
            failed.is_empty(),
            "{} of {} did not complete: {failed:#?}",
            failed.len(),
            tried.len()
        );
        firewall.finish()?;
    }
    Ok(())
}

/// Without a firewall the ways that claim to be honest lead to the server, else they would prove nothing; and so do most
/// of the others. Gives all.
fn calibrate(net: &Net, version: Version) -> anyhow::Result<Vec<Tried>> {
    let is_honest = |strategy: &Strategy| strategy.honest;
    let mut tried = try_all(net, version, DENIED, ALLOWED, true, is_honest)?;
    let failed = names(&tried, false);
    ensure!(
        failed.is_empty(),
        "{} of {} did not complete: {failed:#?}",
        failed.len(),
        tried.len()
    );
    let is_evasive = |strategy: &Strategy| !strategy.honest;
    let evasive = try_all(net, version, DENIED, ALLOWED, false, is_evasive)?;
    let completed = names(&evasive, true).len();
    ensure!(
        2 * completed > evasive.len(),
        "not even half of the evasions reach the server: {:#?}",
        names(&evasive, false)
    );
    println!(
        "{completed} of {} evasions reach the server, all but {:?}",
        evasive.len(),
        names(&evasive, false)
    );
    tried.extend(evasive);
    Ok(tried)
}

/// Nobody looks on but tshark, which says what it reads of all of them.
fn nobody() -> anyhow::Result<()> {
    let net = Net::new(Sees::Both)?;
    let folder = Folder::new()?;
    let file = folder.file("hidden.pcap");
    let recorder = Recorder::start(&net.firewall, "left", &file, "")?;
    let tried = calibrate(&net, Version::V4)?;
    recorder.end()?;
    let ways = tried.into_iter().map(|one| (one.strategy.name, one.ports));
    let shown = judge::hidden(&file, &ways.collect::<Vec<_>>())?;
    println!("tshark reads a name in {shown} connections, and the twins the same");
    calibrate(&net, Version::V6)?;
    Ok(())
}
