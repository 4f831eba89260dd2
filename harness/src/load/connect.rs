// SPDX-License-Identifier: GPL-2.0-or-later
//! Load tcp-connect: consecutive connections; the server sends one byte on each.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::arrivals::{Arrivals, Server};
use super::socket::{abort_on_close, connect, listen};
use super::{Aim, Burst, Emptied, Traffic, LOOK_UP, STALLED};
use crate::runner::Place;

pub struct Connections {
    to: SocketAddr,
    _server: Server,
}

impl Connections {
    pub fn open(aim: &Aim, place: &Place) -> Result<Connections> {
        let listener = place.server.enter(|| listen(aim.end(), LOOK_UP))?;
        let serve = move |arrivals: &Arrivals| give_bytes(&listener, arrivals);
        Ok(Connections {
            to: aim.end(),
            _server: Server::start(&Arrivals::new(), serve),
        })
    }
}

impl Traffic for Connections {
    /// Makes consecutive connections for the duration, from a thread in the client's namespace: each connection has a
    /// new socket, which belongs to the namespace of its thread.
    fn burst(&mut self, place: &Place, duration: Duration, _emptied: &Emptied) -> Result<Burst> {
        let to = self.to;
        place.client.enter(|| {
            let (mut sent, start) = (0, Instant::now());
            let mut elapsed = Duration::ZERO;
            while elapsed < duration {
                one_byte(to).with_context(|| format!("connect to {to}"))?;
                sent += 1;
                elapsed = start.elapsed();
            }
            Ok(Burst {
                sent,
                arrived: sent,
                seconds: elapsed.as_secs_f64(),
                latencies: None,
            })
        })
    }
}

/// Connects, reads the server's byte and aborts the connection.
fn one_byte(to: SocketAddr) -> std::io::Result<()> {
    let mut stream = connect(to, STALLED)?;
    // Aborts, so that no port stays in TIME_WAIT: there are only 28,000 ports.
    abort_on_close(&stream)?;
    stream.read_exact(&mut [0])
}

fn give_bytes(listener: &TcpListener, arrivals: &Arrivals) {
    while !arrivals.over() {
        if let Ok((mut stream, _)) = listener.accept() {
            // The client notices and reports a failure.
            let _ = stream.write(b"x");
        }
    }
}
