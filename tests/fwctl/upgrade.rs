// SPDX-License-Identifier: GPL-2.0-or-later
//! fwctl upgrade: from each twin to the other and back, and binaries that can't.

use std::fs;

use anyhow::{ensure, Context};
use twinwall_tests::case::{until, PATIENCE};
use twinwall_tests::proc;
use twinwall_tests::twin::Twin;

use crate::ctl::{check_has, Place, ACCEPTED, DROPPED};
use crate::Row;

pub const ROWS: &[Row] = &[
    ("upgrade-there-and-back", 120, there_and_back),
    ("upgrade-that-fails", 120, fails),
];

/// The process that fwctl has started, which is no child of ours: it is killed with the value.
struct Stray(u32);

impl Drop for Stray {
    fn drop(&mut self) {
        proc::signal(self.0, libc::SIGKILL);
    }
}

fn other(twin: Twin) -> Twin {
    match twin {
        Twin::Rust => Twin::C,
        Twin::C => Twin::Rust,
    }
}

/// Upgrades to a twin; gives its pid.
fn upgrade(place: &Place, twin: Twin) -> anyhow::Result<u32> {
    let binary = twin.binary().to_string_lossy().into_owned();
    let object = place.fwctl(&["upgrade", &binary, "--json"])?.object()?;
    ensure!(object["is"]["program"] == twin.program(), "{object}");
    let pid = object["is"]["pid"].as_u64().context("a pid")?;
    Ok(u32::try_from(pid)?)
}

fn there_and_back(twin: Twin) -> anyhow::Result<()> {
    let mut place = Place::new(twin)?;
    place.send(DROPPED, 3)?;
    place.firewall.settled_ledger()?;
    let old = place.firewall.pid;
    let links: Vec<_> = ["cwd", "fd/1", "fd/2", "ns/net", "ns/mnt"]
        .iter()
        .map(|link| fs::read_link(format!("/proc/{old}/{link}")))
        .collect();
    let cgroup = fs::read_to_string(format!("/proc/{old}/cgroup"))?;

    let first = Stray(upgrade(&place, other(twin))?);
    until("the old firewall ends", PATIENCE, || {
        Ok(!place.firewall.is_running()?)
    })?;
    for (link, was) in ["cwd", "fd/1", "fd/2", "ns/net", "ns/mnt"]
        .iter()
        .zip(links)
    {
        let is = fs::read_link(format!("/proc/{}/{link}", first.0))?;
        ensure!(is == was?, "{link} is {}", is.display());
    }
    ensure!(
        cgroup == fs::read_to_string(format!("/proc/{}/cgroup", first.0))?,
        "another cgroup"
    );
    // What it prints goes where the old one's went.
    until("its start line comes", PATIENCE, || {
        let line = place.firewall.line()?;
        Ok(line.contains("\"event\":\"start\"") && line.contains(other(twin).program()))
    })?;

    place.send(DROPPED, 2)?;
    place.send(ACCEPTED, 1)?;
    let second = Stray(upgrade(&place, twin)?);
    let exe = fs::read_link(format!("/proc/{}/exe", second.0))?;
    ensure!(exe == twin.binary().canonicalize()?, "{}", exe.display());
    until("all is counted", PATIENCE, || {
        let rules = place.fwctl(&["rules", "--json"])?.object()?;
        let counted = |rule: usize| rules["rules"][rule]["counters"][0]["packets"].as_u64();
        Ok(counted(1) == Some(5) && counted(0) == Some(1))
    })?;
    place.fwctl(&["drain"])?.code(0)?;
    Ok(())
}

/// A binary that can't take over leaves the old firewall as it is.
fn fails(twin: Twin) -> anyhow::Result<()> {
    let place = Place::new(twin)?;
    let upgrade = |binary: &str| place.fwctl(&["upgrade", binary]);
    upgrade("/no/such/binary")?.error(2, "No such file or directory")?;
    upgrade(&place.policy)?.error(4, "Permission denied")?;
    upgrade("/bin/true")?.error(4, "the old firewall goes on")?;
    let talks = place.folder.file(
        "talks",
        "#!/bin/sh\necho 'error: not me: ask another' >&2\nexit 1\n",
    )?;
    fs::set_permissions(&talks, std::os::unix::fs::PermissionsExt::from_mode(0o755))?;
    upgrade(&talks)?.error(4, "the old firewall goes on: not me: ask another")?;

    // What the new one says of the policy is told.
    fs::write(&place.policy, "nonsense")?;
    let binary = twin.binary().to_string_lossy().into_owned();
    upgrade(&binary)?.error(4, &format!("goes on: {}:1:1: ", place.policy))?;
    let status = place.fwctl(&["status", "--json"])?.object()?;
    ensure!(status["pid"] == place.firewall.pid, "{status}");
    let left = fs::read_dir(place.folder.path(""))?.flatten();
    let left: Vec<_> = left.map(|entry| entry.file_name()).collect();
    ensure!(left.len() == 3, "left behind: {left:?}");
    check_has(place.fwctl(&["status"])?.code(0)?, "reconciled")
}
