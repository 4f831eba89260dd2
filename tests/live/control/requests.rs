// SPDX-License-Identifier: GPL-2.0-or-later
//! Requests to the control socket, and their replies.

use std::collections::BTreeMap;
use std::fs;
use std::net::Shutdown;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{ensure, Context};
use serde_json::{json, Value};
use testbed::control::error_of;
use testbed::firewall::{Firewall, PATIENT_GUARD};
use testbed::ledger::Stats;
use testbed::place::LOCALHOST;
use testbed::skip::skip;
use testbed::traffic::{udp_client, udp_exchange, UdpServer};
use testbed::twin::USER;
use testbed::twin::{Twin, TWINS};
use testbed::wait::{pause_for, until, watch_silence, PATIENCE};
use twinwall_tests::case::Row;

use super::place::Place;

pub const ROWS: &[Row] = &[
    ("status-tells-who-and-what-runs", status),
    ("arguments-are-text-in-any-folder", any_folder),
    ("uptime-does-not-follow-the-clock", uptime),
    ("stats-is-the-ledger", stats),
    ("rules-count", rules),
    ("reload-says-what-it-did-or-why-not", reload),
    ("log-sets-the-level", log),
    ("requests-are-answered-in-order", in_order),
    ("a-request-may-come-byte-by-byte", byte_by_byte),
    ("a-client-that-sends-no-more-gets-its-answers", half_closed),
    ("drain-ends-the-firewall", drain),
    ("an-idle-socket-costs-nothing", idle),
];

const PACKETS: u64 = 20;
/// Library libfaketime of Debian.
const FAKETIME: &str = "/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1";

fn status(twin: Twin) -> anyhow::Result<()> {
    let place = Place::new()?;
    let firewall = place.start(twin, &["--queue=0:1", "--log-level", "warning", "--pin"])?;
    let status = place.ask(r#"{"command":"status"}"#)?;
    ensure!(status["program"] == twin.program() && status["pid"] == firewall.pid);
    ensure!(USER.starts_with(&format!("{}:", status["uid"])), "{status}");
    ensure!(status["executable"] == twin.binary().canonicalize()?.display().to_string());
    let arguments: Vec<&str> = status["arguments"]
        .as_array()
        .context("arguments")?
        .iter()
        .filter_map(Value::as_str)
        .collect();
    let expected = [
        "--queue",
        "0:1",
        "--pin",
        "--policy",
        &place.path("web.nft"),
        "--json",
        "--log-level",
        "warning",
        "--control",
        &place.path("control"),
        "--user",
        USER,
    ];
    ensure!(arguments == expected, "{arguments:?}");
    let start = firewall.start_line()?;
    let situations =
        serde_json::from_value::<Vec<testbed::ledger::Situation>>(status["contract"].clone())?;
    ensure!(situations == start.contract, "{status}");
    let policy = &status["policy"];
    ensure!(policy["file"] == place.path("web.nft") && policy["generation"] == 1);
    ensure!(policy["chains"] == 1 && policy["rules"] == 2, "{status}");
    ensure!(status["log_level"] == "warning" && status["reload_error"].is_null());
    ensure!(status["queues"][1]["queue"] == 1 && status["ledger"]["reconciled"] == true);
    ensure!(status["counts"]["control_requests"] == 1, "{status}");
    ensure!(status["time_ms"].as_u64() >= status["started_ms"].as_u64());
    ensure!(
        status["uptime_ms"]
            .as_u64()
            .is_some_and(|uptime| uptime < 3_600_000),
        "{status}"
    );
    firewall.stop().map(drop)
}

/// Checks the arguments of a firewall that was started in a folder whose name is not UTF-8.
fn any_folder(twin: Twin) -> anyhow::Result<()> {
    let place = Place::new()?;
    let folder = "\"$(printf 'gr\\303\\274\\377')\"";
    let enter = format!(
        "cd '{}' && mkdir {folder} && cd {folder} && exec \"$@\"",
        place.path("")
    );
    let wrapper = ["sh", "-c", &enter, "sh"];
    let arguments = ["--json", "--control", "../control"];
    let firewall = Firewall::start_under(&place.namespace, &wrapper, twin, &arguments)?;
    let status = place.ask(r#"{"command":"status"}"#)?;
    let path = place.path("gr???/../control");
    let expected = json!(["--json", "--control", path, "--user", USER]);
    ensure!(status["arguments"] == expected, "{status}");
    firewall.stop().map(drop)
}

/// Starts a twin whose time of day passes CLOCK_RATE times too fast. Its time since the start must pass at the true
/// rate.
fn uptime(twin: Twin) -> anyhow::Result<()> {
    const CLOCK_RATE: u64 = 100;
    if !Path::new(FAKETIME).exists() {
        return Err(skip("there is no libfaketime: run make deps"));
    }
    let place = Place::new()?;
    let (policy, control) = (place.path("web.nft"), place.path("control"));
    let preload = format!("LD_PRELOAD={FAKETIME}");
    let rate = format!("FAKETIME=+0 x{CLOCK_RATE}");
    let wrapper = ["env", &preload, &rate, "DONT_FAKE_MONOTONIC=1"];
    // The library also divides time limits of poll by the rate, so a guard would have only 50 ms to start.
    let arguments = [
        "--json",
        "--policy",
        &policy,
        "--control",
        &control,
        "--deadline",
        "0",
    ];
    // From before the firewall's start, so its uptime must not exceed the time since then.
    let begin = Instant::now();
    let firewall = Firewall::start_under(&place.namespace, &wrapper, twin, &arguments)?;
    let (mut passed_ms, mut uptime_ms, mut limit_ms) = (0, 0, 0);
    until("the clock has passed on", PATIENCE, || {
        let status = place.ask(r#"{"command":"status"}"#)?;
        limit_ms = begin.elapsed().as_millis() as u64;
        let figure = |name: &str| status[name].as_u64().context(status.to_string());
        passed_ms = figure("time_ms")? - figure("started_ms")?;
        uptime_ms = figure("uptime_ms")?;
        Ok(passed_ms > 2 * limit_ms)
    })?;
    ensure!(
        uptime_ms <= limit_ms,
        "{uptime_ms} ms within {limit_ms} ms, by the clock {passed_ms} ms"
    );
    // At its end the library would remove a file, which the sandbox forbids.
    firewall.kill()
}

/// Exchanges PACKETS packets with a server. The server's port stays in use, so a case can call this only once.
fn exchange(place: &Place) -> anyhow::Result<()> {
    let _server = UdpServer::start(&place.namespace, LOCALHOST, true)?;
    udp_exchange(&udp_client(&place.namespace, LOCALHOST)?, PACKETS)
}

fn ask_stats(place: &Place) -> anyhow::Result<Stats> {
    let mut client = place.connect()?;
    client.send("{\"command\":\"stats\"}\n")?;
    let asked = client.text()?;
    let asked = asked
        .strip_prefix("{\"ok\":true,")
        .with_context(|| format!("begins otherwise: {asked}"))?;
    Stats::parse(&format!("{{{asked}"))
}

fn stats(twin: Twin) -> anyhow::Result<()> {
    let place = Place::new()?;
    let firewall = place.start(twin, &PATIENT_GUARD)?;
    exchange(&place)?;
    // A packet can arrive at the server before its verdict is counted.
    until("all verdicts are counted", PATIENCE, || {
        let total = ask_stats(&place)?.total;
        Ok(total.verdict_sum() == total.received)
    })?;
    let asked = ask_stats(&place)?;
    ensure!(asked.reason == "control" && asked.event == "stats");
    let printed = firewall.ledger()?;
    ensure!(
        format!("{:?}", asked.total) == format!("{:?}", printed.total),
        "asked {asked:?}, printed {printed:?}"
    );
    ensure!(asked.total.received >= PACKETS, "{asked:?}");
    firewall.stop().map(drop)
}

fn rules(twin: Twin) -> anyhow::Result<()> {
    let place = Place::new()?;
    let firewall = place.start(twin, &PATIENT_GUARD)?;
    exchange(&place)?;
    let rules = place.ask(r#"{"command":"rules"}"#)?;
    ensure!(rules["generation"] == 1, "{rules}");
    let (first, second) = (&rules["rules"][0], &rules["rules"][1]);
    ensure!(
        first["rule"] == format!("{}:4", place.path("web.nft")),
        "{rules}"
    );
    ensure!(first["table"] == "inet t" && first["chain"] == "c" && first["comment"] == "asked");
    let counter = &first["counters"][0];
    ensure!(
        counter["statement"] == 1 && counter["packets"] == PACKETS,
        "{rules}"
    );
    ensure!(counter["bytes"] == PACKETS * 36, "{rules}");
    ensure!(second["comment"].is_null() && second["logs"][0]["statement"] == 2);
    ensure!(rules["rules"][2].is_null(), "{rules}");
    firewall.stop().map(drop)
}

fn reload(twin: Twin) -> anyhow::Result<()> {
    let place = Place::new()?;
    let firewall = place.start(twin, &[])?;
    let path = place.path("web.nft");
    let policy = fs::read_to_string(&path)?;
    fs::write(&path, policy.replace("tcp dport 23", "tcp dport 24"))?;
    let answer = place.ask(r#"{"command":"reload"}"#)?;
    for (key, value) in [
        ("generation", 2),
        ("rules", 2),
        ("kept", 1),
        ("added", 1),
        ("removed", 1),
    ] {
        ensure!(answer[key] == value, "{key}: {answer}");
    }
    fs::write(&path, policy.replace("tcp dport 23", "tcpp dport 23"))?;
    let answer = place.ask(r#"{"command":"reload"}"#)?;
    let error = error_of(&answer)?;
    ensure!(
        error.starts_with(&format!("{path}:5:3: found \"tcpp\"")),
        "{answer}"
    );
    let status = place.ask(r#"{"command":"status"}"#)?;
    ensure!(status["policy"]["generation"] == 2, "{status}");
    ensure!(status["reload_error"] == error, "{status}");
    ensure!(status["counts"]["reloads"] == 1 && status["counts"]["reloads_failed"] == 1);
    firewall.end_by(libc::SIGTERM).map(drop)
}

fn log(twin: Twin) -> anyhow::Result<()> {
    let place = Place::new()?;
    let firewall = place.start(twin, &[])?;
    let mut client = place.connect()?;
    let mut was = "info";
    for level in ["debug", "error", "warning", "info"] {
        let answer = client.ask(&format!(r#"{{"command":"log","level":"{level}"}}"#))?;
        ensure!(answer["level"] == level && answer["was"] == was, "{answer}");
        was = level;
    }
    client.ask(r#"{"command":"log","level":"error"}"#)?;
    client.ask(r#"{"command":"reload"}"#)?;
    // Firewall::stop requires an empty stderr. A reload is logged at the level info, so it must not be printed.
    firewall.stop().map(drop)
}

fn in_order(twin: Twin) -> anyhow::Result<()> {
    let place = Place::new()?;
    let firewall = place.start(twin, &[])?;
    let mut client = place.connect()?;
    // The requests exceed a client's buffer many times.
    let requests: String = (0..10_000)
        .map(|number| format!("{{\"{number}\":0}}\n"))
        .collect();
    let mut writer = client.stream().try_clone()?;
    let sender = thread::spawn(move || std::io::Write::write_all(&mut writer, requests.as_bytes()));
    for _ in 0..10_000 {
        error_of(&client.line()?)?;
    }
    sender.join().expect("no panic")?;
    for number in 0..200 {
        client.send(format!("{{\"command\":\"x{number}\"}}\n"))?;
    }
    for number in 0..200 {
        let answer = client.line()?;
        let begin = format!("unknown command \"x{number}\":");
        ensure!(error_of(&answer)?.starts_with(&begin), "{answer}");
    }
    ensure!(place.count("control_bad")? == 10_200);
    firewall.stop().map(drop)
}

fn byte_by_byte(twin: Twin) -> anyhow::Result<()> {
    let place = Place::new()?;
    let firewall = place.start(twin, &[])?;
    let mut client = place.connect()?;
    for byte in b"{\"command\":\"log\"}\n" {
        client.send([*byte])?;
        pause_for(Duration::from_millis(2));
    }
    ensure!(client.line()?["level"] == "info");
    firewall.stop().map(drop)
}

fn half_closed(twin: Twin) -> anyhow::Result<()> {
    let place = Place::new()?;
    let firewall = place.start(twin, &[])?;
    let mut client = place.connect()?;
    client.send("{\"command\":\"log\"}\n".repeat(50))?;
    client.stream().shutdown(Shutdown::Write)?;
    for _ in 0..50 {
        ensure!(client.line()?["ok"] == true);
    }
    client.check_closed()?;
    ensure!(place.count("control_bad")? == 0);
    firewall.stop().map(drop)
}

fn drain(twin: Twin) -> anyhow::Result<()> {
    let place = Place::new()?;
    let mut firewall = place.start(twin, &PATIENT_GUARD)?;
    exchange(&place)?;
    // The time limit is much longer than needed: no packet waits in the queue, so the firewall ends at once.
    let answer = place.ask(r#"{"command":"drain","seconds":3600}"#)?;
    ensure!(answer["ok"] == true && answer["seconds"] == 3600 && answer["waiting"] == 0);
    until(
        "the firewall ends",
        PATIENCE,
        || Ok(!firewall.is_running()?),
    )?;
    let ended = firewall.end_by(0)?;
    ensure!(ended.code == Some(0), "{:?}: {}", ended.code, ended.stderr);
    Ok(())
}

/// Checks that silent clients don't wake the main thread.
fn idle(twin: Twin) -> anyhow::Result<()> {
    let place = Place::new()?;
    let firewall = place.start(twin, &["--deadline", "0"])?;
    let mut clients = Vec::new();
    for _ in 0..3 {
        let mut client = place.connect()?;
        client.ask(r#"{"command":"log"}"#)?;
        clients.push(client);
    }
    // The main thread may still be active after the last reply.
    until("the main thread sleeps", PATIENCE, || {
        Ok(testbed::proc::sleeps_in_poll(firewall.pid, firewall.pid))
    })?;
    let sleeps = || testbed::proc::status(firewall.pid, firewall.pid, "voluntary_ctxt_switches");
    let before = sleeps()?;
    watch_silence(Duration::from_millis(500));
    let after = sleeps()?;
    ensure!(before == after, "slept {before} times, then {after}");
    firewall.stop().map(drop)
}

/// Returns a reply in which N replaces each number, and TEXT each string that is not a key; the rest is unchanged.
fn shape(text: &str) -> anyhow::Result<String> {
    let mut shape = String::new();
    let mut rest = text.trim_end();
    while let Some(at) = rest.find(|c: char| c == '"' || c.is_ascii_digit()) {
        shape.push_str(&rest[..at]);
        rest = &rest[at..];
        if rest.starts_with('"') {
            let mut end = 1;
            while !rest[end..].starts_with('"') {
                end += if rest[end..].starts_with('\\') { 2 } else { 1 };
            }
            let (string, behind) = rest.split_at(end + 1);
            shape.push_str(if behind.starts_with(':') {
                string
            } else {
                "TEXT"
            });
            rest = behind;
        } else {
            shape.push('N');
            rest = rest.trim_start_matches(|c: char| c.is_ascii_digit());
        }
    }
    shape.push_str(rest);
    let _: BTreeMap<String, Value> = serde_json::from_str(text)?;
    Ok(shape)
}

/// Checks that both twins reply with the same keys in the same order, and that their errors have the same bytes.
pub fn same_answers() -> anyhow::Result<()> {
    let requests = [
        r#"{"command":"status"}"#,
        r#"{"command":"stats"}"#,
        r#"{"command":"rules"}"#,
        r#"{"command":"log","level":"debug"}"#,
        r#"{"command":"reload"}"#,
        r#"{"command":"connections"}"#,
    ];
    let bad = [
        "",
        "garbage",
        r#"{"command":"foo"}"#,
        r#"{"command":"log","level":"loud"}"#,
        r#"{"command":"drain","seconds":-1}"#,
        r#"{"command":"connections","from":-1}"#,
        r#"{"command":"connections","from":281474976710655}"#,
        r#"{"command":"upgrade","version":2,"backend":"classic"}"#,
        r#"{"command":"tail","verdicts":["nothing"]}"#,
    ];
    let mut answers: Vec<Vec<String>> = Vec::new();
    for twin in TWINS {
        let place = Place::new()?;
        let firewall = place.start(twin, &PATIENT_GUARD)?;
        exchange(&place)?;
        let mut client = place.connect()?;
        let mut said = Vec::new();
        for request in requests {
            client.send(format!("{request}\n"))?;
            said.push(shape(&client.text()?)?);
        }
        for request in bad {
            client.send(format!("{request}\n"))?;
            said.push(client.text()?);
        }
        firewall.end_by(libc::SIGTERM)?;
        answers.push(said);
    }
    for ((rust, c), request) in answers[0]
        .iter()
        .zip(&answers[1])
        .zip(requests.iter().chain(&bad))
    {
        ensure!(rust == c, "{request}\nrust: {rust}\nc:    {c}");
    }
    Ok(())
}
