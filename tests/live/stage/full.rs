// SPDX-License-Identifier: GPL-2.0-or-later
//! The ways of the part `evasion` while conntrack is at its limit of connections (`nf_conntrack_max`). A namespace can't set
//! the limit: these cases run in a virtual machine, whose limit vm/test lowers.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{ensure, Context};
use testbed::place::run;
use testbed::twin::Twin;
use testbed::wait::{pause_for, until, PATIENCE};
use twinwall_tests::case::Row;

use super::ends::QUIET;
use super::Stage;
use crate::evasion::hello::{self, Opening};
use crate::evasion::net::{Net, Sees, SERVER};
use crate::evasion::wire::Version::V4;
use crate::evasion::{self, BLOCK_LIST};
use crate::names::is_fetched;

pub const ROWS: &[Row] = &[
    ("evasion-while-conntrack-evicts", evicted),
    ("conntrack-refuses-connections", refused),
];

/// Highest nf_conntrack_max with which the cases run; with a higher limit they fail.
const LIMIT_MAX: usize = 1024;
/// Ports of the server that no program uses.
const CLOSED_PORTS: std::ops::Range<u16> = 10_000..60_000;
/// Number of datagrams between two pauses. In the time of a pause, an emulated machine can't forward more datagrams
/// beside the packets of clients that hide names.
const BURST: usize = 32;
const PAUSE: Duration = Duration::from_millis(100);
/// Number of real clients with each name. Clients with the allowed name count only if they are served.
const CLIENTS: usize = 10;
/// Time after which a connection that gets no SYN-ACK counts as refused.
const REFUSED: Duration = Duration::from_secs(3);

/// Returns conntrack's maximum number of connections (nf_conntrack_max). Fails if it exceeds LIMIT_MAX.
fn limit(net: &Net) -> anyhow::Result<usize> {
    let name = "net.netfilter.nf_conntrack_max";
    let limit = run(&net.firewall, "sysctl", &["-n", name])?.stdout;
    let limit = String::from_utf8(limit)?.trim().parse()?;
    ensure!(
        limit <= LIMIT_MAX,
        "{name} is {limit}: these cases run in a virtual machine, vm/test conntrack-full"
    );
    Ok(limit)
}

/// Returns a counter of conntrack: `drop` for packets of connections for which there was no room, `early_drop` for
/// connections that it has evicted.
fn counted(net: &Net, name: &str) -> anyhow::Result<u64> {
    let statistics = run(&net.firewall, "conntrack", &["-S"])?.stdout;
    let prefix = format!("{name}=");
    let mut sum = 0;
    for word in String::from_utf8(statistics)?.split_whitespace() {
        if let Some(value) = word.strip_prefix(&prefix) {
            sum += value.parse::<u64>()?;
        }
    }
    Ok(sum)
}

/// Sends datagrams to closed ports until `is_done`. Each datagram begins a connection; conntrack evicts an older
/// connection for it, and may evict it for a newer one.
fn fill(net: &Net, is_done: &AtomicBool) -> anyhow::Result<()> {
    let socket = net.client.enter(|| UdpSocket::bind(("0.0.0.0", 0)))?;
    let mut ports = CLOSED_PORTS.cycle();
    while !is_done.load(Ordering::Relaxed) {
        for port in ports.by_ref().take(BURST) {
            socket.send_to(&[0], SocketAddr::from((SERVER, port)))?;
        }
        pause_for(PAUSE);
    }
    Ok(())
}

/// Returns true if nginx answers an HTTP request for a host name.
/// - stream: open connection to nginx.
/// - patience: time limit for the answer.
fn is_answered(mut stream: TcpStream, name: &str, patience: Duration) -> anyhow::Result<bool> {
    let Opening { bytes, answer, .. } = hello::http(name, "\r\n");
    stream.set_read_timeout(Some(patience))?;
    stream.write_all(&bytes)?;
    let mut read = vec![0; answer.len()];
    Ok(stream.read_exact(&mut read).is_ok() && read == answer)
}

/// Checks that real clients reach an allowed name, since their kernel sends lost packets again, and no denied name.
fn real_ends(net: &Net) -> anyhow::Result<()> {
    for _ in 0..CLIENTS {
        until("an allowed name passes", PATIENCE, || {
            is_fetched(net, "allowed.example")
        })?;
        ensure!(!is_fetched(net, "denied.example")?, "a denied name passed");
    }
    Ok(())
}

/// Checks that no way to hide a denied name passes while conntrack evicts connections, and that allowed names pass.
fn evicted(twin: Twin) -> anyhow::Result<()> {
    let mut net = Net::new(Sees::Both)?;
    net.loses_openings = true;
    limit(&net)?;
    let stage = Stage::start(&net, twin, BLOCK_LIST)?;
    let is_done = AtomicBool::new(false);
    thread::scope(|scope| {
        let filler = scope.spawn(|| fill(&net, &is_done));
        let tried = until("conntrack evicts", PATIENCE, || {
            Ok(counted(&net, "early_drop")? > 0)
        })
        .and_then(|()| evasion::hold_running(&net, V4))
        .and_then(|()| real_ends(&net));
        is_done.store(true, Ordering::Relaxed);
        filler.join().expect("no panic")?;
        println!(
            "conntrack has evicted {} connections and refused {} packets",
            counted(&net, "early_drop")?,
            counted(&net, "drop")?
        );
        tried
    })?;
    stage.end()
}

/// Checks that a connection for which conntrack has no room does not pass, whatever its name. The connections in
/// conntrack are decided by their names, and new connections pass again after old ones have ended.
fn refused(twin: Twin) -> anyhow::Result<()> {
    let net = Net::new(Sees::Both)?;
    let limit = limit(&net)?;
    let timeout = "net.netfilter.nf_conntrack_tcp_timeout_time_wait=1";
    run(&net.firewall, "sysctl", &["-qw", timeout])?;
    let stage = Stage::start(&net, twin, BLOCK_LIST)?;
    let server = SocketAddr::from((SERVER, 80));
    let mut held = Vec::new();
    let open = || TcpStream::connect_timeout(&server, REFUSED);
    for _ in 0..2 * limit {
        match net.client.enter(open) {
            Ok(stream) => held.push(stream),
            Err(_) if counted(&net, "drop")? > 0 => break,
            // Only the machine was slow.
            Err(_) => {}
        }
    }
    println!("{} connections, with a limit of {limit}", held.len());
    ensure!(2 * held.len() > limit, "{} of {limit}", held.len());
    ensure!(
        counted(&net, "drop")? > 0,
        "conntrack refuses no connection"
    );
    for name in ["allowed.example", "denied.example"] {
        ensure!(!is_fetched(&net, name)?, "{name} passed");
    }
    let mut next = || held.pop().context("a connection");
    ensure!(!is_answered(next()?, "denied.example", QUIET)?);
    ensure!(is_answered(next()?, "allowed.example", PATIENCE)?);
    drop(held);
    until("a connection passes", PATIENCE, || {
        is_fetched(&net, "allowed.example")
    })?;
    ensure!(!is_fetched(&net, "denied.example")?, "a denied name passed");
    stage.end()
}
