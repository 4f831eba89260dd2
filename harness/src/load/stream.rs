// SPDX-License-Identifier: GPL-2.0-or-later
//! tcp-stream and hello-stream: one connection, open for the whole run, that sends as fast as it can.

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::arrivals::{Arrivals, Server};
use super::socket::{abort_on_close, listen, timed_out};
use super::{Aim, Burst, Emptied, Traffic, LOOK_UP, STALLED};
use crate::runner::Place;

/// Bytes of one read, at most those of the default write.
const READ_BYTES: usize = 128 << 10;
/// Set to 0: between two slices the connection must keep its congestion window.
const SLOW_START: &str = "/proc/sys/net/ipv4/tcp_slow_start_after_idle";

pub struct Stream {
    connection: TcpStream,
    payload: Vec<u8>,
    arrivals: Arc<Arrivals>,
    _server: Server,
}

impl Stream {
    /// - first: bytes that it sends before all bursts.
    pub fn open(aim: &Aim, place: &Place, first: &[u8]) -> Result<Stream> {
        for namespace in [place.client, place.server] {
            namespace.enter(|| fs::write(SLOW_START, "0").context(SLOW_START))?;
        }
        let listener = place.server.enter(|| listen(aim.end(), LOOK_UP))?;
        let arrivals = Arrivals::new();
        let server = Server::start(&arrivals, move |arrivals| receive(&listener, arrivals));
        let mut connection = place.client.enter(|| connect(aim))?;
        abort_on_close(&connection)?;
        connection.set_write_timeout(Some(STALLED))?;
        connection.write_all(first).context("send")?;
        arrivals.wait(first.len() as u64, None)?;
        Ok(Stream {
            connection,
            payload: vec![b'x'; aim.payload_bytes],
            arrivals,
            _server: server,
        })
    }
}

impl Traffic for Stream {
    fn burst(&mut self, _place: &Place, duration: Duration, _emptied: &Emptied) -> Result<Burst> {
        let before = self.arrivals.count();
        let start = Instant::now();
        let mut sent = 0;
        while start.elapsed() < duration {
            sent += self.connection.write(&self.payload).context("send")? as u64;
        }
        self.arrivals.wait(before + sent, None)?;
        Ok(Burst {
            sent,
            arrived: sent,
            seconds: self.arrivals.seconds_since(start),
            latencies: None,
        })
    }
}

/// Connects within the time limit [`STALLED`].
pub fn connect(aim: &Aim) -> Result<TcpStream> {
    let to = aim.end();
    TcpStream::connect_timeout(&to, STALLED).with_context(|| format!("connect to {to}"))
}

/// Waits for the connection; returns None if the run ends before it arrives.
pub fn accept(listener: &TcpListener, arrivals: &Arrivals) -> Option<TcpStream> {
    while !arrivals.over() {
        if let Ok((stream, _)) = listener.accept() {
            stream.set_read_timeout(Some(LOOK_UP)).ok()?;
            return Some(stream);
        }
    }
    None
}

fn receive(listener: &TcpListener, arrivals: &Arrivals) {
    let Some(mut stream) = accept(listener, arrivals) else {
        return;
    };
    let mut buffer = vec![0; READ_BYTES];
    while !arrivals.over() {
        match stream.read(&mut buffer) {
            Ok(0) => return,
            Ok(count) => arrivals.add(count as u64),
            Err(error) if timed_out(&error) => {}
            Err(_) => return,
        }
    }
}
