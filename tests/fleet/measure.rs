// SPDX-License-Identifier: GPL-2.0-or-later
//! Pushes a policy and measures the push: confirmed hosts over time, and etcd's cost.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{ensure, Context};
use fleet::etcd::Etcd;
use fleet::rollout::{self, State};
use testbed::proc;
use twinwall_tests::fleet::{Place, CHANNEL};

/// Minimum pause between two measurements.
const LOOK: Duration = Duration::from_millis(250);
/// Minimum pause as a multiple of a measurement's duration, because measurements also load etcd and this machine.
const LOOK_SHARE: u32 = 4;

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
    /// Exit status of fwctl; `said` is its output.
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
    let hosts = rollout::hosts(etcd, CHANNEL).ok()?;
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

/// Returns the number of hosts whose lease in etcd is valid.
pub fn alive(place: &Place) -> anyhow::Result<usize> {
    let mut etcd = operator(place)?;
    let hosts = place.operator.enter(|| rollout::hosts(&mut etcd, CHANNEL));
    let hosts = hosts.map_err(|failure| anyhow::anyhow!(failure.text))?;
    Ok(hosts.iter().filter(|host| host.is_alive).count())
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
                    thread::sleep(LOOK.max(look.elapsed() * LOOK_SHARE));
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
pub fn push_well(place: &Place, policy: &str, options: &[&str]) -> anyhow::Result<Push> {
    let push = push(place, policy, options)?;
    ensure!(
        push.code == Some(0) && push.said.contains("is everywhere"),
        "{}",
        push.said
    );
    Ok(push)
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
