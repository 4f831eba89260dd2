// SPDX-License-Identifier: GPL-2.0-or-later
//! Report of the command's connections and their verdicts: a line for each denied connection, a table at the end, a
//! file.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{BuildHasher, RandomState};
use std::io::{self, Write};
use std::path::Path;

use serde_json::{json, Value};

use crate::event::Peer;
use crate::failure::Failure;
use crate::firewall::Connection;
use crate::safe;

/// Maximum number of rows in the table on stderr.
const ROWS_MAX: usize = 20;
/// Maximum number of denied peers, each with a reason, and of followed connections.
const PEERS_MAX: usize = 100_000;
/// Maximum number of denied flows, each with a name and a reason, that are told apart. Further flows don't count.
const FLOWS_MAX: usize = 1_000_000;

#[derive(Debug, Default)]
pub struct Report {
    verbose: bool,
    denied: BTreeMap<(Peer, String), u64>,
    /// Hashes of denied flows, each with a name and a reason: a client may send several DNS queries from one socket.
    flows: BTreeSet<u64>,
    hasher: RandomState,
    connections: BTreeSet<Connection>,
}

/// Prints one line on stderr. Errors are ignored: stderr may be closed.
pub fn tell(kind: &str, text: &str) {
    let _ = io::stderr().write_all(format!("{kind}: {}\n", safe::shown(text)).as_bytes());
}

/// Returns the peer of a connection.
fn peer(connection: &Connection) -> Peer {
    let kind = match connection.shows.as_deref() {
        Some("tls") => "tls sni",
        Some("quic") => "quic sni",
        Some("http") => "http host",
        Some("dns") => "dns name",
        _ => &connection.protocol,
    };
    Peer {
        kind: kind.to_owned(),
        name: connection.name.clone(),
        address: Some(connection.server),
        port: Some(connection.server_port),
    }
}

impl Report {
    pub fn new(verbose: bool) -> Report {
        Report {
            verbose,
            ..Report::default()
        }
    }

    /// Counts a denied connection once for each name and reason, whatever its number of packets; without `flow`, counts
    /// each denied packet.
    pub fn deny(&mut self, peer: Peer, why: String, flow: Option<u64>) {
        if let Some(flow) = flow {
            let hash = self.hasher.hash_one((flow, &peer.name, &why));
            if self.flows.len() >= FLOWS_MAX || !self.flows.insert(hash) {
                return;
            }
        }
        if self.verbose {
            tell("denied", &format!("{peer}: {why}"));
        }
        if self.denied.len() < PEERS_MAX {
            *self.denied.entry((peer, why)).or_default() += 1;
        }
    }

    /// Adds the connections of a listing that are neither undecided nor denied. A connection counts once.
    pub fn follow(&mut self, connections: Vec<Connection>) {
        let known = connections
            .into_iter()
            .filter(|one| one.state != "undecided" && one.state != "denied");
        self.connections
            .extend(known.take(PEERS_MAX.saturating_sub(self.connections.len())));
    }

    /// Returns the reached peers except those that were also denied, with their numbers of connections.
    pub fn allowed(&self) -> BTreeMap<Peer, u64> {
        let mut allowed = BTreeMap::new();
        for connection in &self.connections {
            let is_denied = |(one, _): &(Peer, String)| *one == peer(connection);
            if !self.denied.keys().any(is_denied) {
                *allowed.entry(peer(connection)).or_default() += 1;
            }
        }
        allowed
    }

    /// Returns a short table of denied peers; empty without any.
    pub fn table(&self) -> String {
        let mut rows: Vec<(&(Peer, String), &u64)> = self.denied.iter().collect();
        rows.sort_by(|one, other| other.1.cmp(one.1));
        let mut text = String::new();
        for ((peer, why), count) in rows.iter().take(ROWS_MAX) {
            let row = safe::shown(&format!("{peer}: {why}"));
            text += &format!("denied: {count:>5}  {row}\n");
        }
        if rows.len() > ROWS_MAX {
            text += &format!(
                "denied: and {} others: --report FILE has all\n",
                rows.len() - ROWS_MAX
            );
        }
        text
    }

    fn json(&self, command: &[String], exit: Value, milliseconds: u128) -> Value {
        let row = |peer: &Peer, count: u64| json!({"kind": peer.kind, "name": peer.name, "address": peer.address, "port": peer.port, "connections": count});
        let allowed: Vec<Value> = self
            .allowed()
            .iter()
            .map(|(peer, count)| row(peer, *count))
            .collect();
        let denied = self.denied.iter().map(|((peer, why), count)| {
            let mut row = row(peer, *count);
            row["why"] = json!(why);
            row
        });
        json!({
            "command": command, "exit": exit, "milliseconds": milliseconds as u64,
            "allowed": allowed, "denied": denied.collect::<Vec<Value>>(),
        })
    }

    /// Writes the report to a file, as JSON.
    /// - exit: the command's exit code, or "signal N".
    /// - milliseconds: duration of the run.
    pub fn write(
        &self,
        path: &Path,
        command: &[String],
        exit: Value,
        milliseconds: u128,
    ) -> Result<(), Failure> {
        let text = format!("{:#}\n", self.json(command, exit, milliseconds));
        std::fs::write(path, text).map_err(Failure::at(path.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn to(name: &str) -> Peer {
        Peer {
            kind: "tls sni".to_owned(),
            name: Some(name.to_owned()),
            address: Some("192.0.2.1".parse().unwrap()),
            port: Some(443),
        }
    }

    fn connection(name: &str, port: u16) -> Connection {
        Connection {
            protocol: "tcp".to_owned(),
            client: "192.0.2.9".to_owned(),
            client_port: port,
            server: "192.0.2.1".parse().unwrap(),
            server_port: 443,
            state: "named".to_owned(),
            shows: Some("tls".to_owned()),
            name: Some(name.to_owned()),
        }
    }

    #[test]
    fn a_flow_counts_once() {
        let mut report = Report::new(false);
        report.deny(to("a.example"), "no".to_owned(), Some(1));
        report.deny(to("a.example"), "no".to_owned(), Some(1));
        report.deny(to("a.example"), "no".to_owned(), Some(2));
        assert_eq!(
            report.table(),
            "denied:     2  tls sni a.example (192.0.2.1:443): no\n"
        );
        assert_eq!(Report::new(false).table(), "");
    }

    #[test]
    fn each_name_of_a_flow_counts_once() {
        let mut report = Report::new(false);
        for name in ["a.example", "b.example", "a.example"] {
            report.deny(to(name), "no".to_owned(), Some(1));
        }
        assert_eq!(
            report.table(),
            "denied:     1  tls sni a.example (192.0.2.1:443): no\n\
             denied:     1  tls sni b.example (192.0.2.1:443): no\n"
        );
    }

    #[test]
    fn no_name_moves_the_cursor() {
        let mut report = Report::new(false);
        report.deny(to("a\x1b[2J"), "no".to_owned(), None);
        assert!(report.table().contains("a?[2J"));
    }

    #[test]
    fn what_was_reached_is_counted_by_peer() {
        let mut report = Report::new(false);
        report.follow(vec![connection("a.example", 1), connection("a.example", 2)]);
        report.follow(vec![connection("a.example", 2), connection("b.example", 3)]);
        report.deny(to("b.example"), "no".to_owned(), Some(1));
        let allowed: Vec<(Peer, u64)> = report.allowed().into_iter().collect();
        assert_eq!(allowed, [(to("a.example"), 2)]);
        let json = report.json(&["make".to_owned()], json!(0), 7);
        assert_eq!(json["allowed"][0]["connections"], 2);
        assert_eq!(json["denied"][0]["why"], "no");
    }
}
