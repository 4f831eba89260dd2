// SPDX-License-Identifier: GPL-2.0-or-later
//! Landlock: a policy is reloaded from its original files only, whatever the file modes allow.

use std::fs;

use anyhow::ensure;
use serde_json::Value;
use testbed::control::Client;
use testbed::firewall::Firewall;
use testbed::folder::Folder;
use testbed::place::namespace;
use testbed::proc;
use testbed::skip::skip;
use testbed::twin::Twin;
use testbed::wait::{until, PATIENCE};
use twinwall_tests::case::Case;

use super::running::{of_both, policy};

pub fn cases() -> Vec<Case> {
    of_both(
        "files",
        &[
            ("outside", outside),
            ("inside", inside),
            ("events-anew", events_anew),
        ],
    )
}

fn need_landlock() -> anyhow::Result<()> {
    // SAFETY: with the version flag, landlock_create_ruleset(2) accesses no memory.
    match unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, 0, 0, 1) } {
        version if version > 0 => Ok(()),
        _ => Err(skip("this kernel has no Landlock")),
    }
}

/// Makes a firewall reload a policy that now includes a file in another folder, which every user may read. Returns the
/// reply.
/// - sandbox: value of --sandbox.
fn reload_outside(twin: Twin, sandbox: &str) -> anyhow::Result<Value> {
    let (folder, other) = (Folder::shared()?, Folder::shared()?);
    let file = folder.write("p.nft", policy(""))?;
    let control = folder.file("control");
    let arguments = [
        "--policy",
        &file,
        "--control",
        &control,
        "--sandbox",
        sandbox,
    ];
    let firewall = Firewall::start(&namespace()?, twin, &arguments)?;
    let included = other.write("more.nft", "define ports = { 1, 2 }\n")?;
    folder.write("p.nft", format!("include \"{included}\"\n{}", policy("")))?;
    let answer = Client::new(&control)?.ask(r#"{"command":"reload"}"#)?;
    drop(firewall);
    Ok(answer)
}

fn outside(twin: Twin) -> anyhow::Result<()> {
    need_landlock()?;
    let answer = reload_outside(twin, "on")?;
    let error = answer["error"].as_str().unwrap_or_default();
    ensure!(
        answer["ok"] == false && error.contains("Permission denied"),
        "{answer}"
    );
    let answer = reload_outside(twin, "off")?;
    ensure!(answer["ok"] == true, "without a sandbox: {answer}");
    Ok(())
}

/// Checks that these reloads work: with an include that was there at the start; after a new file has replaced the
/// target of the policy's link; after a new file has replaced the link.
fn inside(twin: Twin) -> anyhow::Result<()> {
    let (folder, other) = (Folder::shared()?, Folder::shared()?);
    let included = other.write("more.nft", "define ports = { 1, 2 }\n")?;
    let text = format!("include \"{included}\"\n{}", policy(""));
    let target = other.write("target.nft", &text)?;
    let file = folder.file("p.nft");
    std::os::unix::fs::symlink(&target, &file)?;
    let control = folder.file("control");
    let arguments = ["--policy", &file, "--control", &control];
    let firewall = Firewall::start(&namespace()?, twin, &arguments)?;
    Client::new(&control)?.command("reload")?;
    let anew = other.write("anew.nft", &text)?;
    fs::rename(anew, &target)?;
    Client::new(&control)?.command("reload")?;
    let anew = folder.write("anew.nft", &text)?;
    fs::rename(anew, &file)?;
    Client::new(&control)?.command("reload")?;
    firewall.end_by(libc::SIGTERM)?;
    ensure!(!fs::exists(&control)?, "the control socket is still there");
    Ok(())
}

/// Checks that SIGUSR2 makes the firewall open a new events file at the same path.
fn events_anew(twin: Twin) -> anyhow::Result<()> {
    let folder = Folder::shared()?;
    let (events, control) = (folder.file("events"), folder.file("control"));
    let file = folder.write("p.nft", policy(""))?;
    let arguments = [
        "--events",
        &events,
        "--policy",
        &file,
        "--control",
        &control,
    ];
    let firewall = Firewall::start(&namespace()?, twin, &arguments)?;
    fs::rename(&events, folder.file("events.1"))?;
    proc::signal(firewall.pid, libc::SIGUSR2);
    until("there is a new file with events", PATIENCE, || {
        Client::new(&control)?.command("reload")?; // which is an event
        Ok(fs::read_to_string(&events).is_ok_and(|text| !text.is_empty()))
    })
}
