// SPDX-License-Identifier: GPL-2.0-or-later
//! A runner makes the traffic under which a subject is measured, and reports what arrived.
//!
//! All runners implement one trait, so that an experiment names a workload and not a tool.

mod child;
pub mod ethr;
pub mod iperf3;
pub mod scanner;

use std::net::IpAddr;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use testbed::netns::Namespace;

/// Kind of traffic, of exchanges or of commands. The names are those of the experiment files and of every CSV.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Workload {
    /// One TCP connection that sends as fast as it can.
    TcpStream,
    /// One request and one response at a time over one TCP connection.
    TcpLatency,
    /// TCP connections opened and closed one at a time.
    TcpConnect,
    /// TCP connections to a whole network, as many at a time as the scanner can handle.
    TcpProbe,
    /// TLS connections from several clients in parallel, each of which opens and closes one at a time.
    TlsConnect,
    /// One TCP connection that begins with a ClientHello and then sends as fast as it can.
    HelloStream,
    /// One TCP connection that begins with a TLS handshake and then sends as fast as it can.
    TlsStream,
    /// DNS queries and their responses.
    DnsQuery,
    /// UDP datagrams sent as fast as the sender can, counted at the receiver.
    UdpFlood,
    /// Exchanges over generic netlink: a request for a family to nlctrl. FamilyConnect opens a new socket each time.
    Family,
    FamilyConnect,
    /// Exchanges with a module of the kernel lab: bytes to the module and back. EchoConnect opens a new socket each
    /// time.
    Echo,
    EchoConnect,
    /// A netlink dump, read to its end. The size is the number of parts.
    Dump,
    /// Incomplete dumps: DumpSlow is an echo while a reader of a dump pauses, DumpGone has a reader that closes its
    /// socket after the first parts, and DumpInterrupted is a dump whose list changes before its end (NLM_F_DUMP_INTR).
    DumpSlow,
    DumpGone,
    DumpInterrupted,
    /// A request without a required attribute, and the extended ACK that reports this.
    Refuse,
    /// Exchanges between two processes: a message of the size in one direction, 8 bytes in the other.
    Call,
    /// Exchanges between two processes: a packet in one direction, a verdict in the other. In Verdicts, one request
    /// with 64 packets gets 64 verdicts.
    Verdict,
    Verdicts,
    /// Requests to another process, as in a published experiment: three calls (Ping), six calls (Calculator), or a call
    /// that is answered at a clock's tick (Timer), of which only the time from the tick to the answer counts.
    Ping,
    Calculator,
    Timer,
    /// A packet of the size through a kernel ring, to a reader that hashes every byte.
    Packet,
    /// A command's way to the network: Start is the start of a command up to its first instruction, Request an HTTPS
    /// request over a new connection, Download and Upload the transfer of the size in MiB from and to an HTTPS server.
    Start,
    Request,
    Download,
    Upload,
    /// Frames of random sizes, from 700 bytes to the size, sent at maximum speed to a ring of capture.
    Frames,
    /// Frames of 700 to 1500 bytes at a fixed rate. The reader is delayed after each tenth frame; the size is the
    /// factor of that delay.
    FramesDelayed,
    /// Frames like `Frames`, up to 1500 bytes; the size is that of the ring, in MiB.
    FramesRing,
    /// Frames of random sizes, from 700 bytes to the size, at a fixed rate, while another program on the reader's CPU
    /// accesses memory at random.
    FramesNeighbour,
    /// Frames like `Frames`, recorded to a file. FramesFilePaced has frames of exactly the size at a fixed rate.
    FramesFile,
    FramesFilePaced,
}

impl Workload {
    /// Returns true if the subjects are rings of capture, or recorders.
    pub fn is_frames(self) -> bool {
        use Workload::{Frames, FramesDelayed, FramesNeighbour, FramesRing};
        let frames = [Frames, FramesDelayed, FramesRing, FramesNeighbour];
        frames.contains(&self) || self.is_recorded()
    }

    /// Returns true if recorders write the frames to a file.
    pub fn is_recorded(self) -> bool {
        matches!(self, Workload::FramesFile | Workload::FramesFilePaced)
    }

    /// Returns true if the clients send names. Packets of both directions are then filtered.
    pub fn shows_names(self) -> bool {
        use Workload::{DnsQuery, HelloStream, TlsConnect, TlsStream};
        matches!(self, TlsConnect | HelloStream | TlsStream | DnsQuery)
    }

    /// Returns the port of the workload's server.
    pub fn port(self) -> u16 {
        match self {
            Workload::DnsQuery => 53,
            Workload::HelloStream | Workload::TlsConnect | Workload::TlsStream => 443,
            _ => 9999,
        }
    }

    /// Returns true if a runner makes the workload and a subject filters it.
    pub fn is_traffic(self) -> bool {
        !self.is_exchange() && !self.is_frames()
    }

    /// Returns true if the workload is an exchange of messages or a command, which the subject makes itself, and not
    /// traffic that a subject filters.
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
        exchanges.contains(&self) || self.is_commands()
    }

    /// Returns true if the workload is a command on its way to the network: directly, in a cage, or in an alternative
    /// to the cage.
    pub fn is_commands(self) -> bool {
        use Workload::{Download, Request, Start, Upload};
        matches!(self, Start | Request | Download | Upload)
    }
}

/// One load: a workload with its size and server address.
#[derive(Clone, Debug)]
pub struct Load {
    pub workload: Workload,
    pub duration: Duration,
    /// Address of the server, in the namespace `Place::server`. For tcp-probe over veth, also the gateway to the
    /// scanned network.
    pub address: IpAddr,
    pub port: u16,
    /// Payload bytes of a datagram, of a request and of its response, or of one stream write.
    pub payload_bytes: usize,
}

/// Namespaces of the two ends. Over loopback both are the same.
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

/// Result of one run of a load.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    pub metrics: Vec<Metric>,
    /// (seconds since the start of the load, value in the unit of the workload's main metric).
    pub series: Vec<(f64, f64)>,
    /// (percentile 0..100, microseconds), for workloads that time each request or exchange.
    pub percentiles: Vec<(f64, f64)>,
    /// Raw output to store with the results: (file name, contents).
    pub raw: Vec<(String, String)>,
    /// Problems during the run, in words.
    pub incidents: Vec<String>,
}

/// A source of traffic that can't be sliced: `ethr`, `iperf3` or `scanner`.
pub trait Runner {
    fn name(&self) -> &'static str;
    /// Returns the tool's own version text, for metadata.json.
    fn version(&self) -> String;
    fn supports(&self, workload: Workload) -> bool;
    /// Returns the full command lines that `run` would start, for metadata.json.
    fn command_lines(&self, load: &Load) -> Vec<String>;
    /// Runs one load to its end. Fails if the client still runs ten seconds after the load's duration.
    fn run(&self, place: &Place, load: &Load) -> anyhow::Result<Outcome>;
}
