// SPDX-License-Identifier: GPL-2.0-or-later
//! Experiment files: question, subjects, loads, durations, comparisons and figures.
//!
//! An error in a file's text names the file, a position and the cause. The position is 1:1 if no single part is wrong.

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

/// Most seconds that a shipped experiment may be planned for, unless its file has a reason (`long`).
pub const MOST_SECONDS: u64 = 300;
/// The largest payload of a UDP datagram over IPv4: 65535 - 20 - 8 bytes.
pub const LARGEST_DATAGRAM_BYTES: usize = 65507;

/// Route of a load: the path of its packets, or the machine on which its exchanges run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Route {
    /// Loopback interface of one namespace: 127.0.0.1, and 127.0.0.2 and so on for further flows; packets of up to 64
    /// KiB.
    Loopback,
    /// Two namespaces joined by a veth pair, MTU 1500.
    Veth,
    /// Two namespaces, and one between them that routes and filters; veth pairs, MTU 1500.
    Forwarded,
    /// Exchanges run directly on this machine.
    Host,
    /// Exchanges run in a virtual machine that counts instructions.
    Vm,
}

/// Generator of a load's traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum RunnerName {
    Builtin,
    Ethr,
    Iperf3,
    Scanner,
    /// The subject itself, which makes its own exchanges. It can't be selected by name.
    #[serde(skip_deserializing)]
    #[value(skip)]
    Exchange,
    /// The capture benchmark, which reads generated frames. It can't be selected by name.
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

/// A workload with its routes and payload sizes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorkloadPlan {
    pub name: Workload,
    /// Runners for the workload, in order of preference.
    #[serde(default = "builtin_only", deserialize_with = "not_empty")]
    pub runner: Vec<RunnerName>,
    #[serde(default = "loopback_only", deserialize_with = "not_empty")]
    pub path: Vec<Route>,
    #[serde(deserialize_with = "not_empty")]
    pub payload_bytes: Vec<usize>,
    /// Number of rounds of this load, for long exchanges: only the experiment's first rounds measure it. None means all
    /// rounds.
    #[serde(
        default,
        deserialize_with = "read::some_in_range::<_, 1, 1000>",
        skip_serializing_if = "Option::is_none"
    )]
    pub rounds: Option<u32>,
    /// Policy of the subjects, except variants with their own policy. None: these subjects accept every packet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<PolicyPlan>,
}

/// A kind of policy with its sizes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PolicyPlan {
    pub kind: SyntheticKind,
    #[serde(deserialize_with = "not_empty")]
    pub sizes: Vec<u32>,
}

impl WorkloadPlan {
    /// Returns the policies of a workload's loads: one for each size, or a single None without a policy.
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

/// Two subjects to compare by the ratio a / b.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pair {
    pub a: String,
    pub b: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FigureKind {
    /// Value over the seconds of a load, one line per subject (series.csv.gz).
    Series,
    /// Value over the seconds of a load, one area per subject (series.csv.gz).
    Panels,
    /// Every round as a dot, with median and interval (samples.csv.gz, summary.csv). With several sizes or numbers of
    /// queues: lines of the medians over them, with intervals.
    Dots,
    /// Latency over the percentile, one line per subject (percentiles.csv.gz).
    Percentile,
    /// Value over the size of the policy, one line per subject (summary.csv).
    Growth,
    /// Measured loss over the factor of the reader's delays or the size of the ring, one line per subject; the
    /// predicted loss is dashed (summary.csv).
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
    /// Kind of policy of the loads that the figure shows; None: loads without a policy. A growth figure shows values
    /// over the policy's sizes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<SyntheticKind>,
    /// Metric of dots, growth and loss; None means the workload's main metric.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metric: Option<String>,
    /// Payload size; None means all sizes of the workload.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload_bytes: Option<usize>,
}

/// A reference value from another source, drawn as a dashed line in the dots, series and panels of its workload and
/// metric.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reference {
    pub label: String,
    pub workload: Workload,
    pub metric: String,
    /// Value in the unit of the metric.
    pub value: f64,
}

/// Claim that a metric at the policy size `to` is at most `at_most` times the metric at the size `from`.
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

/// Kind of experiment, by its subjects: filters of traffic, exchanges of messages, packet rings and recorders, or
/// scanners.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ExperimentKind {
    /// Subjects filter traffic that runners make.
    #[default]
    Traffic,
    /// Subjects exchange messages.
    Exchange,
    /// Subjects are packet rings of capture, or programs that record packets to a file.
    Capture,
    /// Subjects are scanners. No file describes this kind; harness/benches/scanner implements it.
    Scan,
}

#[derive(Clone, Debug, Serialize)]
pub struct Experiment {
    /// File name without its extension.
    pub name: String,
    pub title: String,
    /// Question that the experiment answers.
    pub question: String,
    /// Reason why the experiment takes longer than [`MOST_SECONDS`].
    pub long: Option<String>,
    pub kind: ExperimentKind,
    /// Number of rounds of loads without slices. Rounds and seconds are 0 if the file has only loads in slices and the
    /// command line does not set them.
    pub rounds: u32,
    pub warmup_seconds: u32,
    pub seconds: u32,
    /// Settings for the time slices into which loads of the embedded generator are divided.
    pub slices: Slices,
    pub baseline: String,
    /// Subjects after expansion: each twin once per number of queues.
    pub subjects: Vec<Subject>,
    /// Number of flows of a load, each to a separate address: the largest number of queues. A tcp-probe has a single
    /// flow, because it connects to many addresses itself.
    pub flows: u16,
    pub workloads: Vec<WorkloadPlan>,
    pub compare: Vec<Pair>,
    pub claims: Vec<Claim>,
    pub figures: Vec<Figure>,
    pub references: Vec<Reference>,
    /// True if each firewall, or program of exchanges, gets one more run under strace for each load outside the virtual
    /// machine, to count its system calls.
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
            Workload::TlsStream => "tls-stream",
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
            Workload::Start => "start",
            Workload::Request => "request",
            Workload::Download => "download",
            Workload::Upload => "upload",
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
            Route::Forwarded => "forwarded",
            Route::Host => "host",
            Route::Vm => "vm",
        })
    }
}

impl WorkloadPlan {
    /// Returns true if the embedded generator, which makes slices, is the workload's only runner.
    pub fn only_sliced(&self) -> bool {
        self.runner == [RunnerName::Builtin] && self.name.is_traffic()
    }
}

impl Experiment {
    /// Adds a program as a subject.
    /// - text: value of the option --subject, `NAME=COMMAND LINE`.
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

/// Deserializes a whole number and checks its range.
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

/// Returns the experiment files of a folder, sorted by name.
pub fn files(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).with_context(|| folder.display().to_string())?;
    let mut files: Vec<PathBuf> = entries.filter_map(|e| e.ok().map(|e| e.path())).collect();
    files.retain(|file| file.extension().is_some_and(|ending| ending == "toml"));
    files.sort();
    Ok(files)
}
