// SPDX-License-Identifier: GPL-2.0-or-later
//! Setting of an upgrade: a namespace whose traffic to port 9999 goes through queues, a control socket, and policies.

use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{ensure, Context};
use testbed::firewall::{run_to_end, take_over, Ended, Firewall, GONE, PATIENT_GUARD, TOO_SLOW};
use testbed::folder::Folder;
use testbed::ledger::Stats;
use testbed::netns::Namespace;
use testbed::place::{namespace, restore};
use testbed::twin::Twin;
use testbed::wait::{until, PATIENCE};

/// Beginning of the warning of a firewall whose queue another firewall has read and not taken over.
const UNRECONCILED: &str = "warning: the ledger does not reconcile: ";

/// Error of a new firewall that has waited in vain for the old one, as can happen on a busy machine.
pub const SILENT: &str =
    "the old firewall does not continue the upgrade: see its log, and try again";

pub struct Setting {
    pub namespace: Namespace,
    folder: Folder,
    /// True if an upgrade was too slow so far, and was repeated (see `take_over`).
    late: AtomicBool,
}

/// Runs a case again until all its upgrades are in time: a new firewall that is too slow answers packets that no ledger
/// counts.
/// - body: the case; returns false if an upgrade was too slow.
pub fn until_in_time(body: impl Fn() -> anyhow::Result<bool>) -> anyhow::Result<()> {
    until("all upgrades are in time", 4 * PATIENCE, body)
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
        Ok(Setting {
            namespace,
            folder,
            late: AtomicBool::new(false),
        })
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
        let ours = [&ours[..], &PATIENT_GUARD].concat();
        Firewall::start(&self.namespace, twin, &[&ours[..], arguments].concat())
    }

    /// Returns true if an upgrade was too slow so far, so that the ledgers may lack packets.
    pub fn was_late(&self) -> bool {
        self.late.load(Ordering::Relaxed)
    }

    /// Starts a firewall that takes over from the old one. The old firewall must then end by itself, without a warning
    /// except about upgrades that were too slow. Returns the new firewall and the old one's last ledger.
    pub fn upgrade(
        &self,
        old: Firewall,
        twin: Twin,
        arguments: &[&str],
    ) -> anyhow::Result<(Firewall, Stats)> {
        let control = self.control();
        let arguments = [&["--take-over", &control], arguments].concat();
        let (new, late) = take_over(&old, || {
            self.start(twin, &arguments).context("the new firewall")
        })?;
        self.late.fetch_or(late > 0, Ordering::Relaxed);
        let mut ended = old.wait()?;
        forget_late(&mut ended, late);
        let last = ended_well(ended, self.was_late()).context("the old firewall")?;
        Ok((new, last))
    }

    /// Runs a firewall that must fail to take over. Returns its output.
    pub fn fail_to_take(&self, twin: Twin, arguments: &[&str]) -> anyhow::Result<Ended> {
        let control = self.control();
        let arguments = [&["--take-over", &control], arguments].concat();
        run_to_end(&self.namespace, &[], twin, &arguments)
    }
}

/// Removes the warnings about repeated upgrades (see `take_over`) from a firewall's stderr.
/// - late: number of repetitions; further warnings are kept.
pub fn forget_late(ended: &mut Ended, late: usize) {
    let mut left = late;
    let lines = ended.stderr.split_inclusive('\n').filter(|line| {
        let is_late = left > 0 && [TOO_SLOW, GONE].contains(line);
        left -= usize::from(is_late);
        !is_late
    });
    ended.stderr = lines.collect();
}

/// Checks that a firewall ended with exit code 0, and without text on stderr. Returns its last ledger.
/// - late: true if an upgrade was too slow; then the ledger need not reconcile.
fn ended_well(mut ended: Ended, late: bool) -> anyhow::Result<Stats> {
    if late {
        let lines = ended.stderr.split_inclusive('\n');
        ended.stderr = lines
            .filter(|line| !line.starts_with(UNRECONCILED))
            .collect();
    }
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
