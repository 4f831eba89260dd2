// SPDX-License-Identifier: GPL-2.0-or-later
//! The firewall as a unit of systemd.

use std::process::{Command, Stdio};

use apply::firewall::Twin;
use apply::timer;

use super::{twin_name, INSTANCE};
use crate::failure::{Exit, Failure};

fn name(twin: Twin) -> String {
    format!("twinwall-{}@{INSTANCE}.service", twin_name(twin))
}

fn systemctl(arguments: &[&str]) -> bool {
    let mut command = Command::new("systemctl");
    command.args(arguments).stdin(Stdio::null());
    let status = command.stdout(Stdio::null()).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}

/// Returns true if systemd's services run in this network namespace, and systemd has the unit.
pub fn is_there(twin: Twin) -> bool {
    timer::has_systemd() && systemctl(&["cat", &name(twin)])
}

/// Starts the unit, or starts it again if it runs, and waits until it is ready.
pub fn start(twin: Twin) -> Result<(), Failure> {
    let name = name(twin);
    systemctl(&["reset-failed", &name]);
    match systemctl(&["restart", &name]) {
        true => Ok(()),
        false => Err(Failure::new(
            Exit::Refused,
            format_args!("{name} did not start: journalctl --unit {name} shows the reason"),
        )),
    }
}

pub fn stop(twin: Twin) -> Result<(), Failure> {
    let name = name(twin);
    match systemctl(&["stop", &name]) {
        true => Ok(()),
        false => Err(Failure::new(
            Exit::Refused,
            format_args!("{name} can't be stopped: systemctl status {name} shows the reason"),
        )),
    }
}
