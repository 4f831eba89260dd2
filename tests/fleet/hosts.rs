// SPDX-License-Identifier: GPL-2.0-or-later
//! Measures and tests hosts that each have a firewall: pushes under traffic, a canary (host of the first wave) that its
//! policy cuts off, a policy that drops too much on some hosts, and hosts that fall silent.

use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{ensure, Context};
use fleet::bucket::bucket;
use serde_json::Value;
use testbed::proc;
use testbed::wait::{until, PATIENCE};
use twinwall_tests::fleet::{policy, Place, Plan, CHANNEL, CUT_OFF};

use super::measure::{
    bytes_at_rest, database_bytes, generation, memory_mb, push, push_well, wait_for_alive,
};
use super::report::{Rest, Run};
use super::traffic::Traffic;

const PUSH: [&str; 4] = ["--observe", "1", "--confirm", "60"];
/// Time limit in seconds: a canary that does not confirm the policy in this time must revert it.
const CANARY_SECONDS: u64 = 8;
/// Number of hosts whose agents end.
const DEAD: usize = 3;
/// UDP port of the packets that the policy in [`a_flood_stops_a_wave`] drops.
const FLOODED: u16 = 9999;
/// Duration of the measurement of idle agents.
const REST: Duration = Duration::from_secs(20);

/// Returns the longest time in seconds for which a host had a policy that it reverted. Only the last policy of each
/// host counts; 0 if no host has reverted its last policy.
fn longest_revert(place: &Place) -> anyhow::Result<f64> {
    let mut longest: f64 = 0.0;
    for host in &place.hosts {
        let text = std::fs::read_to_string(place.path(&host.id, "apply/state.json"))?;
        let state: Value = serde_json::from_str(&text)?;
        let all = state["generations"].as_array().context("generations")?;
        let Some(last) = all.last().filter(|one| one["outcome"] == "reverted") else {
            continue;
        };
        let [applied, settled] = ["applied_ms", "settled_ms"].map(|name| last[name].as_u64());
        let took = settled.context("settled_ms")? - applied.context("applied_ms")?;
        longest = longest.max(took as f64 / 1000.0);
    }
    Ok(longest)
}

/// Checks that canaries revert a policy that cuts them off from etcd, within the time for its confirmation, and that no
/// other host gets this policy. Returns the longest time in seconds for which a canary had the policy.
fn a_canary_heals(place: &Place) -> anyhow::Result<f64> {
    let confirm = CANARY_SECONDS.to_string();
    let options = [
        "--waves",
        "1%,100%",
        "--observe",
        "1",
        "--confirm",
        &confirm,
    ];
    let push = push(place, CUT_OFF, &options)?;
    ensure!(push.code == Some(1), "{}", push.said);
    ensure!(push.said.contains("went back"), "{}", push.said);
    let waves = push.curve.iter().map(|point| point.wave).max();
    ensure!(waves == Some(1), "{waves:?}: {}", push.said);
    until("the whole canary to go back", PATIENCE, || {
        Ok(place.count("applying")? == 0)
    })?;
    let (reverted, waiting) = (place.count("reverted")?, place.count("waiting")?);
    ensure!(
        reverted > 0 && reverted + waiting == place.hosts.len(),
        "{reverted} reverted, {waiting} waiting"
    );
    let longest = longest_revert(place)?;
    ensure!(
        longest > 0.0 && longest <= CANARY_SECONDS as f64,
        "a canary was back after {longest} s"
    );
    Ok(longest)
}

/// Checks that a policy that drops too much on 3 % of the hosts stops a push. These hosts are all in the first of two
/// waves; the second wave never begins.
fn a_flood_stops_a_wave(place: &Place) -> anyhow::Result<()> {
    let next = generation(place)? + 1;
    let mut first = place.hosts.iter();
    let first = first
        .by_ref()
        .filter(|host| bucket(&host.id, CHANNEL, next) < 500);
    let flooded: Vec<String> = first
        .take(place.hosts.len().div_ceil(33))
        .map(|host| format!("{}:{FLOODED}", host.address))
        .collect();
    let client = place.operator.enter(|| UdpSocket::bind("0.0.0.0:0"))?;
    let ended = AtomicBool::new(false);
    let push = thread::scope(|scope| {
        scope.spawn(|| {
            while !ended.load(Ordering::Relaxed) {
                for host in &flooded {
                    let _ = client.send_to(b"x", host);
                }
                thread::sleep(Duration::from_millis(5));
            }
        });
        let options = ["--waves", "50%,100%", "--observe", "3", "--confirm", "60"];
        let options = [&options[..], &["--max-drops", "20"]].concat();
        let push = push(place, &policy(FLOODED), &options);
        ended.store(true, Ordering::Relaxed);
        push
    })?;
    ensure!(
        push.code == Some(1) && push.said.contains("packets a second, more than 20"),
        "{}",
        push.said
    );
    ensure!(
        push.curve.iter().all(|point| point.wave == 1),
        "{}",
        push.said
    );
    Ok(())
}

/// Measures the idle agents of up to 20 hosts: wake-ups per agent and second, and the largest resident memory.
fn at_rest(place: &Place) -> anyhow::Result<Rest> {
    let few = place.hosts.len().min(20);
    let pids: Vec<u32> = (0..few)
        .map(|number| place.agent_pid(number))
        .collect::<Result<_, _>>()?;
    let sleeps = || {
        pids.iter()
            .map(|pid| proc::sleeps(*pid))
            .sum::<anyhow::Result<u64>>()
    };
    let (before, begun) = (sleeps()?, Instant::now());
    thread::sleep(REST);
    let wakes = (sleeps()? - before) as f64 / begun.elapsed().as_secs_f64() / few as f64;
    let memory = pids.iter().map(|pid| memory_mb(*pid));
    let memory: Vec<f64> = memory.collect::<anyhow::Result<_>>()?;
    Ok(Rest {
        wakes_a_second: wakes,
        memory_mb: memory.into_iter().fold(0.0, f64::max),
    })
}

/// Checks that exactly the last DEAD hosts, whose agents have ended, are reported as silent. Returns the number of
/// hosts that `fwctl fleet status` does not list.
fn dead_hosts_are_silent(place: &Place) -> anyhow::Result<usize> {
    let count = place.hosts.len();
    wait_for_alive(place, count - DEAD)?;
    let status = place.status()?;
    let states = status.iter().rev().filter(|host| host["state"] == "silent");
    let silent: Vec<&str> = states.filter_map(|host| host["host"].as_str()).collect();
    let mut dead = place.hosts.iter().skip(count - DEAD);
    ensure!(
        silent.len() == DEAD && dead.all(|host| silent.contains(&host.id.as_str())),
        "{silent:?}"
    );
    Ok(count - status.len())
}

pub fn run(count: usize, pushes: usize) -> anyhow::Result<Run> {
    let begun = Instant::now();
    let mut place = Place::with(Plan {
        hosts: count,
        twins: true,
        store_first: true,
        ..Plan::default()
    })?;
    wait_for_alive(&place, count)?;
    let started = begun.elapsed().as_secs_f64();
    eprintln!("{count} hosts with firewalls are there after {started:.1} s");
    let rest = at_rest(&place)?;
    let bytes = database_bytes(&place)?;
    let traffic = Traffic::start(&place)?;
    let mut all = Vec::new();
    for number in 0..pushes.max(1) {
        let one = push_well(&place, count, &policy(7000 + number as u16), &PUSH)?;
        eprintln!("push {}: {:.1} s", number + 1, one.seconds);
        all.push(one);
    }
    let traffic = traffic.stop()?;
    eprintln!(
        "{} datagrams to each port, lost through queues and past them: {:?}",
        traffic.sent, traffic.lost
    );
    ensure!(traffic.lost == [0, 0], "datagrams were lost in a push");
    let etcd_mb = memory_mb(place.etcd_pid()?)?;
    let bytes = database_bytes(&place)?.saturating_sub(bytes) / (count * all.len()) as u64;
    let canary = a_canary_heals(&place)?;
    eprintln!("a canary was back after {canary:.1} s");
    for number in count - DEAD..count {
        place.stop_agent(number);
    }
    a_flood_stops_a_wave(&place)?;
    eprintln!("a policy that drops too much on 3 % of the hosts stopped in its first wave");
    let unknown = dead_hosts_are_silent(&place)?;
    ensure!(unknown == 0, "{unknown} hosts are unknown");
    eprintln!("{DEAD} silent hosts, none unknown");
    for host in &mut place.hosts {
        let firewall = host.firewall.get_mut().expect("no thread panics").take();
        if let Some(firewall) = firewall {
            firewall.settled_ledger()?.total.check_reconciled()?;
        }
    }
    Ok(Run {
        name: format!("{count} hosts with a firewall"),
        hosts: count,
        started,
        pushes: all,
        observed: 1.0,
        etcd_mb,
        bytes_a_push: bytes,
        bytes_at_rest: bytes_at_rest(&place, count)?,
        unknown,
        canary: Some(canary),
        traffic: Some(traffic),
        rest: Some(rest),
    })
}
