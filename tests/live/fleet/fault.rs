// SPDX-License-Identifier: GPL-2.0-or-later
//! Agents and etcd that end at the wrong moment.

use std::fs;

use anyhow::ensure;
use testbed::wait::{until, PATIENCE};

use twinwall_tests::fleet::{policy, Place, Row};

pub const ROWS: &[Row] = &[
    ("an-agent-that-dies-goes-on", an_agent_that_dies_goes_on),
    (
        "etcd-that-is-away-changes-nothing",
        etcd_that_is_away_changes_nothing,
    ),
    (
        "an-old-backup-of-etcd-is-refused",
        an_old_backup_of_etcd_is_refused,
    ),
];

/// Kills an agent while a policy waits for its confirmation, and starts it again: before the deadline, and after it.
fn an_agent_that_dies_goes_on() -> anyhow::Result<()> {
    let mut place = Place::new(1)?;
    place.push_well(&policy(7777))?;
    for (port, former, confirm, waits) in [(8888, 7777, "300", false), (9999, 8888, "40", true)] {
        place.kill_while_pending(&policy(port), &policy(former), confirm)?;
        if waits {
            let before = format!("udp dport {former}");
            until("the host to go back by itself", PATIENCE, || {
                Ok(place.rules(&place.hosts[0])?.contains(&before))
            })?;
        }
        place.start_agent(0)?;
        place.wait_for("confirmed", 1)?;
        place.all_have(&format!("udp dport {port}"))?;
    }
    Ok(())
}

fn etcd_that_is_away_changes_nothing() -> anyhow::Result<()> {
    let mut place = Place::new(1)?;
    place.push_well(&policy(7777))?;
    place.stop_etcd();
    let log = place.path("h1", "agent.log");
    until("the agent to miss etcd", PATIENCE, || {
        Ok(fs::read_to_string(&log)?.contains("does it run"))
    })?;
    place.all_have("udp dport 7777")?;
    place.start_etcd()?;
    place.push_well(&policy(8888))?;
    place.all_have("udp dport 8888")
}

/// Restores etcd's data from before the second push. Hosts must refuse the old pointer.
fn an_old_backup_of_etcd_is_refused() -> anyhow::Result<()> {
    let mut place = Place::new(1)?;
    place.push_well(&policy(7777))?;
    place.stop_etcd();
    let (data, backup) = (place.folder.file("etcd0"), place.folder.file("backup"));
    let copy = |from: &str, to: &str| {
        let output = std::process::Command::new("cp")
            .args(["-a", from, to])
            .output()?;
        ensure!(output.status.success(), "cp");
        Ok(())
    };
    copy(&data, &backup)?;
    place.start_etcd()?;
    place.push_well(&policy(8888))?;
    place.stop_etcd();
    fs::remove_dir_all(&data)?;
    copy(&backup, &data)?;
    place.start_etcd()?;
    let log = place.path("h1", "agent.log");
    until("the agent to refuse it", PATIENCE, || {
        Ok(fs::read_to_string(&log)?.contains("the store shows generation 1, this host has had 2"))
    })?;
    place.all_have("udp dport 8888")?;
    // The next push repeats a generation that the hosts have already seen, so only the push after it is newer.
    let (_, said) = place.push(&policy(9999), &["--no-wait"])?;
    ensure!(said.contains("generation 2"), "{said}");
    place.push_well(&policy(9999))?;
    place.all_have("udp dport 9999")
}
