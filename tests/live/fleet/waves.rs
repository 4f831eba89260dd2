// SPDX-License-Identifier: GPL-2.0-or-later
//! Waves of a push: the push is killed in its first wave, and the hosts of the next wave wait.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::process::Stdio;

use anyhow::{ensure, Context};
use nix::fcntl::{Flock, FlockArg};
use serde_json::Value;
use testbed::wait::{until, PATIENCE};
use twinwall_tests::fleet::{policy, Place, Plan, Row, Running, CHANNEL};

pub const ROWS: &[Row] = &[("a-killed-push-is-continued", a_killed_push_is_continued)];

const HOSTS: usize = 4;

/// Returns for each host the number of times that its agent has written its report.
fn reports(place: &Place) -> anyhow::Result<Vec<u64>> {
    let get = ["get", "--prefix", "twinwall/hosts/", "-w", "json"];
    let (_, said) = place.etcdctl("out/operator.login", &get)?;
    let read: Value = serde_json::from_str(&said).with_context(|| said.clone())?;
    let all = read["kvs"].as_array().context(said)?;
    Ok(all
        .iter()
        .map(|one| one["version"].as_u64().unwrap_or(0))
        .collect())
}

/// Locks the state of a host's service that runs as root: its requests wait until the lock is dropped.
fn lock(place: &Place, number: usize) -> anyhow::Result<Flock<File>> {
    let path = place.path(&place.hosts[number].id, "state/lock");
    let file = File::options().write(true).open(&path).context(path)?;
    let locked = Flock::lock(file, FlockArg::LockExclusive);
    Ok(locked.map_err(|(_, error)| error)?)
}

/// Kills a push in its first wave, and continues it by another command. Agents read the store only after events of
/// their watch. An agent outside the wave must do nothing.
fn a_killed_push_is_continued() -> anyhow::Result<()> {
    let place = Place::with(Plan {
        hosts: HOSTS,
        look: 3600,
        ..Plan::default()
    })?;
    place.push_well(&policy(7777))?;
    let before = reports(&place)?;
    let path = place.folder.write("policy.nft", policy(8888))?;
    let [key, login] = ["out/fleet.key", "out/operator.login"].map(|name| place.folder.file(name));
    let push = ["push", CHANNEL, &path, "--sign", &key, "--login", &login];
    let mut command = place.command(&push);
    command.args(["--waves", "1%,100%", "--observe", "1", "--confirm", "300"]);
    command.stdout(Stdio::piped()).stderr(Stdio::null());
    // Until the push is killed, no host can apply the policy.
    let locks = (0..HOSTS).map(|number| lock(&place, number));
    let locks: Vec<Flock<File>> = locks.collect::<anyhow::Result<_>>()?;
    let mut line = String::new();
    until("the push to begin", PATIENCE, || {
        // A push that can't reach the store ends without a line.
        let mut pushing = Running(command.spawn()?);
        let stdout = pushing.0.stdout.take().context("stdout is piped")?;
        BufReader::new(stdout).read_line(&mut line)?;
        Ok(!line.is_empty())
    })?;
    ensure!(line.starts_with("generation 2 of channel"), "{line}");
    drop(locks);
    place.wait_for("confirmed", 1)?;
    ensure!(
        place.count("waiting")? == HOSTS - 1,
        "{:#?}",
        place.status()?
    );
    let after = reports(&place)?;
    let idle = before
        .iter()
        .zip(&after)
        .filter(|(before, after)| before == after);
    ensure!(idle.count() == HOSTS - 1, "{before:?} {after:?}");

    let options = ["advance", CHANNEL, "--sign", &key];
    let (code, said) = place.fleet(&options)?;
    ensure!(code == Some(0) && said.contains("wave 2"), "{said}");
    ensure!(said.contains("generation 2 is everywhere\n"), "{said}");
    place.all_have("udp dport 8888")?;
    // Nothing is left to do.
    let (code, said) = place.fleet(&options)?;
    ensure!(code == Some(0) && !said.contains("wave"), "{said}");
    Ok(())
}
