// SPDX-License-Identifier: GPL-2.0-or-later
//! Names in fwctl's listings, recordings and comparisons, where the name comes long after the first bytes of a packet.

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::process::Stdio;

use anyhow::{ensure, Context};
use serde_json::Value;
use testbed::place::LOCALHOST;
use testbed::twin::Twin;
use testbed::wait::{until, PATIENCE};
use twinwall_tests::case::Row;

use super::ctl::{check_has, until_end, Place, OTHER};

pub const ROWS: &[Row] = &[
    ("tail-shows-names", tail),
    ("record-keeps-names", record),
    ("diff-live-of-names", diff_live),
];

const DENIED: &str = "denied.example";
const ALLOWED: &str = "allowed.example";

/// Returns a policy that counts and drops requests for a name.
fn policy(denied: &str) -> String {
    format!(
        "table inet t {{\n\tchain c {{\n\t\ttype filter hook output priority 0; policy accept;\n\t\t\
         http host \"{denied}\" counter drop\n\t}}\n}}\n"
    )
}

/// Sends an HTTP request for a name. Before the name it has 900 bytes of another header, as browsers send.
fn ask(place: &Place, name: &str) -> anyhow::Result<()> {
    let listener = place
        .namespace
        .enter(|| TcpListener::bind((LOCALHOST, 0)))?;
    let to = listener.local_addr()?;
    let mut client = place.namespace.enter(|| TcpStream::connect(to))?;
    let (mut server, _) = listener.accept()?;
    let request = format!(
        "GET / HTTP/1.1\r\nCookie: {}\r\nHost: {name}\r\n\r\n",
        "x".repeat(900)
    );
    client.write_all(request.as_bytes())?;
    if name == ALLOWED {
        server.read_exact(&mut vec![0; request.len()])?;
    }
    Ok(())
}

fn tail(twin: Twin) -> anyhow::Result<()> {
    let place = Place::with(twin, &policy(DENIED), &[])?;
    let arguments = ["tail", "--verdict", "drop", "--count", "1"];
    let mut command = place.command()?;
    let child = command.args(arguments).stdout(Stdio::piped());
    let child = child.stderr(Stdio::piped()).spawn()?;
    place.until_followed(1)?;
    ask(&place, DENIED)?;
    let said = until_end(child)?;
    check_has(said.code(0)?, " bytes, name denied.example, ")
}

/// Sends a datagram, and waits until it is recorded: all packets before it are then recorded, too.
fn wait_recorded(place: &Place, file: &str) -> anyhow::Result<()> {
    const LAST: &[u8] = b"the last datagram";
    let socket = place.namespace.enter(|| UdpSocket::bind((LOCALHOST, 0)))?;
    socket.send_to(LAST, (LOCALHOST, OTHER))?;
    until("the last datagram is recorded", PATIENCE, || {
        let recorded = fs::read(file)?;
        Ok(recorded.windows(LAST.len()).any(|bytes| bytes == LAST))
    })
}

/// Checks that explain repeats a recorded decision by name. With a policy that denies the other name, both directions
/// of both connections get another verdict (flip).
fn record(twin: Twin) -> anyhow::Result<()> {
    let place = Place::with(twin, &policy(DENIED), &[])?;
    let file = place.folder.file("x.pcapng");
    let mut command = place.command()?;
    let child = command.args(["record", "-w", &file]);
    let mut child = child.stderr(Stdio::piped()).spawn()?;
    place.until_followed(1)?;
    ask(&place, ALLOWED)?;
    ask(&place, DENIED)?;
    place.firewall.settled_ledger()?;
    wait_recorded(&place, &file)?;
    testbed::proc::signal(child.id(), libc::SIGINT);
    ensure!(child.wait()?.success());
    place.fwctl(&["explain", "--expect", &file])?.code(0)?;
    let explained = place.fwctl(&["explain", &file])?;
    check_has(explained.code(0)?, DENIED)?;
    let other = place.folder.write("other.nft", policy(ALLOWED))?;
    let flips = place.fwctl(&["diff", &other, &file])?;
    check_has(flips.code(1)?, "4 flows would flip")
}

/// Checks that no verdict flips if the running policy is compared with itself, and that some flip with another policy.
fn diff_live(twin: Twin) -> anyhow::Result<()> {
    for (is_same, code) in [(true, 0), (false, 1)] {
        let place = Place::with(twin, &policy(DENIED), &[])?;
        let new = match is_same {
            true => place.policy.clone(),
            false => place.folder.write("other.nft", policy(ALLOWED))?,
        };
        let said = place.diff_live(&new, |place| ask(place, ALLOWED))?;
        let last = said.code(code)?.lines().last().context("no sums")?;
        let sums: Value = serde_json::from_str(last)?;
        ensure!(sums["packets"].as_u64() > Some(2), "{sums}");
        ensure!((sums["flipped"] == 0) == is_same, "{}", said.stdout);
    }
    Ok(())
}
