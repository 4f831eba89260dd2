// SPDX-License-Identifier: GPL-2.0-or-later
//! Clients of the control socket that follow events.

use anyhow::{ensure, Context};
use testbed::control::Client;
use testbed::firewall::{Firewall, PATIENT_GUARD};
use testbed::twin::Twin;
use testbed::wait::{until, PATIENCE};
use twinwall_tests::case::Row;

use super::running::{
    check_ledger, is_own, is_type, missed, send, Place, ACCEPTED, DROPPED, LOGGED,
};

pub const ROWS: &[Row] = &[
    ("a-client-follows-what-it-asked-for", follow),
    ("a-client-that-does-not-read-is-told-what-it-missed", slow),
    ("clients-come-and-go", come_and_go),
];

/// Length of an IPv4 and UDP packet with 8 bytes of data.
const LENGTH: u64 = 36;

/// Returns a client of the control socket whose request was accepted.
fn taken(control: &str, request: &str) -> anyhow::Result<Client> {
    let mut client = Client::new(control)?;
    client.done(request)?;
    Ok(client)
}

fn follow(twin: Twin) -> anyhow::Result<()> {
    let place = Place::new()?;
    let control = place.path("control");
    let events = place.path("events.json");
    let firewall = place.start(twin, &events, &["--control", &control])?;
    let mut accepts = taken(
        &control,
        r#"{"command":"tail","verdicts":["accept"],"packets":true}"#,
    )?;
    let mut all = taken(&control, r#"{"command":"tail"}"#)?;
    let client = place.client()?;
    for port in [DROPPED, ACCEPTED, LOGGED] {
        send(&client, port, 1);
    }
    // A datagram to a closed port causes an ICMP error, which is accepted, too; the loop skips its lines.
    let mut packets = Vec::new();
    while packets.len() < 3 {
        let line = accepts.line()?;
        if line["proto"] == "UDP" {
            packets.push(line);
        }
    }
    ensure!(is_type(&packets[0], "accept") && packets[0]["dest_port"] == ACCEPTED);
    ensure!(is_type(&packets[1], "log") && packets[1]["packet"].is_null());
    ensure!(is_type(&packets[2], "accept") && packets[2]["dest_port"] == LOGGED);
    let input = &packets[0]["input"];
    ensure!(
        input["length"] == LENGTH
            && input["captured"] == LENGTH
            && input["ethertype"] == 0x0800
            && input["hook"] == 1
            && input["iifname"] == "lo"
            && input["oifname"] == ""
            && input["uid"].is_null()
            && input["status"] == "ok"
            && input["truncated"] == false,
        "{input}"
    );
    ensure!(packets[0]["packet_info"]["linktype"] == 101);
    // Base64 of 0x45 and the length, and of "twinwall" without its first bits.
    let packet = packets[0]["packet"].as_str().context("packet")?;
    ensure!(
        packet.starts_with("RQAAJ") && packet.ends_with("R3aW53YWxs"),
        "{packet}"
    );
    let first = all.line()?;
    ensure!(
        is_type(&first, "drop") && first["packet"].is_null(),
        "{first}"
    );
    firewall.stop()?;
    Ok(())
}

/// Checks that verdicts continue while a client does not read, and that the client learns how many events it has
/// missed.
fn slow(twin: Twin) -> anyhow::Result<()> {
    const PACKETS: u64 = 3000;
    let place = Place::new()?;
    let control = place.path("control");
    let policy = place.path("web.nft");
    let ours = ["--policy", &policy, "--control", &control];
    let arguments = [&ours[..], &PATIENT_GUARD].concat();
    let firewall = Firewall::start(&place.namespace, twin, &arguments)?;
    let mut client = taken(
        &control,
        r#"{"command":"tail","verdicts":["drop"],"packets":true}"#,
    )?;
    send(&place.client()?, DROPPED, PACKETS);
    let stats = firewall.settled_ledger()?;
    check_ledger(&stats, "drop", PACKETS)?;
    let mut lines = Vec::new();
    let (mut got, mut told) = (0, 0);
    while got + told < PACKETS {
        let line = client.line()?;
        got += u64::from(is_type(&line, "drop"));
        lines.push(line);
        told = missed(&lines, "lost");
    }
    ensure!(got + told == PACKETS && told > 0, "{got} got, {told} told");
    firewall.stop()?;
    Ok(())
}

/// Checks that eight clients can follow, that a ninth is refused with a reason, and that another can follow when a
/// client has left.
fn come_and_go(twin: Twin) -> anyhow::Result<()> {
    let place = Place::new()?;
    let control = place.path("control");
    let events = place.path("events.json");
    let firewall = place.start(twin, &events, &["--control", &control])?;
    let request = r#"{"command":"tail","verdicts":["drop"]}"#;
    let mut clients = Vec::new();
    for _ in 0..8 {
        clients.push(taken(&control, request)?);
    }
    let refused = Client::new(&control)?.ask(request)?;
    ensure!(refused["ok"] == false, "{refused}");
    drop(clients.pop());
    until("one that went makes room", PATIENCE, || {
        match taken(&control, request) {
            Ok(client) => {
                clients.push(client);
                Ok(true)
            }
            Err(_) => Ok(false),
        }
    })?;
    send(&place.client()?, DROPPED, 1);
    for client in &mut clients {
        ensure!(is_type(&client.line()?, "drop"));
    }
    firewall.stop()?;
    for client in &mut clients {
        ensure!(is_own(&client.line()?, "stopped"));
    }
    Ok(())
}
