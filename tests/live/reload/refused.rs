// SPDX-License-Identifier: GPL-2.0-or-later
//! Policies that a reload refuses.

use anyhow::ensure;
use testbed::control::Client;
use testbed::firewall::{Firewall, PATIENT_GUARD};
use testbed::place::{namespace_with, LOCALHOST};
use testbed::proc;
use testbed::traffic::{udp_client, udp_send, UdpServer};
use testbed::twin::Twin;
use testbed::wait::{until, PATIENCE};
use twinwall_tests::case::Row;

use super::folder::PolicyFolder;
use super::rules::{chain, counter_of};

pub const ROWS: &[Row] = &[
    ("a-bad-policy-leaves-the-old-one", bad_policy),
    ("a-policy-that-reads-more-is-refused", reads_more),
    ("a-policy-that-needs-a-right-is-refused", needs_right),
    ("without-a-policy-there-is-nothing-to-read", no_policy),
];

const RELOAD: &str = r#"{"command":"reload"}"#;
const STATUS: &str = r#"{"command":"status"}"#;

fn bad_policy(twin: Twin) -> anyhow::Result<()> {
    let namespace = namespace_with("loopback-9999-udp")?;
    let good = chain("udp dport 9999 counter");
    let folder = PolicyFolder::new(&good)?;
    let (path, control) = (folder.policy(), folder.control());
    let arguments = ["--policy", &path, "--control", &control];
    let arguments = [&arguments[..], &PATIENT_GUARD].concat();
    let firewall = Firewall::start(&namespace, twin, &arguments)?;
    let mut client = Client::new(&control)?;
    let server = UdpServer::start(&namespace, LOCALHOST, false)?;
    let packets = udp_client(&namespace, LOCALHOST)?;

    folder.write(&chain("udp dport 9999 drop\n ip frotz 1 drop"))?;
    let answer = client.ask(RELOAD)?;
    let error = format!("{path}:5:5: found \"frotz\", expected");
    let said = answer["error"].as_str().unwrap_or_default().to_owned();
    ensure!(
        answer["ok"] == false && said.starts_with(&error),
        "{answer}"
    );
    let status = client.ask(STATUS)?;
    ensure!(status["reload_error"] == said.as_str(), "{status}");
    ensure!(status["policy"]["generation"] == 1, "{status}");
    ensure!(status["counts"]["reloads_failed"] == 1, "{status}");
    udp_send(&packets, 3, 18)?;
    server.check_arrived(3)?;

    folder.write(&good)?;
    client.command("reload")?;
    let status = client.ask(STATUS)?;
    ensure!(status["reload_error"].is_null(), "{status}");
    ensure!(status["counts"]["reloads"] == 1, "{status}");
    ensure!(
        counter_of(&firewall.settled_ledger()?, &format!("{path}:4"))? == 3,
        "not kept"
    );
    let ended = firewall.end_by(libc::SIGTERM)?;
    let lines = format!(
        "error: reload: {said}: the policy stays as it was\n\
         info: reload: policy 2: 1 rules, 1 kept, 0 added, 0 removed\n"
    );
    ensure!(ended.stderr == lines, "stderr: {}", ended.stderr);
    Ok(())
}

fn reads_more(twin: Twin) -> anyhow::Result<()> {
    const CURE: &str = "`fwctl upgrade` starts anew without losing a packet";
    let cases = [
        (
            "meta skuid 0 drop",
            "the policy uses meta skuid or meta skgid, which the queues do not give",
        ),
        (
            "ct state new drop",
            "the policy uses ct state or ct mark, which the queues do not give",
        ),
        (
            "ct mark 1 drop",
            "the policy uses ct state or ct mark, which the queues do not give",
        ),
    ];
    let namespace = namespace_with("loopback-9999-udp")?;
    let folder = PolicyFolder::new(&chain("ip saddr 127.0.0.1 counter"))?;
    let (path, control) = (folder.policy(), folder.control());
    let arguments = ["--policy", &path, "--control", &control];
    let firewall = Firewall::start(&namespace, twin, &arguments)?;
    let mut client = Client::new(&control)?;
    let mut lines = String::new();
    for (rule, cause) in cases {
        folder.write(&chain(rule))?;
        let answer = client.ask(RELOAD)?;
        ensure!(
            answer["error"] == format!("{cause}: {CURE}"),
            "{rule}: {answer}"
        );
        lines += &format!("error: reload: {cause}: {CURE}: the policy stays as it was\n");
    }
    // A policy that reads less is accepted: the queues still deliver what the first policy needed.
    folder.write(&chain("meta mark 1 drop"))?;
    client.command("reload")?;
    let ended = firewall.end_by(libc::SIGTERM)?;
    lines += "info: reload: policy 2: 1 rules, 0 kept, 1 added, 1 removed\n";
    ensure!(ended.stderr == lines, "stderr: {}", ended.stderr);
    Ok(())
}

fn needs_right(twin: Twin) -> anyhow::Result<()> {
    let namespace = namespace_with("loopback-9999-udp")?;
    let folder = PolicyFolder::new(&chain("udp dport 9999 counter"))?;
    let (path, control) = (folder.policy(), folder.control());
    let wrapper = ["setpriv", "--bounding-set=-net_raw", "--inh-caps=-net_raw"];
    // The response of `reject` quotes the packet, so the firewall must copy enough bytes.
    let arguments = [
        "--policy",
        &path,
        "--control",
        &control,
        "--copy-bytes",
        "128",
        "--json",
    ];
    let firewall = Firewall::start_under(&namespace, &wrapper, twin, &arguments)?;
    folder.write(&chain("udp dport 9999 reject"))?;
    let answer = Client::new(&control)?.ask(RELOAD)?;
    let error = "the policy rejects, for which CAP_NET_RAW was missing at the start: add it, and \
                 `fwctl upgrade` starts anew without losing a packet";
    ensure!(answer["error"] == error, "{answer}");
    let ended = firewall.end_by(libc::SIGTERM)?;
    let line = format!("error: reload: {error}: the policy stays as it was\n");
    ensure!(ended.stderr == line, "stderr: {}", ended.stderr);
    Ok(())
}

fn no_policy(twin: Twin) -> anyhow::Result<()> {
    let namespace = namespace_with("loopback-9999-udp")?;
    let folder = PolicyFolder::new("")?;
    let control = folder.control();
    let firewall = Firewall::start(&namespace, twin, &["--control", &control])?;
    let mut client = Client::new(&control)?;
    let answer = client.ask(RELOAD)?;
    let error = "there is no policy to read: start with --policy";
    ensure!(answer["error"] == error, "{answer}");
    proc::signal(firewall.pid, libc::SIGHUP);
    until("SIGHUP is met likewise", PATIENCE, || {
        Ok(client.ask(STATUS)?["counts"]["reloads_failed"] == 2)
    })?;
    let ended = firewall.end_by(libc::SIGTERM)?;
    let line = format!("error: reload: {error}: the policy stays as it was\n");
    ensure!(ended.stderr == line.repeat(2), "stderr: {}", ended.stderr);
    Ok(())
}
