// SPDX-License-Identifier: GPL-2.0-or-later
//! A firewall with a policy and a control socket, and fwctl.

use std::net::UdpSocket;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use anyhow::{ensure, Context};
use serde_json::Value;
use testbed::firewall::{Firewall, PATIENT_GUARD};
use testbed::folder::Folder;
use testbed::netns::Namespace;
use testbed::place::{namespace, restore, LOCALHOST};
use testbed::twin::{built, Twin};
use testbed::wait::{pause_for, until, wait_within, PATIENCE};

/// UDP ports: ACCEPTED is accepted by the policy, DROPPED is dropped, and OTHER has no rule.
pub const ACCEPTED: u16 = 9001;
pub const DROPPED: u16 = 9002;
pub const OTHER: u16 = 9003;

/// Policy that accepts port ACCEPTED in line 4 and drops port DROPPED in line 5. Its chain accepts other packets.
pub const POLICY: &str = "table inet filter {
	chain output {
		type filter hook output priority filter; policy accept;
		udp dport 9001 counter accept comment \"wanted\"
		udp dport 9002 counter drop
	}
}
";

/// Output and exit code of fwctl.
pub struct Said {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Said {
    pub fn of(output: Output) -> anyhow::Result<Said> {
        Ok(Said {
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout)?,
            stderr: String::from_utf8(output.stderr)?,
        })
    }

    /// Checks the exit code; returns stdout.
    pub fn code(&self, code: i32) -> anyhow::Result<&str> {
        ensure!(
            self.code == Some(code),
            "exit code {:?} instead of {code}; stdout: {}; stderr: {}",
            self.code,
            self.stdout,
            self.stderr
        );
        Ok(&self.stdout)
    }

    /// Checks that fwctl succeeded. Returns the only JSON object of stdout.
    pub fn object(&self) -> anyhow::Result<Value> {
        serde_json::from_str(self.code(0)?).context("stdout is one object")
    }

    /// Checks the exit code, and that stderr is one error line that contains these words.
    pub fn error(&self, code: i32, words: &str) -> anyhow::Result<()> {
        self.code(code)?;
        let one_line = self.stderr.starts_with("error: ") && self.stderr.lines().count() == 1;
        ensure!(one_line, "no error line: {}", self.stderr);
        ensure!(
            self.stderr.contains(words),
            "\"{words}\" is not said: {}",
            self.stderr
        );
        Ok(())
    }
}

/// Returns the path of fwctl.
pub fn binary() -> PathBuf {
    built("fwctl")
}

/// Returns a command that runs fwctl inside a namespace; the caller adds fwctl's arguments.
pub fn command(namespace: &Namespace, socket: &str) -> anyhow::Result<Command> {
    let binary = binary();
    ensure!(
        binary.is_file(),
        "there is no {}: run make build",
        binary.display()
    );
    let mut command = namespace.command(binary);
    command.args(["--socket", socket]).stdin(Stdio::null());
    command.env_remove("TWINWALL_CONTROL");
    Ok(command)
}

/// Runs fwctl until it ends.
pub fn fwctl(namespace: &Namespace, socket: &str, arguments: &[&str]) -> anyhow::Result<Said> {
    Said::of(command(namespace, socket)?.args(arguments).output()?)
}

/// Place of a case: a namespace, and a firewall that sees all packets that leave it.
pub struct Place {
    // Fields are dropped in this order: the firewall before its folder.
    pub firewall: Firewall,
    pub namespace: Namespace,
    pub folder: Folder,
    pub policy: String,
    pub socket: String,
}

impl Place {
    pub fn new(twin: Twin) -> anyhow::Result<Place> {
        Place::with(twin, POLICY, &[])
    }

    pub fn with(twin: Twin, policy: &str, arguments: &[&str]) -> anyhow::Result<Place> {
        Place::under(Folder::new()?, twin, &[], policy, arguments)
    }

    pub fn new_in(
        folder: Folder,
        twin: Twin,
        policy: &str,
        arguments: &[&str],
    ) -> anyhow::Result<Place> {
        Place::under(folder, twin, &[], policy, arguments)
    }

    /// Creates a place whose firewall sees a /proc with processes only.
    pub fn hidden(twin: Twin, policy: &str, arguments: &[&str]) -> anyhow::Result<Place> {
        let wrapper = [
            "unshare",
            "--mount",
            "sh",
            "-c",
            "mount -t proc -o subset=pid proc /proc && exec \"$@\"",
            "sh",
        ];
        Place::under(Folder::new()?, twin, &wrapper, policy, arguments)
    }

    /// Creates a place whose firewall is executed by another program.
    /// - wrapper: that program and its arguments.
    pub fn under(
        folder: Folder,
        twin: Twin,
        wrapper: &[&str],
        policy: &str,
        arguments: &[&str],
    ) -> anyhow::Result<Place> {
        let namespace = namespace()?;
        restore(&namespace, "iptables", "-A OUTPUT -j NFQUEUE --queue-num 0")?;
        let policy = folder.write("web.nft", policy)?;
        let socket = folder.file("control");
        let given = ["--json", "--policy", &policy, "--control", &socket];
        let given = [&given[..], &PATIENT_GUARD, arguments].concat();
        let firewall = Firewall::start_under(&namespace, wrapper, twin, &given)?;
        Ok(Place {
            firewall,
            namespace,
            folder,
            policy,
            socket,
        })
    }

    /// Runs fwctl until it ends.
    pub fn fwctl(&self, arguments: &[&str]) -> anyhow::Result<Said> {
        fwctl(&self.namespace, &self.socket, arguments)
    }

    /// Returns a command that runs fwctl; the caller adds fwctl's arguments.
    pub fn command(&self) -> anyhow::Result<Command> {
        command(&self.namespace, &self.socket)
    }

    /// Waits until this number of clients of `tail` is connected, and the workers produce events for them.
    pub fn until_followed(&self, clients: u64) -> anyhow::Result<()> {
        until("fwctl follows", PATIENCE, || {
            let object = self.fwctl(&["status", "--json"])?.object()?;
            Ok(object["counts"]["tail_clients"] == clients)
        })?;
        // The workers are notified right after a client is counted.
        pause_for(Duration::from_millis(50));
        Ok(())
    }

    /// Runs `fwctl diff --live --json` with another policy while `send` sends packets. Stops the firewall after it has
    /// answered them, which ends the comparison. Returns fwctl's output.
    pub fn diff_live(
        self,
        new: &str,
        send: impl FnOnce(&Place) -> anyhow::Result<()>,
    ) -> anyhow::Result<Said> {
        let arguments = ["diff", new, "--live", "--seconds", "600", "--json"];
        let mut command = self.command()?;
        let child = command.args(arguments).stdout(Stdio::piped());
        let child = child.stderr(Stdio::piped()).spawn()?;
        self.until_followed(1)?;
        send(&self)?;
        self.firewall.settled_ledger()?;
        let ended = self.firewall.end_by(libc::SIGTERM)?;
        ensure!(ended.code == Some(0), "{}", ended.stderr);
        until_end(child)
    }

    /// Sends datagrams to a port on loopback where no socket listens, so that only the firewall counts them.
    pub fn send(&self, port: u16, count: usize) -> anyhow::Result<()> {
        let socket = self.namespace.enter(|| UdpSocket::bind((LOCALHOST, 0)))?;
        for _ in 0..count {
            // After a dropped datagram the next send fails with EPERM.
            let _ = socket.send_to(b"x", (LOCALHOST, port));
        }
        Ok(())
    }
}

/// Waits until a child ends, kills it after PATIENCE, and returns its output.
pub fn until_end(mut child: Child) -> anyhow::Result<Said> {
    if wait_within(&mut child, PATIENCE).is_none() {
        child.kill()?;
    }
    Said::of(child.wait_with_output()?)
}

/// Checks that a text contains these words.
pub fn check_has(text: &str, words: &str) -> anyhow::Result<()> {
    ensure!(text.contains(words), "\"{words}\" is not in: {text}");
    Ok(())
}
