// SPDX-License-Identifier: GPL-2.0-or-later
//! `fwctl fleet status`: no host is left out, and a host that may have another policy now is not shown as confirmed.

use std::fs::File;
use std::path::Path;
use std::process::Stdio;

use anyhow::{ensure, Context};
use serde_json::Value;
use testbed::wait::{until, PATIENCE};
use twinwall_tests::fleet::{policy, Place, Row, Running, CHANNEL, UNREACHABLE};

pub const ROWS: &[Row] = &[
    ("a-dead-host-is-silent", a_dead_host_is_silent),
    ("status-lists-all-channels-and-hosts", status_lists_all),
    ("status-watches", status_watches),
];

/// Ends a host's lease at once. Otherwise etcd ends it a minute after the agent.
fn end_lease(place: &Place, host: &str) -> anyhow::Result<()> {
    let root = "out/root.login";
    let name = format!("twinwall/alive/{host}");
    let (_, said) = place.etcdctl(root, &["get", &name, "-w", "json"])?;
    let read: Value = serde_json::from_str(&said).with_context(|| said.clone())?;
    let lease = read["kvs"][0]["lease"].as_i64().context(said)?;
    let (done, said) = place.etcdctl(root, &["lease", "revoke", &format!("{lease:x}")])?;
    ensure!(done, "{said}");
    Ok(())
}

/// Kills the agent of a host that has confirmed the present generation. Its last report says so, but the host may be
/// off: status must show it as silent.
fn a_dead_host_is_silent() -> anyhow::Result<()> {
    let mut place = Place::new(2)?;
    place.push_well(&policy(7777))?;
    let status = ["status", CHANNEL];
    let (code, said) = place.fleet(&status)?;
    ensure!(code == Some(0) && said.contains("2 confirmed"), "{said}");
    place.stop_agent(0);
    end_lease(&place, "h1")?;
    let (code, said) = place.fleet(&status)?;
    ensure!(code == Some(1), "{said}");
    ensure!(
        said.contains("1 confirmed") && said.contains("1 silent"),
        "{said}"
    );
    ensure!(said.lines().any(|line| line.starts_with("h1 ")), "{said}");
    let options = ["--observe", "1", "--confirm", "300"];
    let (code, said) = place.push(&policy(8888), &options)?;
    ensure!(code == Some(0), "{said}");
    ensure!(
        said.contains("everywhere, except on silent hosts (1)"),
        "{said}"
    );
    place.start_agent(0)?;
    place.wait_for("confirmed", 2)?;
    ensure!(place.fleet(&status)?.0 == Some(0));
    Ok(())
}

/// Runs `fwctl fleet init` for a host, as etcd's root. Repeats this while etcd is late. It replaces the operator's
/// password.
fn init(place: &Place, channel: &str, host: &str, out: &str) -> anyhow::Result<()> {
    let (out, root) = (place.folder.file(out), place.folder.file("out/root.login"));
    let init = [
        "init", channel, "--host", host, "--out", &out, "--login", &root,
    ];
    until("fwctl to reach the store", PATIENCE, || {
        let output = place.command(&init).output()?;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let is_late = output.status.code() == Some(UNREACHABLE);
        ensure!(output.status.success() || is_late, "{said}");
        if is_late && Path::new(&out).exists() {
            std::fs::remove_dir_all(&out)?;
        }
        Ok(!is_late)
    })?;
    let login = place.folder.file("out/operator.login");
    std::fs::copy(format!("{out}/operator.login"), login)?;
    Ok(())
}

fn status_lists_all() -> anyhow::Result<()> {
    let place = Place::new(1)?;
    place.push_well(&policy(7777))?;
    // A host that never reports, in a channel without a policy. A host that has reported keeps its report.
    init(&place, "mail", "m1", "mail")?;
    let before = place.status()?;
    let (_, stored) = place.etcdctl("out/root.login", &["get", "twinwall/hosts/h1"])?;
    ensure!(
        before.len() == 1 && stored.contains("confirmed"),
        "{stored}"
    );
    let (code, said) = place.fleet(&["status"])?;
    let row = |said: &str, words: &[&str]| {
        said.lines().any(|line| {
            line.split_whitespace()
                .take(words.len())
                .eq(words.iter().copied())
        })
    };
    ensure!(code == Some(1), "{said}");
    ensure!(said.contains("channel web: generation 1"), "{said}");
    ensure!(said.contains("channel mail: nothing was pushed"), "{said}");
    ensure!(row(&said, &["m1", "silent", "0", "0", "0"]), "{said}");
    ensure!(said.contains("it has not reported yet"), "{said}");
    let (code, said) = place.fleet(&["status", CHANNEL])?;
    ensure!(code == Some(0) && !said.contains("m1"), "{said}");
    let (_, said) = place.fleet(&["status", "--json"])?;
    ensure!(
        said.contains("\"channel\":\"mail\",\"pointer\":null"),
        "{said}"
    );

    // The host wants generation 2, and has applied and confirmed generation 1.
    let (code, said) = place.push(&policy(8888), &["--no-wait", "--not-before", "4000000000"])?;
    ensure!(code == Some(0), "{said}");
    place.wait_for("behind", 1)?;
    let (code, said) = place.fleet(&["status", CHANNEL])?;
    ensure!(code == Some(1), "{said}");
    ensure!(
        row(&said, &["host", "state", "wanted", "applied", "confirmed"]),
        "{said}"
    );
    ensure!(row(&said, &["h1", "behind", "2", "1", "1"]), "{said}");

    let (code, said) = place.fleet(&["forget", "m1"])?;
    ensure!(code == Some(0), "{said}");
    let (_, said) = place.fleet(&["status"])?;
    ensure!(!said.contains("m1") && !said.contains("mail"), "{said}");
    Ok(())
}

/// Runs `fwctl fleet status --watch` during a push: it shows the hosts again after each change.
fn status_watches() -> anyhow::Result<()> {
    let place = Place::new(1)?;
    place.push_well(&policy(7777))?;
    let (shown, login) = (
        place.folder.file("shown"),
        place.folder.file("out/operator.login"),
    );
    let mut command = place.command(&["status", CHANNEL, "--watch", "--login", &login]);
    command.stdout(File::create(&shown)?).stderr(Stdio::null());
    let mut watching = Running(command.spawn()?);
    let shows = |words: &str| {
        until(words, PATIENCE, || {
            Ok(std::fs::read_to_string(&shown)?.contains(words))
        })
    };
    shows("channel web: generation 1")?;
    place.push_well(&policy(8888))?;
    shows("channel web: generation 2")?;
    until("the last state", PATIENCE, || {
        let text = std::fs::read_to_string(&shown)?;
        Ok(text
            .lines()
            .last()
            .is_some_and(|line| line.starts_with("1 hosts: 1 confirmed")))
    })?;
    ensure!(watching.0.try_wait()?.is_none(), "it has ended");
    Ok(())
}
