// SPDX-License-Identifier: GPL-2.0-or-later
//! The project's own port scanner as a client: it opens connections to a whole network, each to a different address.

use std::fs;
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{bail, Context};
use serde::Deserialize;

use super::child::{Child, Ended};
use super::{Load, Metric, Outcome, Place, Runner, Workload};
use crate::load::{serve_arguments, ProbeServer, GRACE, READY};

pub const PROGRAM: &str = "scanner";
const CURE: &str = "build it with make build, or name its folder with --bin-dir";
const STAY: &str = "this program must stay where it is while it runs";
/// Time limit for a server to listen.
const START_TIMEOUT: Duration = Duration::from_secs(5);
/// Exit code of a scan that SIGINT has ended.
const EXIT_INTERRUPTED: i32 = 4;

/// Targets over loopback: all but the network's own address and its broadcast address.
const LOOPBACK: [&str; 3] = ["127.0.0.0/8", "--exclude", "127.0.0.0,127.255.255.255"];
/// Targets for a server that is not on loopback. The client routes this network to the server's namespace, where all
/// its addresses are local.
const BEHIND: &str = "10.128.0.0/9";

/// Raised limits of a namespace: (file below /proc/sys, value). Their defaults would dominate the measurement: the
/// server's backlog, and the client's ports.
const LIMITS: [(&str, &str); 3] = [
    ("net/core/somaxconn", "65535"),
    ("net/ipv4/tcp_max_syn_backlog", "65535"),
    ("net/ipv4/ip_local_port_range", "1024 65535"),
];

pub struct Scanner {
    program: PathBuf,
    version: String,
    /// Executable file of the harness; its command `load serve` is the scanner's server.
    harness: PathBuf,
}

impl Scanner {
    /// Finds the scanner in a folder, and reads its version. Fails if the scanner is missing.
    /// - harness: executable file of the harness, whose command `load serve` is the scanner's server.
    pub fn find(folder: &Path, harness: PathBuf) -> anyhow::Result<Scanner> {
        let program = folder.join(PROGRAM);
        if !program.is_file() {
            bail!("there is no program {}: {CURE}", program.display());
        }
        let mut command = std::process::Command::new(&program);
        command.arg("--version");
        let ended = Child::spawn(command, CURE)?.wait(Instant::now() + GRACE)?;
        let version = ended.check("scanner --version")?.stdout.trim().into();
        Ok(Scanner {
            program,
            version,
            harness,
        })
    }
}

impl Scanner {
    /// Starts the server and returns when it listens.
    fn serve(&self, place: &Place, load: &Load) -> anyhow::Result<Child> {
        let mut command = place.server.command(&self.harness);
        command.args(serve_arguments(load));
        let mut server = Child::spawn(command, STAY)?;
        server.wait_for_line(START_TIMEOUT, |line| line == READY)?;
        Ok(server)
    }
}

/// Notifies the server that the scanner has ended. Returns the server's report, parsed from its last line, and its
/// output.
fn end(mut server: Child, deadline: Instant) -> anyhow::Result<(ProbeServer, String)> {
    server.tell("ended")?;
    let stdout = server.wait(deadline)?.check("load server")?.stdout;
    let line = stdout
        .lines()
        .last()
        .context("the server printed no report")?;
    let report =
        serde_json::from_str(line).with_context(|| format!("the report of the server: {line}"))?;
    Ok((report, stdout))
}

fn arguments(load: &Load) -> Vec<String> {
    let targets = match load.address.is_loopback() {
        true => &LOOPBACK[..],
        false => &[BEHIND],
    };
    let port = load.port.to_string();
    // Without retries a lost packet is a lost connection.
    let words = ["--ports", &port, "--retries", "0"];
    // Only targets with an error are printed individually; the summary counts all.
    let output = ["--output", "json", "--show", "error", "--quiet"];
    let all = targets.iter().copied().chain(words).chain(output);
    all.map(str::to_string).collect()
}

impl Runner for Scanner {
    fn name(&self) -> &'static str {
        "scanner"
    }

    fn version(&self) -> String {
        self.version.clone()
    }

    fn supports(&self, workload: Workload) -> bool {
        workload == Workload::TcpProbe
    }

    fn command_lines(&self, load: &Load) -> Vec<String> {
        let arguments_of_server = serve_arguments(load).join(" ");
        let server = format!("{} {arguments_of_server}", self.harness.display());
        let client = arguments(load).join(" ");
        vec![server, format!("{} {client}", self.program.display())]
    }

    /// Runs a scan in namespaces that no other load may use: raises their limits, and routes the scanned network from
    /// the client to the server unless the load is over loopback.
    fn run(&self, place: &Place, load: &Load) -> anyhow::Result<Outcome> {
        if !self.supports(load.workload) {
            bail!("scanner makes tcp-probe only: choose another runner");
        }
        let IpAddr::V4(way) = load.address else {
            bail!("tcp-probe asks IPv4 addresses only");
        };
        raise_limits(place)?;
        if !way.is_loopback() {
            lead(place, way)?;
        }
        let server = self.serve(place, load)?;
        let mut command = place.client.command(&self.program);
        command.args(arguments(load));
        let mut client = Child::spawn(command, CURE)?;
        let deadline = Instant::now() + load.duration + GRACE;
        // The scanner's standard error ends with the program: no timer has to run during the measurement.
        client.listen_to_stderr(load.duration, |_| false);
        client.interrupt()?;
        let client = finished(client.wait(deadline)?)?;
        let summary = parse(&client.stdout)?;
        let (report, server) = end(server, deadline)?;
        let accepted = report.accepted;
        let mut raw = vec![
            ("server.json".into(), server),
            ("client.json".into(), client.stdout),
        ];
        if !client.stderr.is_empty() {
            raw.push(("client.txt".into(), client.stderr));
        }
        Ok(Outcome {
            metrics: summary.metrics(load.duration).to_vec(),
            raw,
            incidents: summary.incidents(accepted),
            ..Outcome::default()
        })
    }
}

fn raise_limits(place: &Place) -> anyhow::Result<()> {
    for namespace in [place.client, place.server] {
        namespace.enter(|| {
            LIMITS.iter().try_for_each(|(name, value)| {
                fs::write(format!("/proc/sys/{name}"), value).context(*name)
            })
        })?;
    }
    Ok(())
}

/// Routes the network BEHIND from the client to the server's address `way`, and makes its addresses local to the
/// server.
fn lead(place: &Place, way: Ipv4Addr) -> anyhow::Result<()> {
    let ip = ["-batch", "-"];
    let route = format!("route replace {BEHIND} via {way}\n");
    place.client.feed("ip", &ip, &route)?;
    let local = format!("route replace local {BEHIND} dev lo\n");
    place.server.feed("ip", &ip, &local)
}

/// Fails unless the scan was completed, or SIGINT ended it.
fn finished(ended: Ended) -> anyhow::Result<Ended> {
    match ended.status.code() {
        Some(EXIT_INTERRUPTED) => Ok(ended),
        _ => ended.check(PROGRAM),
    }
}

/// Last line of the scanner's output.
#[derive(Deserialize)]
struct Line {
    summary: Summary,
}

/// Parsed fields of the scanner's summary. Targets in progress at the end are not included.
#[derive(Deserialize)]
struct Summary {
    done: u64,
    seconds: f64,
    states: States,
    shortages: u64,
    system_calls_per_target: f64,
    cpu_us_per_target: f64,
}

#[derive(Deserialize)]
struct States {
    open: u64,
    closed: u64,
    filtered: u64,
    error: u64,
}

fn parse(stdout: &str) -> anyhow::Result<Summary> {
    let last = stdout.lines().last().context("scanner: no summary")?;
    let line: Line = serde_json::from_str(last).context("scanner: its summary")?;
    let summary = line.summary;
    if summary.done == 0 || summary.seconds <= 0.0 {
        bail!("scanner: no target was asked to the end");
    }
    Ok(summary)
}

impl Summary {
    /// Returns the metrics of a scan.
    /// - at_most: time until SIGINT. After SIGINT the scanner counts no more, but needs time to discard the connections
    ///   in flight.
    fn metrics(&self, at_most: Duration) -> [Metric; 7] {
        let seconds = self.seconds.min(at_most.as_secs_f64());
        let metric = |name, unit, value| Metric { name, unit, value };
        let count = |name, count: u64| metric(name, "targets", count as f64);
        [
            metric("connections", "1/s", self.states.open as f64 / seconds),
            count("open", self.states.open),
            count("closed", self.states.closed),
            count("filtered", self.states.filtered),
            count("error", self.states.error),
            metric("calls_per_target", "calls", self.system_calls_per_target),
            metric("cpu_per_target", "us", self.cpu_us_per_target),
        ]
    }

    /// Returns deviations in words: targets that are not open, open connections that the server has not accepted, and
    /// the scanner's lack of ports or memory.
    fn incidents(&self, accepted: u64) -> Vec<String> {
        let States {
            open,
            closed,
            filtered,
            error,
        } = self.states;
        let others = [("closed", closed), ("filtered", filtered), ("error", error)];
        let mut incidents: Vec<String> = others
            .iter()
            .filter(|(_, count)| *count > 0)
            .map(|(state, count)| format!("{count} of {} targets were {state}", self.done))
            .collect();
        if accepted < open {
            incidents.push(format!(
                "{open} connections were open, {accepted} were accepted"
            ));
        }
        if self.shortages > 0 {
            let times = self.shortages;
            incidents.push(format!("the scanner lacked ports or memory {times} times"));
        }
        incidents
    }
}

#[cfg(test)]
mod tests;
