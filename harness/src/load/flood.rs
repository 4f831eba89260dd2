// SPDX-License-Identifier: GPL-2.0-or-later
//! Load udp-flood: datagrams as fast as the sender can send. Sent and delivered datagrams are counted exactly.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{anyhow, Context, Result};

use super::arrivals::{Arrivals, Server};
use super::mmsg::{self, Batch};
use super::socket::{receive_buffer, receive_timeout, send_buffer};
use super::{Aim, Burst, Emptied, Traffic, LOOK_UP};
use crate::runner::Place;

/// Datagrams per system call, at both ends.
const BATCH: usize = 64;
/// Receive buffer, so large that losses occur on the path and not at this receiver.
const RECEIVE_BUFFER_BYTES: usize = 64 << 20;
const SEND_BUFFER_BYTES: usize = 4 << 20;

/// Floods one or several addresses, with a batch to each in turn.
pub struct Flood {
    senders: Vec<UdpSocket>,
    receivers: Vec<UdpSocket>,
    batch: Batch,
    arrivals: Arc<Arrivals>,
    _servers: Vec<Server>,
}

impl Flood {
    pub fn open(aim: &Aim, place: &Place) -> Result<Flood> {
        let arrivals = Arrivals::new();
        let mut flood = Flood {
            senders: Vec::new(),
            receivers: Vec::new(),
            batch: Batch::new(BATCH, aim.payload_bytes),
            arrivals: arrivals.clone(),
            _servers: Vec::new(),
        };
        for at in aim.ends() {
            let receiver = place.server.enter(|| receiver(at))?;
            flood.receivers.push(receiver.try_clone()?);
            let bytes = aim.payload_bytes;
            let serve = move |arrivals: &Arrivals| receive(&receiver, bytes, arrivals);
            flood._servers.push(Server::start(&arrivals, serve));
            flood.senders.push(place.client.enter(|| sender(at))?);
        }
        Ok(flood)
    }
}

impl Traffic for Flood {
    fn burst(&mut self, _place: &Place, duration: Duration, emptied: &Emptied) -> Result<Burst> {
        let before = self.arrivals.count();
        let start = Instant::now();
        let mut sent = 0;
        while start.elapsed() < duration {
            for socket in &self.senders {
                match self.batch.send(socket) {
                    Ok(count) => sent += count as u64,
                    Err(error) if refusal(&error) => {}
                    Err(error) => return Err(error).context("sendmmsg"),
                }
            }
        }
        let receivers = &self.receivers;
        let taken = || {
            receivers
                .iter()
                .try_fold(true, |all, r| Ok(all && mmsg::is_empty(r)?))
        };
        let nothing_waits = || Ok(emptied()? && taken().map_err(|e: io::Error| anyhow!(e))?);
        self.arrivals.wait(before + sent, Some(&nothing_waits))?;
        Ok(Burst {
            sent,
            arrived: self.arrivals.count() - before,
            seconds: self.arrivals.seconds_since(start),
            latencies: None,
        })
    }

    fn receiver_drops(&self) -> Result<u64> {
        let drops = self.receivers.iter().map(mmsg::drops);
        drops
            .map(|drops| Ok(u64::from(drops.context("SO_MEMINFO")?)))
            .sum()
    }
}

fn receiver(at: SocketAddr) -> Result<UdpSocket> {
    let socket = UdpSocket::bind(at).with_context(|| format!("listen on {at}"))?;
    receive_buffer(&socket, RECEIVE_BUFFER_BYTES)?;
    receive_timeout(&socket, LOOK_UP)?;
    Ok(socket)
}

fn sender(to: SocketAddr) -> Result<UdpSocket> {
    let from: SocketAddr = match to {
        SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    };
    let socket = UdpSocket::bind(from).context("bind")?;
    socket
        .connect(to)
        .with_context(|| format!("connect to {to}"))?;
    send_buffer(&socket, SEND_BUFFER_BYTES)?;
    Ok(socket)
}

/// Counts datagrams of the right size until the run ends. A failed call counts nothing, which the sender notices.
fn receive(socket: &UdpSocket, bytes: usize, arrivals: &Arrivals) {
    // One byte more than our datagrams, so that a longer datagram is recognised as foreign.
    let mut batch = Batch::new(BATCH, bytes + 1);
    while !arrivals.over() {
        if let Ok(received) = batch.receive(socket) {
            arrivals.add(batch.of_size(received, bytes) as u64);
        }
    }
}

/// Returns true if the error is temporary: no buffer is free, a signal came, a rule drops this host's packets, or
/// nothing listens.
fn refusal(error: &io::Error) -> bool {
    let refusals = [
        libc::ENOBUFS,
        libc::EAGAIN,
        libc::EINTR,
        libc::EPERM,
        libc::ECONNREFUSED,
    ];
    error
        .raw_os_error()
        .is_some_and(|code| refusals.contains(&code))
}
