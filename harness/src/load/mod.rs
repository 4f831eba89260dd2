// SPDX-License-Identifier: GPL-2.0-or-later
//! The embedded traffic generator: `harness load server|client WORKLOAD ...`.
//!
//! Both ends are processes of their own, so that the kernel schedules them as it does real programs.
//! A server prints `ready` when it listens, and each end prints its report as one line of JSON when it
//! ends. The starter tells the server by a line `sent N` on its standard input that the client has ended
//! and what it has sent; this way does not lead through the firewall that is measured.

mod connect;
mod cpu;
mod flood;
mod latency;
mod mmsg;
mod probe;
mod socket;
mod stream;

use std::io::{BufRead, Write};
use std::net::{IpAddr, SocketAddr};
use std::sync::mpsc::{channel, Receiver, TryRecvError};
use std::thread;
use std::time::Duration;

use anyhow::{bail, Context};
use clap::Parser;
use serde::{Deserialize, Serialize};

use crate::runner::{Load, Workload};

pub use connect::{ConnectClient, ConnectServer};
pub use flood::{FloodClient, FloodServer};
pub use latency::{LatencyClient, LatencyServer};
pub use probe::ProbeServer;
pub use stream::{StreamClient, StreamServer};

/// The line that a server prints when it listens.
pub const READY: &str = "ready";
/// How long a client waits for its connection.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a load may take beyond its duration before it is taken for hung.
pub const GRACE: Duration = Duration::from_secs(10);
/// How often a waiting end looks up, to see whether its time is over.
const LOOK_UP: Duration = Duration::from_millis(100);
/// The width of the intervals in which the servers of tcp-stream and udp-flood count.
pub const INTERVAL: Duration = Duration::from_millis(100);

/// `harness load`
#[derive(Parser)]
#[command(name = "harness load", no_binary_name = true)]
struct Arguments {
    /// server or client
    #[arg(value_parser = ["server", "client"])]
    end: String,
    #[arg(value_parser = workload)]
    workload: Workload,
    /// Where the server listens
    #[arg(long)]
    address: IpAddr,
    #[arg(long)]
    port: u16,
    #[arg(long)]
    duration_ms: u64,
    #[arg(long)]
    payload_bytes: usize,
}

/// The arguments that make [`command`] run one end of a load.
pub fn arguments(end: &str, load: &Load) -> Vec<String> {
    let name = serde_json::to_value(load.workload).expect("a workload is a plain name");
    [
        end,
        name.as_str().expect("a workload is a plain name"),
        "--address",
        &load.address.to_string(),
        "--port",
        &load.port.to_string(),
        "--duration-ms",
        &load.duration.as_millis().to_string(),
        "--payload-bytes",
        &load.payload_bytes.to_string(),
    ]
    .map(str::to_string)
    .to_vec()
}

/// Runs one end of a load to its end and prints its report. Ends the process if the load hangs.
pub fn command(arguments: &[String]) -> anyhow::Result<()> {
    let asked = Arguments::try_parse_from(arguments)?;
    if asked.payload_bytes == 0 && asked.workload != Workload::TcpProbe {
        bail!("--payload-bytes 0: expected at least 1");
    }
    let load = Load {
        workload: asked.workload,
        duration: Duration::from_millis(asked.duration_ms),
        address: asked.address,
        port: asked.port,
        payload_bytes: asked.payload_bytes,
    };
    cpu::bind(&asked.end)?;
    end_if_hung(CONNECT_TIMEOUT + load.duration + GRACE);
    let report = match asked.end.as_str() {
        "server" => server(&load, Control::of_process())?,
        _ => client(&load)?,
    };
    say(&report)
}

fn server(load: &Load, control: Control) -> anyhow::Result<String> {
    match load.workload {
        Workload::TcpStream => to_line(&stream::server(load, control)?),
        Workload::TcpLatency => to_line(&latency::server(load, control)?),
        Workload::TcpConnect => to_line(&connect::server(load, control)?),
        Workload::TcpProbe => to_line(&probe::server(load, control)?),
        Workload::UdpFlood => to_line(&flood::server(load, control)?),
    }
}

fn client(load: &Load) -> anyhow::Result<String> {
    match load.workload {
        Workload::TcpStream => to_line(&stream::client(load)?),
        Workload::TcpLatency => to_line(&latency::client(load)?),
        Workload::TcpConnect => to_line(&connect::client(load)?),
        Workload::TcpProbe => bail!("the client of tcp-probe is the scanner"),
        Workload::UdpFlood => to_line(&flood::client(load)?),
    }
}

fn to_line(report: &impl Serialize) -> anyhow::Result<String> {
    Ok(serde_json::to_string(report)?)
}

fn say(line: &str) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}")
        .and_then(|()| out.flush())
        .context("standard output")
}

fn workload(name: &str) -> Result<Workload, String> {
    Workload::deserialize(serde_json::Value::from(name)).map_err(|error| error.to_string())
}

/// A load must not outlive its time, whatever happens to its packets or to its starter.
fn end_if_hung(after: Duration) {
    thread::spawn(move || {
        thread::sleep(after);
        eprintln!("error: the load did not end within {} s", after.as_secs());
        std::process::exit(1);
    });
}

/// A server's line to the one who started it.
struct Control {
    ready: Box<dyn FnOnce() + Send>,
    sent: Receiver<u64>,
}

impl Control {
    /// `ready` goes to standard output, `sent N` comes from standard input.
    fn of_process() -> Control {
        let (tell, sent) = channel();
        thread::spawn(move || {
            for line in std::io::stdin().lock().lines().map_while(Result::ok) {
                let count = line
                    .strip_prefix("sent ")
                    .and_then(|number| number.parse().ok());
                if count.is_some_and(|count| tell.send(count).is_err()) {
                    return;
                }
            }
        });
        let ready = Box::new(|| say(READY).expect("the starter reads our standard output"));
        Control { ready, sent }
    }

    /// Tells that the server listens. What is returned then says when the client has ended.
    fn ready(self) -> Ended {
        (self.ready)();
        Ended { sent: self.sent }
    }
}

/// Knows whether the client has ended.
struct Ended {
    sent: Receiver<u64>,
}

impl Ended {
    /// What the client has sent, once it has ended. Fails when the starter is gone.
    fn now(&self) -> anyhow::Result<Option<u64>> {
        match self.sent.try_recv() {
            Ok(count) => Ok(Some(count)),
            Err(TryRecvError::Empty) => Ok(None),
            Err(TryRecvError::Disconnected) => bail!("the starter of this load is gone"),
        }
    }
}

fn address(load: &Load) -> SocketAddr {
    SocketAddr::new(load.address, load.port)
}

#[cfg(test)]
mod tests;
