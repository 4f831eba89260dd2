// SPDX-License-Identifier: GPL-2.0-or-later
//! Setting of an upgrade: a namespace whose traffic to port 9999 goes through queues, a control socket, and policies.

use anyhow::{ensure, Context};
use testbed::firewall::{run_to_end, Ended, Firewall};
use testbed::folder::Folder;
use testbed::ledger::Stats;
use testbed::netns::Namespace;
use testbed::place::{namespace, restore};
use testbed::twin::Twin;

pub struct Setting {
    pub namespace: Namespace,
    folder: Folder,
}

impl Setting {
    /// Creates a setting.
    /// - queues: options of the iptables target NFQUEUE, e.g. `--queue-num 0`.
    pub fn new(queues: &str) -> anyhow::Result<Setting> {
        let namespace = namespace()?;
        let to_queue =
            |protocol| format!("-A OUTPUT -p {protocol} --dport 9999 -j NFQUEUE {queues}");
        restore(
            &namespace,
            "iptables",
            &["udp", "tcp"].map(to_queue).join("\n"),
        )?;
        // A shared folder, because the firewall's user creates files there.
        let folder = Folder::shared()?;
        Ok(Setting { namespace, folder })
    }

    pub fn path(&self, name: &str) -> String {
        self.folder.file(name)
    }

    /// Returns the path of the control socket of all firewalls in this setting.
    pub fn control(&self) -> String {
        self.path("control")
    }

    /// Writes a policy from lines, and returns its path.
    pub fn policy(&self, name: &str, lines: &[&str]) -> anyhow::Result<String> {
        self.folder.write(name, lines.join("\n") + "\n")
    }

    /// Starts a firewall, which prints only warnings and errors on stderr. An upgrade that takes a second on a busy
    /// machine does not count as a stall.
    pub fn start(&self, twin: Twin, arguments: &[&str]) -> anyhow::Result<Firewall> {
        let control = self.control();
        let ours = ["--control", &control, "--log-level", "warning"];
        let ours = [&ours[..], &["--deadline", "60000"]].concat();
        Firewall::start(&self.namespace, twin, &[&ours[..], arguments].concat())
    }

    /// Starts a firewall that takes over from the old one. The old firewall must then end by itself, without a warning
    /// and with a ledger that reconciles. Returns the new firewall and the old one's last ledger.
    pub fn upgrade(
        &self,
        old: Firewall,
        twin: Twin,
        arguments: &[&str],
    ) -> anyhow::Result<(Firewall, Stats)> {
        let control = self.control();
        let arguments = [&["--take-over", &control], arguments].concat();
        let new = self.start(twin, &arguments).context("the new firewall")?;
        let last = ended_well(old.wait()?).context("the old firewall")?;
        Ok((new, last))
    }

    /// Runs a firewall that must fail to take over. Returns its output.
    pub fn fail_to_take(&self, twin: Twin, arguments: &[&str]) -> anyhow::Result<Ended> {
        let control = self.control();
        let arguments = [&["--take-over", &control], arguments].concat();
        run_to_end(&self.namespace, &[], twin, &arguments)
    }
}

/// Checks that a firewall ended with exit code 0 and an empty stderr. Returns its last ledger.
fn ended_well(ended: Ended) -> anyhow::Result<Stats> {
    check_said(&ended, "")?;
    let stats = Stats::parse(ended.lines.last().context("no ledger at exit")?)?;
    ensure!(stats.reason == "exit", "reason {}", stats.reason);
    Ok(stats)
}

/// Checks that a firewall ended with exit code 0, and that stderr is the expected text.
pub fn check_said(ended: &Ended, expected: &str) -> anyhow::Result<()> {
    ensure!(
        ended.code == Some(0) && ended.stderr == expected,
        "exit code {:?}, signal {:?}, stderr: {}, expected: {expected}",
        ended.code,
        ended.signal,
        ended.stderr
    );
    Ok(())
}

/// Checks that a firewall ended with exit code 0, without a warning on stderr.
pub fn check_calm(ended: &Ended) -> anyhow::Result<()> {
    ensure!(
        ended.code == Some(0) && !ended.stderr.contains("warning"),
        "exit code {:?}, stderr: {}",
        ended.code,
        ended.stderr
    );
    Ok(())
}
