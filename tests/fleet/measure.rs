// SPDX-License-Identifier: GPL-2.0-or-later
//! Pushes a policy and measures the push: confirmed hosts over time, and etcd's cost.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{bail, ensure, Context};
use fleet::etcd::Etcd;
use fleet::hosts::{self, State};
use fleet::rollout;
use testbed::proc;
use testbed::wait::{until, PATIENCE};
use twinwall_tests::fleet::{Place, CHANNEL};

/// Minimum pause between two measurements.
const LOOK: Duration = Duration::from_millis(250);
/// Pause as a multiple of a measurement's duration, up to LOOK_MAX, because measurements also load etcd and this machine.
const LOOK_SHARE: u32 = 4;
const LOOK_MAX: Duration = Duration::from_secs(2);
/// Pause between two counts of hosts that start.
const COUNT: Duration = Duration::from_millis(500);

/// State of a rollout at one time.
#[derive(Clone, Copy, Debug)]
pub struct Point {
    /// Seconds since the push began.
    pub seconds: f64,
    pub confirmed: usize,
    /// Number of the current wave, from 1.
    pub wave: usize,
}

/// Results of a measured push.
#[derive(Clone, Debug, Default)]
pub struct Push {
    /// Seconds until fwctl reported that all hosts have confirmed, or that the push has stopped.
    pub seconds: f64,
    /// CPU time of etcd during the push, in seconds.
    pub etcd_cpu: f64,
    pub curve: Vec<Point>,
    /// Exit status of fwctl, or None if a signal ended it; `said` is its output.
    pub code: Option<i32>,
    pub said: String,
}

/// Creates a client of etcd with the operator's login. It works only inside the operator's namespace.
pub fn operator(place: &Place) -> anyhow::Result<Etcd> {
    let login = place.folder.file("out/operator.login");
    let login = fleet::etcd::Login::read(login.as_ref());
    let login = login.map_err(|failure| anyhow::anyhow!(failure.text))?;
    let tls = fleet::http::Tls::without();
    fleet::options::etcd(&[place.etcd_urls()], &tls, Some(login))
        .map_err(|failure| anyhow::anyhow!(failure.text))
}

fn point(etcd: &mut Etcd, generation: u64, begun: Instant) -> Option<Point> {
    let seconds = begun.elapsed().as_secs_f64();
    let pointer = rollout::present(etcd, CHANNEL, None).ok()??.pointer;
    let hosts = hosts::read(etcd, CHANNEL).ok()?;
    let is_new = pointer.generation > generation;
    let confirmed = hosts
        .iter()
        .filter(|host| host.state(&pointer) == State::Confirmed);
    is_new.then(|| Point {
        seconds,
        confirmed: confirmed.count(),
        wave: pointer.wave + 1,
    })
}

/// Returns the generation in the channel's pointer (the signed text in etcd that names the current policy); 0 = no
/// pointer.
pub fn generation(place: &Place) -> anyhow::Result<u64> {
    let mut etcd = operator(place)?;
    let present = place
        .operator
        .enter(|| rollout::present(&mut etcd, CHANNEL, None));
    let present = present.map_err(|failure| anyhow::anyhow!(failure.text))?;
    Ok(present.map_or(0, |one| one.pointer.generation))
}

/// Waits until this number of hosts have a valid lease in etcd.
pub fn wait_for_alive(place: &Place, count: usize) -> anyhow::Result<()> {
    let mut etcd = operator(place)?;
    until(&format!("{count} hosts to be there"), PATIENCE, || {
        let hosts = place.operator.enter(|| hosts::read(&mut etcd, CHANNEL));
        // etcd may answer late while all hosts start.
        let there = hosts.map_or(0, |all| all.iter().filter(|host| host.is_alive).count());
        if there != count {
            thread::sleep(COUNT);
        }
        Ok(there == count)
    })
}

/// Pushes a policy, and measures the rollout meanwhile.
pub fn push(place: &Place, policy: &str, options: &[&str]) -> anyhow::Result<Push> {
    let before = generation(place)?;
    let mut etcd = operator(place)?;
    let pid = place.etcd_pid()?;
    let cpu = proc::cpu_seconds(pid)?;
    let ended = AtomicBool::new(false);
    let begun = Instant::now();
    let (pushed, curve) = thread::scope(|scope| {
        let meter = scope.spawn(|| {
            place.operator.enter(|| {
                let mut curve = Vec::new();
                while !ended.load(Ordering::Relaxed) {
                    let look = Instant::now();
                    curve.extend(point(&mut etcd, before, begun));
                    thread::sleep((look.elapsed() * LOOK_SHARE).clamp(LOOK, LOOK_MAX));
                }
                curve.extend(point(&mut etcd, before, begun));
                curve
            })
        });
        let pushed = place.push(policy, options);
        let seconds = begun.elapsed().as_secs_f64();
        ended.store(true, Ordering::Relaxed);
        let curve = meter.join().expect("the meter does not panic");
        (pushed.map(|(code, said)| (code, said, seconds)), curve)
    });
    let (code, said, seconds) = pushed?;
    Ok(Push {
        seconds,
        etcd_cpu: proc::cpu_seconds(pid)? - cpu,
        curve,
        code,
        said,
    })
}

/// Pushes a policy. Fails unless all hosts confirm it.
/// - count: number of hosts.
pub fn push_well(
    place: &Place,
    count: usize,
    policy: &str,
    options: &[&str],
) -> anyhow::Result<Push> {
    let push = push(place, policy, options)?;
    ensure!(
        push.code == Some(0) && push.said.contains("is everywhere\n"),
        "{}",
        push.said
    );
    // fwctl's words are not trusted: the meter's last look must have seen each host confirmed.
    let confirmed = push.curve.last().map_or(0, |point| point.confirmed);
    if confirmed != count {
        let (_, said) = place.fleet(&["status", CHANNEL])?;
        bail!("{confirmed} of {count} hosts have confirmed: {said}");
    }
    Ok(push)
}

/// Compacts etcd's database. Returns its bytes per host.
pub fn bytes_at_rest(place: &Place, count: usize) -> anyhow::Result<u64> {
    let root = "out/root.login";
    let (_, said) = place.etcdctl(root, &["get", "x", "-w", "json"])?;
    let read: serde_json::Value = serde_json::from_str(&said).with_context(|| said.clone())?;
    let revision = read["header"]["revision"].to_string();
    for words in [&["compact", "--physical", &revision][..], &["defrag"]] {
        let (done, said) = place.etcdctl(root, words)?;
        ensure!(done, "{said}");
    }
    Ok(database_bytes(place)? / count as u64)
}

/// Returns the number of bytes in use in etcd's database.
pub fn database_bytes(place: &Place) -> anyhow::Result<u64> {
    let (_, said) = place.etcdctl("out/operator.login", &["endpoint", "status", "-w", "json"])?;
    let read: serde_json::Value = serde_json::from_str(&said).with_context(|| said.clone())?;
    let bytes = read[0]["Status"]["dbSizeInUse"].as_u64();
    bytes.with_context(|| said)
}

/// Returns the resident memory of a process in MB (10^6 bytes).
pub fn memory_mb(pid: u32) -> anyhow::Result<f64> {
    let text = proc::status(pid, pid, "VmRSS")?;
    let kib: f64 = text.split(' ').next().unwrap_or_default().parse()?;
    Ok(kib * 1024.0 / 1e6)
}
