// SPDX-License-Identifier: GPL-2.0-or-later
//! Loads tcp-stream, hello-stream and tls-stream: one connection, open for the whole run, that sends as fast as it can.

use std::fs;
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::arrivals::{Arrivals, Server};
use super::socket::{abort_on_close, listen, timed_out};
use super::{tls, Aim, Burst, Emptied, Traffic, LOOK_UP, STALLED};
use crate::runner::Place;

/// Maximum bytes of one read.
const READ_BYTES: usize = 128 << 10;
/// File that is set to 0, so that the connection keeps its congestion window between two slices.
const SLOW_START: &str = "/proc/sys/net/ipv4/tcp_slow_start_after_idle";

pub struct Stream {
    connection: TcpStream,
    payload: Vec<u8>,
    arrivals: Arc<Arrivals>,
    _server: Server,
}

impl Stream {
    /// Opens a connection.
    /// - first: bytes that the client sends before the first burst.
    pub fn open(aim: &Aim, place: &Place, first: &[u8]) -> Result<Stream> {
        let mut stream = Stream::start(aim, place, |_| Ok(()))?;
        stream.connection.write_all(first).context("send")?;
        stream.arrivals.wait(first.len() as u64, None)?;
        Ok(stream)
    }

    /// Opens a connection with a TLS handshake. The data after the handshake are not TLS: a filter of names has decided
    /// by then.
    pub fn open_tls(aim: &Aim, place: &Place) -> Result<Stream> {
        let (client, server) = tls::ends()?;
        let greet = move |stream: &mut TcpStream| tls::give_byte(stream, &server);
        let mut stream = Stream::start(aim, place, greet)?;
        tls::take_byte(&mut stream.connection, &client).context("TLS")?;
        Ok(stream)
    }

    /// Connects to a server that runs `greet` on the connection and then counts the received bytes.
    fn start(
        aim: &Aim,
        place: &Place,
        greet: impl FnOnce(&mut TcpStream) -> io::Result<()> + Send + 'static,
    ) -> Result<Stream> {
        for namespace in [place.client, place.server] {
            namespace.enter(|| fs::write(SLOW_START, "0").context(SLOW_START))?;
        }
        let listener = place.server.enter(|| listen(aim.end(), LOOK_UP))?;
        let arrivals = Arrivals::new();
        let serve = move |arrivals: &Arrivals| receive(&listener, arrivals, greet);
        let server = Server::start(&arrivals, serve);
        let connection = place.client.enter(|| connect(aim))?;
        abort_on_close(&connection)?;
        connection.set_write_timeout(Some(STALLED))?;
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

fn receive(
    listener: &TcpListener,
    arrivals: &Arrivals,
    greet: impl FnOnce(&mut TcpStream) -> io::Result<()>,
) {
    let Some(mut stream) = accept(listener, arrivals) else {
        return;
    };
    // The client notices and reports a failure.
    if greet(&mut stream).is_err() || stream.set_read_timeout(Some(LOOK_UP)).is_err() {
        return;
    }
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
