// SPDX-License-Identifier: GPL-2.0-or-later
//! Obtains a policy's decisions from the firewall itself, by running `explain --json`.

use std::io::{BufRead, BufReader, BufWriter, Read};
use std::net::IpAddr;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde::Deserialize;

use super::pcap::{self, Kind};
use crate::failure::{Failure, Result};

/// The policy's verdict on a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    Accept,
    Drop,
    /// Reply to the rejected packet: `tcp reset`, `icmp port-unreachable` and the like; "" if none is sent.
    Reject(String),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    pub verdict: Verdict,
    /// Origin of the verdict: the rule that decided, `FILE:LINE`; the base chain whose policy decided, `policy FAMILY
    /// TABLE CHAIN`; or another origin in one word, e.g. `default` or `undecided`.
    pub by: String,
}

/// The needed fields of a line of `explain --json`; the last line has other keys.
#[derive(Deserialize)]
struct Explained {
    verdict: Option<String>,
    by: Option<String>,
    reject: Option<String>,
}

/// The firewall program, the policy, and the two ends of the packets.
pub struct Firewall<'a> {
    pub program: Option<&'a str>,
    pub policy: &'a str,
    pub from: IpAddr,
    pub to: IpAddr,
    /// Time between two packets of the capture.
    pub apart: Duration,
}

/// Packets of one kind, and their metadata for the firewall.
pub struct Packets<'a> {
    pub kind: Kind,
    pub hook: &'a str,
    pub ct_state: &'a str,
    /// Option of the firewall for the interface (--iif or --oif), and the interface's name.
    pub interface: Option<[&'a str; 2]>,
    pub ports: &'a [u16],
}

/// Returns the path of the firewall: as named, beside this program, or on PATH.
fn program(named: Option<&str>) -> PathBuf {
    const NAME: &str = "rust-firewall";
    if let Some(named) = named {
        return named.into();
    }
    let beside = std::env::current_exe()
        .ok()
        .map(|own| own.with_file_name(NAME));
    beside
        .filter(|path| path.exists())
        .unwrap_or_else(|| NAME.into())
}

impl Firewall<'_> {
    /// Queries the firewall for its decision on the packet of each port. Returns the decisions in the order of the
    /// ports.
    pub fn decisions(&self, packets: &Packets) -> Result<Vec<Decision>> {
        if packets.ports.is_empty() {
            return Ok(Vec::new());
        }
        let program = program(self.program);
        let shown = program.display();
        let mut child = Command::new(&program)
            .args(["explain", "--json", "--hook", packets.hook])
            .args(["--ct-state", packets.ct_state])
            .args(packets.interface.iter().flatten())
            .args([self.policy, "-"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| {
                Failure::usage(format!(
                    "{shown}: cannot be started: {error}: name the firewall by --firewall"
                ))
            })?;
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
        let (Some(stdin), Some(stdout), Some(mut stderr)) = (stdin, stdout, child.stderr.take())
        else {
            return Err(Failure::failed(format!("{shown}: no pipes")));
        };
        let (read, words) = std::thread::scope(|scope| {
            scope.spawn(move || {
                let mut to = BufWriter::new(stdin);
                let ends = (self.from, self.to);
                let ports = packets.ports.iter().copied();
                // If the firewall stops reading, it prints the reason on stderr.
                let _ = pcap::write(&mut to, packets.kind, ends, ports, self.apart);
            });
            let words = scope.spawn(move || {
                let mut words = String::new();
                let _ = stderr.read_to_string(&mut words);
                words
            });
            let read = read(BufReader::new(stdout), packets.ports.len());
            (read, words.join().unwrap_or_default())
        });
        let status = child
            .wait()
            .map_err(|error| Failure::system(&format!("{shown}"), &error))?;
        if !status.success() {
            let words = words.trim().trim_start_matches("error: ");
            return Err(Failure::usage(format!("{shown} explain: {words}")));
        }
        read.map_err(|why| Failure::failed(format!("{shown} explain --json: {why}")))
    }
}

fn read(lines: impl BufRead, wanted: usize) -> std::result::Result<Vec<Decision>, String> {
    let mut decisions = Vec::with_capacity(wanted);
    for line in lines.lines() {
        let line = line.map_err(|error| error.to_string())?;
        let explained: Explained =
            serde_json::from_str(&line).map_err(|error| error.to_string())?;
        let Some(verdict) = explained.verdict else {
            continue;
        };
        let verdict = match (verdict.as_str(), explained.reject) {
            ("accept" | "mark", _) => Verdict::Accept,
            ("drop", _) => Verdict::Drop,
            ("reject", with) => Verdict::Reject(with.unwrap_or_default()),
            (other, _) => return Err(format!("the verdict {other} says nothing of a port")),
        };
        decisions.push(Decision {
            verdict,
            by: explained.by.unwrap_or_default(),
        });
    }
    match decisions.len() == wanted {
        true => Ok(decisions),
        false => Err(format!(
            "{} packets were explained of {wanted}",
            decisions.len()
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_explained_is_read() {
        let lines = "{\"packet\":1,\"verdict\":\"accept\",\"reject\":null,\"by\":\"p:3\"}\n\
                     {\"packet\":2,\"verdict\":\"reject\",\"reject\":\"tcp reset\",\"by\":\"p:4\"}\n{\"counters\":[]}\n";
        let read_all = read(lines.as_bytes(), 2).unwrap();
        assert_eq!(read_all[1].verdict, Verdict::Reject("tcp reset".into()));
        assert_eq!(read_all[0].by, "p:3");
        assert!(read(lines.as_bytes(), 3).unwrap_err().contains("2 packets"));
        assert!(read(&b"no object\n"[..], 1).is_err());
    }
}
