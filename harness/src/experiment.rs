// SPDX-License-Identifier: GPL-2.0-or-later
//! Experiments as files: what is asked, of whom, under which load. Nothing about how is decided
//! here.
//!
//! Every refusal names the file, the place in it and what was expected there.

mod read;
mod slices;

pub use slices::{Order, Slices, WARM_UP_ROUNDS};
#[cfg(test)]
mod tests;

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{anyhow, bail, Context};
use serde::de::{Error as _, Unexpected};
use serde::{Deserialize, Deserializer, Serialize};

use crate::runner::Workload;
use crate::subject::Subject;
use crate::synthetic::{SyntheticKind, SyntheticPolicy};

/// The largest payload of a UDP datagram over IPv4: 65535 - 20 - 8 bytes.
pub const LARGEST_DATAGRAM_BYTES: usize = 65507;

/// Which way the packets go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Route {
    /// 127.0.0.1 in one namespace; packets of up to 64 KiB.
    Loopback,
    /// Two namespaces joined by a veth pair, MTU 1500.
    Veth,
    /// Exchanges run on this machine, as it is.
    Host,
    /// Exchanges run in a virtual machine that counts instructions.
    Vm,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum RunnerName {
    Builtin,
    Ethr,
    Iperf3,
    Scanner,
    /// The subject itself, which makes its exchanges. It can't be asked for by name.
    #[serde(skip_deserializing)]
    #[value(skip)]
    Exchange,
    /// capture, which reads what we send. Nobody asks for it by name.
    #[serde(skip_deserializing)]
    #[value(skip)]
    Bench,
}

impl fmt::Display for RunnerName {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(match self {
            RunnerName::Builtin => "builtin",
            RunnerName::Ethr => "ethr",
            RunnerName::Iperf3 => "iperf3",
            RunnerName::Scanner => "scanner",
            RunnerName::Exchange => "exchange",
            RunnerName::Bench => "bench",
        })
    }
}

/// A workload over some routes in some sizes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorkloadPlan {
    pub name: Workload,
    /// The runners that may make it, the preferred one first.
    #[serde(default = "builtin_only", deserialize_with = "not_empty")]
    pub runner: Vec<RunnerName>,
    #[serde(default = "loopback_only", deserialize_with = "not_empty")]
    pub path: Vec<Route>,
    #[serde(deserialize_with = "not_empty")]
    pub payload_bytes: Vec<usize>,
    /// In so many rounds only, the first ones: for exchanges that take long. All rounds if left out.
    #[serde(
        default,
        deserialize_with = "read::some_in_range::<_, 1, 1000>",
        skip_serializing_if = "Option::is_none"
    )]
    pub rounds: Option<u32>,
    /// What the subjects filter by; without it they accept every packet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<PolicyPlan>,
}

/// A kind of policy in some sizes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PolicyPlan {
    pub kind: SyntheticKind,
    #[serde(deserialize_with = "not_empty")]
    pub sizes: Vec<u32>,
}

impl WorkloadPlan {
    /// One for each load: None stands for no policy.
    pub fn policies(&self) -> Vec<Option<SyntheticPolicy>> {
        match &self.policy {
            None => vec![None],
            Some(PolicyPlan { kind, sizes }) => {
                let policy = |&size: &u32| Some(SyntheticPolicy { kind: *kind, size });
                sizes.iter().map(policy).collect()
            }
        }
    }
}

/// Two subjects whose ratio a / b is asked for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pair {
    pub a: String,
    pub b: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FigureKind {
    /// Value over the seconds of a load, a line a subject (series.csv): the form of the published figure.
    Series,
    /// The same, an area a subject.
    Panels,
    /// Every round as a dot, with median and interval (samples.csv, summary.csv).
    Dots,
    /// Latency over the percentile, a line a subject (percentiles.csv).
    Percentile,
    /// Value over the size of the policy, a line a subject (summary.csv).
    Growth,
    /// What is lost over the size of a load, a line a subject, and dashed what is foretold (summary.csv).
    Loss,
}

/// One figure: NAME.svg in the result folder.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Figure {
    pub name: String,
    pub kind: FigureKind,
    pub title: String,
    pub workload: Workload,
    #[serde(default = "loopback")]
    pub path: Route,
    /// For growth, and only for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<SyntheticKind>,
    /// For dots and growth; the workload's main metric if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metric: Option<String>,
    /// All sizes of the workload if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload_bytes: Option<usize>,
}

/// A value from elsewhere, drawn as a dashed line into the figures of its workload and metric.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reference {
    pub label: String,
    pub workload: Workload,
    pub metric: String,
    /// In the unit of the metric.
    pub value: f64,
}

/// A claim: a metric at one size of a policy is at most so many times that at another.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    pub subject: String,
    pub policy: SyntheticKind,
    pub metric: String,
    pub from: u32,
    pub to: u32,
    pub at_most: f64,
}

/// What is measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ExperimentKind {
    /// Subjects filter traffic that runners make.
    #[default]
    Traffic,
    /// Subjects exchange messages.
    Exchange,
    /// Subjects are rings of capture, or programs that record packets to a file.
    Capture,
    /// Subjects are scanners. No file describes it: harness/benches/scanner is the experiment.
    Scan,
}

#[derive(Clone, Debug, Serialize)]
pub struct Experiment {
    /// The file's name without its ending.
    pub name: String,
    pub title: String,
    /// The question that it answers.
    pub question: String,
    pub kind: ExperimentKind,
    /// The rounds of loads that are not in slices; 0, as the seconds are, if all loads are in slices.
    pub rounds: u32,
    pub warmup_seconds: u32,
    pub seconds: u32,
    /// How loads of the embedded generator are cut.
    pub slices: Slices,
    pub baseline: String,
    /// Expanded: each twin once for each number of queues.
    pub subjects: Vec<Subject>,
    /// Flows of a load, to one address each: as many as the largest number of queues. A tcp-probe, which asks many
    /// addresses, runs alone.
    pub flows: u16,
    pub workloads: Vec<WorkloadPlan>,
    pub compare: Vec<Pair>,
    pub claims: Vec<Claim>,
    pub figures: Vec<Figure>,
    pub references: Vec<Reference>,
    /// Whether each firewall gets one more run under strace, which counts its system calls.
    pub count_syscalls: bool,
}

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(match self {
            Workload::TcpStream => "tcp-stream",
            Workload::TcpLatency => "tcp-latency",
            Workload::TcpConnect => "tcp-connect",
            Workload::TcpProbe => "tcp-probe",
            Workload::TlsConnect => "tls-connect",
            Workload::HelloStream => "hello-stream",
            Workload::DnsQuery => "dns-query",
            Workload::UdpFlood => "udp-flood",
            Workload::Family => "family",
            Workload::FamilyConnect => "family-connect",
            Workload::Echo => "echo",
            Workload::EchoConnect => "echo-connect",
            Workload::Dump => "dump",
            Workload::DumpSlow => "dump-slow",
            Workload::DumpGone => "dump-gone",
            Workload::DumpInterrupted => "dump-interrupted",
            Workload::Refuse => "refuse",
            Workload::Call => "call",
            Workload::Verdict => "verdict",
            Workload::Verdicts => "verdicts",
            Workload::Ping => "ping",
            Workload::Calculator => "calculator",
            Workload::Timer => "timer",
            Workload::Packet => "packet",
            Workload::Frames => "frames",
            Workload::FramesDelayed => "frames-delayed",
            Workload::FramesRing => "frames-ring",
            Workload::FramesNeighbour => "frames-neighbour",
            Workload::FramesFile => "frames-file",
            Workload::FramesFilePaced => "frames-file-paced",
        })
    }
}

impl fmt::Display for Route {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(match self {
            Route::Loopback => "loopback",
            Route::Veth => "veth",
            Route::Host => "host",
            Route::Vm => "vm",
        })
    }
}

impl WorkloadPlan {
    /// Whether no other generator than the embedded one, which makes slices, may make it.
    pub fn only_sliced(&self) -> bool {
        self.runner == [RunnerName::Builtin] && self.name.is_traffic()
    }
}

impl Experiment {
    /// Adds a program from the command line, `NAME=COMMAND LINE`.
    pub fn add_peer(&mut self, text: &str) -> anyhow::Result<()> {
        let Some((name, command)) = text.split_once('=') else {
            bail!("--subject {text:?}: expected 'NAME=COMMAND LINE'");
        };
        let peer =
            Subject::peer(name.trim(), command, false).map_err(|e| anyhow!("--subject: {e}"))?;
        if self
            .subjects
            .iter()
            .any(|subject| subject.name() == peer.name())
        {
            bail!("--subject {name}: there is a subject of that name: choose another");
        }
        self.subjects.push(peer);
        Ok(())
    }
}

/// A whole number in a range.
pub(crate) fn in_range<'de, D: Deserializer<'de>, const LOW: u32, const HIGH: u32>(
    from: D,
) -> Result<u32, D::Error> {
    let value = i64::deserialize(from)?;
    u32::try_from(value)
        .ok()
        .filter(|n| (LOW..=HIGH).contains(n))
        .ok_or_else(|| {
            let expected = format!("a whole number from {LOW} to {HIGH}");
            D::Error::invalid_value(Unexpected::Signed(value), &expected.as_str())
        })
}

fn builtin_only() -> Vec<RunnerName> {
    vec![RunnerName::Builtin]
}

fn loopback() -> Route {
    Route::Loopback
}

fn loopback_only() -> Vec<Route> {
    vec![Route::Loopback]
}

fn not_empty<'de, D: Deserializer<'de>, T: Deserialize<'de>>(from: D) -> Result<Vec<T>, D::Error> {
    let values = Vec::deserialize(from)?;
    if values.is_empty() {
        return Err(D::Error::invalid_length(0, &"at least one value"));
    }
    Ok(values)
}

/// The files of a folder of experiments, in the order of their names.
pub fn files(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).with_context(|| folder.display().to_string())?;
    let mut files: Vec<PathBuf> = entries.filter_map(|e| e.ok().map(|e| e.path())).collect();
    files.retain(|file| file.extension().is_some_and(|ending| ending == "toml"));
    files.sort();
    Ok(files)
}
