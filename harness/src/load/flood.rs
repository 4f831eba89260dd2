// SPDX-License-Identifier: GPL-2.0-or-later
//! udp-flood: datagrams as fast as the sender can; sent, delivered and lost are counted exactly.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use anyhow::Context;
use serde::{Deserialize, Serialize};

use super::mmsg::{self, Batch};
use super::socket::{receive_buffer, receive_timeout, send_buffer, timed_out};
use super::{address, Control, INTERVAL, LOOK_UP};
use crate::runner::Load;

/// Datagrams a system call, on both ends.
const BATCH: usize = 64;
/// Large enough that losses are those of the path and not of this receiver.
const RECEIVE_BUFFER_BYTES: usize = 64 << 20;
const SEND_BUFFER_BYTES: usize = 4 << 20;
/// The path is taken for empty when the sender has ended and nothing has come for so long.
const QUIET: Duration = Duration::from_millis(500);

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FloodServer {
    pub sent: u64,
    /// Datagrams of the right size that arrived.
    pub delivered: u64,
    /// sent - delivered.
    pub lost: i64,
    /// Datagrams of another size: none of ours.
    pub foreign: u64,
    /// Datagrams lost because this receiver was too slow; they are part of `lost`.
    pub receiver_drops: u64,
    /// From the first to the last datagram.
    pub seconds: f64,
    pub interval_seconds: f64,
    /// Datagrams in each interval from the first one on.
    pub interval_packets: Vec<u64>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FloodClient {
    /// Datagrams that the kernel took.
    pub sent: u64,
    /// Calls that it refused, e.g. for want of buffers; their datagrams count as never sent.
    pub refused_calls: u64,
    pub seconds: f64,
}

/// What the receiver has counted so far.
#[derive(Default)]
struct Count {
    delivered: u64,
    foreign: u64,
    interval_packets: Vec<u64>,
    /// When the first and the last datagram came.
    span: Option<(Instant, Instant)>,
}

impl Count {
    fn add(&mut self, ours: u64, foreign: u64) {
        let now = Instant::now();
        let (first, last) = self.span.get_or_insert((now, now));
        *last = now;
        let interval = ((now - *first).as_nanos() / INTERVAL.as_nanos()) as usize;
        if self.interval_packets.len() <= interval {
            self.interval_packets.resize(interval + 1, 0);
        }
        self.interval_packets[interval] += ours;
        self.delivered += ours;
        self.foreign += foreign;
    }

    /// Whether nothing has come for [`QUIET`], counted from `since` at the earliest.
    fn quiet(&self, since: Instant) -> bool {
        self.span
            .map_or(since, |(_, last)| last.max(since))
            .elapsed()
            >= QUIET
    }

    fn seconds(&self) -> f64 {
        self.span
            .map_or(0.0, |(first, last)| (last - first).as_secs_f64())
    }
}

pub(super) fn server(load: &Load, control: Control) -> anyhow::Result<FloodServer> {
    let at = address(load);
    let socket = UdpSocket::bind(at).with_context(|| format!("listen on {at}"))?;
    receive_buffer(&socket, RECEIVE_BUFFER_BYTES)?;
    receive_timeout(&socket, LOOK_UP)?;
    let ended = control.ready();
    // One byte more than ours have, so that a longer datagram is not taken for one of ours.
    let mut batch = Batch::new(BATCH, load.payload_bytes + 1);
    let mut count = Count::default();
    let mut told: Option<(u64, Instant)> = None;
    let sent = loop {
        let received = match batch.receive(&socket) {
            Ok(received) => received,
            Err(error) if timed_out(&error) => 0,
            Err(error) => return Err(error).context("recvmmsg"),
        };
        if received > 0 {
            let ours = batch.of_size(received, load.payload_bytes) as u64;
            count.add(ours, received as u64 - ours);
        }
        match told {
            Some((sent, when)) if count.quiet(when) => break sent,
            // While full batches come there is no time to lose on anything else.
            None if received < BATCH => told = ended.now()?.map(|sent| (sent, Instant::now())),
            _ => {}
        }
    };
    Ok(FloodServer {
        sent,
        delivered: count.delivered,
        lost: sent as i64 - count.delivered as i64,
        foreign: count.foreign,
        receiver_drops: mmsg::drops(&socket).context("SO_MEMINFO")?.into(),
        seconds: count.seconds(),
        interval_seconds: INTERVAL.as_secs_f64(),
        interval_packets: count.interval_packets,
    })
}

pub(super) fn client(load: &Load) -> anyhow::Result<FloodClient> {
    let to = address(load);
    let from: SocketAddr = match to {
        SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    };
    let socket = UdpSocket::bind(from).context("bind")?;
    socket
        .connect(to)
        .with_context(|| format!("connect to {to}"))?;
    send_buffer(&socket, SEND_BUFFER_BYTES)?;
    let mut batch = Batch::new(BATCH, load.payload_bytes);
    let (mut sent, mut refused_calls) = (0, 0);
    let start = Instant::now();
    while start.elapsed() < load.duration {
        match batch.send(&socket) {
            Ok(count) => sent += count as u64,
            Err(error) if refusal(&error) => refused_calls += 1,
            Err(error) => return Err(error).context("sendmmsg"),
        }
    }
    Ok(FloodClient {
        sent,
        refused_calls,
        seconds: start.elapsed().as_secs_f64(),
    })
}

/// No buffer is free, a rule drops what this host sends, or nobody listens: the next call may go well.
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
