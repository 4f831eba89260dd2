// SPDX-License-Identifier: GPL-2.0-or-later
//! fwctl's errors: one line, with cause and cure.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use anyhow::ensure;
use testbed::folder::Folder;
use testbed::netns::Namespace;
use testbed::twin::Twin;
use twinwall_tests::case::Row;

use super::ctl::{binary, fwctl, Place};
use super::LoneRow;

pub const ROWS: &[Row] = &[
    ("errors-killed", killed),
    ("errors-another-user", another_user),
];

pub const LONE_ROWS: &[LoneRow] = &[
    ("errors-no-firewall", no_firewall),
    ("errors-usage", usage),
    ("help-has-80-columns", help),
];

const COMMANDS: [&str; 12] = [
    "status", "top", "rules", "reload", "diff", "explain", "tail", "doctor", "upgrade", "log",
    "drain", "record",
];

/// Checks the error for a killed firewall, which leaves its socket.
fn killed(twin: Twin) -> anyhow::Result<()> {
    let place = Place::new(twin)?;
    let Place {
        firewall,
        namespace,
        folder: _folder,
        socket,
        ..
    } = place;
    firewall.kill()?;
    fwctl(&namespace, &socket, &["status"])?.error(3, "has ended: start one with --control")
}

/// Returns exit code and stderr of `status` by a user other than root and the firewall's user.
fn status_of_another(place: &Place) -> anyhow::Result<(Option<i32>, String)> {
    let mut command = place.namespace.command("setpriv");
    command.args(["--reuid", "12345", "--regid", "12345", "--clear-groups"]);
    command
        .arg(binary())
        .args(["--socket", &place.socket, "status"]);
    let output = command.output()?;
    Ok((output.status.code(), String::from_utf8(output.stderr)?))
}

fn another_user(twin: Twin) -> anyhow::Result<()> {
    let place = Place::new(twin)?;
    let (code, stderr) = status_of_another(&place)?;
    ensure!(code == Some(3), "{code:?}: {stderr}");
    ensure!(
        stderr.contains("user 12345 may not open it: use sudo"),
        "{stderr}"
    );
    // The user may connect, but may not send a request.
    fs::set_permissions(&place.socket, fs::Permissions::from_mode(0o666))?;
    let (code, stderr) = status_of_another(&place)?;
    ensure!(code == Some(4), "{code:?}: {stderr}");
    ensure!(
        stderr.contains("user 12345 may not use the control socket"),
        "{stderr}"
    );
    Ok(())
}

fn no_firewall() -> anyhow::Result<()> {
    let (namespace, folder) = (Namespace::host(), Folder::new()?);
    let socket = folder.file("control");
    for arguments in [
        &["status"][..],
        &["top", "--json"],
        &["rules"],
        &["reload"],
        &["tail"],
        &["record", "-w", "/nowhere/x"],
        &["log", "debug"],
        &["drain"],
        &["explain", "no.pcap"],
        &["diff", "no.nft", "no.pcap"],
        &["upgrade", "/bin/true"],
    ] {
        let said = fwctl(&namespace, &socket, arguments)?;
        said.error(
            3,
            "no firewall has this control socket: start one with --control",
        )?;
    }
    let file = folder.write("file", "")?;
    fwctl(&namespace, &file, &["status"])?.error(3, "is no socket")
}

fn usage() -> anyhow::Result<()> {
    let namespace = Namespace::host();
    for arguments in [
        &[][..],
        &["nothing"],
        &["log", "loud"],
        &["drain", "--seconds", "-1"],
        &["drain", "--seconds", "3601"],
        &["top", "--interval", "0"],
        &["diff", "a.nft"],
        &["diff", "a.nft", "b.pcap", "--live"],
        &["tail", "--verdict", "maybe"],
        &["record"],
        &["doctor", "--queue", "9:1"],
    ] {
        let said = fwctl(&namespace, "/nowhere", arguments)?;
        ensure!(
            said.code == Some(2),
            "{arguments:?}: {:?} {}",
            said.code,
            said.stdout
        );
        ensure!(!said.stderr.is_empty(), "{arguments:?}: nothing is said");
    }
    Ok(())
}

fn help() -> anyhow::Result<()> {
    let namespace = Namespace::host();
    let mut texts = vec![fwctl(&namespace, "/nowhere", &["--help"])?];
    for command in COMMANDS {
        texts.push(fwctl(&namespace, "/nowhere", &[command, "--help"])?);
        texts.push(fwctl(&namespace, "/nowhere", &[command, "-h"])?);
    }
    for said in &texts {
        for line in said.code(0)?.lines() {
            ensure!(line.chars().count() <= 80, "more than 80 columns: {line}");
        }
    }
    for command in COMMANDS {
        let named = format!("  {command} ");
        ensure!(
            texts[0].stdout.contains(&named),
            "{command} is not in --help"
        );
    }
    Ok(())
}
