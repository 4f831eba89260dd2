// SPDX-License-Identifier: GPL-2.0-or-later
//! fwctl upgrade: from each twin to the other and back, and binaries that can't.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{ensure, Context};
use harness::netns::Namespace;
use twinwall_tests::case::{until, Row, PATIENCE};
use twinwall_tests::firewall::Firewall;
use twinwall_tests::place::{namespace, restore};
use twinwall_tests::proc;
use twinwall_tests::twin::Twin;

use crate::ctl::{check_has, fwctl, Folder, Place, Said, ACCEPTED, DROPPED};

pub const ROWS: &[Row] = &[
    ("upgrade-there-and-back", 120, there_and_back),
    ("upgrade-takes-the-same-place", 120, same_place),
    ("upgrade-to-the-same-file", 120, same_file),
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

/// What an upgrade has brought in.
fn brought(said: &Said, twin: Twin) -> anyhow::Result<Stray> {
    let object = said.object()?;
    let pid = object["is"]["pid"].as_u64().context("a pid")?;
    let stray = Stray(u32::try_from(pid)?);
    ensure!(object["is"]["program"] == twin.program(), "{object}");
    Ok(stray)
}

/// Upgrades to a twin.
fn upgrade(place: &Place, twin: Twin) -> anyhow::Result<Stray> {
    let binary = twin.binary().to_string_lossy().into_owned();
    brought(&place.fwctl(&["upgrade", &binary, "--json"])?, twin)
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

    let first = upgrade(&place, other(twin))?;
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
    let second = upgrade(&place, twin)?;
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

/// A control group of a case, which goes away with the value.
struct Cgroup(PathBuf);

impl Cgroup {
    /// Nothing where there are none, or where they are not ours to make.
    fn new() -> Option<Cgroup> {
        let root = Path::new("/sys/fs/cgroup");
        let hierarchies = [root.to_owned(), root.join("pids")];
        let hierarchy = hierarchies
            .into_iter()
            .find(|path| path.join("cgroup.procs").exists())?;
        let path = hierarchy.join(format!("twinwall-fwctl-{}", std::process::id()));
        fs::create_dir(&path).ok()?;
        Some(Cgroup(path))
    }

    fn has(&self, pid: u32) -> anyhow::Result<bool> {
        let pids = fs::read_to_string(self.0.join("cgroup.procs"))?;
        Ok(pids.lines().any(|line| line == pid.to_string()))
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        // Its last process may not be gone yet.
        let gone = || Ok(fs::remove_dir(&self.0).is_ok());
        let _ = until("the control group is empty", PATIENCE, gone);
    }
}

/// A firewall in namespaces, in a control group and with an environment of its own: the new one is there, too.
fn same_place(twin: Twin) -> anyhow::Result<()> {
    let (namespace, folder) = (namespace()?, Folder::new()?);
    restore(&namespace, "iptables", "-A OUTPUT -j NFQUEUE --queue-num 0")?;
    let socket = folder.path("control");
    let wrapper = [
        "unshare",
        "--mount",
        "env",
        "TWINWALL_TEST=1",
        "WATCHDOG_PID=1",
    ];
    let arguments = ["--control", &socket, "--json"];
    let group = Cgroup::new();
    let mut old = Firewall::start_under(&namespace, &wrapper, twin, &arguments)?;
    if let Some(group) = &group {
        fs::write(group.0.join("cgroup.procs"), old.pid.to_string())?;
    }
    let mount = fs::read_link(format!("/proc/{}/ns/mnt", old.pid))?;
    ensure!(
        mount != fs::read_link("/proc/self/ns/mnt")?,
        "no mount namespace of its own"
    );
    let net = fs::read_link(format!("/proc/{}/ns/net", old.pid))?;

    // fwctl itself is in the host's network namespace: a control socket is reached from anywhere.
    let binary = other(twin).binary().to_string_lossy().into_owned();
    let said = fwctl(&Namespace::host(), &socket, &["upgrade", &binary, "--json"])?;
    let object = said.object()?;
    let new = Stray(u32::try_from(
        object["is"]["pid"].as_u64().context("a pid")?,
    )?);
    until("the old firewall ends", PATIENCE, || Ok(!old.is_running()?))?;
    ensure!(
        fs::read_link(format!("/proc/{}/ns/mnt", new.0))? == mount,
        "another mount namespace"
    );
    ensure!(
        fs::read_link(format!("/proc/{}/ns/net", new.0))? == net,
        "another network namespace"
    );
    if let Some(group) = &group {
        ensure!(group.has(new.0)?, "another control group");
    }
    let environment = fs::read_to_string(format!("/proc/{}/environ", new.0))?;
    let variables: Vec<&str> = environment.split('\0').collect();
    ensure!(variables.contains(&"TWINWALL_TEST=1"), "{variables:?}");
    ensure!(
        !variables.contains(&"WATCHDOG_PID=1"),
        "it is another process's watchdog"
    );
    let session = nix::unistd::getsid(Some(nix::unistd::Pid::from_raw(i32::try_from(new.0)?)))?;
    ensure!(
        session.as_raw() as u32 == new.0,
        "it is in the session {session}"
    );
    drop(new);
    Ok(())
}

/// Without a binary: the file that runs, though another was put into its place.
fn same_file(twin: Twin) -> anyhow::Result<()> {
    let place = Place::new(twin)?;
    let file = place.folder.path("firewall");
    fs::copy(twin.binary(), &file)?;
    let _first = brought(&place.fwctl(&["upgrade", &file, "--json"])?, twin)?;
    fs::remove_file(&file)?;
    fs::copy(other(twin).binary(), &file)?;
    let _second = brought(&place.fwctl(&["upgrade", "--json"])?, other(twin))?;
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
