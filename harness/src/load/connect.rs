// SPDX-License-Identifier: GPL-2.0-or-later
//! tcp-connect: connections one after the other, each for one byte from the server.

use std::io::{Read, Write};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{bail, Context};
use serde::{Deserialize, Serialize};

use super::socket::{abort_on_close, connect, listen, timed_out};
use super::{address, Control, LOOK_UP};
use crate::runner::Load;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ConnectServer {
    pub accepted: u64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ConnectClient {
    /// Connections whose byte came.
    pub sent: u64,
    /// Connections that failed, the one that the end of the time cut off not counted.
    pub failed: u64,
    pub seconds: f64,
}

pub(super) fn server(load: &Load, control: Control) -> anyhow::Result<ConnectServer> {
    let listener = listen(address(load), LOOK_UP)?;
    let ended = control.ready();
    let mut accepted = 0;
    loop {
        match listener.accept() {
            Ok((mut stream, _)) => {
                accepted += 1;
                // A client that is already gone has its own count of this.
                let _ = stream.write(b"x");
            }
            Err(error) if timed_out(&error) => {
                if ended.now()?.is_some() {
                    return Ok(ConnectServer { accepted });
                }
            }
            Err(error) => return Err(error).context("accept"),
        }
    }
}

pub(super) fn client(load: &Load) -> anyhow::Result<ConnectClient> {
    let to = address(load);
    let (mut sent, mut failed) = (0, 0);
    let start = Instant::now();
    let mut elapsed = Duration::ZERO;
    while elapsed < load.duration {
        let result = one_byte(to, load.duration - elapsed);
        elapsed = start.elapsed();
        match result {
            Ok(()) => sent += 1,
            Err(_) if elapsed >= load.duration => {}
            Err(error) if sent == 0 => bail!("connect to {to}: {error}"),
            Err(_) => failed += 1,
        }
    }
    Ok(ConnectClient {
        sent,
        failed,
        seconds: elapsed.as_secs_f64(),
    })
}

/// Connects, takes the server's byte and aborts the connection.
fn one_byte(to: SocketAddr, at_most: Duration) -> std::io::Result<()> {
    let mut stream = connect(to, at_most)?;
    // Abortive, so that no port rests in TIME_WAIT: there are only 28,000 of them.
    abort_on_close(&stream)?;
    stream.read_exact(&mut [0])
}
