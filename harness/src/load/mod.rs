// SPDX-License-Identifier: GPL-2.0-or-later
//! The embedded traffic generator: one sender, on the first CPU, that switches between subjects, and a server for each
//! subject on the last CPU.
//!
//! A subject's traffic is made in bursts. A burst ends when what was sent has arrived or is lost, so its count is exact
//! and nothing of it reaches into that of another subject.

mod arrivals;
mod connect;
mod cpu;
mod flood;
mod frames;
mod latency;
mod mmsg;
mod neighbour;
mod probe;
mod socket;
mod stream;

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

/// `harness load`
#[derive(Subcommand)]
pub enum Load {
    /// The server that the scanner connects to; started by a run
    Serve(probe::Arguments),
    /// Send Ethernet frames of random sizes past an interface's queue, at a pace
    Frames(frames::FramesArguments),
}

/// Makes what a command line asks for.
pub fn command(asked: &Load) -> Result<()> {
    match asked {
        Load::Serve(asked) => probe::command(asked),
        Load::Frames(asked) => frames::command(asked),
    }
}

/// How long a load may take beyond its duration before it is taken for hung.
pub const GRACE: Duration = Duration::from_secs(10);
/// How often a waiting server looks up, to see whether its time is over.
const LOOK_UP: Duration = Duration::from_millis(100);
/// A burst of which nothing has arrived for so long, and not all, is stalled.
const STALLED: Duration = Duration::from_secs(5);

/// What a subject's traffic is, and where to.
pub struct Aim {
    pub workload: Workload,
    /// One for each flow; all but udp-flood have one.
    pub addresses: Vec<IpAddr>,
    pub port: u16,
    /// Bytes of a datagram's payload, of a request and of its response, or of one stream write.
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

/// What one burst gave, in datagrams, bytes, requests or connections.
#[derive(Debug)]
pub struct Burst {
    pub sent: u64,
    pub arrived: u64,
    /// From the first that was sent to the last that arrived; 0 if nothing did.
    pub seconds: f64,
    /// Nanoseconds of each request.
    pub latencies: Option<Histogram<u64>>,
}

/// Whether nothing waits in the subject any more.
pub type Emptied<'a> = dyn Fn() -> Result<bool> + 'a;

/// The traffic of one subject: its sockets and its server.
pub trait Traffic {
    /// Sends for so long and waits until it has arrived. Fails if it stalls.
    fn burst(&mut self, place: &Place, duration: Duration, emptied: &Emptied) -> Result<Burst>;

    /// Datagrams that were lost because the receiver was too slow, so far.
    fn receiver_drops(&self) -> Result<u64> {
        Ok(0)
    }
}

/// Starts the servers of a subject and connects to them. To be called on the thread that sends ([`bind_sender`]).
pub fn open(aim: &Aim, place: &Place) -> Result<Box<dyn Traffic>> {
    Ok(match aim.workload {
        Workload::TcpStream => Box::new(stream::Stream::open(aim, place)?),
        Workload::TcpLatency => Box::new(latency::Requests::open(aim, place)?),
        Workload::TcpConnect => Box::new(connect::Connections::open(aim, place)?),
        Workload::UdpFlood => Box::new(flood::Flood::open(aim, place)?),
        other => bail!("the embedded generator does not make {other}"),
    })
}

/// Whether [`open`] makes a workload.
pub fn makes(workload: Workload) -> bool {
    use Workload::{TcpConnect, TcpLatency, TcpStream, UdpFlood};
    matches!(workload, TcpStream | TcpLatency | TcpConnect | UdpFlood)
}

#[cfg(test)]
mod tests;
