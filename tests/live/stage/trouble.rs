// SPDX-License-Identifier: GPL-2.0-or-later
//! The ways of the part `evasion` while the stage is disturbed: reloads, upgrades, a full table of connections,
//! connections that conntrack forgets, late acknowledgements, and packets that the kernel has yet to split (GSO).

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::Context;
use testbed::place::run;
use testbed::twin::{Twin, TWINS};
use testbed::wait::pause_for;
use twinwall_tests::case::Row;

use super::{check_fetched, Stage};
use crate::evasion::net::{Net, Sees};
use crate::evasion::wire::Version::{self, V4, V6};
use crate::evasion::By;
use crate::evasion::{self, requests, ALLOW_LIST, BLOCK_LIST};

pub const ROWS: &[Row] = &[
    ("evasion-while-reloads", |twin| {
        disturbed(twin, |stage, net, number| match number % 2 {
            0 => stage.reload_slowly(net, BLOCK_LIST, number, BETWEEN),
            _ => stage.reload_slowly(net, &renumbered(), number, BETWEEN),
        })
    }),
    ("evasion-while-upgrades", |twin| {
        disturbed(twin, |stage, net, number| {
            stage.upgrade(net, TWINS[number as usize % TWINS.len()])
        })
    }),
    ("evasion-full-table", |twin| {
        let net = Net::new(Sees::Both)?;
        hold_with(&net, twin, V4, &["--connections", FEW])
    }),
    ("evasion-forgotten", |twin| {
        let net = Net::new(Sees::Both)?;
        forget_early(&net)?;
        hold_with(&net, twin, V4, &[])
    }),
    ("evasion-gso", |twin| split_late(twin, V4, "on")),
    ("evasion-gso-honest", |twin| {
        let mut net = Net::new(Sees::Both)?;
        net.gso_bytes = Some(SEGMENT_BYTES);
        evasion::honest_in(&net, By::Stage(twin), V4)
    }),
];

pub const LONG: &[Row] = &[
    ("gso-ipv6", |twin| split_late(twin, V6, "on")),
    ("gso-split-before", |twin| split_late(twin, V4, "off")),
    ("late-server-allow-list", |twin| late(twin, V4, ALLOW_LIST)),
    ("late-server-ipv6", |twin| late(twin, V6, BLOCK_LIST)),
    ("late-server-requests", |twin| {
        let mut net = Net::new(Sees::Both)?;
        net.acknowledge_late()?;
        requests::hold_in(net, By::Stage(twin), V4, BLOCK_LIST)
    }),
];

/// Value of --connections (size of the firewall's table). The table is always full, since eight concurrent clients
/// leave their connections open.
const FEW: &str = "16";
/// Length of each segment of a packet that is split later, in bytes: less than the offset of a hello's name.
const SEGMENT_BYTES: u16 = 100;
/// Pause between two disturbances, and between the two steps of a slow reload. Connections get a class during the
/// pause.
const BETWEEN: Duration = Duration::from_millis(300);

/// Returns BLOCK_LIST with one more rule, which changes the numbers of the classes. A number of a denied name in one of
/// the two policies belongs to an allowed name in the other policy.
fn renumbered() -> String {
    BLOCK_LIST.replacen(
        "tls sni @denied",
        "tls sni missing counter\n\t\ttls sni @denied",
        1,
    )
}

/// Makes conntrack forget TCP connections after a second of silence.
pub fn forget_early(net: &Net) -> anyhow::Result<()> {
    forget_after(net, 1)
}

/// Makes conntrack forget TCP connections after some seconds of silence.
pub fn forget_after(net: &Net, seconds: u32) -> anyhow::Result<()> {
    let states = [
        "syn_sent",
        "syn_recv",
        "established",
        "fin_wait",
        "close_wait",
        "last_ack",
        "time_wait",
        "close",
        "unacknowledged",
        "max_retrans",
    ];
    let names =
        states.map(|state| format!("net.netfilter.nf_conntrack_tcp_timeout_{state}={seconds}"));
    let names = names.iter().map(String::as_str);
    let arguments: Vec<_> = ["-qw"].into_iter().chain(names).collect();
    run(&net.firewall, "sysctl", &arguments).map(drop)
}

/// Checks that no way to hide a denied name passes a stage that was started with additional options.
/// - more: additional options of the twin.
fn hold_with(net: &Net, twin: Twin, version: Version, more: &[&str]) -> anyhow::Result<()> {
    let options = [&["--hello-timeout", "1"], more].concat();
    let stage = Stage::start_with(net, twin, BLOCK_LIST, &options)?;
    evasion::hold_running(net, version)?;
    stage.end()
}

/// Checks that no way to hide a denied name passes if the client's kernel sends large packets that a later kernel
/// splits (GSO). With `--gso off` the firewall's kernel splits them before the queue.
/// - gso: value of --gso.
fn split_late(twin: Twin, version: Version, gso: &str) -> anyhow::Result<()> {
    let mut net = Net::new(Sees::Both)?;
    net.gso_bytes = Some(SEGMENT_BYTES);
    hold_with(&net, twin, version, &["--gso", gso])
}

fn late(twin: Twin, version: Version, text: &str) -> anyhow::Result<()> {
    let mut net = Net::new(Sees::Both)?;
    net.acknowledge_late()?;
    evasion::hold_in(&net, By::Stage(twin), version, text)
}

/// Checks that no way to hide a denied name passes while the stage is disturbed again and again, and that an allowed
/// name passes afterwards.
/// - disturb: disturbs the stage once; its number counts disturbances from 1.
fn disturbed(
    twin: Twin,
    disturb: fn(&mut Stage, &Net, u32) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let net = Net::new(Sees::Both)?;
    let mut stage = Stage::start(&net, twin, BLOCK_LIST)?;
    let is_done = AtomicBool::new(false);
    thread::scope(|scope| {
        let ways = scope.spawn(|| {
            let held = evasion::hold_running(&net, V4);
            is_done.store(true, Ordering::Relaxed);
            held
        });
        let mut number = 0;
        while !is_done.load(Ordering::Relaxed) {
            number += 1;
            disturb(&mut stage, &net, number)?;
            pause_for(BETWEEN);
        }
        println!("{number} disturbances");
        ways.join().expect("no panic")
    })?;
    check_fetched(&net, "allowed.example", &[]).context("afterwards")?;
    stage.end()
}
