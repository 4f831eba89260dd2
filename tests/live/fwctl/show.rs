// SPDX-License-Identifier: GPL-2.0-or-later
//! Reports of fwctl on a firewall, and small commands.

use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::process::Stdio;

use anyhow::{ensure, Context};
use serde_json::Value;
use testbed::firewall::Firewall;
use testbed::folder::Folder;
use testbed::place::{namespace, restore, run, LOCALHOST};
use testbed::proc;
use testbed::skip::not_installed;
use testbed::twin::Twin;
use testbed::wait::{until, PATIENCE};
use twinwall_tests::case::Row;

use super::ctl::{check_has, fwctl, until_end, Place, ACCEPTED, DROPPED, OTHER, POLICY};
use super::doctor::until_in_time;

/// Process name of the guard, as shown by ps.
const GUARD: &str = "firewall-guard";

pub const ROWS: &[Row] = &[
    ("status", status),
    ("status-red", status_red),
    ("status-of-rules-that-came-later", later_rules),
    ("status-without-the-guard", without_guard),
    ("rules", rules),
    ("reload", reload),
    ("log", log),
    ("tail", tail),
    ("tail-of-a-handshake", handshake),
    ("tail-until-the-end", tail_until_the_end),
    ("record", record),
    ("drain", drain),
];

fn status(twin: Twin) -> anyhow::Result<()> {
    let place = Place::new(twin)?;
    place.send(DROPPED, 3)?;
    place.firewall.settled_ledger()?;
    let object = place.fwctl(&["status", "--json"])?.object()?;
    ensure!(object["program"] == twin.program(), "{object}");
    ensure!(object["pid"] == place.firewall.pid, "{object}");
    ensure!(object["ledger"]["reconciled"] == true, "{object}");
    let said = place.fwctl(&["status"])?;
    let text = said.code(0)?;
    check_has(
        text,
        &format!("{} 0.1.0, pid {}, ", twin.program(), place.firewall.pid),
    )?;
    check_has(text, &format!("  policy     {}\n", place.policy))?;
    check_has(text, "generation 1, loaded ")?;
    check_has(text, ": 1 chain, 2 rules; reads ")?;
    check_has(text, "  ledger     reconciled, lost 0 in the queues\n")?;
    for situation in [
        "overload",
        "stall",
        "crash",
        "malformed",
        "truncated",
        "unknown",
    ] {
        check_has(text, &format!(" {situation:<9}  closed  "))?;
    }
    Ok(())
}

/// Checks that a firewall that can't read the kernel's counters reports that its ledger does not reconcile.
fn status_red(twin: Twin) -> anyhow::Result<()> {
    let (namespace, folder) = (namespace()?, Folder::new()?);
    restore(&namespace, "iptables", "-A OUTPUT -j NFQUEUE --queue-num 0")?;
    let socket = folder.file("control");
    std::os::unix::fs::chown(folder.file(""), Some(65534), Some(65534))?;
    let user = "setpriv --reuid 65534 --regid 65534 --clear-groups --inh-caps -all,+net_admin \
                --ambient-caps -all,+net_admin --bounding-set -all,+net_admin";
    let wrapper: Vec<&str> = user.split_whitespace().collect();
    let arguments = ["--control", &socket, "--json"];
    let _firewall = Firewall::start_under(&namespace, &wrapper, twin, &arguments)?;
    let sender = namespace.enter(|| UdpSocket::bind((LOCALHOST, 0)))?;
    sender.send_to(b"x", (LOCALHOST, OTHER))?;
    until("the ledger is red", PATIENCE, || {
        Ok(fwctl(&namespace, &socket, &["status"])?.code == Some(1))
    })?;
    let said = fwctl(&namespace, &socket, &["status"])?;
    check_has(said.code(1)?, "NOT RECONCILED")
}

fn rules(twin: Twin) -> anyhow::Result<()> {
    let place = Place::new(twin)?;
    place.send(ACCEPTED, 5)?;
    place.firewall.settled_ledger()?;
    let object = place.fwctl(&["rules", "--json"])?.object()?;
    ensure!(
        object["rules"][0]["counters"][0]["packets"] == 5,
        "{object}"
    );
    let said = place.fwctl(&["rules"])?;
    let text = said.code(0)?;
    check_has(text, "chain inet filter output\n")?;
    let row = format!(
        "{}:4        5    145  udp dport 9001 counter accept comment \"wanted\"\n",
        place.policy
    );
    check_has(text, &row)
}

fn reload(twin: Twin) -> anyhow::Result<()> {
    let place = Place::new(twin)?;
    let said = place.fwctl(&["reload"])?;
    check_has(
        said.code(0)?,
        "reloaded: generation 2, 2 rules: 2 kept, 0 added, 0 removed; ",
    )?;
    place.folder.write(
        "web.nft",
        "table inet filter {\n\tchain c {\n\t\tacept\n\t}\n}\n",
    )?;
    let place_of_it = format!("{}:3:3: ", place.policy);
    place.fwctl(&["reload"])?.error(4, &place_of_it)?;
    let said = place.fwctl(&["status"])?;
    check_has(said.code(0)?, "failed, the old policy stays: ")?;
    let object = place.fwctl(&["status", "--json"])?.object()?;
    ensure!(object["policy"]["generation"] == 2, "{object}");
    broken_expectation(&place)
}

/// Checks that fwctl refuses to reload a policy that breaks an expectation, and reloads a policy that meets it.
fn broken_expectation(place: &Place) -> anyhow::Result<()> {
    let held = format!("{POLICY}# expect: udp -> :1 accept\n");
    place
        .folder
        .write("web.nft", format!("{held}# expect: udp -> :1 drop\n"))?;
    place
        .fwctl(&["reload"])?
        .error(2, "expected drop, got accept (")?;
    let object = place.fwctl(&["status", "--json"])?.object()?;
    ensure!(object["policy"]["generation"] == 2, "{object}");
    place.folder.write("web.nft", held)?;
    place.fwctl(&["reload"])?.code(0).map(drop)
}

fn log(twin: Twin) -> anyhow::Result<()> {
    let place = Place::new(twin)?;
    for (arguments, expected) in [
        (&["log"][..], "info\n"),
        (&["log", "debug"], "debug (was info)\n"),
        (&["log"], "debug\n"),
    ] {
        let said = place.fwctl(arguments)?;
        ensure!(said.code(0)? == expected, "{arguments:?}: {}", said.stdout);
    }
    let object = place.fwctl(&["log", "--json"])?.object()?;
    ensure!(object["level"] == "debug", "{object}");
    Ok(())
}

/// Starts `fwctl tail`. After it has connected, sends a packet to each of the ports ACCEPTED, DROPPED and OTHER.
/// Returns the stdout of `fwctl tail` after its end.
fn tailed(place: &Place, arguments: &[&str]) -> anyhow::Result<String> {
    let child = place
        .command()?
        .args([&["tail"], arguments].concat())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    place.until_followed(1)?;
    for port in [ACCEPTED, DROPPED, OTHER] {
        place.send(port, 1)?;
    }
    let said = until_end(child)?;
    Ok(said.code(0)?.to_owned())
}

fn tail(twin: Twin) -> anyhow::Result<()> {
    let place = Place::new(twin)?;
    // Lines for the three packets, and for an ICMP error that answers the accepted one, in any order.
    let text = tailed(&place, &["--count", "4"])?;
    ensure!(text.lines().count() == 4, "{text}");
    for (verdict, line) in [("accept", 4), ("drop  ", 5)] {
        check_has(&text, &format!(" {verdict} 127.0.0.1:"))?;
        check_has(
            &text,
            &format!(" UDP, 29 bytes, out lo, queue 0: {}:{line}\n", place.policy),
        )?;
    }
    check_has(
        &text,
        " ICMP type 3, 57 bytes, out lo, queue 0: policy inet filter output\n",
    )
}

fn handshake(twin: Twin) -> anyhow::Result<()> {
    let place = Place::new(twin)?;
    let listener = place
        .namespace
        .enter(|| TcpListener::bind((LOCALHOST, 0)))?;
    let server = listener.local_addr()?;
    let mut tails = 0;
    until("a handshake of three packets", PATIENCE, || {
        tails += 1;
        has_handshake(&place, server, tails)
    })
}

/// Checks `tail`'s output for a TCP handshake. Both ends are on this host, so each packet is seen once, as it leaves. On
/// a busy machine a packet may be sent again, or an earlier connection may still send: then returns false.
/// - tails: number of clients of `tail` so far, with that of this call.
fn has_handshake(place: &Place, server: SocketAddr, tails: u64) -> anyhow::Result<bool> {
    let child = place
        .command()?
        .args(["tail", "--count", "3"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    place.until_followed(tails)?;
    let stream = place.namespace.enter(|| TcpStream::connect(server))?;
    let client = stream.local_addr()?;
    let said = until_end(child)?;
    let text = said.code(0)?;
    let packets = [
        (client, server, " syn, "),
        (server, client, " syn ack, "),
        (client, server, ", "),
    ];
    let packets = packets.map(|(from, to, flags)| format!(" accept {from} > {to} TCP{flags}"));
    let is_again = packets
        .iter()
        .any(|packet| text.matches(packet).count() > 1);
    let own = format!(" {client} ");
    if is_again || !text.lines().all(|line| line.contains(&own)) {
        return Ok(false);
    }
    for packet in &packets {
        check_has(text, packet)?;
    }
    ensure!(text.matches(", out lo, ").count() == 3, "{text}");
    Ok(true)
}

/// Runs `fwctl status`. Returns the row of its contract (the effects of --fail) about a crash of the firewall.
fn crash_row(place: &Place) -> anyhow::Result<String> {
    let said = place.fwctl(&["status"])?;
    let mut lines = said.code(0)?.lines();
    let row = lines.find(|line| line.contains(" crash "));
    Ok(row.context("no row about a crash")?.to_owned())
}

fn later_rules(twin: Twin) -> anyhow::Result<()> {
    let place = Place::new(twin)?;
    let row = crash_row(&place)?;
    ensure!(
        row.ends_with("then the rules drop packets: they have no bypass"),
        "{row}"
    );
    run(&place.namespace, "iptables", &["-F", "OUTPUT"])?;
    let rule = "-A OUTPUT -j NFQUEUE --queue-num 0 --queue-bypass";
    restore(&place.namespace, "iptables", rule)?;
    let row = crash_row(&place)?;
    check_has(
        &row,
        "then packets pass: the rules have a bypass (differs from the firewall's start)",
    )?;
    let said = until_in_time(|| place.fwctl(&["doctor"]))?;
    check_has(
        &said.stdout,
        "the effect of a crash differs from the firewall's start; now: waiting packets are dropped, then ",
    )
}

fn without_guard(twin: Twin) -> anyhow::Result<()> {
    let place = Place::with(twin, POLICY, &["--fail", "crash=open"])?;
    check_has(
        &crash_row(&place)?,
        "  open    the guard accepts everything",
    )?;
    let guard = proc::descendant(place.firewall.pid, GUARD).context("there is no guard")?;
    proc::signal(guard, libc::SIGKILL);
    until(
        "the contract is that of a firewall without a guard",
        PATIENCE,
        || {
            let row = crash_row(&place)?;
            Ok(row
                .contains("the guard has ended: waiting packets are dropped, then the rules drop"))
        },
    )?;
    let said = place.fwctl(&["status"])?;
    check_has(said.code(0)?, "  waits for ever: the guard has ended\n")?;
    let said = place.fwctl(&["doctor"])?;
    check_has(
        said.code(1)?,
        "WARNING  the guard has ended: a stall is waited for",
    )
}

/// Returns a field of each packet of a file, as printed by tshark.
fn field_of(file: &str, field: &str) -> anyhow::Result<Vec<String>> {
    let output = std::process::Command::new("tshark")
        .args(["-T", "fields", "-e", field, "-r", file])
        .output()
        .map_err(|_| not_installed("tshark"))?;
    let text = String::from_utf8(output.stdout)?;
    ensure!(output.status.success(), "tshark: {text}");
    Ok(text.lines().map(str::to_owned).collect())
}

fn record(twin: Twin) -> anyhow::Result<()> {
    let place = Place::new(twin)?;
    let file = place.folder.file("x.pcapng");
    let arguments = ["record", "-w", &file, "--verdict", "drop", "--count", "2"];
    let child = place
        .command()?
        .args(arguments)
        .stderr(Stdio::piped())
        .spawn()?;
    place.until_followed(1)?;
    for port in [ACCEPTED, DROPPED, OTHER, DROPPED] {
        place.send(port, 1)?;
    }
    let said = until_end(child)?;
    ensure!(said.code == Some(0), "{}", said.stderr);
    ensure!(
        said.stderr == "note: 2 packets recorded, 0 missed\n",
        "{}",
        said.stderr
    );
    let port = DROPPED.to_string();
    ensure!(field_of(&file, "udp.dstport")? == [port.as_str(); 2]);
    let rule = format!("{}:5", place.policy);
    let comment = format!("twinwall: verdict=drop by=rule rule={rule} hook=output oif=lo mark=0x0");
    let comments = field_of(&file, "frame.comment")?;
    ensure!(
        comments.len() == 2 && comments.iter().all(|one| one.starts_with(&comment)),
        "{comments:?}, not {comment}"
    );
    let year = &field_of(&file, "frame.time_epoch")?[0];
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?;
    let age = now.as_secs_f64() - year.parse::<f64>()?;
    ensure!((-1.0..3600.0).contains(&age), "{age} s ago");
    // The same policy has the recorded verdicts.
    let explained = place.fwctl(&["explain", &file])?;
    check_has(explained.code(0)?, "2 dropped")?;
    // record never replaces an existing file.
    place
        .fwctl(&["record", "-w", &file])?
        .error(4, "choose another name")
}

fn tail_until_the_end(twin: Twin) -> anyhow::Result<()> {
    let place = Place::new(twin)?;
    let line = tailed(&place, &["--json", "--verdict", "drop", "--count", "1"])?;
    let event: Value = serde_json::from_str(&line)?;
    ensure!(
        event["event_type"] == "drop" && event["dest_port"] == DROPPED,
        "{event}"
    );
    // tail ends with the firewall, and reports that.
    let child = place
        .command()?
        .arg("tail")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    place.until_followed(2)?;
    let Place { firewall, .. } = place;
    firewall.stop()?;
    let said = until_end(child)?;
    said.code(0)?;
    check_has(&said.stderr, "the firewall has ended")
}

fn drain(twin: Twin) -> anyhow::Result<()> {
    let mut place = Place::new(twin)?;
    let said = place.fwctl(&["drain", "--seconds", "5"])?;
    check_has(said.code(0)?, "drained in ")?;
    until("the firewall ends", PATIENCE, || {
        Ok(!place.firewall.is_running()?)
    })?;
    place
        .fwctl(&["status"])?
        .error(3, "start one with --control")
}
