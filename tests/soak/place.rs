// SPDX-License-Identifier: GPL-2.0-or-later
//! Environment of a soak: a namespace, a folder, and its policies.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use anyhow::ensure;
use testbed::control::Client;
use testbed::exporter::Exporter;
use testbed::folder::Folder;
use testbed::netns::Namespace;
use testbed::place::{namespace, restore};

pub const METRICS: &str = "127.0.0.1:9630";
pub const DEADLINE_MS: u64 = 500;

pub struct Place {
    _exporter: Exporter,
    pub namespace: Arc<Namespace>,
    folder: Folder,
}

impl Place {
    pub fn new() -> anyhow::Result<Place> {
        let namespace = namespace()?;
        // The user that the firewall becomes recreates the events file.
        let folder = Folder::shared()?;
        let place = Place {
            _exporter: Exporter::start(&namespace, &folder.file("control"), METRICS)?,
            namespace: Arc::new(namespace),
            folder,
        };
        let rules = ["tcp", "udp"].map(|protocol| {
            format!(
                "-A OUTPUT -d 127.0.0.1 -p {protocol} --dport 9999 -j NFQUEUE --queue-balance 0:1"
            )
        });
        restore(&place.namespace, "iptables", &rules.join("\n"))?;
        place.write_policy(0)?;
        Ok(place)
    }

    pub fn file(&self, name: &str) -> String {
        self.folder.file(name)
    }

    pub fn arguments(&self) -> Vec<String> {
        let deadline = DEADLINE_MS.to_string();
        let words = [
            "--queue",
            "0:1",
            "--policy",
            &self.file("policy.nft"),
            "--control",
            &self.file("control"),
            "--events",
            &self.file("events.json"),
            "--deadline",
            &deadline,
            "--log-level",
            "warning",
        ];
        words.map(str::to_owned).to_vec()
    }

    /// Writes the policy of a generation. Successive generations share all rules but one of 40, except that every 50th
    /// generation begins again with the first 40.
    pub fn write_policy(&self, generation: u64) -> anyhow::Result<()> {
        let first = 10_000 + generation % 50;
        let ports: Vec<String> = (first..first + 40)
            .map(|port| format!("\t\tudp dport {port} counter drop\n"))
            .collect();
        let text = format!(
            "table inet soak {{\n\tchain output {{\n\
             \t\ttype filter hook output priority 0; policy accept;\n\
             \t\tmeta l4proto udp counter comment \"all of udp\"\n\
             \t\tmeta length 29 limit rate over 100/second drop\n{}\t}}\n}}\n",
            ports.concat()
        );
        self.folder.replace("policy.nft", text).map(drop)
    }

    /// Removes the events file, so that the firewall's next events go to a new file after SIGUSR2.
    pub fn forget_events(&self) {
        // It does not exist before the first event.
        let _ = fs::remove_file(self.file("events.json"));
    }

    /// Sends a request to the control socket.
    pub fn ask(&self, request: &str) -> anyhow::Result<serde_json::Value> {
        Client::new(&self.file("control"))?.done(request)
    }

    /// Scrapes the exporter's metrics. Fails unless they are complete.
    pub fn scrape(&self) -> anyhow::Result<()> {
        let mut stream = self.namespace.enter(|| TcpStream::connect(METRICS))?;
        stream.set_read_timeout(Some(Duration::from_secs(10)))?;
        stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: soak\r\nConnection: close\r\n\r\n")?;
        let mut text = String::new();
        stream.read_to_string(&mut text)?;
        ensure!(text.contains("# EOF"), "metrics: {text}");
        Ok(())
    }
}
