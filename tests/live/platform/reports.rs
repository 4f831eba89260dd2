// SPDX-License-Identifier: GPL-2.0-or-later
//! The ledger as text and as JSON: both twins print it as documented, byte for byte.

use std::time::{Duration, Instant};

use anyhow::{ensure, Context};
use testbed::firewall::{Firewall, PATIENT_GUARD};
use testbed::ledger::Stats;
use testbed::netns::Namespace;
use testbed::packets::{ipv4, tcp, RawSender};
use testbed::place::{namespace_with, restore, LOCALHOST};
use testbed::proc;
use testbed::traffic::{udp_client, udp_send, UdpServer};
use testbed::twin::{Twin, TWINS};
use testbed::wait::{pause_for, until, watch_silence, PATIENCE};
use twinwall_tests::case::Case;

type Body = fn(Twin) -> anyhow::Result<()>;

pub fn cases() -> Vec<Case> {
    let bodies: [(&str, Body); 6] = [
        ("text", text),
        ("text-of-two-queues", text_of_two_queues),
        ("json", json),
        ("interval", interval),
        ("after-overload", after_overload),
        ("no-waking-when-idle", no_waking_when_idle),
    ];
    let mut cases = Vec::new();
    for (name, body) in bodies {
        for twin in TWINS {
            let name = format!("reports/{name}/{}", twin.name());
            cases.push(Case::new(name, move || body(twin)));
        }
    }
    cases
}

const SMALL: [&str; 2] = ["--receive-buffer", "1048576"];
const SENT: u64 = 100;
/// Length of a packet: 18 bytes of payload, 8 of UDP, 20 of IPv4.
const PACKET_BYTES: u64 = 46;

/// Starts a UDP server, and sends SENT datagrams to it. Without a server the sender would receive port-unreachable
/// errors.
fn send(namespace: &Namespace) -> anyhow::Result<()> {
    let _server = UdpServer::start(namespace, LOCALHOST, false)?;
    udp_send(&udp_client(namespace, LOCALHOST)?, SENT, 18)
}

/// Sends SENT datagrams, and a TCP packet whose header length exceeds the packet. Returns the length of the TCP packet
/// in bytes.
fn send_with_one_malformed(namespace: &Namespace) -> anyhow::Result<u64> {
    restore(namespace, "iptables", "-A TWINWALL -p tcp -j NFQUEUE")?;
    let malformed = ipv4(libc::IPPROTO_TCP as u8, 0, &tcp(15));
    RawSender::new(namespace, LOCALHOST)?.send(&malformed)?;
    send(namespace)?;
    Ok(malformed.len() as u64)
}

/// Requests reports until one equals the expected text: a report may be printed while packets are in progress.
fn check_report(firewall: &Firewall, expected: &str) -> anyhow::Result<()> {
    let end = Instant::now() + PATIENCE;
    loop {
        proc::signal(firewall.pid, libc::SIGUSR1);
        let lines = expected.lines().map(|_| firewall.line());
        let report = lines.collect::<anyhow::Result<Vec<String>>>()?;
        match check_lines(&report, expected) {
            Err(_) if Instant::now() < end => continue,
            result => return result,
        }
    }
}

fn check_lines(found: &[String], expected: &str) -> anyhow::Result<()> {
    let found: String = found.iter().map(|line| format!("{line}\n")).collect();
    ensure!(
        found == expected,
        "the report is\n{found}and should be\n{expected}"
    );
    Ok(())
}

fn text(twin: Twin) -> anyhow::Result<()> {
    let namespace = namespace_with("loopback-9999-udp")?;
    let arguments = [SMALL, PATIENT_GUARD].concat();
    let firewall = Firewall::start_under(&namespace, &[], twin, &arguments)?;
    let bytes = send_with_one_malformed(&namespace)? + SENT * PACKET_BYTES;
    let expected = format!(
        "queue 0: received 101 packets, {bytes} bytes\n\
         \x20 verdicts: accept 100, drop 1, reject 0, mark 0, repeat 0, requeue 0; refused by the kernel 0\n\
         \x20 malformed: tcp-data-offset 1\n\
         \x20 beyond copy 0, truncated 0, without id 0, gaps 0, overruns 0, send retries 0, stalled 0\n\
         \x20 kernel: offered 101, waiting 0, queue full 0, user drop 0, unseen 0\n\
         \x20 ledger: reconciled, lost 0 in the queue\n"
    );
    check_report(&firewall, &expected)?;
    let ended = firewall.end_by(libc::SIGTERM)?;
    check_lines(&ended.lines, &expected)
}

fn text_of_two_queues(twin: Twin) -> anyhow::Result<()> {
    let namespace = namespace_with("loopback-9999-udp")?;
    restore(
        &namespace,
        "iptables",
        "-A TWINWALL -p icmp -j NFQUEUE --queue-num 1",
    )?;
    let queues = ["--queue", "0:1", "--default", "drop"];
    let arguments = [&queues[..], &SMALL, &PATIENT_GUARD].concat();
    let firewall = Firewall::start_under(&namespace, &[], twin, &arguments)?;
    send(&namespace)?;
    let block = |title: &str, packets: u64| {
        format!(
            "{title}: received {packets} packets, {} bytes\n\
             \x20 verdicts: accept 0, drop {packets}, reject 0, mark 0, repeat 0, requeue 0; refused by the kernel 0\n\
             \x20 malformed: none\n\
             \x20 beyond copy 0, truncated 0, without id 0, gaps 0, overruns 0, send retries 0, stalled 0\n\
             \x20 kernel: offered {packets}, waiting 0, queue full 0, user drop 0, unseen 0\n\
             \x20 ledger: reconciled, lost 0 in the queue\n",
            packets * PACKET_BYTES
        )
    };
    let expected = block("queue 0", SENT) + &block("queue 1", 0) + &block("total", SENT);
    check_report(&firewall, &expected)?;
    let ended = firewall.end_by(libc::SIGINT)?;
    check_lines(&ended.lines, &expected)
}

fn json(twin: Twin) -> anyhow::Result<()> {
    let namespace = namespace_with("loopback-9999-udp")?;
    let arguments = [SMALL, PATIENT_GUARD].concat();
    let firewall = Firewall::start(&namespace, twin, &arguments)?;
    let bytes = send_with_one_malformed(&namespace)? + SENT * PACKET_BYTES;
    let time_ms = firewall.settled_ledger()?.time_ms;
    let ended = firewall.end_by(libc::SIGTERM)?;
    let line = ended.lines.last().context("no ledger at exit")?;
    let stats = Stats::parse(line)?;
    ensure!(
        stats.time_ms >= time_ms,
        "time_ms goes back from {time_ms} to {}",
        stats.time_ms
    );

    let names = "empty version ipv4-short ipv4-header-length ipv4-total-length ipv4-fragment-overflow ipv6-short \
                 ipv6-payload-length ipv6-extension-short ipv6-extension-limit ipv6-fragment-overflow tcp-short \
                 tcp-data-offset udp-short udp-length icmp-short icmpv6-short netlink";
    let count = |name| u64::from(name == "tcp-data-offset");
    let malformed = names
        .split(' ')
        .map(|name| format!("\"{name}\":{}", count(name)));
    let malformed = malformed.collect::<Vec<_>>().join(",");
    let zeros = |names: &str| {
        let names = names.split(' ').map(|name| format!("\"{name}\":0"));
        names.collect::<Vec<_>>().join(",")
    };
    let policy = format!(
        "{},\"replies\":{{{}}},\"connections\":{{{}}},\"answers\":{{{}}},\"elements\":{{{}}},",
        zeros("undecidable undecided without_ct_state restated"),
        zeros("sent not_due failed"),
        zeros("opened other tls quic http dns denied evasion unreadable evicted"),
        zeros("learned empty other unasked unreadable"),
        zeros("added failed")
    );
    let ledger = format!(
        "\"received\":101,\"bytes\":{bytes},\"verdicts\":{{\"accept\":100,\"drop\":1,\"reject\":0,\"mark\":0,\
         \"repeat\":0,\"requeue\":0}},\"refused\":0,\"malformed\":{{{malformed}}},\"beyond_copy\":0,\"truncated\":0,\
         \"without_id\":0,\"gaps\":0,\"overruns\":0,\"send_retries\":0,{policy}\"stalled\":0,\"kernel\":{{\"offered\":101,\"waiting\":0,\"queue_full\":0,\"user_drop\":0,\"unseen\":0}},\
         \"lost\":0,\"difference\":0,\"reconciled\":true}}"
    );
    let expected = format!(
        "{{\"event\":\"stats\",\"program\":\"{}\",\"time_ms\":{},\"reason\":\"exit\",\"queues\":[{{\"queue\":0,\
         {ledger}],\"total\":{{{ledger},\"reconciled\":true}}",
        twin.program(),
        stats.time_ms
    );
    ensure!(
        *line == expected,
        "the report is\n{line}\nand should be\n{expected}"
    );
    Ok(())
}

/// Checks that --stats 1 prints a report every second without a request.
fn interval(twin: Twin) -> anyhow::Result<()> {
    const TRUNCATED_MS: u64 = 2;
    let namespace = namespace_with("loopback-9999-udp")?;
    let arguments = [["--stats", "1"], SMALL, PATIENT_GUARD].concat();
    let firewall = Firewall::start(&namespace, twin, &arguments)?;
    send(&namespace)?;
    let mut times = Vec::new();
    until("three reports have come by themselves", PATIENCE, || {
        // Requested reports, more than one a second, must not delay the periodic reports.
        proc::signal(firewall.pid, libc::SIGUSR1);
        loop {
            let stats = Stats::parse(&firewall.line()?)?;
            if stats.reason == "signal" {
                break;
            }
            ensure!(stats.reason == "interval", "reason {}", stats.reason);
            times.push(stats.time_ms);
        }
        pause_for(Duration::from_millis(200));
        Ok(times.len() >= 3)
    })?;
    // On a busy machine reports may be late, but they are never early.
    let start_ms = firewall.start_line()?.time_ms;
    for (time_ms, due_ms) in times.iter().zip((start_ms..).step_by(1000).skip(1)) {
        ensure!(
            time_ms + TRUNCATED_MS >= due_ms,
            "a report at {time_ms} that was due at {due_ms}"
        );
    }
    let ledger = firewall.stop()?.total;
    ledger.check_clean()?;
    ensure!(ledger.received == SENT, "received {}", ledger.received);
    Ok(())
}

/// Checks that the ledger as text contains losses, and that known losses are not reported as a difference.
fn after_overload(twin: Twin) -> anyhow::Result<()> {
    let namespace = namespace_with("loopback-9999-udp")?;
    // On a busy machine a guard would answer the waiting packets.
    let arguments = [
        "--queue-length",
        "10",
        "--deadline",
        "0",
        SMALL[0],
        SMALL[1],
    ];
    let firewall = Firewall::start_under(&namespace, &[], twin, &arguments)?;
    let server = UdpServer::start(&namespace, LOCALHOST, false)?;
    testbed::overload::send_while_stopped(&namespace, &firewall, SENT)?;
    until("what fitted is delivered", PATIENCE, || {
        Ok(server.arrived()? == 10)
    })?;
    let ended = firewall.end_by(libc::SIGTERM)?;
    ensure!(
        ended.stderr.is_empty() && ended.code == Some(0),
        "{:?}: {}",
        ended.code,
        ended.stderr
    );
    let expected = format!(
        "queue 0: received 10 packets, {} bytes\n\
         \x20 verdicts: accept 10, drop 0, reject 0, mark 0, repeat 0, requeue 0; refused by the kernel 0\n\
         \x20 malformed: none\n\
         \x20 beyond copy 0, truncated 0, without id 0, gaps 0, overruns 0, send retries 0, stalled 0\n\
         \x20 kernel: offered 10, waiting 0, queue full 90, user drop 0, unseen 0\n\
         \x20 ledger: reconciled, lost 90 in the queue\n",
        10 * PACKET_BYTES
    );
    check_lines(&ended.lines, &expected)
}

/// Checks that without packets the firewall sleeps: no thread wakes up, and no CPU time is used.
fn no_waking_when_idle(twin: Twin) -> anyhow::Result<()> {
    let namespace = namespace_with("loopback-9999-udp")?;
    let arguments = [["--queue", "0:1"], SMALL, PATIENT_GUARD].concat();
    let firewall = Firewall::start(&namespace, twin, &arguments)?;
    send(&namespace)?;
    firewall.settled_ledger()?;
    // The main thread has printed the ledger, and the workers have nothing to receive.
    until("all threads sleep", PATIENCE, || {
        Ok(firewall.is_idle()? && proc::state(firewall.pid)? == 'S')
    })?;
    let before = (proc::sleeps(firewall.pid)?, proc::ticks(firewall.pid)?);
    watch_silence(Duration::from_secs(1));
    let after = (proc::sleeps(firewall.pid)?, proc::ticks(firewall.pid)?);
    ensure!(
        before == after,
        "(sleeps, ticks) went from {before:?} to {after:?} within an idle second"
    );
    firewall.stop()?.total.check_clean()
}
