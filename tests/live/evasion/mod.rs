// SPDX-License-Identifier: GPL-2.0-or-later
//! Clients that hide a denied name from the firewall, in every known way. No such client may complete a handshake. An
//! opening is a client's first data, which shows the name.

use std::collections::BTreeSet;

use anyhow::ensure;
use testbed::firewall::{Firewall, PATIENT_GUARD};
use testbed::folder::Folder;
use testbed::frames::Link;
use testbed::twin::Twin;
use twinwall_tests::case::{for_each_twin, Case, Row};

use crate::capture::Recorder;
use crate::names::judge;
use crate::stage::Stage;

pub mod both_open;
pub mod checksum;
pub mod client;
pub mod datagrams;
pub mod forged;
pub use twinwall_judge::hello;
mod later;
pub mod multipath;
pub mod net;
pub mod odd_requests;
mod over_ipv6;
pub mod queries;
pub mod quic;
pub mod reopened;
pub mod requests;
pub mod strategies;
pub mod tried;
pub mod wire;
pub mod within;

use client::{Client, Script};
use hello::Opening;
use later::LATER;
use net::{Hook, Net, Sees};
use over_ipv6::OVER_IPV6;
use strategies::{Strategy, STRATEGIES};
use tried::{all_completed, most_completed, none_completed, patience, Tried, ANSWERED};
use wire::Version;

pub const DENIED: &str = "www.denied.example";
/// Allowed name with the same length as the denied name, so that each byte has a counterpart.
pub const ALLOWED: &str = "www.amused.example";
/// Allowed name of decoys. nginx rejects it, so that nginx answers a decoy in another way than the denied name.
pub const DECOY: &str = "xyz.amused.example";

pub const BLOCK_LIST: &str = r#"
table inet filter {
	set denied { type hostname; elements = { "denied.example", "*.denied.example" } }
	chain forward {
		type filter hook forward priority 0; policy accept;
		tls sni @denied drop
		http host @denied drop
	}
}
"#;

pub const ALLOW_LIST: &str = r#"
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

/// Policy that denies names in the client's packets only: the server's packets pass whatever their connection's names.
pub const ONE_WAY: &str = r#"
table inet filter {
	set denied { type hostname; elements = { "denied.example", "*.denied.example" } }
	chain forward {
		type filter hook forward priority 0; policy accept;
		iifname "left" tls sni @denied drop
		iifname "left" http host @denied drop
	}
}
"#;

const ROWS: &[Row] = &[
    ("block-list-one-way", |twin| {
        hold(By::Twin(twin), Sees::Both, Version::V4, ONE_WAY)
    }),
    ("block-list-sees-both", |twin| {
        hold(By::Twin(twin), Sees::Both, Version::V4, BLOCK_LIST)
    }),
    ("block-list-sees-client", |twin| {
        hold(By::Twin(twin), Sees::Client, Version::V4, BLOCK_LIST)
    }),
    ("allow-list-sees-both", |twin| {
        hold(By::Twin(twin), Sees::Both, Version::V4, ALLOW_LIST)
    }),
    ("block-list-ipv6", |twin| {
        hold(By::Twin(twin), Sees::Both, Version::V6, BLOCK_LIST)
    }),
    ("honest-sees-both", |twin| {
        honest(By::Twin(twin), Version::V4)
    }),
    ("honest-ipv6", |twin| honest(By::Twin(twin), Version::V6)),
];

pub fn cases() -> Vec<Case> {
    let calibration = Case::new("nobody-looks-on", nobody);
    for_each_twin(ROWS)
        .into_iter()
        .chain([calibration])
        .chain(both_open::cases())
        .chain(checksum::cases())
        .chain(queries::cases())
        .chain(datagrams::cases())
        .chain(forged::cases())
        .chain(odd_requests::cases())
        .chain(quic::cases())
        .chain(reopened::cases())
        .chain(requests::cases())
        .chain(within::cases())
        .collect()
}

/// Returns a client's openings: TLS, TLS with the name 1,400 bytes later (as after a post-quantum key share), and HTTP.
fn openings(host: &str) -> [(&'static str, Opening); 3] {
    [
        ("TLS", hello::tls(host, 0)),
        ("TLS, long", hello::tls(host, 1_400)),
        ("HTTP", hello::http(host, "\r\n")),
    ]
}

/// Strategy, name of the opening, the opening, and the script for it.
type Job = (&'static Strategy, &'static str, Opening, Script);

/// Runs a job's script. The try counts as completed if the server's answer is that to the whole opening (the client's
/// first bytes).
/// - answered: true if that answer is expected: the script is then run up to TRIES times.
fn try_one(
    net: &Net,
    version: Version,
    link: &Link,
    (strategy, name, opening, script): &Job,
    answered: bool,
) -> anyhow::Result<Tried> {
    let mut has_opened = false;
    let tried = Tried::new(strategy.name, name, answered, |port| {
        let client = Client {
            net,
            link,
            version,
            ports: (port, opening.port),
            patience: patience(answered).max(net.lateness),
        };
        let answer = client.run(script)?;
        let completed = answer.map(|answer| answer.starts_with(opening.answer));
        has_opened |= completed.is_some();
        // The firewall may drop a SYN with data or with Multipath TCP: no connection then counts as not completed.
        let is_dropped = !answered && script.is_shown_by_syn();
        if script.is_race && completed == Some(false) {
            return Ok(None);
        }
        Ok(completed.or(is_dropped.then_some(false)))
    })?;
    ensure!(
        has_opened || script.is_shown_by_syn() || net.loses_openings,
        "{tried}: no SYN-ACK of the server, or late answers only"
    );
    Ok(tried)
}

/// Runs every wanted strategy with every opening (a client's first bytes). Over IPv6 it runs them, and those of
/// OVER_IPV6, with the first opening only, because the bytes are the same.
/// - other: name in decoys.
/// - answered: true if the server is expected to answer: a strategy is then tried up to TRIES times.
fn try_all(
    net: &Net,
    version: Version,
    (host, other): (&str, &str),
    answered: bool,
    wanted: fn(&Strategy) -> bool,
) -> anyhow::Result<Vec<Tried>> {
    let (own, openings_max) = match version {
        Version::V4 => (&[][..], usize::MAX),
        Version::V6 => (OVER_IPV6, 1),
    };
    let pairs = openings(host).into_iter().zip(openings(other));
    let jobs: Vec<Job> = pairs
        .take(openings_max)
        .flat_map(|((name, opening), (_, decoy))| {
            STRATEGIES
                .iter()
                .chain(LATER)
                .chain(own)
                .filter(|strategy| wanted(strategy))
                .filter_map(move |strategy| {
                    let script = (strategy.script)(&opening, &decoy)?;
                    Some((strategy, name, opening.clone(), script))
                })
                .collect::<Vec<_>>()
        })
        .collect();
    tried::try_all(net, &jobs, |link, job| {
        try_one(net, version, link, job, answered)
    })
}

/// Subject of a case: the tested firewall, in which a twin or the kernel applies the policy.
#[derive(Clone, Copy, Debug)]
pub enum By {
    /// A twin applies the whole policy.
    Twin(Twin),
    /// The kernel applies the policy, and a twin reads names (docs/STAGE.md).
    Stage(Twin),
    /// The kernel applies the policy in this hook, on the host of an end, and a twin reads names.
    StageAt(Twin, Hook),
}

/// Subject of a case while it runs.
pub enum Running {
    Twin { firewall: Firewall, _folder: Folder },
    Stage(Stage),
}

/// Options with which an honest client's hello may take long, as on a busy machine.
const PATIENT_HELLO: [&str; 2] = ["--hello-timeout", "60"];

impl By {
    /// Returns the hook in which the subject decides.
    fn hook(self) -> Hook {
        match self {
            By::StageAt(_, hook) => hook,
            By::Twin(_) | By::Stage(_) => Hook::Forward,
        }
    }

    /// Creates the network in which the subject runs and sees both directions.
    pub fn net(self) -> anyhow::Result<Net> {
        Net::at(self.hook(), Sees::Both)
    }

    pub fn start(self, net: &Net, text: &str) -> anyhow::Result<Running> {
        self.start_with(net, text, &[])
    }

    /// Does the same as `start` for honest clients, with PATIENT_HELLO.
    fn start_for_honest(self, net: &Net, text: &str) -> anyhow::Result<Running> {
        match self {
            By::Twin(_) => self.start_with(net, text, &PATIENT_HELLO),
            By::Stage(twin) | By::StageAt(twin, _) => {
                Stage::start_with(net, twin, text, &PATIENT_HELLO).map(Running::Stage)
            }
        }
    }

    /// Starts the subject with the policy `text`.
    /// - more: additional options of a twin that decides; ignored if the kernel decides.
    fn start_with(self, net: &Net, text: &str, more: &[&str]) -> anyhow::Result<Running> {
        let twin = match self {
            By::Twin(twin) => twin,
            By::Stage(twin) | By::StageAt(twin, _) => {
                return Stage::start(net, twin, text).map(Running::Stage)
            }
        };
        let folder = Folder::shared()?;
        let policy = folder.write("policy.nft", text)?;
        let arguments = ["--policy", &policy, "--hello-timeout", "1"];
        let arguments = [&arguments[..], &PATIENT_GUARD, more].concat();
        let firewall = Firewall::start(&net.firewall, twin, &arguments)?;
        Ok(Running::Twin {
            firewall,
            _folder: folder,
        })
    }
}

impl Running {
    /// Returns the number of packets that were given back to the kernel with their checksum.
    pub fn restated(&self) -> anyhow::Result<u64> {
        match self {
            Running::Twin { firewall, .. } => Ok(firewall.settled_ledger()?.total.restated),
            Running::Stage(stage) => stage.restated(),
        }
    }

    pub fn finish(self) -> anyhow::Result<()> {
        match self {
            Running::Twin { firewall, .. } => firewall.finish().map(drop),
            Running::Stage(stage) => stage.finish(),
        }
    }
}

/// Checks that no way to hide a denied name passes a firewall with the policy `text`.
pub fn hold(by: By, sees: Sees, version: Version, text: &str) -> anyhow::Result<()> {
    hold_in(&Net::at(by.hook(), sees)?, by, version, text)
}

/// Checks in an existing net that no way to hide a denied name passes a firewall with the policy `text`.
pub fn hold_in(net: &Net, by: By, version: Version, text: &str) -> anyhow::Result<()> {
    let running = by.start(net, text)?;
    hold_running(net, version)?;
    running.finish()
}

/// Checks that no way to hide a denied name passes the firewall that runs.
pub fn hold_running(net: &Net, version: Version) -> anyhow::Result<()> {
    let tried = try_all(net, version, (DENIED, DECOY), false, |_| true)?;
    none_completed(&tried)?;
    let ways: BTreeSet<_> = tried.iter().map(|one| &one.way).collect();
    println!(
        "{} strategies, {} tries: none completed",
        ways.len(),
        tried.len()
    );
    Ok(())
}

fn is_honest(strategy: &Strategy) -> bool {
    strategy.honest
}

/// Checks that a client with an allowed name passes, however the network splits its bytes.
pub fn honest(by: By, version: Version) -> anyhow::Result<()> {
    honest_in(&by.net()?, by, version)
}

/// Checks in an existing net that a client with an allowed name passes.
pub fn honest_in(net: &Net, by: By, version: Version) -> anyhow::Result<()> {
    for text in [BLOCK_LIST, ALLOW_LIST] {
        let running = by.start_for_honest(net, text)?;
        all_completed(&try_all(net, version, (ALLOWED, DENIED), true, is_honest)?)?;
        running.finish()?;
    }
    Ok(())
}

/// Checks without a firewall that the ways marked honest reach the server, and more than half of the others: otherwise
/// the tests would prove nothing. Returns all tries.
pub fn calibrate(net: &Net, version: Version) -> anyhow::Result<Vec<Tried>> {
    let mut tried = try_all(net, version, (DENIED, DECOY), true, is_honest)?;
    all_completed(&tried)?;
    let is_evasive = |strategy: &Strategy| !strategy.honest;
    let evasive = try_all(net, version, (DENIED, DECOY), false, is_evasive)?;
    most_completed(&evasive)?;
    tried.extend(evasive);
    Ok(tried)
}

/// Checks without a firewall that the ways reach the server (see `calibrate`). Checks that both twins read the same
/// names as tshark in these connections, except in the listed exemptions.
fn nobody() -> anyhow::Result<()> {
    let mut net = Net::new(Sees::Both)?;
    net.lateness = ANSWERED;
    let folder = Folder::new()?;
    let file = folder.file("hidden.pcap");
    let recorder = Recorder::start(&net.firewall, "left", &file, "")?;
    let tried = calibrate(&net, Version::V4)?;
    recorder.end()?;
    let ways = tried.into_iter().map(|one| (one.way, one.ports));
    let shown = judge::hidden(&file, &ways.collect::<Vec<_>>())?;
    println!("tshark reads a name in {shown} connections, and the twins the same");
    calibrate(&net, Version::V6)?;
    Ok(())
}
