// SPDX-License-Identifier: GPL-2.0-or-later
//! Finds the firewall's program: next to fwctl, or in the folder sbin next to fwctl's folder.

use std::path::PathBuf;

use apply::firewall::Twin;

use super::twin_name;
use crate::failure::{Exit, Failure};
use crate::upgrade::program::Program;

fn found(twin: Twin) -> Option<PathBuf> {
    let own = std::env::current_exe().ok()?;
    let folder = own.parent()?;
    let name = format!("{}-firewall", twin_name(twin));
    let places = [
        Some(folder.join(&name)),
        folder
            .parent()
            .map(|parent| parent.join("sbin").join(&name)),
    ];
    places.into_iter().flatten().find(|path| path.is_file())
}

/// Returns the twin whose program is installed; the Rust twin if both are, or none.
pub fn installed() -> Twin {
    match (found(Twin::Rust), found(Twin::C)) {
        (None, Some(_)) => Twin::C,
        _ => Twin::Rust,
    }
}

/// Returns the program of a twin. Fails if it is not installed, or if other users can change it.
pub fn find(twin: Twin) -> Result<Program, Failure> {
    let path = found(twin).ok_or_else(|| {
        let name = twin_name(twin);
        let text = format!(
            "{name}-firewall is not installed beside fwctl: apt-get install twinwall-{name}, or set FIREWALL= in /etc/twinwall/twinwall.conf"
        );
        Failure::new(Exit::Refused, text)
    })?;
    Program::named(&path)
}
