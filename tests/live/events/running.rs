// SPDX-License-Identifier: GPL-2.0-or-later
//! Firewall that writes events, and the packets that cause them.

use std::fs;
use std::net::UdpSocket;
use std::path::Path;

use anyhow::{ensure, Context};
use serde_json::Value;
use testbed::firewall::{Firewall, PATIENT_GUARD};
use testbed::folder::Folder;
use testbed::ledger::Stats;
use testbed::netns::Namespace;
use testbed::place::{namespace, restore, LOCALHOST};
use testbed::twin::Twin;
use testbed::wait::{until, PATIENCE};

/// UDP ports. The policy drops packets to DROPPED, rejects packets to REJECTED, logs and accepts packets to LOGGED, and
/// accepts packets to ACCEPTED without a log.
pub const DROPPED: u16 = 1001;
pub const REJECTED: u16 = 1002;
pub const LOGGED: u16 = 1003;
pub const ACCEPTED: u16 = 1004;
/// Numbers of the policy's lines with the rules for DROPPED and LOGGED.
pub const DROP_LINE: u32 = 4;
pub const LOG_LINE: u32 = 6;

const POLICY: &str =
    "table inet t {\n\tchain c {\n\t\ttype filter hook input priority 0; policy accept;\n\
    \t\tudp dport 1001 drop comment \"no \\ 1001\"\n\t\tudp dport 1002 reject\n\
    \t\tudp dport 1003 log prefix \"seen: \" level info accept\n\t}\n}\n";

/// Namespace, and a folder that every user may use, with a policy. The folder is deleted on drop.
pub struct Place {
    folder: Folder,
    pub namespace: Namespace,
}

impl Place {
    pub fn new() -> anyhow::Result<Place> {
        let namespace = namespace()?;
        restore(&namespace, "iptables", "-A INPUT -j NFQUEUE")?;
        let folder = Folder::shared()?;
        folder.write("web.nft", POLICY)?;
        Ok(Place { folder, namespace })
    }

    /// Returns a path in the folder.
    pub fn path(&self, name: &str) -> String {
        self.folder.file(name)
    }

    /// Starts a twin with the policy.
    /// - events: value of --events.
    /// - more: additional options.
    pub fn start(&self, twin: Twin, events: &str, more: &[&str]) -> anyhow::Result<Firewall> {
        let policy = self.path("web.nft");
        let ours = ["--policy", &policy, "--events", events];
        let arguments = [&ours[..], &PATIENT_GUARD, more].concat();
        Firewall::start(&self.namespace, twin, &arguments)
    }

    pub fn client(&self) -> anyhow::Result<UdpSocket> {
        let client = self
            .namespace
            .enter(|| UdpSocket::bind((LOCALHOST, 40000)))?;
        Ok(client)
    }
}

/// Sends datagrams to a port. They may cause ICMP errors.
pub fn send(client: &UdpSocket, port: u16, count: u64) {
    for _ in 0..count {
        // An error here is the ICMP error for an earlier datagram.
        while client.send_to(b"twinwall", (LOCALHOST, port)).is_err() {}
    }
}

/// Returns the JSON objects in the lines of a file. Fails if the last line is incomplete.
pub fn lines_of(path: impl AsRef<Path>) -> anyhow::Result<Vec<Value>> {
    let text =
        fs::read_to_string(&path).with_context(|| format!("read {}", path.as_ref().display()))?;
    ensure!(
        text.is_empty() || text.ends_with('\n'),
        "the last line has no end: {text}"
    );
    text.lines().map(parsed).collect()
}

pub fn parsed(line: &str) -> anyhow::Result<Value> {
    serde_json::from_str(line).with_context(|| format!("no JSON: {line}"))
}

pub fn is_type(line: &Value, kind: &str) -> bool {
    line["event_type"] == kind
}

/// Returns true if a line is an event of the firewall itself, of this kind.
pub fn is_own(line: &Value, kind: &str) -> bool {
    is_type(line, "twinwall") && line["twinwall"]["event"] == kind
}

pub fn count_type(lines: &[Value], kind: &str) -> u64 {
    lines.iter().filter(|line| is_type(line, kind)).count() as u64
}

/// Returns the number of lines that are missing according to the firewall's own events.
/// - kind: kind of these events, `lost` or `left_out`.
pub fn missed(lines: &[Value], kind: &str) -> u64 {
    let told = lines.iter().filter(|line| is_own(line, kind));
    told.map(|line| line["twinwall"]["events"].as_u64().unwrap_or(0))
        .sum()
}

/// Waits until a file has a line for which `found` returns true.
/// - what: description of the line, for messages.
pub fn wait_for(path: &str, what: &str, found: impl Fn(&Value) -> bool) -> anyhow::Result<()> {
    until(what, PATIENCE, || {
        let text = fs::read_to_string(path).unwrap_or_default();
        // The last line may still be incomplete.
        let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
        let lines: Vec<Value> = whole.lines().map(parsed).collect::<anyhow::Result<_>>()?;
        Ok(lines.iter().any(&found))
    })
}

/// Waits until a file has this number of lines about drops.
pub fn wait_for_drops(path: &str, drops: u64) -> anyhow::Result<()> {
    until("lines of drops", PATIENCE, || {
        Ok(lines_of(path).is_ok_and(|lines| count_type(&lines, "drop") == drops))
    })
}

/// Checks that the ledger has this verdict for exactly this number of packets, and that none was lost.
pub fn check_ledger(stats: &Stats, verdict: &str, packets: u64) -> anyhow::Result<()> {
    stats.total.check_clean()?;
    let counted = stats.total.verdict(verdict);
    ensure!(
        counted == packets,
        "{counted} {verdict} instead of {packets}"
    );
    Ok(())
}
