// SPDX-License-Identifier: GPL-2.0-or-later
//! Cures that doctor prints: they are run as printed until none is left, and the host is then probed from outside.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use anyhow::{bail, ensure, Context};
use serde_json::Value;
use testbed::firewall::{Firewall, PATIENT_GUARD};
use testbed::folder::Folder;
use testbed::netns::{Namespace, VETH_IPV4};
use testbed::place::{namespace, restore};
use testbed::twin::Twin;
use testbed::wait::PATIENCE;
use twinwall_tests::case::Row;

use super::doctor::{cured, inspect, OF_THE_MACHINE};

pub const ROWS: &[Row] = &[
    ("cures-of-queues-for-one-direction", one_direction),
    ("cures-of-two-queues-for-a-connection", two_queues),
    ("cures-of-a-missing-direction", missing_direction),
    ("cures-without-any-rule", no_rule),
];

const ALLOWED: &str = "allowed.example";
const DENIED: &str = "denied.example";
/// Number of connections: enough that each queue has some of them.
const CONNECTIONS: usize = 12;
/// Time after which a request with a denied name counts as lost; an allowed request takes a hundredth of this time.
const LOST: Duration = Duration::from_secs(1);
/// Number of successive cures after which the case fails.
const CURES_MAX: usize = 5;

/// Policy that accepts outgoing HTTP requests for ALLOWED and echo replies, drops other outgoing packets, and accepts
/// all incoming packets.
const POLICY: &str = "table inet t {
	chain i {
		type filter hook input priority 0; policy accept;
		counter
	}
	chain o {
		type filter hook output priority 0; policy drop;
		tcp dport 80 http host \"allowed.example\" counter accept
		icmp type echo-reply accept
	}
}
";

/// Host with a firewall of two queues, and a server outside.
struct Scene {
    _firewall: Firewall,
    host: Namespace,
    outside: Namespace,
    socket: String,
    _folder: Folder,
}

impl Scene {
    fn new(twin: Twin, rules: &[&str]) -> anyhow::Result<Scene> {
        let (host, outside) = (namespace()?, namespace()?);
        Namespace::veth_pair(&host, &outside)?;
        for rule in rules {
            restore(&host, "iptables", rule)?;
        }
        let folder = Folder::shared()?;
        let policy = folder.write("p.nft", POLICY)?;
        let socket = folder.file("control");
        let arguments = [
            "--json",
            "--queue",
            "0:1",
            "--policy",
            &policy,
            "--control",
            &socket,
        ];
        let arguments = [&arguments[..], &PATIENT_GUARD].concat();
        Ok(Scene {
            _firewall: Firewall::start_under(&host, &[], twin, &arguments)?,
            host,
            outside,
            socket,
            _folder: folder,
        })
    }

    /// Returns true if a server outside receives the host's request for a name.
    /// - limit: time limit of the server's read.
    fn reaches(&self, name: &str, limit: Duration) -> anyhow::Result<bool> {
        let address = VETH_IPV4.1;
        let listener = self
            .outside
            .enter(|| TcpListener::bind(SocketAddr::new(address, 80)))?;
        let to = listener.local_addr()?;
        let Ok(mut client) = self
            .host
            .enter(|| TcpStream::connect_timeout(&to, PATIENCE))
        else {
            return Ok(false);
        };
        let request = format!("GET / HTTP/1.1\r\nHost: {name}\r\n\r\n");
        client.write_all(request.as_bytes())?;
        let (mut server, _) = listener.accept()?;
        server.set_read_timeout(Some(limit))?;
        let mut bytes = vec![0; request.len()];
        Ok(server.read_exact(&mut bytes).is_ok())
    }

    fn reached(&self, name: &str, limit: Duration) -> anyhow::Result<usize> {
        let reached = (0..CONNECTIONS).map(|_| self.reaches(name, limit));
        let reached: Result<Vec<bool>, _> = reached.collect();
        Ok(reached?.into_iter().filter(|is| *is).count())
    }

    /// Returns the cure of doctor's first error or warning; None if there is neither. Ignores findings about the whole
    /// machine.
    fn first_cure(&self) -> anyhow::Result<Option<String>> {
        let said = inspect(&self.host, &self.socket, &[])?;
        for line in said.stdout.lines() {
            let finding: Value = serde_json::from_str(line)?;
            let text = finding["what"].as_str().unwrap_or_default();
            let is_bad = finding["severity"] == "error" || finding["severity"] == "warning";
            if is_bad && !text.contains(OF_THE_MACHINE) {
                let cure = finding["cure"].as_str().context("no cure")?;
                return Ok(Some(cure.to_owned()));
            }
        }
        Ok(None)
    }

    /// Runs cures until doctor reports no error or warning. Then checks that allowed requests pass, and denied ones
    /// don't.
    fn check_cured(&self) -> anyhow::Result<()> {
        for _ in 0..CURES_MAX {
            let Some(cure) = self.first_cure()? else {
                let (allowed, denied) = (
                    self.reached(ALLOWED, PATIENCE)?,
                    self.reached(DENIED, LOST)?,
                );
                ensure!(
                    (allowed, denied) == (CONNECTIONS, 0),
                    "{allowed} of {CONNECTIONS} reached the allowed name, {denied} the denied one"
                );
                return Ok(());
            };
            cured(&self.host, &cure).with_context(|| cure.clone())?;
        }
        bail!("doctor is not content: {:?}", self.first_cure()?)
    }
}

/// Checks cures for rules that send both directions to one of the two queues: a cure for one direction only would
/// separate the directions.
fn one_direction(twin: Twin) -> anyhow::Result<()> {
    let rules = [
        "-A INPUT ! -i lo -j NFQUEUE --queue-num 0",
        "-A OUTPUT ! -o lo -j NFQUEUE --queue-num 0",
    ];
    Scene::new(twin, &[&rules.join("\n")])?.check_cured()
}

fn no_rule(twin: Twin) -> anyhow::Result<()> {
    Scene::new(twin, &[])?.check_cured()
}

/// Checks the cures for rules that send a connection's directions to different queues.
fn two_queues(twin: Twin) -> anyhow::Result<()> {
    let rules = [
        "-A INPUT ! -i lo -j NFQUEUE --queue-num 0",
        "-A OUTPUT ! -o lo -j NFQUEUE --queue-num 1",
    ];
    Scene::new(twin, &[&rules.join("\n")])?.check_cured()
}

fn missing_direction(twin: Twin) -> anyhow::Result<()> {
    let rule = "-A OUTPUT ! -o lo -j NFQUEUE --queue-balance 0:1";
    Scene::new(twin, &[rule])?.check_cured()
}
