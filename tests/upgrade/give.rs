// SPDX-License-Identifier: GPL-2.0-or-later
//! The old firewall: whatever the new one does wrong, it goes on, and says why.

use std::time::{Duration, Instant};

use anyhow::ensure;
use twinwall_tests::case::{Row, PATIENCE};
use twinwall_tests::firewall::{Ended, Firewall};
use twinwall_tests::ledger::Stats;
use twinwall_tests::packets::force_send_buffer;
use twinwall_tests::traffic::{tcp_ask, tcp_connect, tcp_echo, udp_client, udp_send, UdpServer};
use twinwall_tests::twin::{Twin, TWINS};

use crate::peer::{Peer, REQUEST};
use crate::setting::{Setting, LOCALHOST};

pub const ROWS: &[Row] = &[
    ("new-one-ends", 60, new_one_ends),
    ("new-one-ends-amid-the-state", 60, new_one_ends_amid),
    ("new-one-is-silent", 60, new_one_is_silent),
    (
        "new-one-says-something-else",
        60,
        new_one_says_something_else,
    ),
    ("new-one-fails-for-its-policy", 60, new_one_fails),
    (
        "new-one-fails-with-everything-in-hand",
        60,
        new_one_fails_late,
    ),
    ("a-second-upgrade-waits-for-the-first", 60, second_upgrade),
    ("told-to-stop-meanwhile", 60, told_to_stop),
    ("refuses-classic", 60, refuses_classic),
];

/// How long the old one waits for the new one.
const LIMIT: Duration = Duration::from_secs(5);
/// Sent while nobody answers.
const WAITING: u64 = 500;

const ENDED: &str = "warning: upgrade: this firewall goes on: the new firewall ended the upgrade: see what it says, \
                     and try again\n";
const SILENT: &str = "warning: upgrade: this firewall goes on: the new firewall does not go on with the upgrade: see \
                      what it says, and try again\n";
const STRANGE: &str =
    "warning: upgrade: this firewall goes on: the new firewall says what no firewall would: is it \
                       one of this kind?\n";

/// Has an upgrade fail while datagrams wait, and checks that the old firewall answers them all and goes on. Gives what
/// it said.
fn fail(
    twin: Twin,
    play: impl FnOnce(&Setting, &mut Peer) -> anyhow::Result<()>,
) -> anyhow::Result<Ended> {
    let setting = Setting::new("--queue-num 0")?;
    let firewall = setting.start(twin, &[])?;
    tcp_echo(&setting.namespace, LOCALHOST)?;
    let mut stream = tcp_connect(&setting.namespace, LOCALHOST, PATIENCE)?;
    tcp_ask(&mut stream)?;
    let server = UdpServer::start(&setting.namespace, LOCALHOST, false)?;
    let client = udp_client(&setting.namespace, LOCALHOST)?;
    force_send_buffer(&client, 16 << 20)?;
    let mut peer = Peer::connect(&setting.control())?;
    peer.ask()?;
    udp_send(&client, WAITING, 18)?;
    ensure!(server.arrived()? == 0, "the old firewall still filters");
    play(&setting, &mut peer)?;
    drop(peer);
    server.check_arrived(WAITING)?;
    tcp_ask(&mut stream)?;
    let stats = firewall.settled_ledger()?;
    stats.total.check_clean()?;
    firewall.end_by(libc::SIGTERM)
}

fn check_said(ended: &Ended, expected: &str) -> anyhow::Result<()> {
    ensure!(
        ended.code == Some(0) && ended.stderr == expected,
        "exit code {:?}, stderr: {}",
        ended.code,
        ended.stderr
    );
    Ok(())
}

fn new_one_ends(twin: Twin) -> anyhow::Result<()> {
    check_said(&fail(twin, |_, _| Ok(()))?, ENDED)
}

/// Before it has read what the old one says.
fn new_one_ends_amid(twin: Twin) -> anyhow::Result<()> {
    let setting = Setting::new("--queue-num 0")?;
    let firewall = setting.start(twin, &[])?;
    tcp_echo(&setting.namespace, LOCALHOST)?;
    let mut stream = tcp_connect(&setting.namespace, LOCALHOST, PATIENCE)?;
    for _ in 0..20 {
        let mut peer = Peer::connect(&setting.control())?;
        peer.say(REQUEST)?;
        drop(peer);
        tcp_ask(&mut stream)?;
    }
    firewall.settled_ledger()?.total.check_clean()?;
    let ended = firewall.end_by(libc::SIGTERM)?;
    ensure!(ended.code == Some(0), "exit code {:?}", ended.code);
    Ok(())
}

fn new_one_is_silent(twin: Twin) -> anyhow::Result<()> {
    let ended = fail(twin, |_, peer| {
        let since = Instant::now();
        let end = peer.hear();
        let took = since.elapsed();
        ensure!(end.is_err(), "the old firewall said {end:?}");
        let about = LIMIT / 2..2 * LIMIT;
        ensure!(about.contains(&took), "the old firewall waited {took:?}");
        Ok(())
    })?;
    check_said(&ended, SILENT)
}

fn new_one_says_something_else(twin: Twin) -> anyhow::Result<()> {
    for line in [
        "GET / HTTP/1.1\n",
        "{\"command\":\"status\"}\n",
        "{}\n",
        "\n",
    ] {
        let ended = fail(twin, |_, peer| {
            peer.say(line)?;
            ensure!(peer.hear().is_err(), "the old firewall answers {line}");
            Ok(())
        })?;
        check_said(&ended, STRANGE)?;
    }
    Ok(())
}

/// A firewall that does not get as far as to ask.
fn new_one_fails(twin: Twin) -> anyhow::Result<()> {
    let setting = Setting::new("--queue-num 0")?;
    let firewall = setting.start(twin, &[])?;
    let policy = setting.policy("policy.nft", &["table inet filter {"])?;
    for new in TWINS {
        let failed = setting.fail_to_take(new, &["--policy", &policy])?;
        ensure!(failed.code == Some(2), "exit code {:?}", failed.code);
    }
    tcp_echo(&setting.namespace, LOCALHOST)?;
    tcp_ask(&mut tcp_connect(&setting.namespace, LOCALHOST, PATIENCE)?)?;
    firewall.finish()?.total.check_clean()
}

/// A firewall that fails when it has everything: its user is nobody.
fn new_one_fails_late(twin: Twin) -> anyhow::Result<()> {
    let setting = Setting::new("--queue-num 0")?;
    let firewall = setting.start(twin, &[])?;
    let control = setting.control();
    let arguments = ["--user", "no-such-user", "--control", &control];
    for new in TWINS {
        let failed = setting.fail_to_take(new, &arguments)?;
        ensure!(failed.code != Some(0), "exit code {:?}", failed.code);
    }
    // Its control socket is where it was.
    let mut peer = Peer::connect(&setting.control())?;
    peer.say("{\"command\":\"status\"}\n")?;
    let status = peer.hear()?;
    ensure!(status["counts"]["upgrades_failed"] == 2, "{status}");
    drop(peer);
    tcp_echo(&setting.namespace, LOCALHOST)?;
    tcp_ask(&mut tcp_connect(&setting.namespace, LOCALHOST, PATIENCE)?)?;
    firewall.settled_ledger()?.total.check_clean()?;
    check_said(&firewall.end_by(libc::SIGTERM)?, &[ENDED, ENDED].concat())
}

/// One that asks while another does is served when the other is done.
fn second_upgrade(twin: Twin) -> anyhow::Result<()> {
    let setting = Setting::new("--queue-num 0")?;
    let firewall = setting.start(twin, &[])?;
    let mut first = Peer::connect(&setting.control())?;
    first.ask()?;
    let control = setting.control();
    let second = std::thread::spawn(move || -> anyhow::Result<Peer> {
        let mut second = Peer::connect(&control)?;
        second.ask()?;
        Ok(second)
    });
    std::thread::sleep(Duration::from_millis(300));
    ensure!(!second.is_finished(), "two have the queues");
    drop(first);
    drop(second.join().expect("the second does not panic")?);
    tcp_echo(&setting.namespace, LOCALHOST)?;
    tcp_ask(&mut tcp_connect(&setting.namespace, LOCALHOST, PATIENCE)?)?;
    firewall.settled_ledger()?.total.check_clean()?;
    check_said(&firewall.end_by(libc::SIGTERM)?, &[ENDED, ENDED].concat())
}

fn told_to_stop(twin: Twin) -> anyhow::Result<()> {
    let setting = Setting::new("--queue-num 0")?;
    let firewall = setting.start(twin, &[])?;
    let mut peer = Peer::connect(&setting.control())?;
    peer.ask()?;
    let since = Instant::now();
    let ended = firewall.end_by(libc::SIGTERM)?;
    ensure!(since.elapsed() < 2 * LIMIT, "it took {:?}", since.elapsed());
    check_said(&ended, SILENT)?;
    let last = Stats::parse(ended.lines.last().map_or("", String::as_str))?;
    ensure!(last.reason == "exit" && last.reconciled, "{last:?}");
    Ok(())
}

/// Nothing is given to who can't take it.
fn refuses_classic(twin: Twin) -> anyhow::Result<()> {
    let setting = Setting::new("--queue-num 0")?;
    let firewall = setting.start(twin, &["--backend", "classic"])?;
    let mut peer = Peer::connect(&setting.control())?;
    peer.say("{\"command\":\"upgrade\",\"version\":1,\"backend\":\"classic\"}\n")?;
    let answer = peer.hear()?;
    let error = answer["error"].as_str().unwrap_or_default();
    ensure!(
        answer["ok"] == false
            && error.ends_with("start the new firewall with --backend raw or mnl"),
        "{answer}"
    );
    finish(firewall)
}

fn finish(firewall: Firewall) -> anyhow::Result<()> {
    firewall.finish()?.total.check_clean()
}
