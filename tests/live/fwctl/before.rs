// SPDX-License-Identifier: GPL-2.0-or-later
//! Losses that a firewall can't detect: packets that the kernel drops before they have an id, and connections that it
//! does not track.

use std::net::{Ipv4Addr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{ensure, Context};
use testbed::netns::{Namespace, VETH_IPV4};
use testbed::place::{namespace, run};
use testbed::skip::skip;
use testbed::twin::{root, Twin};
use testbed::wait::{pause_for, until, PATIENCE};
use twinwall_tests::case::Row;

use super::ctl::{check_has, Place, ACCEPTED, POLICY};
use super::doctor::{inspect_place, Found};

pub const ROWS: &[Row] = &[
    ("doctor-of-packets-without-an-id", without_an_id),
    ("doctor-of-connections-not-tracked", by_attribute),
    ("doctor-of-connections-not-marked", by_mark),
    ("status-without-the-kernels-figures", without_figures),
];

const GROUP: Ipv4Addr = Ipv4Addr::new(239, 1, 2, 3);
const GROUP_PORT: u16 = 5555;
/// Pause between two datagrams.
const PAUSE: Duration = Duration::from_millis(5);

/// Sends a datagram to a multicast group of which this host is a member. The datagram's two copies belong to a new
/// connection and share one conntrack entry, so the kernel drops both before they reach a queue
/// (nf_ct_drop_unconfirmed).
fn to_the_group(namespace: &Namespace) -> anyhow::Result<()> {
    let socket = namespace.enter(|| UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)))?;
    socket.send_to(b"m", (GROUP, GROUP_PORT))?;
    pause_for(PAUSE);
    Ok(())
}

fn without_an_id(twin: Twin) -> anyhow::Result<()> {
    let place = Place::new(twin)?;
    let other = namespace()?;
    Namespace::veth_pair(&place.namespace, &other)?;
    let route = ["route", "add", "224.0.0.0/4", "dev", "veth"];
    run(&place.namespace, "ip", &route)?;
    let member = place
        .namespace
        .enter(|| UdpSocket::bind((GROUP, GROUP_PORT)))?;
    let std::net::IpAddr::V4(own) = VETH_IPV4.0 else {
        unreachable!("an IPv4 address")
    };
    member.join_multicast_v4(&GROUP, &own)?;
    let lost = "that met the queue rules within a second got no id";
    // With the rule in OUTPUT, which Place loads, no packet is lost. On a busy machine no datagram may be sent within
    // doctor's second.
    until("doctor sees packets", PATIENCE, || {
        let found = with_traffic(&place)?;
        ensure!(found.cure("warning", lost).is_err(), "packets are lost");
        let words = "that met the queue rules within a second were all offered to a queue";
        Ok(found.cure("ok", words).is_ok())
    })?;
    let rule = "-t mangle -A POSTROUTING -p udp -m conntrack --ctstate NEW -j NFQUEUE";
    run(&place.namespace, "iptables", &["-F", "OUTPUT"])?;
    let words: Vec<&str> = rule.split(' ').collect();
    run(&place.namespace, "iptables", &words)?;
    let mut cure = None;
    until("doctor sees lost packets", PATIENCE, || {
        cure = with_traffic(&place)?.cure("warning", lost).ok();
        Ok(cure.is_some())
    })?;
    let cure = cure.unwrap_or_default();
    check_has(&cure, "queue new connections in OUTPUT or INPUT")?;
    // The ledger does not count these packets, and status does not report them as lost.
    let status = place.fwctl(&["status"])?;
    check_has(status.code(0)?, "reconciled, lost 0 in the queues")
}

/// Runs `fwctl doctor` while datagrams are sent to the IP multicast group GROUP. Returns the findings of doctor.
fn with_traffic(place: &Place) -> anyhow::Result<Found> {
    let (done, namespace) = (AtomicBool::new(false), &place.namespace);
    thread::scope(|scope| {
        let sender = scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                to_the_group(namespace)?;
            }
            anyhow::Ok(())
        });
        let said = inspect_place(place);
        done.store(true, Ordering::Relaxed);
        sender.join().expect("the sender does not panic")?;
        Found::read(&said?)
    })
}

fn by_attribute(twin: Twin) -> anyhow::Result<()> {
    not_tracked(twin, "attribute").map_err(|error| {
        let text = format!("{error:#}");
        match text.contains("this kernel gives no connection tracking") {
            true => skip("this kernel tells no state of connections with packets"),
            false => error,
        }
    })
}

fn by_mark(twin: Twin) -> anyhow::Result<()> {
    not_tracked(twin, "mark")
}

fn not_tracked(twin: Twin, way: &str) -> anyhow::Result<()> {
    const ASKS: &str = "table inet filter {
	chain output {
		type filter hook output priority filter; policy drop;
		ct state established,related accept
		udp dport 9001 ct state new counter accept
	}
}
";
    let place = Place::with(twin, ASKS, &["--conntrack", way])?;
    let state = || {
        let status = place.fwctl(&["status", "--json"])?.object()?;
        anyhow::Ok(status["policy"]["ct_state"].clone())
    };
    ensure!(state()?.is_null(), "{}", state()?);
    place.send(ACCEPTED, 20)?;
    until("it is known that none has a state", PATIENCE, || {
        Ok(state()? == "missing")
    })?;
    let status = place.fwctl(&["status"])?;
    check_has(&status.stdout, "NO PACKET HAS A CONNECTION STATE")?;
    let found = Found::of(&inspect_place(&place)?, 1)?;
    let cure = found.cure(
        "error",
        "the policy asks for ct state, and no packet has one",
    )?;
    run(&place.namespace, "iptables", &["-F", "OUTPUT"])?;
    let load = root().join("rules/load").to_string_lossy().into_owned();
    let command = cure.strip_prefix("sudo ").unwrap_or(&cure);
    let command = command.replacen("rules/load", &load, 1);
    run(&place.namespace, "sh", &["-c", &command])?;
    let queue = ["-A", "OUTPUT", "-j", "NFQUEUE", "--queue-num", "0"];
    run(&place.namespace, "iptables", &queue)?;
    until("a packet has a state", PATIENCE, || {
        place.send(ACCEPTED, 1)?;
        Ok(state()? == "seen")
    })?;
    let found = Found::read(&inspect_place(&place)?)?;
    found.cure(
        "ok",
        "packets have the connection state that the policy asks for",
    )?;
    let ended = place.firewall.end_by(libc::SIGTERM)?;
    let warnings: Vec<&str> = ended.stderr.lines().collect();
    ensure!(
        warnings.len() == 1
            && warnings[0]
                .starts_with("warning: the policy asks for ct state, and no packet has one"),
        "{warnings:?}"
    );
    Ok(())
}

/// Checks that a firewall that can't read /proc reports unknown figures as unknown, not as 0.
fn without_figures(twin: Twin) -> anyhow::Result<()> {
    let options = ["--fail", "overload=open"];
    let place = Place::hidden(twin, POLICY, &options)?;
    place.send(ACCEPTED, 20)?;
    let status = place.fwctl(&["status"])?;
    check_has(
        status.code(1)?,
        "NOT RECONCILED: the kernel's figures can't be read, the losses are unknown",
    )?;
    let object = place.fwctl(&["status", "--json"])?;
    let object: serde_json::Value = serde_json::from_str(&object.stdout)?;
    let queue = &object["queues"][0];
    ensure!(
        queue["unseen"].is_null()
            && queue["waiting"].is_null()
            && object["ledger"]["lost"].is_null(),
        "{object}"
    );
    let found = Found::of(&inspect_place(&place)?, 1)?;
    found.cure("error", "the losses are unknown")?;
    let ended = place.firewall.end_by(libc::SIGTERM)?;
    let last = ended.lines.last().context("no ledger at exit")?;
    check_has(last, "\"kernel\":null,\"lost\":null")?;
    check_has(last, "\"reconciled\":false")
}
