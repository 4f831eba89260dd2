// SPDX-License-Identifier: GPL-2.0-or-later
//! Load tcp-probe: the server end of connections to a whole network. The client is the scanner, which aborts the
//! connections as soon as they are established.
//!
//! The server is a separate process, `harness load serve`. It prints `ready` when it listens, and its report as one
//! line of JSON when it ends. A line on its standard input announces that the scanner has ended.

use std::io::{self, BufRead, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{channel, Receiver, TryRecvError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{bail, Context, Result};
use clap::Args;
use serde::{Deserialize, Serialize};

use super::socket::{abort_on_close, listen_at_length};
use super::{cpu, GRACE, LOOK_UP};
use crate::runner::Load;

/// Line that the server prints when it listens.
pub const READY: &str = "ready";

/// Time for which connections accumulate before the next batch. A sleeping accept(2) would be woken for each
/// connection, at the cost of the measurement.
const GATHER: Duration = Duration::from_millis(2);
/// Maximum number of connections that the server accepts in one batch. The server holds two batches, which must stay
/// below a process's descriptor limit (1,024).
const BATCH: usize = 400;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProbeServer {
    pub accepted: u64,
}

/// Arguments of `harness load serve`, the server to which the scanner connects.
#[derive(Args)]
pub struct Arguments {
    #[arg(long)]
    address: IpAddr,
    #[arg(long)]
    port: u16,
    #[arg(long)]
    duration_ms: u64,
}

/// Returns the arguments that start the server of a load.
pub fn serve_arguments(load: &Load) -> Vec<String> {
    let words = [
        "load",
        "serve",
        "--address",
        &load.address.to_string(),
        "--port",
        &load.port.to_string(),
        "--duration-ms",
        &load.duration.as_millis().to_string(),
    ];
    words.map(str::to_string).to_vec()
}

/// Runs the server to its end and prints its report. Ends the process if it hangs.
pub fn command(asked: &Arguments) -> Result<()> {
    cpu::bind_server()?;
    end_if_hung(Duration::from_millis(asked.duration_ms) + 2 * GRACE);
    let told = lines_of_input();
    let report = server(asked, &told, || say(READY))?;
    say(&serde_json::to_string(&report)?)
}

fn say(line: &str) -> Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{line}")
        .and_then(|()| out.flush())
        .context("standard output")
}

/// Ends the process after the given time, even if packets are lost or its starter is gone.
fn end_if_hung(after: Duration) {
    thread::spawn(move || {
        thread::sleep(after);
        eprintln!("error: the load did not end within {} s", after.as_secs());
        std::process::exit(1);
    });
}

fn lines_of_input() -> Receiver<String> {
    let (tell, told) = channel();
    thread::spawn(move || {
        for line in io::stdin().lock().lines().map_while(Result::ok) {
            if tell.send(line).is_err() {
                return;
            }
        }
    });
    told
}

/// Returns true if the process that started this server reports that the client has ended. Fails if that process is
/// gone.
fn ended(told: &Receiver<String>) -> Result<bool> {
    match told.try_recv() {
        Ok(_) => Ok(true),
        Err(TryRecvError::Empty) => Ok(false),
        Err(TryRecvError::Disconnected) => bail!("the starter of this load is gone"),
    }
}

/// Accepts connections on all addresses until the client has ended and no more arrive.
fn server(
    asked: &Arguments,
    told: &Receiver<String>,
    ready: impl FnOnce() -> Result<()>,
) -> Result<ProbeServer> {
    let any: IpAddr = match asked.address {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let listener = listen_at_length(SocketAddr::new(any, asked.port))?;
    ready()?;
    let (mut accepted, mut over) = (0, false);
    // A connection is held until the next batch has arrived: by then the client has aborted it. A faster server would
    // abort it first, and fewer packets would pass the firewall.
    let mut held = Vec::new();
    let mut last = Instant::now();
    loop {
        // The end is announced only once.
        over = over || ended(told)?;
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

/// Accepts the waiting connections, one batch at most.
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
