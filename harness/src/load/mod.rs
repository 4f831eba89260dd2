// SPDX-License-Identifier: GPL-2.0-or-later
//! The embedded traffic generator: the sender on the first CPU, which switches between subjects, and the servers of
//! each subject on the last CPU.
//!
//! A subject's traffic is made in bursts. A burst ends when everything sent has arrived or is lost, so its count is
//! exact and no packet reaches into another subject's burst.

mod arrivals;
mod connect;
mod cpu;
mod dns;
mod flood;
mod frames;
mod latency;
mod mmsg;
mod neighbour;
mod probe;
mod socket;
mod stream;
mod tls;

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use anyhow::{bail, Result};
use clap::Subcommand;
use hdrhistogram::Histogram;

use crate::runner::{Place, Workload};

pub use cpu::{bind_sender, bind_server};
pub use frames::{send, FramesArguments, Sent};
pub use latency::{curve, histogram};
pub use neighbour::neighbour;
pub use probe::{serve_arguments, ProbeServer, READY};

/// Commands of `harness load`.
#[derive(Subcommand)]
pub enum Load {
    /// The server that the scanner connects to; started by a run
    Serve(probe::Arguments),
    /// Send Ethernet frames of random sizes past an interface's queue, at a pace
    Frames(frames::FramesArguments),
}

/// Executes a command of `harness load`: runs the server to which the scanner connects, or sends Ethernet frames.
pub fn command(asked: &Load) -> Result<()> {
    match asked {
        Load::Serve(asked) => probe::command(asked),
        Load::Frames(asked) => frames::command(asked),
    }
}

/// Time that a load may exceed its duration before it counts as hung.
pub const GRACE: Duration = Duration::from_secs(10);
/// Interval at which a waiting server checks whether its time is over.
const LOOK_UP: Duration = Duration::from_millis(100);
/// Time without arrivals after which an incomplete burst counts as stalled.
const STALLED: Duration = Duration::from_secs(5);

/// Description and destination of a subject's traffic.
pub struct Aim {
    pub workload: Workload,
    /// One address per flow; all workloads but udp-flood have a single flow.
    pub addresses: Vec<IpAddr>,
    pub port: u16,
    /// Payload bytes of a datagram, of a request and of its response, or of one stream write.
    pub payload_bytes: usize,
}

impl Aim {
    fn ends(&self) -> impl Iterator<Item = SocketAddr> + '_ {
        let end = |address: &IpAddr| SocketAddr::new(*address, self.port);
        self.addresses.iter().map(end)
    }

    fn end(&self) -> SocketAddr {
        SocketAddr::new(self.addresses[0], self.port)
    }
}

/// Result of one burst, in datagrams, bytes, requests or connections.
#[derive(Debug)]
pub struct Burst {
    pub sent: u64,
    pub arrived: u64,
    /// Seconds from the start of sending to the last arrival; 0 if nothing arrived.
    pub seconds: f64,
    /// Latency of each request, in nanoseconds; None for workloads other than tcp-latency.
    pub latencies: Option<Histogram<u64>>,
}

/// Function that returns true if no packet of the subject waits any more.
pub type Emptied<'a> = dyn Fn() -> Result<bool> + 'a;

/// Traffic of one subject: its sockets and its server.
pub trait Traffic {
    /// Sends for the duration and waits until everything has arrived or is lost. Fails if arrivals stall.
    fn burst(&mut self, place: &Place, duration: Duration, emptied: &Emptied) -> Result<Burst>;

    /// Returns the number of datagrams lost so far because the receiver was too slow.
    fn receiver_drops(&self) -> Result<u64> {
        Ok(0)
    }
}

/// Starts the servers of a subject and connects to them. Call it on the thread that sends ([`bind_sender`]).
pub fn open(aim: &Aim, place: &Place) -> Result<Box<dyn Traffic>> {
    Ok(match aim.workload {
        Workload::TcpStream => Box::new(stream::Stream::open(aim, place, &[])?),
        Workload::HelloStream => Box::new(stream::Stream::open(aim, place, &tls::hello()?)?),
        Workload::TlsStream => Box::new(stream::Stream::open_tls(aim, place)?),
        Workload::TcpLatency => Box::new(latency::Requests::open(aim, place)?),
        Workload::TcpConnect => Box::new(connect::Connections::open(aim, place)?),
        Workload::TlsConnect => Box::new(tls::Handshakes::open(aim, place)?),
        Workload::DnsQuery => Box::new(dns::Queries::open(aim, place)?),
        Workload::UdpFlood => Box::new(flood::Flood::open(aim, place)?),
        other => bail!("the embedded generator does not make {other}"),
    })
}

/// Returns true if [`open`] supports a workload.
pub fn makes(workload: Workload) -> bool {
    use Workload::{TcpConnect, TcpLatency, TcpStream, UdpFlood};
    matches!(workload, TcpStream | TcpLatency | TcpConnect | UdpFlood) || workload.shows_names()
}

#[cfg(test)]
mod tests;
