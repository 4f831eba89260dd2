// SPDX-License-Identifier: GPL-2.0-or-later
//! A runner makes the traffic that a subject is measured under and says what arrived.
//!
//! All runners stand behind one trait, so that an experiment names a workload and not a tool.

mod child;
pub mod ethr;
pub mod iperf3;
pub mod scanner;

use std::net::IpAddr;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use testbed::netns::Namespace;

/// What traffic is made. The names are those of the experiment files and of every CSV.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Workload {
    /// One TCP connection that sends as fast as it can.
    TcpStream,
    /// One request and one response at a time over one TCP connection.
    TcpLatency,
    /// TCP connections opened and closed one after the other.
    TcpConnect,
    /// TCP connections opened to a whole network, as many at the same time as it bears.
    TcpProbe,
    /// TLS connections made and closed one after the other.
    TlsConnect,
    /// One TCP connection that begins with a ClientHello and then sends as fast as it can.
    HelloStream,
    /// Queries of DNS and their answers.
    DnsQuery,
    /// UDP datagrams sent as fast as the sender can (sendmmsg), counted at the receiver.
    UdpFlood,
    /// Exchanges over generic netlink: nlctrl is asked for a family; by a new socket each time.
    Family,
    FamilyConnect,
    /// Bytes to the lab's module and back; by a new socket each time.
    Echo,
    EchoConnect,
    /// A dump, read to its end. The size is the number of parts.
    Dump,
    /// Dumps that are not: an echo while a reader of one reads no further; one whose reader leaves; one that is interrupted.
    DumpSlow,
    DumpGone,
    DumpInterrupted,
    /// A request that lacks its attribute, and the extended ACK that says so.
    Refuse,
    /// Exchanges between two processes: bytes there, 8 bytes back.
    Call,
    /// A packet there, a verdict back; 64 packets there, 64 verdicts back.
    Verdict,
    Verdicts,
    /// What a published experiment asks a server: three calls, six, and a call that a clock's tick answers, of which
    /// only the way back counts.
    Ping,
    Calculator,
    Timer,
    /// A packet of the size through a ring of the kernel's, to a reader that hashes every byte.
    Packet,
    /// Frames of 700 bytes up to the size, as fast as the sender goes, to a ring of capture.
    Frames,
    /// Frames of 700 to 1500 bytes at a pace; the size is the factor of the delays behind each tenth.
    FramesDelayed,
    /// Frames as of `Frames`, up to 1500 bytes; the size is that of the ring, in MiB.
    FramesRing,
    /// Frames up to the size, at a pace, while another program on the reader's CPU touches memory at random.
    FramesNeighbour,
    /// Frames as of `Frames`, which are written to a file; frames of the size, at a pace, which are.
    FramesFile,
    FramesFilePaced,
}

impl Workload {
    /// Whether rings and recorders read it.
    pub fn is_frames(self) -> bool {
        use Workload::{Frames, FramesDelayed, FramesNeighbour, FramesRing};
        let frames = [Frames, FramesDelayed, FramesRing, FramesNeighbour];
        frames.contains(&self) || self.is_recorded()
    }

    /// Whether recorders write it to a file.
    pub fn is_recorded(self) -> bool {
        matches!(self, Workload::FramesFile | Workload::FramesFilePaced)
    }

    /// Whether its clients show names: both ways of its packets are filtered.
    pub fn shows_names(self) -> bool {
        use Workload::{DnsQuery, HelloStream, TlsConnect};
        matches!(self, TlsConnect | HelloStream | DnsQuery)
    }

    /// Where its server listens.
    pub fn port(self) -> u16 {
        match self {
            Workload::DnsQuery => 53,
            _ => 9999,
        }
    }

    /// Whether a runner makes it, and a subject filters it.
    pub fn is_traffic(self) -> bool {
        !self.is_exchange() && !self.is_frames()
    }

    /// Whether it is an exchange of messages, which a subject makes itself, and not traffic that a subject filters.
    pub fn is_exchange(self) -> bool {
        use Workload::{
            Calculator, Call, Dump, DumpGone, DumpInterrupted, DumpSlow, Echo, EchoConnect, Family,
            FamilyConnect, Packet, Ping, Refuse, Timer, Verdict, Verdicts,
        };
        let exchanges = [
            Family,
            FamilyConnect,
            Echo,
            EchoConnect,
            Dump,
            DumpSlow,
            DumpGone,
            DumpInterrupted,
            Refuse,
            Call,
            Verdict,
            Verdicts,
            Ping,
            Calculator,
            Timer,
            Packet,
        ];
        exchanges.contains(&self)
    }
}

/// One load: a workload with its size, aimed at a server address.
#[derive(Clone, Debug)]
pub struct Load {
    pub workload: Workload,
    pub duration: Duration,
    /// Where the server listens; in `Place::server`'s namespace. Of tcp-probe it is the way to the
    /// network whose addresses are asked.
    pub address: IpAddr,
    pub port: u16,
    /// Bytes of a datagram's payload, of a request and of its response, or of one stream write.
    pub payload_bytes: usize,
}

/// Where the two ends run. Over loopback both are the same namespace.
pub struct Place<'a> {
    pub server: &'a Namespace,
    pub client: &'a Namespace,
}

/// One measured quantity, e.g. `throughput` in `Gbit/s`.
#[derive(Clone, Debug, PartialEq)]
pub struct Metric {
    pub name: &'static str,
    pub unit: &'static str,
    pub value: f64,
}

/// What one run of a load gave, measured at the receiver.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    pub metrics: Vec<Metric>,
    /// (seconds since the start of the load, value in the unit of the workload's main metric).
    pub series: Vec<(f64, f64)>,
    /// (percentile 0..100, microseconds), for latency workloads.
    pub percentiles: Vec<(f64, f64)>,
    /// Raw output to keep beside the results: (file name, contents).
    pub raw: Vec<(String, String)>,
    /// What was not as it should be, in words.
    pub incidents: Vec<String>,
}

/// A source of traffic that can't be sliced: `ethr`, `iperf3` or `scanner`.
pub trait Runner {
    fn name(&self) -> &'static str;
    /// The tool's own version text, for metadata.json.
    fn version(&self) -> String;
    fn supports(&self, workload: Workload) -> bool;
    /// The full command lines that `run` would start, for metadata.json.
    fn command_lines(&self, load: &Load) -> Vec<String>;
    /// Runs one load to its end. It ends by itself within the load's duration plus ten seconds.
    fn run(&self, place: &Place, load: &Load) -> anyhow::Result<Outcome>;
}
