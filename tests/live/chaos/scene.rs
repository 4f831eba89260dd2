// SPDX-License-Identifier: GPL-2.0-or-later
//! Scene of a case: a firewall with its guard, a server, and the kernel's figures for the queue.

use std::path::Path;

use anyhow::{ensure, Context};
use testbed::firewall::Firewall;
use testbed::netns::Namespace;
use testbed::place::{namespace, restore, LOCALHOST};
use testbed::proc;
use testbed::queue::queues_in;
use testbed::traffic::{udp_client, udp_exchange, udp_send, UdpServer};
use testbed::twin::Twin;
use testbed::wait::{until, PATIENCE};

/// Name of the guard's process.
const GUARD: &str = "firewall-guard";
/// Option with the guard's deadline in milliseconds, long enough for a firewall on a busy machine.
pub const DEADLINE: [&str; 2] = ["--deadline", "5000"];
/// Number of datagrams that are sent while the firewall is stopped.
pub const WAITING: u64 = 20;
/// Start of the warning of a stall; the guard's action on the waiting packets follows.
pub const STALLS: &str =
    "warning: queue 0: no packet got its verdict for 5000 ms: the guard has begun to";

/// Returns an iptables rule that queues UDP datagrams to the server's port.
/// - options: additional options of NFQUEUE.
pub fn rule(options: &str) -> String {
    format!("-A OUTPUT -d 127.0.0.1 -p udp --dport 9999 -j NFQUEUE --queue-num 0 {options}")
}

pub struct Scene {
    pub namespace: Namespace,
    pub firewall: Firewall,
    pub server: UdpServer,
    pub guard: Option<u32>,
}

/// Returns the process id of a firewall's guard, if it has one.
pub fn guard_of(firewall: &Firewall) -> Option<u32> {
    proc::descendant(firewall.pid, GUARD)
}

/// Starts a firewall again until it knows the rules: on a busy machine fwctl may not end in time.
/// - start: starts the firewall.
pub fn with_known_rules(start: impl Fn() -> anyhow::Result<Firewall>) -> anyhow::Result<Firewall> {
    let mut known = None;
    until("fwctl ends in time", PATIENCE, || {
        let firewall = start()?;
        let text = firewall.contract.concat() + &firewall.ready;
        if text.contains("did not end in time") {
            firewall.end_by(libc::SIGTERM)?;
            return Ok(false);
        }
        known = Some(firewall);
        Ok(true)
    })?;
    known.context("no firewall knows the rules")
}

impl Scene {
    pub fn new(twin: Twin, rules: &str, arguments: &[&str]) -> anyhow::Result<Scene> {
        Scene::under(twin, &[], rules, arguments)
    }

    /// Creates a scene whose firewall is run by another program.
    /// - wrapper: program and arguments that run the firewall; empty: the firewall runs without another program.
    /// - rules: lines for iptables-restore.
    pub fn under(
        twin: Twin,
        wrapper: &[&str],
        rules: &str,
        arguments: &[&str],
    ) -> anyhow::Result<Scene> {
        let namespace = namespace()?;
        restore(&namespace, "iptables", rules)?;
        let server = UdpServer::start(&namespace, LOCALHOST, true)?;
        let arguments = [arguments, &["--json"]].concat();
        let firewall =
            with_known_rules(|| Firewall::start_under(&namespace, wrapper, twin, &arguments))?;
        let guard = guard_of(&firewall);
        Ok(Scene {
            namespace,
            firewall,
            server,
            guard,
        })
    }

    /// Checks a row of the contract.
    /// - expected: the row's mode, and its text about the outcome.
    pub fn check_contract(&self, situation: &str, expected: [&str; 2]) -> anyhow::Result<()> {
        check_contract(&self.firewall, situation, expected)
    }

    /// Sends requests, one at a time, and checks that each gets a response.
    pub fn exchange(&self, count: u64) -> anyhow::Result<()> {
        udp_exchange(&udp_client(&self.namespace, LOCALHOST)?, count)
    }

    pub fn send(&self, count: u64) -> anyhow::Result<()> {
        udp_send(&udp_client(&self.namespace, LOCALHOST)?, count, 18)
    }

    /// Stops the firewall (SIGSTOP), and sends datagrams, which then wait.
    pub fn stop_and_send(&self, count: u64) -> anyhow::Result<()> {
        proc::stop(self.firewall.pid)?;
        self.send(count)
    }

    pub fn go_on(&self) {
        proc::signal(self.firewall.pid, libc::SIGCONT);
    }

    /// Returns the number of packets that wait in the kernel; None if the queue has no owner.
    pub fn waiting(&self) -> anyhow::Result<Option<u64>> {
        waiting_in(&self.namespace)
    }

    pub fn until_waiting(&self, expected: Option<u64>) -> anyhow::Result<()> {
        until(&format!("{expected:?} packets wait"), PATIENCE, || {
            Ok(self.waiting()? == expected)
        })
    }

    /// Waits until the guard has answered all waiting packets and told the firewall, so that it sleeps again.
    pub fn until_answered(&self) -> anyhow::Result<()> {
        self.until_waiting(Some(0))?;
        let guard = self.guard.context("there is no guard")?;
        until("the guard has told the firewall", PATIENCE, || {
            Ok(proc::state(guard)? == 'S')
        })
    }
}

/// Returns the number of packets that wait in the kernel for the owner of the first queue; None if no queue has an
/// owner.
pub fn waiting_in(namespace: &Namespace) -> anyhow::Result<Option<u64>> {
    let rows = queues_in(namespace)?;
    Ok(rows.first().map(|row| u64::from(row.waiting)))
}

pub fn check_contract(
    firewall: &Firewall,
    situation: &str,
    expected: [&str; 2],
) -> anyhow::Result<()> {
    let start = firewall.start_line()?;
    let mut rows = start.contract.iter();
    let row = rows.find(|row| row.situation == situation);
    let row = row.with_context(|| format!("no row for {situation}"))?;
    ensure!(
        [row.mode.as_str(), row.really.as_str()] == expected,
        "{row:?} instead of {expected:?}"
    );
    Ok(())
}

/// Waits until a process ends; it may then still be a zombie.
pub fn until_gone(pid: u32) -> anyhow::Result<()> {
    until("the guard has gone", PATIENCE, || {
        Ok(!Path::new(&format!("/proc/{pid}")).exists() || proc::state(pid).unwrap_or('Z') == 'Z')
    })
}
