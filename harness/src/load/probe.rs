// SPDX-License-Identifier: GPL-2.0-or-later
//! tcp-probe: the server end of connections to a whole network, which are left as soon as they are there.
//! The client end is the scanner.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use super::socket::{abort_on_close, listen_at_length};
use super::{Control, LOOK_UP};
use crate::runner::Load;

/// How long connections gather. A sleeping accept(2) would be woken for each, at the cost of what is
/// measured.
const GATHER: Duration = Duration::from_millis(2);
/// Two of them are held at the same time, which must be fewer than the descriptors of a process (1,024).
const BATCH: usize = 400;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProbeServer {
    pub accepted: u64,
}

/// Accepts on all addresses until the client has ended and nothing more comes.
pub(super) fn server(load: &Load, control: Control) -> Result<ProbeServer> {
    let any: IpAddr = match load.address {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let listener = listen_at_length(SocketAddr::new(any, load.port))?;
    let ended = control.ready();
    let (mut accepted, mut over) = (0, false);
    // A connection is held until the next batch is there: by then the client has aborted it. A server
    // that is faster would do it in its place, and fewer packets would pass the firewall.
    let mut held = Vec::new();
    let mut last = Instant::now();
    loop {
        // It is said once.
        over = over || ended.now()?.is_some();
        let batch = accept_batch(&listener)?;
        accepted += batch.len() as u64;
        if !batch.is_empty() {
            last = Instant::now();
        } else if over && last.elapsed() > LOOK_UP {
            return Ok(ProbeServer { accepted });
        }
        let whole = batch.len() == BATCH;
        drop(std::mem::replace(&mut held, batch));
        if !whole {
            thread::sleep(GATHER);
        }
    }
}

/// Takes what waits, a batch at most.
fn accept_batch(listener: &TcpListener) -> Result<Vec<TcpStream>> {
    let mut batch = Vec::new();
    while batch.len() < BATCH {
        match listener.accept() {
            Ok((connection, _)) => {
                abort_on_close(&connection)?;
                batch.push(connection);
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
            Err(error) => return Err(error).context("accept"),
        }
    }
    Ok(batch)
}
