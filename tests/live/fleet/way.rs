// SPDX-License-Identifier: GPL-2.0-or-later
//! Pushes of a policy to hosts, reverts and rollbacks.

use anyhow::ensure;

use twinwall_tests::fleet::{policy, Place, Row, CHANNEL, CUT_OFF};
use twinwall_tests::held::Held;

pub const ROWS: &[Row] = &[
    ("twenty-hosts", twenty_hosts),
    (
        "a-rule-that-drops-too-much-goes-back",
        a_rule_that_drops_too_much_goes_back,
    ),
    ("keys-are-rotated", keys_are_rotated),
    (
        "pushes-lose-no-packet-in-a-queue",
        pushes_lose_no_packet_in_a_queue,
    ),
];

const HOSTS: usize = 20;

/// Tests a push, a first wave (canary) that fails and recovers, and a rollback, with twenty hosts.
fn twenty_hosts() -> anyhow::Result<()> {
    let place = Place::new(HOSTS)?;
    let said = place.push_well(&policy(7777))?;
    ensure!(said.contains("wave 2"), "{said}");
    place.all_have("udp dport 7777")?;
    place.push_well(&policy(8888))?;
    place.all_have("udp dport 8888")?;

    // With this policy the canary can't reach etcd: it reverts the policy, and no other host has applied it.
    let options = ["--waves", "1%,100%", "--observe", "1", "--confirm", "30"];
    let (code, said) = place.push(CUT_OFF, &options)?;
    ensure!(
        code == Some(1) && said.contains("STOPPED: 1 went back"),
        "{said}"
    );
    ensure!(
        place.count("reverted")? == 1 && place.count("waiting")? == HOSTS - 1,
        "{:#?}",
        place.status()?
    );
    // The host may report a moment before its rules are restored.
    place.wait_for_rules("udp dport 8888")?;

    let key = place.folder.file("out/fleet.key");
    let rollback = ["rollback", CHANNEL, "1", "--sign", &key];
    let options = ["--observe", "1", "--confirm", "300"];
    let (code, said) = place.fleet(&[&rollback[..], &options].concat())?;
    ensure!(code == Some(0), "{said}");
    place.all_have("udp dport 7777")?;
    let (code, said) = place.fleet(&["status", CHANNEL])?;
    let well = format!("{HOSTS} hosts: {HOSTS} confirmed, 0 applying, 0 reverted");
    ensure!(code == Some(0) && said.contains(&well), "{said}");
    Ok(())
}

fn a_rule_that_drops_too_much_goes_back() -> anyhow::Result<()> {
    let place = Place::new(1)?;
    place.push_well(&policy(7777))?;
    let options = [
        "--no-wait",
        "--observe",
        "3",
        "--confirm",
        "300",
        "--max-drops",
        "5",
    ];
    let (code, said) = place.push(&policy(8888), &options)?;
    ensure!(code == Some(0), "{said}");
    // The traffic that the new policy drops is sent as long as the host observes the policy.
    let host = &place.hosts[0];
    let flooded = host.namespace.enter(|| -> anyhow::Result<()> {
        let socket = std::net::UdpSocket::bind("127.0.0.1:0")?;
        testbed::wait::until("the host to go back", testbed::wait::PATIENCE, || {
            for _ in 0..20 {
                let _ = socket.send_to(b"x", "127.0.0.1:8888");
            }
            let state = std::fs::read_to_string(place.path("h1", "state/state.json"))?;
            Ok(state.contains("\"reverted\""))
        })
    });
    flooded?;
    place.wait_for("reverted", 1)?;
    let why = place.status()?[0]["report"]["why"].to_string();
    ensure!(why.contains("packets a second, more than 5"), "{why}");
    place.all_have("udp dport 7777")
}

fn keys_are_rotated() -> anyhow::Result<()> {
    let place = Place::new(1)?;
    place.push_well(&policy(7777))?;
    let (public, secret) = (place.folder.file("new.pub"), place.folder.file("new.key"));
    let made = std::process::Command::new("minisign")
        .args(["-G", "-W", "-p", &public, "-s", &secret])
        .output()?;
    ensure!(made.status.success(), "minisign -G");
    let old = place.folder.file("out/fleet.key");
    let (code, said) = place.fleet(&["rotate", CHANNEL, &public, "--sign", &old])?;
    ensure!(code == Some(0), "{said}");
    // From now on the new key signs, which Debian's minisign has created. The last pointer is still signed with the old
    // key.
    let trusted = std::fs::read_to_string(&public)?
        + &std::fs::read_to_string(place.folder.file("out/fleet.keys"))?;
    let trusted = place.folder.write("trusted.keys", trusted)?;
    let path = place.folder.write("new.nft", policy(8888))?;
    let options = ["--sign", &secret, "--keys", &trusted, "--observe", "1"];
    let (code, said) = place.fleet(&[&["push", CHANNEL, &path][..], &options].concat())?;
    ensure!(code == Some(0), "{said}");
    place.all_have("udp dport 8888")?;
    let options = ["--no-wait", "--keys", &trusted];
    let (code, said) = place.push(&policy(9999), &options)?;
    ensure!(code == Some(0), "{said}");
    place.wait_for("behind", 1)?;
    place.all_have("udp dport 8888")
}

/// Holds packets in a queue during the first push, a second push, a push that is reverted, and a rollback. Checks that
/// no packet is lost.
fn pushes_lose_no_packet_in_a_queue() -> anyhow::Result<()> {
    let place = Place::new(1)?;
    let held = Held::send(&place.hosts[0].namespace)?;
    for port in [7777, 8888] {
        place.push_well(&policy(port))?;
        held.check(&format!("the push of {port}"))?;
    }
    // Packets from etcd can't arrive any more, so the host reverts the policy by itself.
    let cut_off = policy(9999).replace("udp dport 9999", "tcp sport 2379");
    let options = ["--no-wait", "--observe", "1", "--confirm", "30"];
    let (code, said) = place.push(&cut_off, &options)?;
    ensure!(code == Some(0), "{said}");
    place.wait_for("reverted", 1)?;
    place.wait_for_rules("udp dport 8888")?;
    held.check("a push that goes back")?;
    let key = place.folder.file("out/fleet.key");
    let rollback = ["rollback", CHANNEL, "1", "--sign", &key];
    let options = ["--observe", "1", "--confirm", "300"];
    let (code, said) = place.fleet(&[&rollback[..], &options].concat())?;
    ensure!(code == Some(0), "{said}");
    held.check("a rollback")?;
    held.release()
}
