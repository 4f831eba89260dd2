// SPDX-License-Identifier: GPL-2.0-or-later
//! The twins make the same system calls for a packet. Otherwise a benchmark would compare designs, not languages.

use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::time::Duration;

use anyhow::{ensure, Context};
use testbed::firewall::Firewall;
use testbed::folder::Folder;
use testbed::place::{namespace, namespace_with, restore, LOCALHOST};
use testbed::proc;
use testbed::strace::{Calls, Trace};
use testbed::traffic::{udp_client, udp_client_to, udp_exchange, UdpFlood, UdpServer};
use testbed::twin::{Twin, BACKENDS, TWINS};
use testbed::wait::{until, PATIENCE};
use twinwall_tests::case::Case;

pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for backend in BACKENDS {
        let name = format!("calls/one-at-a-time/{backend}");
        cases.push(Case::new(name, || one_at_a_time(backend, None)));
        let name = format!("calls/one-at-a-time-with-a-policy/{backend}");
        cases.push(Case::new(name, || one_at_a_time(backend, Some(POLICY))));
        for twin in TWINS {
            let name = format!("calls/flood/{}/{backend}", twin.name());
            cases.push(Case::new(name, move || flood(twin, backend)));
            let name = format!("calls/given-back/{}/{backend}", twin.name());
            cases.push(Case::new(name, move || given_back(twin, backend)));
        }
    }
    for twin in TWINS {
        let name = format!("calls/not-answered/{}", twin.name());
        cases.push(Case::new(name, move || not_answered(twin)));
    }
    cases
}

/// Options of a firewall without a guard: a traced guard may start too slowly on a busy machine.
const NO_GUARD: [&str; 2] = ["--deadline", "0"];
const REQUESTS: u64 = 300;
/// Tolerated difference of calls. A packet that arrives between a verdict and poll changes their number. The case waits
/// until the firewall sleeps before it sends the next packet, so this should not happen; but it depends on timing.
const TOLERANCE: u64 = 3;

/// Policy that reads a packet's headers and its socket's owner, with a limit, a counter and a mark. It reads no
/// interface name, since those are requested once a second.
const POLICY: &str = "table ip t {
	chain c {
		type filter hook output priority 0; policy drop;
		meta skuid != 0 drop
		ip saddr 127.0.0.1 udp dport 9999 limit rate 100000/second counter meta mark set 5 accept
	}
}
";

/// Returns the number of the worker's system calls by name, for REQUESTS packets that arrive one at a time.
/// - policy: text of the policy; None = no policy.
fn calls_one_at_a_time(twin: Twin, backend: &str, policy: Option<&str>) -> anyhow::Result<Calls> {
    let namespace = namespace_with("loopback-9999-udp")?;
    let trace = Trace::new(twin.name());
    let mut arguments = vec![
        "--backend",
        backend,
        "--spin",
        "0",
        "--coalesce",
        "0",
        NO_GUARD[0],
        NO_GUARD[1],
        "--json",
    ];
    let folder = Folder::new()?;
    let file = folder.file("policy.nft");
    if let Some(policy) = policy {
        folder.write("policy.nft", policy)?;
        arguments.extend(["--policy", &file]);
    }
    let firewall = Firewall::start_under(&namespace, &trace.wrapper(), twin, &arguments)?;
    let _server = UdpServer::start(&namespace, LOCALHOST, true)?;
    let client = udp_client(&namespace, LOCALHOST)?;
    let asleep = || firewall.is_idle();
    for _ in 0..REQUESTS {
        until("the worker sleeps in poll", PATIENCE, asleep)?;
        udp_exchange(&client, 1)?;
    }
    until("the worker sleeps in poll", PATIENCE, asleep)?;
    let ledger = firewall.stop()?.total;
    ledger.check_clean()?;
    ensure!(
        ledger.received == REQUESTS,
        "received {} of {REQUESTS}",
        ledger.received
    );
    trace.calls_between_polls()
}

fn one_at_a_time(backend: &'static str, policy: Option<&str>) -> anyhow::Result<()> {
    let [rust, c] = TWINS.map(|twin| calls_one_at_a_time(twin, backend, policy));
    let (rust, c) = (rust.context("rust")?, c.context("c")?);
    println!("{backend}, {REQUESTS} packets one at a time: rust {rust:?}, c {c:?}");
    ensure!(
        rust.keys().eq(c.keys()),
        "different calls: rust {rust:?}, c {c:?}"
    );
    for (name, count) in &rust {
        ensure!(
            count.abs_diff(c[name]) <= TOLERANCE,
            "{name}: rust {count}, c {}",
            c[name]
        );
        // Each call must be made for each packet, the same number of times.
        let per_packet = (*count as f64 / REQUESTS as f64).round() as u64;
        ensure!(
            per_packet > 0,
            "{name} is called {count} times for {REQUESTS} packets"
        );
        ensure!(
            count.abs_diff(per_packet * REQUESTS) <= TOLERANCE,
            "{name} is called {count} times"
        );
    }
    let total: u64 = rust.values().sum();
    // Calls for a packet: poll, receive, answer, and a receive that finds the socket empty.
    ensure!(
        total <= 4 * REQUESTS + TOLERANCE,
        "{total} calls for {REQUESTS} packets: {rust:?}"
    );
    Ok(())
}

/// Checks that in a flood one call serves many packets. The tracer slows the firewall down, so batches are fuller than
/// without it; but a loop with calls per packet would be found.
fn flood(twin: Twin, backend: &'static str) -> anyhow::Result<()> {
    const PACKETS: u64 = 50_000;
    let namespace = namespace_with("loopback-9999-udp")?;
    let trace = Trace::new("flood");
    let arguments = ["--backend", backend, NO_GUARD[0], NO_GUARD[1], "--json"];
    let firewall = Firewall::start_under(&namespace, &trace.wrapper(), twin, &arguments)?;
    let server = UdpServer::start(&namespace, LOCALHOST, false)?;
    let asleep = || firewall.is_idle();
    until("the worker sleeps in poll", PATIENCE, asleep)?;
    let flood = UdpFlood::start(udp_client(&namespace, LOCALHOST)?);
    until(
        "the flood has reached the server",
        Duration::from_secs(120),
        || Ok(server.arrived()? > PACKETS),
    )?;
    flood.stop();
    let ledger = firewall.settled_ledger()?.total;
    firewall.stop()?.total.check_reconciled()?;
    let calls = trace.calls_between_polls()?;
    let total: u64 = calls.values().sum();
    let per_packet = total as f64 / ledger.received as f64;
    println!(
        "{}/{backend}, {} packets in a flood: {per_packet:.3} calls a packet, {calls:?}",
        twin.name(),
        ledger.received
    );
    ensure!(
        total > 0 && per_packet < 0.2,
        "{per_packet:.3} calls a packet: {calls:?}"
    );
    Ok(())
}

/// Policy that reads names, so that the firewall gives queries back to the kernel with their checksum.
const NAMES: &str = r#"table ip t {
	chain c {
		type filter hook output priority 0; policy accept;
		udp dport 53 dns name "denied.example" drop
	}
}
"#;
const QUERY: &[u8] = b"\0\x01\x01\0\0\x01\0\0\0\0\0\0\x07allowed\x07example\0\0\x01\0\x01";

/// Checks that one call answers all packets of a batch, if they are given back to the kernel with their checksum.
fn given_back(twin: Twin, backend: &'static str) -> anyhow::Result<()> {
    const BATCHES: u64 = 50; // more receive calls than the main thread makes at the start
    const PACKETS: u64 = 10;
    let namespace = namespace_with("loopback-names")?;
    let trace = Trace::new("given-back");
    let folder = Folder::new()?;
    let policy = folder.write("policy.nft", NAMES)?;
    let ours = ["--backend", backend, "--policy", &policy, "--json"];
    let arguments = [&ours[..], &NO_GUARD].concat();
    let firewall = Firewall::start_under(&namespace, &trace.wrapper(), twin, &arguments)?;
    let server = SocketAddr::from((LOCALHOST, 53));
    let _unread = namespace.enter(|| UdpSocket::bind(server))?;
    let client = udp_client_to(&namespace, server)?;
    let asleep = || firewall.is_idle();
    let tracer = proc::parent(firewall.pid)?;
    for _ in 0..BATCHES {
        until("the worker sleeps in poll", PATIENCE, asleep)?;
        // The worker stops at the end of its poll, until the tracer continues: then all packets wait.
        proc::stop(tracer)?;
        let sent: Result<Vec<_>, _> = (0..PACKETS).map(|_| client.send(QUERY)).collect();
        proc::signal(tracer, libc::SIGCONT);
        sent?;
    }
    let ledger = firewall.settled_ledger()?.total;
    firewall.stop()?.total.check_reconciled()?;
    let calls = trace.calls_between_polls()?;
    println!("{}/{backend}: {calls:?}", twin.name());
    ensure!(
        ledger.restated == BATCHES * PACKETS,
        "{} given back",
        ledger.restated
    );
    ensure!(calls.get("sendto") == Some(&BATCHES), "{calls:?}");
    Ok(())
}

/// Policy that rejects RSTs, which get no reply.
const REJECT: &str = "table ip t {
	chain c {
		type filter hook output priority 0; policy accept;
		tcp sport 9999 reject with tcp reset
	}
}
";
/// Time limit of a client that gets no answer.
const VAIN: Duration = Duration::from_millis(20);

/// Checks that a rejected packet that gets no reply costs no more send calls than its verdict.
fn not_answered(twin: Twin) -> anyhow::Result<()> {
    const PACKETS: u64 = 50; // more receive calls than the main thread makes at the start
    let namespace = namespace()?;
    let queued = "-A OUTPUT -p tcp --sport 9999 -j NFQUEUE --queue-num 0";
    restore(&namespace, "iptables", queued)?;
    let trace = Trace::new("not-answered");
    let folder = Folder::new()?;
    let policy = folder.write("policy.nft", REJECT)?;
    let arguments = ["--policy", &policy, NO_GUARD[0], NO_GUARD[1], "--json"];
    let firewall = Firewall::start_under(&namespace, &trace.wrapper(), twin, &arguments)?;
    let closed = SocketAddr::from((LOCALHOST, 9999));
    let asleep = || firewall.is_idle();
    for _ in 0..PACKETS {
        until("the worker sleeps in poll", PATIENCE, asleep)?;
        let connected = namespace.enter(|| TcpStream::connect_timeout(&closed, VAIN));
        ensure!(connected.is_err(), "a closed port is open");
    }
    let ledger = firewall.settled_ledger()?.total;
    firewall.stop()?.total.check_reconciled()?;
    let calls = trace.calls_between_polls()?;
    println!("{}: {calls:?}", twin.name());
    let sent = calls.get("sendto").copied().unwrap_or(0);
    ensure!(
        ledger.replies.not_due == ledger.received && ledger.received >= PACKETS,
        "{ledger:?}"
    );
    ensure!(sent <= ledger.received, "{sent} calls: {calls:?}");
    Ok(())
}
