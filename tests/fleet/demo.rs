// SPDX-License-Identifier: GPL-2.0-or-later
//! Demonstrates a fleet of twenty hosts with etcd: a push, a canary (host of the first wave) that a policy cuts off and
//! that reverts to its previous policy, and a rollback.

use std::time::Instant;

use anyhow::ensure;
use twinwall_tests::fleet::{policy, Place, Plan, CHANNEL, CUT_OFF};

const HOSTS: usize = 20;

/// Prints a line of the table: the step, its seconds, its exit status, and the numbers of hosts by state.
fn row(place: &Place, step: &str, code: Option<i32>, begun: Instant) -> anyhow::Result<()> {
    let seconds = begun.elapsed().as_secs_f64();
    let [confirmed, reverted, waiting] =
        ["confirmed", "reverted", "waiting"].map(|state| place.count(state));
    println!(
        "{step:<46} {seconds:>5.1} s  {:>4}  {:>9}  {:>8}  {:>7}",
        code.unwrap_or(-1),
        confirmed?,
        reverted?,
        waiting?
    );
    Ok(())
}

pub fn run() -> anyhow::Result<()> {
    let begun = Instant::now();
    println!("{:<46} {:>7}  exit  confirmed  reverted  waiting", "", "");
    let place = Place::with(Plan {
        hosts: HOSTS,
        twins: true,
        look: 2,
        ..Plan::default()
    })?;
    place.wait_for_alive()?;
    println!(
        "{:<46} {:>5.1} s",
        "etcd and 20 hosts, a firewall each, start",
        begun.elapsed().as_secs_f64()
    );

    let begun = Instant::now();
    let (code, said) = place.push(&policy(7777), &["--observe", "1", "--confirm", "30"])?;
    ensure!(code == Some(0), "{said}");
    row(&place, "fwctl fleet push web policy.nft", code, begun)?;

    let begun = Instant::now();
    let options = ["--waves", "1%,100%", "--observe", "1", "--confirm", "6"];
    let (code, said) = place.push(CUT_OFF, &options)?;
    ensure!(code == Some(1), "{said}");
    row(
        &place,
        "fwctl fleet push web cuts-etcd-off.nft",
        code,
        begun,
    )?;
    let stopped = said.lines().find(|line| line.starts_with("STOPPED"));
    println!("    {}", stopped.unwrap_or_default());

    let begun = Instant::now();
    let key = place.folder.file("out/fleet.key");
    let rollback = ["rollback", CHANNEL, "1", "--sign", &key, "--observe", "1"];
    let (code, said) = place.fleet(&rollback)?;
    ensure!(code == Some(0), "{said}");
    row(&place, "fwctl fleet rollback web 1", code, begun)?;
    place.all_have("udp dport 7777")?;
    let (_, said) = place.fleet(&["status", CHANNEL])?;
    println!("\nfwctl fleet status web\n{said}");
    Ok(())
}
