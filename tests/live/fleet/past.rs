// SPDX-License-Identifier: GPL-2.0-or-later
//! Hosts that decide recorded packets of the last minutes by a new policy, also by names: the traffic has ended before
//! the operator asks.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};

use anyhow::{ensure, Context};
use testbed::wait::{until, PATIENCE};
use twinwall_tests::fleet::{policy, Host, Place, Row, CHANNEL};

pub const ROWS: &[Row] = &[
    (
        "a-host-decides-its-last-minute-by-names",
        a_host_decides_its_last_minute,
    ),
    (
        "a-policy-with-names-that-would-drop-is-not-applied",
        a_policy_with_names_that_would_drop,
    ),
];

const DENIED: &str = "denied.example";
const ALLOWED: &str = "allowed.example";
/// Value of --seconds and --try: longer than a case may take, so an answer that arrives sooner is about packets before
/// the question.
const SECONDS: &str = "300";

/// Returns a policy that drops HTTP requests for DENIED, and no UDP.
fn names() -> String {
    policy(7777).replace("udp dport 7777", &format!("http host \"{DENIED}\""))
}

/// Sends a request for a name to a server on a host's loopback.
fn ask(host: &Host, name: &str) -> anyhow::Result<()> {
    let (listener, mut client) = host.namespace.enter(|| {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let client = TcpStream::connect(listener.local_addr()?)?;
        anyhow::Ok((listener, client))
    })?;
    let (mut server, _) = listener.accept()?;
    let request = format!("GET / HTTP/1.1\r\nHost: {name}\r\n\r\n");
    client.write_all(request.as_bytes())?;
    server.read_exact(&mut vec![0; request.len()])?;
    Ok(())
}

/// Returns a fleet whose first host records packets. Requests for both names, and datagrams that its policy drops, are
/// already recorded.
fn place(hosts: usize) -> anyhow::Result<Place> {
    let mut place = Place::new(hosts)?;
    place.push_well(&policy(7777))?;
    place.start_record(0)?;
    let host = &place.hosts[0];
    for name in [ALLOWED, DENIED, DENIED] {
        ask(host, name)?;
    }
    let client = host.namespace.enter(|| UdpSocket::bind("127.0.0.1:0"))?;
    for _ in 0..3 {
        client.send_to(b"the last one", "127.0.0.1:7777")?;
    }
    let mut recorded = 0;
    until("the record to have it all", PATIENCE, || {
        let record = place.record(0)?;
        let last = record.windows(12).filter(|part| *part == b"the last one");
        recorded = last.count();
        // Each datagram is recorded in the hooks output and input.
        Ok(recorded == 6)
    })
    .with_context(|| format!("{recorded} datagrams"))?;
    Ok(place)
}

fn a_host_decides_its_last_minute() -> anyhow::Result<()> {
    let place = place(2)?;
    let path = place.folder.write("new.nft", names())?;
    let key = place.folder.file("out/fleet.key");
    let diff = ["diff", CHANNEL, &path, "--seconds", SECONDS, "--sign", &key];
    let (code, said) = place.fleet(&diff)?;
    ensure!(code == Some(1), "{said}");
    ensure!(
        said.contains("1 of 2 hosts tried the policy: 1 on their last 300 s"),
        "{said}"
    );
    let fields = |words: &str| -> anyhow::Result<Vec<String>> {
        let line = said.lines().find(|line| line.contains(words));
        let line = line.with_context(|| format!("{words}: {said}"))?;
        Ok(line.split_whitespace().map(str::to_owned).collect())
    };
    let drops = fields("dropped by policy.nft:4: http host \"denied.example\" counter drop")?;
    // Packets of each request, and those that its client sends after it.
    let packets: u64 = drops[1].parse()?;
    ensure!(
        drops[0] == "h1" && packets >= 2 && drops[2] == "2",
        "{said}"
    );
    let passes = fields("accepted, now dropped by policy.nft:4: udp dport 7777 counter drop")?;
    ensure!(passes[..3] == ["h1", "3", "1"], "{said}");
    fields("h2 ")?;
    fields("keep a record on the host")?;
    ensure!(said.lines().count() == 5, "{said}");

    // With the policy that the host already has, no verdict changes on the same packets.
    let path = place.folder.write("new.nft", policy(7777))?;
    let (_, said) = place.fleet(&["diff", CHANNEL, &path, "--seconds", "1", "--sign", &key])?;
    ensure!(
        said.contains("1 on their last 1 s, 1 on the 1 s that followed")
            && said.contains("nothing would be"),
        "{said}"
    );
    Ok(())
}

fn a_policy_with_names_that_would_drop() -> anyhow::Result<()> {
    let place = place(1)?;
    let options = ["--no-wait", "--try", SECONDS, "--max-drops", "0"];
    let (code, said) = place.push(&names(), &options)?;
    ensure!(code == Some(0), "{said}");
    place.wait_for("reverted", 1)?;
    let why = place.status()?[0]["report"]["why"].to_string();
    ensure!(
        why.contains("it was not applied: policy.nft:4: http host"),
        "{why}"
    );
    place.all_have("udp dport 7777")
}
