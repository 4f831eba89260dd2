// SPDX-License-Identifier: GPL-2.0-or-later
//! tcp-stream: one connection that sends as fast as it can; the receiver counts what arrives.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Instant;

use anyhow::Context;
use serde::{Deserialize, Serialize};

use super::socket::{abort_on_close, gone, listen, timed_out};
use super::{address, Control, Ended, CONNECT_TIMEOUT, INTERVAL, LOOK_UP};
use crate::runner::Load;

/// One read takes at most as much as the default write gives.
const READ_BYTES: usize = 128 << 10;

/// What the receiver got.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StreamServer {
    pub received_bytes: u64,
    /// From the accepted connection to the end of the load, or to the connection's end if that was earlier.
    pub seconds: f64,
    pub interval_seconds: f64,
    pub interval_bytes: Vec<u64>,
}

/// What the sender's socket took; some of it may never have arrived.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StreamClient {
    pub sent: u64,
}

pub(super) fn server(load: &Load, control: Control) -> anyhow::Result<StreamServer> {
    let listener = listen(address(load), LOOK_UP)?;
    let ended = control.ready();
    let mut stream = accept(&listener, &ended)?;
    let start = Instant::now();
    // A flow that has stalled must still end in time.
    stream.set_read_timeout(Some(LOOK_UP))?;
    // At the end of the time the sender must not go on with what its socket still holds.
    abort_on_close(&stream)?;
    let intervals = load.duration.as_nanos().div_ceil(INTERVAL.as_nanos()) as usize;
    let mut interval_bytes = vec![0; intervals];
    let mut buffer = vec![0; READ_BYTES];
    let mut elapsed = start.elapsed();
    while elapsed < load.duration {
        let count = match stream.read(&mut buffer) {
            Ok(0) => break,
            Ok(count) => count,
            Err(error) if timed_out(&error) => 0,
            Err(error) if gone(&error) => break,
            Err(error) => return Err(error).context("receive"),
        };
        elapsed = start.elapsed();
        let interval = (elapsed.as_nanos() / INTERVAL.as_nanos()) as usize;
        // The last read may end just after the time is over: it does not count.
        if let Some(bytes) = interval_bytes.get_mut(interval) {
            *bytes += count as u64;
        }
    }
    Ok(StreamServer {
        received_bytes: interval_bytes.iter().sum(),
        seconds: elapsed.min(load.duration).as_secs_f64(),
        interval_seconds: INTERVAL.as_secs_f64(),
        interval_bytes,
    })
}

/// Waits for the connection, or for the news that the client has ended without one.
pub(super) fn accept(listener: &TcpListener, ended: &Ended) -> anyhow::Result<TcpStream> {
    loop {
        match listener.accept() {
            Ok((stream, _)) => return Ok(stream),
            Err(error) if timed_out(&error) => {}
            Err(error) => return Err(error).context("accept"),
        }
        if ended.now()?.is_some() {
            anyhow::bail!("the client ended without a connection");
        }
    }
}

/// Sends until the server, whose clock counts, ends the connection.
pub(super) fn client(load: &Load) -> anyhow::Result<StreamClient> {
    let to = address(load);
    let mut stream = TcpStream::connect_timeout(&to, CONNECT_TIMEOUT)
        .with_context(|| format!("connect to {to}"))?;
    let start = Instant::now();
    // The server's RST may be lost in what is measured, so the sender looks at its own clock, too.
    stream.set_write_timeout(Some(LOOK_UP))?;
    abort_on_close(&stream)?;
    let payload = vec![b'x'; load.payload_bytes];
    let mut sent = 0;
    while start.elapsed() < load.duration + 5 * LOOK_UP {
        match stream.write(&payload) {
            Ok(count) => sent += count as u64,
            Err(error) if timed_out(&error) => {}
            Err(error) if gone(&error) => break,
            Err(error) => return Err(error).context("send"),
        }
    }
    Ok(StreamClient { sent })
}
