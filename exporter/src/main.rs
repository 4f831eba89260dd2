// SPDX-License-Identifier: GPL-2.0-or-later
//! The metrics of a firewall for Prometheus: requests data from the firewall over its control socket, and serves
//! metrics over HTTP. It is a separate program, so that no part of a firewall listens to the network.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use tokio::net::{TcpListener, TcpSocket};

mod control;
mod family;
mod plain;
mod serve;
mod text;

/// Maximum number of connections that wait in the kernel until this program accepts them.
const BACKLOG: u32 = 16;

/// Serves the metrics of a firewall to Prometheus, at /metrics.
///
/// Needs no root, only a user who may use the control socket (--control-mode 0660, a member of the socket's group).
#[derive(Parser)]
#[command(name = "twinwall-exporter", version)]
struct Options {
    /// Control socket of the firewall, the path of its --control
    #[arg(long, value_name = "PATH")]
    control: PathBuf,
    /// Address to listen at; every client that can connect to it can read the metrics
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:9630", value_parser = endpoint)]
    listen: SocketAddr,
}

/// Parses ADDR:PORT or [ADDR]:PORT; refuses port 0.
fn endpoint(text: &str) -> Result<SocketAddr, &'static str> {
    let address = text.parse().ok();
    address
        .filter(|address: &SocketAddr| address.port() > 0)
        .ok_or("expected an address with a port, like 127.0.0.1:9630 or [::1]:9630")
}

/// Opens the listening socket. Its closed connections do not keep the port in use.
fn listen(address: SocketAddr) -> std::io::Result<TcpListener> {
    let socket = match address {
        SocketAddr::V4(_) => TcpSocket::new_v4()?,
        SocketAddr::V6(_) => TcpSocket::new_v6()?,
    };
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// Prints the reason why listening failed, with the cure. Returns the exit code: 5 if another program uses the port (as
/// for a queue with another owner), 2 for an address that can't be used, otherwise 1.
fn fail_listen(address: SocketAddr, error: &std::io::Error) -> ExitCode {
    let (code, text) = match error.kind() {
        ErrorKind::AddrInUse => (
            5,
            "in use by another program: stop it or choose another port".to_owned(),
        ),
        ErrorKind::AddrNotAvailable => (
            2,
            "this machine has no such address: choose one that `ip address` names".to_owned(),
        ),
        ErrorKind::PermissionDenied => (
            2,
            "the port is for root only: choose one from 1024 on".to_owned(),
        ),
        _ => (1, error.to_string()),
    };
    eprintln!("error: --listen {address}: {text}");
    ExitCode::from(code)
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let options = Options::parse();
    match listen(options.listen) {
        Ok(listener) => {
            eprintln!("ready: http://{}/metrics", options.listen);
            if options.listen.ip().is_unspecified() {
                eprintln!(
                    "warning: --listen {} shows rules and counters to every host that reaches this one: choose a loopback or \
                     management address, or add a rule that lets the collector in alone",
                    options.listen
                );
            }
            serve::serve(listener, options.control).await
        }
        Err(error) => fail_listen(options.listen, &error),
    }
}
