// SPDX-License-Identifier: GPL-2.0-or-later
//! Runs the program twinwall-exporter.

use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};

use anyhow::{bail, Context};

use crate::netns::Namespace;
use crate::twin::built;

/// A running twinwall-exporter, killed on drop.
pub struct Exporter {
    child: Child,
    pub pid: u32,
}

impl Exporter {
    /// Starts an exporter inside a namespace and waits until it listens.
    /// - control: path of the firewall's control socket.
    /// - listen: address and port on which the exporter listens.
    pub fn start(namespace: &Namespace, control: &str, listen: &str) -> anyhow::Result<Exporter> {
        let mut child = namespace
            .command(built("twinwall-exporter"))
            .args(["--control", control, "--listen", listen])
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .context("build/twinwall-exporter: make services")?;
        let mut stderr = BufReader::new(child.stderr.take().expect("stderr is piped"));
        let pid = child.id();
        let exporter = Exporter { child, pid };
        let mut line = String::new();
        stderr.read_line(&mut line)?;
        if !line.starts_with("ready: ") {
            bail!("twinwall-exporter: {line}");
        }
        // Discards later output, so that a full pipe does not block the exporter.
        std::thread::spawn(move || std::io::copy(&mut stderr, &mut std::io::sink()));
        Ok(exporter)
    }
}

impl Drop for Exporter {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
