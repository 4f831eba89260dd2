// SPDX-License-Identifier: GPL-2.0-or-later
//! State of rules that must survive a reload.

use std::io;
use std::net::UdpSocket;

use anyhow::{ensure, Context};
use testbed::control::Client;
use testbed::firewall::{Firewall, PATIENT_GUARD};
use testbed::ledger::Stats;
use testbed::place::{namespace_with, LOCALHOST};
use testbed::proc;
use testbed::traffic::{udp_client, udp_send, UdpServer};
use testbed::twin::Twin;
use testbed::wait::{until, watch_silence, PATIENCE};
use twinwall_tests::case::Row;

use super::folder::PolicyFolder;

pub const ROWS: &[Row] = &[
    ("counters-of-rules-that-stay-go-on", counters),
    ("a-quota-goes-on", quota),
    ("sighup-reads-the-policy-anew", sighup),
    ("a-later-policy-may-reject", reject),
    ("an-idle-worker-is-woken", idle),
];

/// Returns the packet count of a rule's counter in a ledger.
/// - rule: "FILE:LINE".
pub fn counter_of(stats: &Stats, rule: &str) -> anyhow::Result<u64> {
    let policy = stats.policy.as_ref().context("no policy in the ledger")?;
    let mut counters = policy.counters.iter();
    let counter = counters.find(|counter| counter.rule == rule);
    let counter = counter.with_context(|| format!("no counter of {rule}: {policy:?}"))?;
    Ok(counter.packets)
}

/// Returns a policy of one chain for outgoing packets, with these rules from line 4 on.
pub fn chain(rules: &str) -> String {
    format!(
        "table ip t {{\n\tchain c {{\n\t\ttype filter hook output priority 0; policy accept;\n{rules}\n\t}}\n}}\n"
    )
}

fn counters(twin: Twin) -> anyhow::Result<()> {
    let namespace = namespace_with("loopback-9999-udp")?;
    let folder = PolicyFolder::new(&chain(
        "udp dport 9999 counter\n udp dport 9999 counter comment \"web\"\n ip ttl 64 counter packets 100 bytes 1",
    ))?;
    let (path, control) = (folder.policy(), folder.control());
    let arguments = [
        "--policy",
        &path,
        "--control",
        &control,
        "--log-level",
        "error",
    ];
    let arguments = [&arguments[..], &PATIENT_GUARD].concat();
    let firewall = Firewall::start(&namespace, twin, &arguments)?;
    let server = UdpServer::start(&namespace, LOCALHOST, false)?;
    let packets = udp_client(&namespace, LOCALHOST)?;
    udp_send(&packets, 3, 18)?;
    server.check_arrived(3)?;

    // The second and third rule stay; they are identified by comment and by text. The former first rule is now the
    // last, without a comment, and counts as new.
    folder.write(&chain(
        "ip ttl 64 counter packets 7 bytes 1\n udp dport 1-9999 counter comment \"web\"\n udp dport 9999 accept\n \
         counter packets 50 bytes 1",
    ))?;
    let answer = Client::new(&control)?.command("reload")?;
    let expected = r#"{"ok":true,"generation":2,"rules":4,"kept":2,"added":2,"removed":1}"#;
    let mut shown = answer.clone();
    shown
        .as_object_mut()
        .context("an object")?
        .remove("milliseconds");
    ensure!(
        shown == serde_json::from_str::<serde_json::Value>(expected)?,
        "{answer}"
    );
    udp_send(&packets, 2, 18)?;
    server.check_arrived(5)?;
    for stats in [firewall.settled_ledger()?, firewall.stop()?] {
        for (line, packets) in [(4, 105), (5, 5), (7, 50)] {
            let counted = counter_of(&stats, &format!("{path}:{line}"))?;
            ensure!(
                counted == packets,
                "line {line} counted {counted}, not {packets}"
            );
        }
    }
    Ok(())
}

/// Length in bytes of a payload with which a datagram has 100 bytes, headers included.
const PAYLOAD: usize = 72;

fn quota(twin: Twin) -> anyhow::Result<()> {
    let namespace = namespace_with("loopback-9999-udp")?;
    let rules = "udp dport 9999 quota over 1000 bytes drop";
    let folder = PolicyFolder::new(&chain(rules))?;
    let (path, control) = (folder.policy(), folder.control());
    let arguments = [
        "--policy",
        &path,
        "--control",
        &control,
        "--log-level",
        "error",
    ];
    let arguments = [&arguments[..], &PATIENT_GUARD].concat();
    let firewall = Firewall::start(&namespace, twin, &arguments)?;
    let server = UdpServer::start(&namespace, LOCALHOST, false)?;
    let packets = udp_client(&namespace, LOCALHOST)?;
    udp_send(&packets, 6, PAYLOAD)?;
    server.check_arrived(6)?;
    folder.write(&chain(&format!("ip protocol icmp accept\n {rules}")))?;
    Client::new(&control)?.command("reload")?;
    udp_send(&packets, 6, PAYLOAD)?;
    let stats = firewall.finish()?;
    ensure!(stats.total.verdict("accept") == 10, "{stats:?}");
    server.check_arrived(10)
}

fn sighup(twin: Twin) -> anyhow::Result<()> {
    let namespace = namespace_with("loopback-9999-udp")?;
    let folder = PolicyFolder::new(&chain("udp dport 9999 counter"))?;
    let path = folder.policy();
    let arguments = [["--policy", &path], PATIENT_GUARD].concat();
    let firewall = Firewall::start(&namespace, twin, &arguments)?;
    let server = UdpServer::start(&namespace, LOCALHOST, false)?;
    let packets = udp_client(&namespace, LOCALHOST)?;
    udp_send(&packets, 2, 18)?;
    server.check_arrived(2)?;
    folder.write(&chain("udp dport 9999 counter\n udp dport 9999 drop"))?;
    proc::signal(firewall.pid, libc::SIGHUP);
    until("the new policy drops", PATIENCE, || {
        udp_send(&packets, 1, 18)?;
        Ok(firewall.settled_ledger()?.total.verdict("drop") > 0)
    })?;
    let stats = firewall.settled_ledger()?;
    ensure!(
        counter_of(&stats, &format!("{path}:4"))? == stats.total.received,
        "{stats:?}"
    );
    let ended = firewall.end_by(libc::SIGTERM)?;
    ensure!(ended.code == Some(0), "exit code {:?}", ended.code);
    let line = "info: reload: policy 2: 2 rules, 1 kept, 1 added, 0 removed\n";
    ensure!(ended.stderr == line, "stderr: {}", ended.stderr);
    Ok(())
}

/// Sends a packet to the port of the rules, and receives the server's reply. Fails if the receive fails.
fn error_of(client: &UdpSocket) -> io::Result<()> {
    client.send(b"x")?;
    client.recv(&mut [0]).map(drop)
}

fn reject(twin: Twin) -> anyhow::Result<()> {
    let namespace = namespace_with("loopback-9999-udp")?;
    let folder = PolicyFolder::new(&chain("udp dport 9999 ip saddr 127.0.0.1 accept"))?;
    let (path, control) = (folder.policy(), folder.control());
    let arguments = [
        "--policy",
        &path,
        "--control",
        &control,
        "--log-level",
        "error",
        "--copy-bytes",
        "128", // an answer quotes the packet
    ];
    let arguments = [&arguments[..], &PATIENT_GUARD].concat();
    let firewall = Firewall::start(&namespace, twin, &arguments)?;
    let _server = UdpServer::start(&namespace, LOCALHOST, true)?;
    let client = udp_client(&namespace, LOCALHOST)?;
    error_of(&client)?;
    folder.write(&chain("udp dport 9999 reject with icmp port-unreachable"))?;
    Client::new(&control)?.command("reload")?;
    let error = error_of(&client).err().map(|error| error.kind());
    ensure!(error == Some(io::ErrorKind::ConnectionRefused), "{error:?}");
    let stats = firewall.finish()?;
    let answers = stats.total.replies;
    ensure!(answers.sent == 1, "{answers:?}");
    Ok(())
}

/// Checks that ten reloads succeed without traffic, and that the worker then sleeps and uses almost no CPU time.
fn idle(twin: Twin) -> anyhow::Result<()> {
    let namespace = namespace_with("loopback-9999-udp")?;
    let folder = PolicyFolder::new(&chain("udp dport 9999 counter"))?;
    let (path, control) = (folder.policy(), folder.control());
    let arguments = [
        "--policy",
        &path,
        "--control",
        &control,
        "--log-level",
        "error",
    ];
    let firewall = Firewall::start(&namespace, twin, &arguments)?;
    let mut client = Client::new(&control)?;
    for _ in 0..10 {
        client.command("reload")?;
    }
    until("the worker sleeps in poll", PATIENCE, || firewall.is_idle())?;
    let before = proc::ticks(firewall.pid)?;
    watch_silence(std::time::Duration::from_millis(300));
    let spent = proc::ticks(firewall.pid)? - before;
    ensure!(spent < 5, "{spent} clock ticks with nothing to do");
    firewall.stop()?;
    Ok(())
}
