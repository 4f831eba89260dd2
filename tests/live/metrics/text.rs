// SPDX-License-Identifier: GPL-2.0-or-later
//! The exporter's text, its formats, and the requests that it accepts.

use std::thread;

use anyhow::{ensure, Context};
use testbed::firewall::Firewall;
use testbed::place::LOCALHOST;
use testbed::proc;
use testbed::traffic::{udp_client, udp_exchange, UdpServer};
use testbed::twin::{built, Twin, TWINS};
use testbed::wait::{until, PATIENCE};
use twinwall_tests::case::Row;

use crate::chaos::scene::guard_of;

use super::http::{
    ask, ask_until_served, connect, get, value_of, Place, Served, OPENMETRICS, PLAIN, PORT,
};
use super::LoneRow;

pub const ROWS: &[Row] = &[
    ("figures-are-those-of-the-ledger", figures),
    ("a-dead-guard-is-told", guard),
];

pub const LONE_ROWS: &[LoneRow] = &[
    ("formats-and-other-requests", requests),
    ("at-an-ipv6-address", ipv6),
    ("addresses-that-cannot-be-had-are-told", refused),
    ("a-firewall-that-is-gone-is-told", gone),
    ("a-firewall-that-is-stopped-is-told", stopped),
];

const PACKETS: u64 = 20;
const GUARD_RUNNING: &str = "twinwall_guard_running";

/// Exchanges PACKETS packets with a server. The server stays, so a case can call this only once.
fn exchange(place: &Place) -> anyhow::Result<()> {
    UdpServer::start(&place.namespace, LOCALHOST, true)?;
    udp_exchange(&udp_client(&place.namespace, LOCALHOST)?, PACKETS)
}

fn figures(twin: Twin) -> anyhow::Result<()> {
    let place = Place::new()?;
    let Served { firewall, exporter } = place.start(twin, &["--queue", "0:1"])?;
    exchange(&place)?;
    let ledger = firewall.settled_ledger()?.total;
    let (answer, requests) = place.ask_until_served(&get("/metrics", ""))?;
    let text = answer.body;
    let rule = format!(
        "{{table=\"inet t\",chain=\"c\",position=\"1\",rule=\"{}:4\",statement=\"1\",comment=\"asked\"}}",
        place.path("web.nft")
    );
    for (sample, expected) in [
        (
            r#"twinwall_packets_total{queue="0",verdict="accept"}"#,
            ledger.received,
        ),
        (
            r#"twinwall_received_packets_total{queue="0"}"#,
            ledger.received,
        ),
        (r#"twinwall_received_bytes_total{queue="0"}"#, ledger.bytes),
        (
            r#"twinwall_queue_offered_packets_total{queue="0"}"#,
            ledger.kernel.offered,
        ),
        (r#"twinwall_received_packets_total{queue="1"}"#, 0),
        (r#"twinwall_ledger_reconciled{queue="0"}"#, 1),
        (&format!("twinwall_rule_packets_total{rule}"), PACKETS),
        (&format!("twinwall_rule_bytes_total{rule}"), PACKETS * 36),
        ("twinwall_policy_generation", 1),
        ("twinwall_metrics_requests_total", requests),
    ] {
        let value = value_of(&text, sample)?;
        ensure!(
            value == expected,
            "{sample} is {value} instead of {expected}"
        );
    }
    let resident = value_of(&text, "twinwall_resident_memory_bytes")?;
    ensure!((1 << 20..1 << 30).contains(&resident), "{resident} bytes");
    drop(exporter);
    firewall.stop().map(drop)
}

/// Checks that the guard's metric is 0 after the guard has ended, and that a firewall without a guard has no such
/// metric.
fn guard(twin: Twin) -> anyhow::Result<()> {
    let place = Place::new()?;
    let served = place.start(twin, &[])?;
    ensure!(place.value(GUARD_RUNNING)? == 1);
    let guard = guard_of(&served.firewall).context("there is no guard")?;
    proc::signal(guard, libc::SIGKILL);
    until("the metric tells of it", PATIENCE, || {
        Ok(place.value(GUARD_RUNNING)? == 0)
    })?;
    served.firewall.end_by(libc::SIGTERM)?;
    drop(served.exporter);
    let without = place.start(twin, &["--deadline", "0"])?;
    let text = place.metrics()?;
    ensure!(!text.contains(&format!("\n{GUARD_RUNNING} ")), "{text}");
    without.firewall.stop().map(drop)
}

fn requests() -> anyhow::Result<()> {
    let place = Place::new()?;
    let served = place.start(Twin::C, &[])?;
    for (accept, kind) in [
        ("", OPENMETRICS),
        ("Accept: */*\r\n", OPENMETRICS),
        ("accept: text/plain;version=0.0.4\r\n", PLAIN),
        (
            "Accept: application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5\r\n",
            OPENMETRICS,
        ),
    ] {
        for path in ["/metrics", "/metrics?name=value"] {
            let (answer, _) = place.ask_until_served(&get(path, accept))?;
            answer.check_status(200)?;
            ensure!(answer.header("content-type") == Some(kind));
            ensure!(answer.header("connection") == Some("close"));
            let length = answer.header("content-length").context("a length")?;
            ensure!(length == answer.body.len().to_string(), "{length}");
            ensure!(answer.body.ends_with("# EOF\n") == (kind == OPENMETRICS));
        }
    }
    let (head, _) = place.ask_until_served("HEAD /metrics HTTP/1.1\r\nHost: x\r\n\r\n")?;
    head.check_status(200)?;
    ensure!(head.body.is_empty());
    let (old, _) = place.ask_until_served("GET /metrics HTTP/1.0\r\n\r\n")?;
    old.check_status(200)?;
    ensure!(old.body.ends_with("# EOF\n"));
    for path in ["/", "/metrics/", "/metricsx", "/../metrics", "//metrics"] {
        let answer = place.ask(&get(path, ""))?;
        ensure!(answer.status == 404, "{path}: {}", answer.status);
        ensure!(answer.body == "The metrics are at /metrics.\n");
    }
    for method in ["POST", "PUT", "DELETE", "OPTIONS"] {
        let answer = place.ask(&format!("{method} /metrics HTTP/1.1\r\nHost: x\r\n\r\n"))?;
        ensure!(answer.status == 405, "{method}: {}", answer.status);
        ensure!(answer.header("allow") == Some("GET, HEAD") && answer.body == "Ask by GET.\n");
    }
    until("all are counted in an answer of now", PATIENCE, || {
        Ok(place.value("twinwall_metrics_refused_total")? == 9)
    })?;
    served.firewall.stop().map(drop)
}

fn ipv6() -> anyhow::Result<()> {
    let place = Place::new()?;
    let served = place.start(Twin::Rust, &[])?;
    let _second = place.export("[::1]:9631")?;
    let (answer, _) = ask_until_served(
        || connect(&place.namespace, "[::1]:9631".parse()?),
        &get("/metrics", ""),
    )?;
    answer.check_status(200)?;
    served.firewall.stop().map(drop)
}

/// Runs an exporter that can't start. Returns its exit code and its stderr.
fn fail(place: &Place, listen: &str) -> anyhow::Result<(Option<i32>, String)> {
    let control = place.path("control");
    let output = place
        .namespace
        .command(built("twinwall-exporter"))
        .args(["--control", &control, "--listen", listen])
        .output()?;
    Ok((
        output.status.code(),
        String::from_utf8_lossy(&output.stderr).into_owned(),
    ))
}

fn refused() -> anyhow::Result<()> {
    let place = Place::new()?;
    let served = place.start(Twin::C, &[])?;
    for (listen, code, expected) in [
        (
            "127.0.0.1:9630",
            5,
            "error: --listen 127.0.0.1:9630: in use by another program: stop it or choose another port\n",
        ),
        (
            "192.0.2.1:9630",
            2,
            "error: --listen 192.0.2.1:9630: this machine has no such address: choose one that `ip address` names\n",
        ),
    ] {
        let said = fail(&place, listen)?;
        ensure!(said == (Some(code), expected.to_owned()), "{said:?}");
    }
    for listen in ["9630", "127.0.0.1:0", "::1:9630", "localhost:80", ""] {
        let (code, text) = fail(&place, listen)?;
        let expected = "expected an address with a port, like 127.0.0.1:9630 or [::1]:9630";
        ensure!(
            code == Some(2) && text.contains(expected),
            "{listen}: {text}"
        );
    }
    place.metrics()?;
    drop(served.exporter);
    // Connections that were served must not keep the port in use.
    let _next = place.export("127.0.0.1:9630")?;
    let (answer, requests) = place.ask_until_served(&get("/metrics", ""))?;
    ensure!(value_of(&answer.body, "twinwall_metrics_requests_total")? == requests);
    served.firewall.stop().map(drop)
}

/// Checks that clients get an error while no firewall runs, and are served when a firewall runs again.
fn gone() -> anyhow::Result<()> {
    let place = Place::new()?;
    let served = place.start(Twin::Rust, &[])?;
    place.metrics()?;
    served.firewall.stop()?;
    until("the last answer is old", PATIENCE, || {
        let answer = place.ask(&get("/metrics", ""))?;
        let words = "The firewall does not answer: ";
        Ok(answer.status == 503 && answer.body.starts_with(words))
    })?;
    let control = place.path("control");
    let firewall = Firewall::start(&place.namespace, Twin::C, &["--control", &control])?;
    let build = place.metrics()?;
    ensure!(build.contains("twin=\"c\""), "{build}");
    firewall.stop().map(drop)
}

/// Checks that all clients get an error while the firewall is stopped (SIGSTOP), and are served when it continues.
fn stopped() -> anyhow::Result<()> {
    const CLIENTS: usize = 3;
    let place = Place::new()?;
    let served = place.start(Twin::C, &[])?;
    proc::stop(served.firewall.pid)?;
    let mut clients = Vec::new();
    for _ in 0..CLIENTS {
        let stream = place.connect()?;
        clients.push(thread::spawn(|| ask(stream, &get("/metrics", ""))));
    }
    for client in clients {
        let answer = client.join().expect("no panic")?;
        let words = "The firewall does not answer: no complete answer within 5 s: ";
        ensure!(answer.status == 503, "status {}", answer.status);
        ensure!(answer.body.starts_with(words), "{}", answer.body);
    }
    proc::signal(served.firewall.pid, libc::SIGCONT);
    until("clients are served again", PATIENCE, || {
        Ok(place.metrics().is_ok())
    })?;
    ensure!(place.value("twinwall_metrics_unanswered_total")? == 0);
    served.firewall.stop().map(drop)
}

/// Returns the text with placeholders for the parts that depend on twin and time: the twin's name, and the values of
/// gauges of times or memory.
fn masked(text: &str, twin: Twin) -> String {
    let moving = [
        "twinwall_start_time_seconds ",
        "twinwall_uptime_seconds ",
        "twinwall_resident_memory_bytes ",
        "twinwall_policy_loaded_time_seconds ",
    ];
    let line = |line: &str| {
        let found = moving.iter().find(|begin| line.starts_with(**begin));
        found.map_or(line.to_owned(), |begin| format!("{begin}N"))
    };
    let text: Vec<String> = text.lines().map(line).collect();
    let twin = format!("twin=\"{}\"", twin.name());
    text.join("\n").replace(&twin, "twin=\"TWIN\"")
}

/// Returns the masked text of a twin after some packets, in both formats; None if the firewall did not answer in time:
/// the text counts the requests, so they must not be repeated.
fn texts_of(twin: Twin) -> anyhow::Result<Option<(String, String)>> {
    let place = Place::new()?;
    let Served { firewall, exporter } = place.start(twin, &["--queue", "0:2"])?;
    exchange(&place)?;
    firewall.settled_ledger()?;
    let open = place.ask(&get("/metrics", ""))?;
    // This exporter may share its text with later clients; another one makes a new text.
    drop(exporter);
    let _second = place.export(&format!("127.0.0.1:{PORT}"))?;
    let plain = place.ask(&get("/metrics", "Accept: text/plain\r\n"))?;
    firewall.stop()?;
    if open.is_late() || plain.is_late() {
        return Ok(None);
    }
    open.check_status(200)?;
    plain.check_status(200)?;
    Ok(Some((masked(&open.body, twin), masked(&plain.body, twin))))
}

/// Checks that the exporter returns the same text, in both formats, for each twin after the same packets.
pub fn same_text() -> anyhow::Result<()> {
    let mut texts: Vec<(String, String)> = Vec::new();
    for twin in TWINS {
        until("the firewall answers in time", PATIENCE, || {
            let made = texts_of(twin)?;
            let is_made = made.is_some();
            texts.extend(made);
            Ok(is_made)
        })?;
    }
    let [rust, c] = &texts[..] else {
        unreachable!("two twins");
    };
    for (rust, c) in [(&rust.0, &c.0), (&rust.1, &c.1)] {
        for (rust, c) in rust.lines().zip(c.lines()) {
            ensure!(rust == c, "rust: {rust}\nc:    {c}");
        }
        ensure!(
            rust == c,
            "one says more: rust {} bytes, c {}",
            rust.len(),
            c.len()
        );
    }
    Ok(())
}
