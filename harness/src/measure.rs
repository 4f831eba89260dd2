// SPDX-License-Identifier: GPL-2.0-or-later
//! One run: a subject under a load, in separate namespaces. Exchanges and runs with --host have none. [`crate::slices`]
//! measures loads with slices.

use std::fs;
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::thread;
use std::time::Duration;

use anyhow::{anyhow, bail, Context, Result};
use testbed::netns::{Namespace, VETH_IPV4, VETH_MTU};
use testbed::proc;

use crate::capturing;
use crate::exchange::Exchanges;
use crate::experiment::{Route, RunnerName};
use crate::flows::add_up;
use crate::interrupt;
use crate::program::{Ended, Program, Reading, Ready};
use crate::recording;
use crate::runner::{Load, Metric, Outcome, Place, Runner, Workload};
use crate::schedule::Cell;
use crate::staged::StagedFiles;
use crate::steering::{self, HostSteering, Target};
use crate::subject::{Kind, Subject};
use crate::synthetic::{SyntheticFiles, SyntheticPolicy};

/// Function that returns the runner of a name. It fails if the runner's tool is not installed. Each flow has a separate
/// runner.
pub type MakeRunner<'a> = dyn Fn(RunnerName) -> Result<Box<dyn Runner>> + Sync + 'a;

/// Settings that all runs share.
pub struct Site<'a> {
    /// The repository, which contains the rules.
    pub root: &'a Path,
    pub bin_dir: &'a Path,
    /// True to measure on the machine's own loopback, false to measure in fresh namespaces.
    pub host: bool,
    pub flows: u16,
    pub policies: SyntheticFiles,
    pub staged: StagedFiles,
    pub exchanges: Exchanges,
    pub make_runner: &'a MakeRunner<'a>,
}

/// Network namespaces in which a subject is measured.
pub enum Ground {
    One(Namespace),
    /// Client and server, joined by a veth pair.
    Two(Namespace, Namespace),
    /// Client, router and server, joined by two veth pairs.
    Three(Namespace, Namespace, Namespace),
}

impl Ground {
    pub fn new(site: &Site, route: Route) -> Result<Ground> {
        if site.host {
            return Ok(Ground::One(Namespace::host()));
        }
        match route {
            Route::Loopback => Ok(Ground::One(Namespace::new()?)),
            Route::Host | Route::Vm => bail!("{route} has no namespaces"),
            Route::Veth => {
                let (client, server) = (Namespace::new()?, Namespace::new()?);
                Namespace::veth_pair(&client, &server)?;
                Ok(Ground::Two(client, server))
            }
            Route::Forwarded => {
                let (client, server) = (Namespace::new()?, Namespace::new()?);
                let router = routed(&client, &server)?;
                Ok(Ground::Three(client, router, server))
            }
        }
    }

    /// Returns the namespace of the firewall, or of the kernel's filter: the single namespace, the server's or the
    /// router's.
    pub fn filter(&self) -> &Namespace {
        match self {
            Ground::One(filter) | Ground::Two(_, filter) | Ground::Three(_, filter, _) => filter,
        }
    }

    pub fn place(&self) -> Place<'_> {
        match self {
            Ground::One(both) => Place {
                server: both,
                client: both,
            },
            Ground::Two(client, server) | Ground::Three(client, _, server) => {
                Place { server, client }
            }
        }
    }
}

/// Addresses of client and server with a router between them: the client's, the router's on the client's side, the
/// router's on the server's side, the server's.
const ROUTED_IPV4: [IpAddr; 4] = [
    IpAddr::V4(Ipv4Addr::new(10, 78, 1, 2)),
    IpAddr::V4(Ipv4Addr::new(10, 78, 1, 1)),
    IpAddr::V4(Ipv4Addr::new(10, 78, 2, 1)),
    IpAddr::V4(Ipv4Addr::new(10, 78, 2, 2)),
];

/// Joins client and server by a new router. Returns the router's namespace.
fn routed(client: &Namespace, server: &Namespace) -> Result<Namespace> {
    let router = Namespace::new()?;
    let [client_address, near, far, server_address] = ROUTED_IPV4;
    let ends = [
        (client, "near", near, client_address),
        (server, "far", far, server_address),
    ];
    for (end, interface, gateway, address) in ends {
        let there = end.path();
        router.ip(&format!(
            "link add {interface} mtu {VETH_MTU} type veth peer name veth mtu {VETH_MTU} netns {there}\n\
             address add {gateway}/24 dev {interface}\n\
             link set {interface} up\n"
        ))?;
        end.ip(&format!(
            "address add {address}/24 dev veth\n\
             link set veth up\n\
             route add default via {gateway}\n"
        ))?;
    }
    let forward = "/proc/sys/net/ipv4/ip_forward";
    router.enter(|| fs::write(forward, "1").context(forward))?;
    for (namespace, interface) in [
        (&router, "near"),
        (&router, "far"),
        (client, "veth"),
        (server, "veth"),
    ] {
        namespace.wait_for(interface)?;
    }
    Ok(router)
}

impl Site<'_> {
    /// Returns the load of one flow; also used for command lines.
    /// - cell: workload, route, size and policy.
    pub fn load(&self, cell: &Cell, flow: u16, seconds: u32) -> Load {
        Load {
            workload: cell.workload,
            duration: Duration::from_secs(seconds.into()),
            address: self.address(cell, flow),
            port: cell.workload.port(),
            payload_bytes: cell.payload_bytes,
        }
    }

    /// Returns the listening address of a flow's server.
    pub fn address(&self, cell: &Cell, flow: u16) -> IpAddr {
        match cell.route {
            Route::Veth => VETH_IPV4.1,
            Route::Forwarded => ROUTED_IPV4[3],
            _ => steering::loopback_address(flow),
        }
    }

    /// Returns the number of simultaneous loads of a cell. A single tcp-probe connects to all addresses.
    pub fn flows(&self, cell: &Cell) -> u16 {
        match cell.workload {
            Workload::TcpProbe => 1,
            _ => self.flows,
        }
    }

    /// Measures a subject under a load.
    pub fn measure(
        &self,
        subject: &Subject,
        cell: &Cell,
        runner: RunnerName,
        seconds: u32,
    ) -> Result<Outcome> {
        if subject.kind == Kind::Exchange {
            return self.exchanges.measure(subject, cell, seconds);
        }
        if let Kind::Recorder { .. } = subject.kind {
            let ground = Ground::new(self, cell.route)?;
            return recording::measure(self.bin_dir, &ground.place(), subject, cell, seconds);
        }
        if matches!(subject.kind, Kind::Capture { .. }) {
            let ground = Ground::new(self, cell.route)?;
            return capturing::measure(self.bin_dir, &ground.place(), subject, cell, seconds);
        }
        let ground = Ground::new(self, cell.route)?;
        // Declared before the firewall, so that it outlives the firewall: host rules are removed last.
        let _rules = self.load_rules(&ground, subject, cell)?;
        let Some(mut program) = self.start(&ground, subject, cell)? else {
            let outcome = self.run_load(&ground, cell, runner, seconds);
            interrupt::check()?;
            return outcome;
        };
        let before = program.read_settled()?;
        let outcome = self.run_load(&ground, cell, runner, seconds);
        interrupt::check()?;
        program.check_running()?;
        let after = program.read_settled()?;
        let memory = proc::peak_memory_mib(program.pid())?;
        let ended = program.stop()?;
        let mut outcome = outcome?;
        outcome.incidents.extend(incidents(subject, &ended));
        outcome
            .metrics
            .extend(program_metrics(before, after, memory)?);
        outcome.raw.push(("firewall.json".into(), ended.stdout));
        if !ended.stderr.is_empty() {
            outcome.raw.push(("firewall.txt".into(), ended.stderr));
        }
        Ok(outcome)
    }

    /// Loads the rules of a subject: rules that direct packets to its queues, or the policy that the kernel applies
    /// itself. Dropping the returned value removes the rules from the host; None: no rules, or rules that end with
    /// their namespace.
    pub fn load_rules(
        &self,
        ground: &Ground,
        subject: &Subject,
        cell: &Cell,
    ) -> Result<Option<HostSteering>> {
        let target = match &subject.kind {
            Kind::None | Kind::Exchange | Kind::Capture { .. } | Kind::Recorder { .. } => {
                return Ok(None)
            }
            Kind::Nftables => {
                let file = cell.policy.map(|policy| self.policies.path(policy));
                steering::load_policy(ground.filter(), file.as_deref())?;
                return Ok(None);
            }
            Kind::Tracked => {
                self.staged
                    .load_without_names(ground.filter(), staged_policy(cell)?)?;
                return Ok(None);
            }
            Kind::Stage { .. } => {
                self.staged
                    .load_kernel(ground.filter(), staged_policy(cell)?)?;
                return Ok(None);
            }
            Kind::Peer {
                rules: Some(file), ..
            } => {
                let file = self.root.join(file);
                steering::load_file(ground.filter(), &file, Target::Queues(1), 1)?;
                return Ok(None);
            }
            Kind::Accept => Target::Accept,
            Kind::Twin { .. } | Kind::Peer { .. } => Target::Queues(subject.queues),
        };
        let name = steering::name(cell.workload, cell.route);
        if self.host {
            return HostSteering::load(self.root, name).map(Some);
        }
        steering::load(ground.filter(), self.root, name, target, self.flows(cell))?;
        Ok(None)
    }

    /// Starts the subject's firewall. Returns None if no program filters the packets.
    pub fn start(
        &self,
        ground: &Ground,
        subject: &Subject,
        cell: &Cell,
    ) -> Result<Option<Program>> {
        let Some(words) = self.words(subject, cell)? else {
            return Ok(None);
        };
        let ready = match subject.is_ours() || !subject.has_queue() {
            true => Ready::Says,
            false => Ready::HasQueue,
        };
        Program::start(ground.filter(), &words, ready, subject.queues).map(Some)
    }

    /// Returns the command line of the subject's firewall. None if no program filters the packets.
    pub fn words(&self, subject: &Subject, cell: &Cell) -> Result<Option<Vec<String>>> {
        let policy = subject.policy(cell.policy);
        let policy = policy.map(|policy| self.policies.path(policy));
        let Some(mut words) = subject.command_line(self.bin_dir, policy.as_deref()) else {
            return Ok(None);
        };
        if let Kind::Stage { .. } = subject.kind {
            words.extend(self.staged.options(staged_policy(cell)?)?);
        }
        Ok(Some(words))
    }

    /// Runs one load per flow at the same time, and adds up their outcomes.
    pub(crate) fn run_load(
        &self,
        ground: &Ground,
        cell: &Cell,
        runner: RunnerName,
        seconds: u32,
    ) -> Result<Outcome> {
        let run = |flow: u16| -> Result<Outcome> {
            let runner = (self.make_runner)(runner)?;
            runner.run(&ground.place(), &self.load(cell, flow, seconds))
        };
        let flows = self.flows(cell);
        if flows == 1 {
            return run(0);
        }
        let outcomes: Result<Vec<Outcome>> = thread::scope(|scope| {
            let run = &run;
            let flows: Vec<_> = (0..flows)
                .map(|flow| scope.spawn(move || run(flow)))
                .collect();
            let joined = flows.into_iter().map(|flow| flow.join());
            joined
                .map(|flow| flow.map_err(|_| anyhow!("a flow panicked"))?)
                .collect()
        });
        Ok(add_up(outcomes?))
    }
}

/// Returns the policy of a load with staged subjects. An [`Experiment`](crate::experiment::Experiment) checks that it
/// exists.
fn staged_policy(cell: &Cell) -> Result<SyntheticPolicy> {
    cell.policy.context("a load without a policy")
}

/// Returns the number of packets that the kernel handed to the firewall between two readings: the kernel's own count,
/// comparable for every program. Fails if there were none.
pub(crate) fn packets_between(before: Reading, after: Reading) -> Result<f64> {
    let packets = after.queues.handed.saturating_sub(before.queues.handed);
    if packets == 0 {
        bail!("no packet reached the firewall: does the rule name its queue?");
    }
    Ok(packets as f64)
}

fn program_metrics(before: Reading, after: Reading, memory_mib: f64) -> Result<[Metric; 4]> {
    let packets = packets_between(before, after)?;
    let cpu_us = 1e6 * (after.cpu_seconds - before.cpu_seconds);
    let drops = after.queues.dropped.saturating_sub(before.queues.dropped);
    Ok([
        Metric {
            name: "packets",
            unit: "packets",
            value: packets,
        },
        Metric {
            name: "cpu_per_packet",
            unit: "us",
            value: cpu_us / packets,
        },
        Metric {
            name: "rss",
            unit: "MiB",
            value: memory_mib,
        },
        Metric {
            name: "queue_drops",
            unit: "packets",
            value: drops as f64,
        },
    ])
}

/// Returns the problems of a run of our programs: killed after SIGTERM, no ledger, or a ledger that does not reconcile.
pub fn incidents(subject: &Subject, ended: &Ended) -> Vec<String> {
    let mut incidents = Vec::new();
    if !subject.is_ours() {
        return incidents;
    }
    if !ended.in_time {
        incidents.push("it did not heed SIGTERM and was killed".to_string());
    }
    match ended.ledger() {
        None => incidents.push("it printed no ledger at its end".to_string()),
        Some(ledger) if ledger["reconciled"] != true => {
            let difference = &ledger["total"]["difference"];
            incidents.push(format!(
                "its ledger does not reconcile: difference {difference}"
            ));
        }
        Some(_) => {}
    }
    incidents
}

#[cfg(test)]
mod tests {
    use super::*;
    use testbed::queue::QueueTotal;

    #[test]
    fn the_cost_of_a_packet_is_that_of_the_run_alone() {
        let reading = |cpu_seconds, handed, dropped| Reading {
            cpu_seconds,
            queues: QueueTotal {
                handed,
                dropped,
                waiting: 0,
            },
        };
        let metrics =
            program_metrics(reading(1.0, 100, 1), reading(1.5, 250_100, 4), 12.0).unwrap();
        let values = metrics.map(|metric| metric.value);
        assert_eq!(values, [250_000.0, 2.0, 12.0, 3.0]);
        assert!(program_metrics(reading(1.0, 5, 0), reading(2.0, 5, 0), 1.0).is_err());
    }

    #[test]
    fn an_open_ledger_is_an_incident() {
        let ended = |stdout: &str| Ended {
            stdout: stdout.into(),
            stderr: String::new(),
            in_time: true,
        };
        let twin: Subject = "rust-raw-fast".parse().unwrap();
        let open = r#"{"event":"stats","total":{"difference":5},"reconciled":false}"#;
        assert_eq!(
            incidents(&twin, &ended(open)),
            ["its ledger does not reconcile: difference 5"]
        );
        assert_eq!(incidents(&twin, &ended("")).len(), 1);
        assert!(incidents(&twin, &ended(&open.replace("false", "true"))).is_empty());
        assert!(incidents(&Subject::peer("x", "y", false).unwrap(), &ended("")).is_empty());
    }
}
