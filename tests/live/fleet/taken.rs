// SPDX-License-Identifier: GPL-2.0-or-later
//! An agent that an attacker has taken over, and firewalls whose ledgers do not reconcile (are red): root's service
//! must protect the host by itself.

use std::io::Write;
use std::os::unix::net::UnixStream;

use anyhow::ensure;
use serde_json::{json, Value};
use testbed::wait::{until, PATIENCE};
use twinwall_tests::fleet::{policy, Place, Plan, Row, CUT_OFF, QUEUED};

pub const ROWS: &[Row] = &[
    (
        "an-agent-that-was-taken-over-confirms-nothing",
        an_agent_that_was_taken_over,
    ),
    ("a-red-ledger-goes-back", a_red_ledger_goes_back),
];

/// Sends a request, followed by a bundle, to root's service on the first host, from a program that is not the host's
/// agent. Returns the reply.
/// - bundle: empty for a request without a bundle.
fn ask(place: &Place, request: &Value, bundle: &str) -> anyhow::Result<String> {
    let exchange = || {
        let mut stream = UnixStream::connect(place.path("h1", "socket"))?;
        stream.set_read_timeout(Some(PATIENCE))?;
        writeln!(stream, "{request}")?;
        stream.write_all(bundle.as_bytes())?;
        std::io::read_to_string(stream)
    };
    let mut said = String::new();
    // The service's listener ends now and then, and is started again (see `Place::start_local`).
    until("root's service to reply", PATIENCE, || {
        said = exchange().unwrap_or_default();
        Ok(!said.is_empty())
    })?;
    Ok(said)
}

/// Pushes a policy that cuts the host off from the store, while the host's agent does not run. Returns the pointer (the
/// signed message that names the policy), and the bundle.
fn push_cut_off(place: &Place, observe: &str, confirm: &str) -> anyhow::Result<(Value, String)> {
    let options = ["--no-wait", "--waves", "100%", "--observe", observe];
    let options = [&options[..], &["--confirm", confirm]].concat();
    let (code, said) = place.push(CUT_OFF, &options)?;
    ensure!(code == Some(0), "{said}");
    let name = format!("twinwall/policy/{}", place.wanted_digest()?);
    let get = ["get", "--print-value-only", &name];
    let (done, bundle) = place.etcdctl("out/operator.login", &get)?;
    ensure!(done, "{bundle}");
    let pointer = serde_json::from_str(&place.pointer()?)?;
    Ok((pointer, bundle.trim().to_owned()))
}

fn an_agent_that_was_taken_over() -> anyhow::Result<()> {
    let mut place = Place::new(1)?;
    place.push_well(&policy(7777))?;
    place.stop_agent(0);
    let confirm = |generation: u64| json!({"confirm": {"generation": generation}});
    let revert = |generation: u64| json!({"revert": {"generation": generation, "why": "x"}});
    // A confirmed generation can't be reverted by an agent.
    let said = ask(&place, &revert(1), "")?;
    ensure!(
        said.contains("does not wait for its confirmation"),
        "{said}"
    );

    // The policies that follow are signed with keys that root trusts.
    let (pointer, bundle) = push_cut_off(&place, "60", "100")?;
    let apply =
        |pointer: &Value| json!({"apply": {"pointer": pointer, "bundle_bytes": bundle.len()}});
    let mut other = pointer.clone();
    let text = pointer["text"].as_str().unwrap_or_default();
    other["text"] = json!(text.replace("\"observe_seconds\":60", "\"observe_seconds\":0"));
    ensure!(other != pointer, "{pointer}");
    let said = ask(&place, &apply(&other), &bundle)?;
    ensure!(said.contains("0 of the keys have signed"), "{said}");
    let said = ask(&place, &apply(&pointer), &bundle)?;
    ensure!(said.contains("pending"), "{said}");
    let said = ask(&place, &confirm(2), "")?;
    ensure!(said.contains("is watched for 60 s"), "{said}");
    let said = ask(&place, &revert(2), "")?;
    ensure!(said.contains("reverted"), "{said}");

    let (pointer, bundle) = push_cut_off(&place, "0", "20")?;
    let said = ask(&place, &apply(&pointer), &bundle)?;
    ensure!(said.contains("pending"), "{said}");
    let said = ask(&place, &confirm(3), "")?;
    ensure!(
        said.contains("the store does not answer root's check"),
        "{said}"
    );
    until("the host to go back by itself", PATIENCE, || {
        Ok(place.rules(&place.hosts[0])?.contains("udp dport 7777"))
    })?;
    // The rules are restored a moment before fwctl apply stores that.
    let said = ask(&place, &confirm(3), "")?;
    let words = [
        "does not wait for its confirmation",
        "nothing waits for a confirmation",
    ];
    ensure!(words.iter().any(|words| said.contains(words)), "{said}");
    // An invalid request ends with an error, and nothing else changes.
    for garbage in [
        json!("x"),
        json!({"apply": {}}),
        json!({"rotate": {"keys": {"text": "", "signatures": []}}}),
    ] {
        let said = ask(&place, &garbage, "")?;
        ensure!(said.contains("error"), "{said}");
    }
    place.all_have("udp dport 7777")
}

/// Tests pushes to two hosts with firewalls, one of each twin. While both ledgers reconcile, a push succeeds. After the
/// first host's firewall has ended, a push fails: that host reports a red ledger and goes back to the previous policy,
/// and the second host confirms the new policy.
fn a_red_ledger_goes_back() -> anyhow::Result<()> {
    let mut place = Place::with(Plan {
        hosts: 2,
        twins: true,
        look: 2,
        ..Plan::default()
    })?;
    place.push_well(&policy(7777))?;
    for host in place.status()? {
        ensure!(host["report"]["ledger"] == "green", "{host}");
    }
    // Packets are queued, and the ledger still reconciles.
    for host in &place.hosts {
        let arrived = host.namespace.enter(|| -> anyhow::Result<()> {
            let server = std::net::UdpSocket::bind(("127.0.0.1", QUEUED))?;
            server.set_read_timeout(Some(PATIENCE))?;
            server.send_to(b"x", ("127.0.0.1", QUEUED))?;
            Ok(server.recv(&mut [0; 8]).map(|_| ())?)
        });
        arrived?;
    }
    place.push_well(&policy(8888))?;
    let firewall = place.hosts[0].firewall.get_mut().expect("no panic").take();
    drop(firewall);
    let (code, said) = place.push(&policy(9999), &["--waves", "100%", "--observe", "1"])?;
    ensure!(
        code == Some(1) && said.contains("h1: the firewall's ledger is red"),
        "{said}"
    );
    place.wait_for("confirmed", 1)?;
    ensure!(place.rules(&place.hosts[0])?.contains("udp dport 8888"));
    ensure!(place.rules(&place.hosts[1])?.contains("udp dport 9999"));
    let (code, said) = place.fleet(&["status", "web"])?;
    ensure!(code == Some(1) && said.contains("RED"), "{said}");
    Ok(())
}
