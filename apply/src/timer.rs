// SPDX-License-Identifier: GPL-2.0-or-later
//! Starts the process that reverts a generation at its deadline, independent of fwctl, its shell and the firewall: a
//! systemd timer, or an orphan process if systemd doesn't run in this network namespace.

use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use crate::failure::{system, Result};
use crate::guard::ARMED;

/// Name of systemd's timer and of the service that it starts.
const UNIT: &str = "twinwall-revert";
/// Folder that exists if systemd runs (sd_booted(3)).
const SYSTEMD: &str = "/run/systemd/system";

/// Returns true if systemd's services run in this network namespace.
pub fn has_systemd() -> bool {
    let network = |process: &str| fs::read_link(format!("/proc/{process}/ns/net")).ok();
    Path::new(SYSTEMD).is_dir() && network("1").is_some() && network("1") == network("self")
}

fn systemctl(arguments: &[&str]) {
    let _ = Command::new("systemctl")
        .args(arguments)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
}

/// Starts a systemd timer that reverts a generation after `seconds`, if it is still pending.
fn arm_unit(program: &Path, places: &[&OsStr], number: u64, seconds: u32) -> Result<()> {
    systemctl(&["reset-failed", &format!("{UNIT}.service")]);
    let output = Command::new("systemd-run")
        .args(["--quiet", "--collect", "--unit", UNIT])
        .args([
            "--on-active",
            &format!("{seconds}s"),
            "--timer-property=AccuracySec=100ms",
        ])
        .arg(program)
        .args(["revert", "--pending", &number.to_string()])
        .args(places)
        .output();
    match output {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => Err(system(format_args!(
            "systemd-run: {}: see systemctl status {UNIT}.timer",
            String::from_utf8_lossy(&output.stderr).trim()
        ))),
        Err(error) => Err(system(format_args!(
            "systemd-run: {error}: install systemd's tools"
        ))),
    }
}

/// Starts an orphan process that waits for the deadline. Returns when the process is ready.
fn arm_process(program: &Path, places: &[&OsStr]) -> Result<()> {
    let fail = |text: String| {
        system(format_args!(
            "the process that reverts did not start: {text}: run fwctl apply again"
        ))
    };
    let mut child = Command::new(program)
        .args(["revert", "--at-deadline"])
        .args(places)
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| fail(error.to_string()))?;
    let mut line = String::new();
    let out = child.stdout.take().map(BufReader::new);
    let read = out.map_or(Ok(0), |mut out| out.read_line(&mut line));
    let _ = child.wait();
    match read {
        Ok(_) if line.trim() == ARMED => Ok(()),
        Ok(_) => Err(fail("it ended early".to_owned())),
        Err(error) => Err(fail(error.to_string())),
    }
}

/// Schedules the revert of the pending generation.
/// - places: the options by which fwctl finds its state and the firewall.
/// - number: number of the generation.
/// - seconds: time until the deadline, for systemd's timer. The orphan process reads the deadline in the state.
pub fn arm(places: &[&OsStr], number: u64, seconds: u32) -> Result<()> {
    let program = std::env::current_exe();
    let program =
        program.map_err(|error| system(format_args!("/proc/self/exe: {error}: mount /proc")))?;
    disarm();
    match has_systemd() {
        true => arm_unit(&program, places, number, seconds),
        false => arm_process(&program, places),
    }
}

/// Stops systemd's timer of a revert. Does nothing without systemd: the orphan process sees that the generation is no
/// longer pending, and ends by itself.
pub fn disarm() {
    if has_systemd() {
        systemctl(&["stop", &format!("{UNIT}.timer")]);
    }
}
