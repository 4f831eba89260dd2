// SPDX-License-Identifier: GPL-2.0-or-later
//! A judge of names: tshark reads the names in captures, and the judge compares them with those that both twins'
//! `explain` reads. The captures are of real ends, and of clients that hide a name (captured by the part evasion).
//! tests/exemptions-judge lists known errors of tshark.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{ensure, Context};
use serde_json::Value;
use testbed::folder::Folder;
use testbed::netns::Namespace;
use testbed::place::run;
use testbed::skip::{not_installed, skip};
use testbed::twin::{root, Twin, TWINS};
use twinwall_tests::case::Case;

use super::ends::{self, Heard, Identity};
use super::{ask_all, greet_all, start_resolver, ALLOWED, DENIED, EVERY_NAME};
use crate::capture::Recorder;
use crate::evasion::net;

const CORPUS_VARIABLE: &str = "NAMES_CORPUS";
const EXEMPTIONS: &str = "tests/exemptions-judge";
/// Policy whose rules have a name that no packet has: `explain` then prints the name of each packet.
const POLICY: &str = r#"
table inet filter {
	chain forward {
		type filter hook forward priority 0; policy accept;
		tls sni "nobody.invalid" drop
		http host "nobody.invalid" drop
		dns name "nobody.invalid" drop
	}
}
"#;
/// Fields that tshark prints for each packet.
const FIELDS: [&str; 7] = [
    "frame.number",
    "tcp.stream",
    "udp.stream",
    "tls.handshake.extensions_server_name",
    "http.host",
    "dns.flags.response",
    "dns.qry.name",
];

pub fn cases() -> Vec<Case> {
    vec![
        Case::new("judge/real-ends", real_ends),
        Case::new("judge/corpus", corpus),
    ]
}

/// Names by connection in tshark's notation: pairs of a policy's keyword (`tls sni`, `http host` or `dns name`) and a
/// name.
type Shown = BTreeMap<String, BTreeSet<(&'static str, String)>>;

/// Makes a client send each datagram and segment separately: tshark can't read packets that the kernel has merged.
fn send_apart(client: &Namespace) -> anyhow::Result<()> {
    let one = ["link", "set", "dev", "right", "gso_max_segs", "1"];
    run(client, "ip", &one).map(drop)
}

/// Returns a name in lower case, without a final dot.
fn plain(name: &str) -> String {
    name.trim_end_matches('.').to_ascii_lowercase()
}

/// Returns the names that tshark reads, and the connection of each packet by the packet's number. In a connection only
/// the first name in TLS and the first in HTTP count.
fn read_by_tshark(file: &Path) -> anyhow::Result<(Shown, BTreeMap<u64, String>)> {
    let fields = FIELDS.iter().flat_map(|field| ["-e", field]);
    let output = Command::new("tshark")
        .args(["-o", "tcp.reassemble_out_of_order:TRUE"])
        .args(["-d", &format!("tcp.port=={},tls", ends::TLS_PORT)])
        .args(["-T", "fields", "-E", "separator=|"])
        .args(fields)
        .arg("-r")
        .arg(file)
        .output()
        .map_err(|_| not_installed("tshark"))?;
    ensure!(
        output.status.success(),
        "tshark: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    let (mut shown, mut connections) = (Shown::new(), BTreeMap::new());
    for line in String::from_utf8(output.stdout)?.lines() {
        let values: Vec<&str> = line.split('|').collect();
        let [number, tcp, udp, tls, http, response, dns] = values[..] else {
            anyhow::bail!("tshark says {line}");
        };
        let connection = match (tcp, udp) {
            ("", "") => continue,
            ("", udp) => format!("UDP {udp}"),
            (tcp, _) => format!("TCP {tcp}"),
        };
        connections.insert(number.parse()?, connection.clone());
        let of_connection = shown.entry(connection).or_default();
        let dns = if response.starts_with('0') { dns } else { "" };
        for (kind, names) in [("tls sni", tls), ("http host", http), ("dns name", dns)] {
            let first = names.split(',').next().unwrap_or_default();
            let is_known = kind != "dns name" && of_connection.iter().any(|(own, _)| *own == kind);
            if !first.is_empty() && !is_known {
                of_connection.insert((kind, plain(first)));
            }
        }
    }
    Ok((shown, connections))
}

/// Returns the names that a twin's `explain` reads, by connection.
/// - connections: connection of each packet by the packet's number, from `read_by_tshark`.
fn read_by_twin(
    twin: Twin,
    policy: &str,
    file: &Path,
    connections: &BTreeMap<u64, String>,
) -> anyhow::Result<Shown> {
    let output = Command::new(twin.binary())
        .args(["explain", "--json", policy])
        .arg(file)
        .output()
        .context("there is no firewall: make build")?;
    ensure!(
        output.status.success(),
        "explain: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    let mut shown = Shown::new();
    for line in String::from_utf8(output.stdout)?.lines() {
        let line: Value = serde_json::from_str(line)?;
        let number = line["packet"].as_u64();
        let Some(connection) = number.and_then(|number| connections.get(&number)) else {
            continue;
        };
        let of_connection = shown.entry(connection.clone()).or_default();
        for rule in line["rules"].as_array().context("rules")? {
            let why = rule["why"].as_str().unwrap_or_default();
            for kind in ["tls sni", "http host", "dns name"] {
                let name = why
                    .strip_prefix(kind)
                    .and_then(|rest| rest.strip_prefix(" is \""));
                if let Some(name) = name {
                    of_connection.insert((kind, plain(name.trim_end_matches('"'))));
                }
            }
        }
    }
    Ok(shown)
}

/// Returns the known errors of tshark in a capture, from the lines `CAPTURE: WHAT: reason` in EXEMPTIONS.
fn exemptions(capture: &str) -> anyhow::Result<BTreeSet<String>> {
    let text = fs::read_to_string(root().join(EXEMPTIONS)).context(EXEMPTIONS)?;
    let of_capture = text.lines().filter_map(|line| {
        let rest = line.strip_prefix(capture)?.strip_prefix(": ")?;
        rest.split_once(": ").map(|(what, _)| what.to_owned())
    });
    Ok(of_capture.collect())
}

/// Compares the twins with tshark, connection by connection. Fails if a difference has no exemption, or an exemption no
/// difference. Returns the number of connections in which tshark reads a name, and the names.
/// - capture: name of the capture in EXEMPTIONS.
/// - what: function that returns the text WHAT in EXEMPTIONS for a connection in tshark's notation, e.g. `TCP 0`.
fn judge(
    capture: &str,
    file: &Path,
    what: &dyn Fn(&str) -> String,
) -> anyhow::Result<(usize, BTreeSet<String>)> {
    let folder = Folder::new()?;
    let policy = folder.write("policy.nft", POLICY)?;
    let (by_tshark, connections) = read_by_tshark(file)?;
    let exempt = exemptions(capture)?;
    let (mut wrong, mut met) = (BTreeSet::new(), BTreeSet::new());
    for twin in TWINS {
        let by_twin = read_by_twin(twin, &policy, file, &connections)?;
        for (connection, tshark) in &by_tshark {
            let ours = by_twin.get(connection).cloned().unwrap_or_default();
            let what = what(connection);
            if ours == *tshark {
                continue;
            }
            if exempt.contains(&what) {
                met.insert(what);
                continue;
            }
            let program = twin.program();
            wrong.insert(format!(
                "{what} ({connection}): tshark {tshark:?}, {program} {ours:?}"
            ));
        }
    }
    ensure!(
        wrong.is_empty(),
        "{capture}: {} differ: {wrong:#?}",
        wrong.len()
    );
    let unmet: Vec<_> = exempt.difference(&met).collect();
    ensure!(
        unmet.is_empty(),
        "{capture}: take out of {EXEMPTIONS}, since all agree: {unmet:?}"
    );
    let names = by_tshark.values().flatten();
    let names: BTreeSet<_> = names.map(|(_, name)| name.clone()).collect();
    let with_names = by_tshark.values().filter(|shown| !shown.is_empty());
    Ok((with_names.count(), names))
}

/// Compares the twins with tshark (see `judge`) in a capture of real clients without a firewall.
fn real_ends() -> anyhow::Result<()> {
    let net = net::Net::new(net::Sees::Both)?;
    let names = [ALLOWED, DENIED].concat();
    let identity = Identity::new(&names)?;
    let _resolver = start_resolver(&net, &[EVERY_NAME.to_owned()])?;
    send_apart(&net.client)?;
    ends::serve_tls(&net, &identity)?;
    ends::serve_quic(&net, &identity, ends::QUIC_PORT, false, &Heard::default())?;
    let folder = Folder::new()?;
    let file = folder.file("ends.pcap");
    let recorder = Recorder::start(&net.firewall, "left", &file, "")?;
    let asked = ask_all(&net, true)?;
    let greeted = greet_all(&net, &identity, true)?;
    recorder.end()?;
    let (count, read) = judge("real-ends", file.as_ref(), &|_| "a client".to_owned())?;
    for name in names {
        ensure!(
            read.contains(&plain(name)),
            "tshark reads {read:?}, not {name}"
        );
    }
    let clients = asked + greeted;
    ensure!(
        count == clients,
        "{clients} clients, and {count} of them show a name to tshark"
    );
    Ok(())
}

/// Compares the names that the twins read with those that tshark reads (see `judge`), in a capture of clients that hide
/// a name. Returns the number of connections in which tshark reads a name.
/// - ways: ways to hide a name: the name of each way, and the client's port of each try.
pub fn hidden(file: &str, ways: &[(String, Vec<u16>)]) -> anyhow::Result<usize> {
    let ports = ports(file.as_ref())?;
    let what = |connection: &str| {
        let port = ports.get(connection);
        let own = ways
            .iter()
            .find(|(_, all)| port.is_some_and(|port| all.contains(port)));
        own.map_or("none", |(way, _)| way).to_owned()
    };
    Ok(judge("hidden", file.as_ref(), &what)?.0)
}

/// Returns the client's port of each TCP connection, by tshark's number of the connection.
fn ports(file: &Path) -> anyhow::Result<BTreeMap<String, u16>> {
    let output = Command::new("tshark")
        .args(["-Y", "tcp.flags.syn == 1 && tcp.flags.ack == 0"])
        .args(["-T", "fields", "-e", "tcp.stream", "-e", "tcp.srcport"])
        .arg("-r")
        .arg(file)
        .output()?;
    let text = String::from_utf8(output.stdout)?;
    let line = |line: &str| {
        let (stream, port) = line.split_once('\t').context("two fields")?;
        Ok((format!("TCP {stream}"), port.parse()?))
    };
    text.lines().map(line).collect()
}

/// Compares the names that the twins read with those that tshark reads, for each capture in a folder. The environment
/// variable CORPUS_VARIABLE contains the folder's path. Skips the case if the variable is not set.
fn corpus() -> anyhow::Result<()> {
    let Some(folder) = std::env::var_os(CORPUS_VARIABLE) else {
        return Err(skip(format!(
            "{CORPUS_VARIABLE} names no folder of captures"
        )));
    };
    let files: Result<Vec<PathBuf>, _> = fs::read_dir(&folder)
        .with_context(|| format!("{CORPUS_VARIABLE}={}", folder.to_string_lossy()))?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect();
    let mut files = files?;
    files.sort();
    for file in files.iter().filter(|file| file.is_file()) {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        let (count, _) = judge(&name, file, &|connection| connection.to_owned())?;
        println!("{name}: {count} connections with names");
    }
    Ok(())
}
