// SPDX-License-Identifier: GPL-2.0-or-later
//! Rights that fwctl's own file gives: there is no use for them.

use nix::unistd::{getgid, getuid, setresgid, setresuid};
use rustix::thread::{
    capabilities, capability_is_in_ambient_set, set_capabilities, CapabilitySet, CapabilitySets,
};

use crate::failure::{Exit, Failure};

/// Leaves what the caller has himself: his user and group, and the capabilities that every program of his gets.
fn leave_the_callers() -> std::io::Result<()> {
    let (user, group) = (getuid(), getgid());
    setresgid(group, group, group)?;
    setresuid(user, user, user)?;
    let permitted = capabilities(None)?.permitted;
    let is_his = |one: &CapabilitySet| capability_is_in_ambient_set(*one).unwrap_or(false);
    let his: CapabilitySet = permitted.iter().filter(is_his).collect();
    let left = CapabilitySets {
        effective: his,
        permitted: his,
        inheritable: his,
    };
    Ok(set_capabilities(None, left)?)
}

/// Gives up for good what the program's file gave to somebody who has it not himself (file capabilities, set-user-ID): to
/// be called before a file is opened.
pub fn give_up() -> Result<(), Failure> {
    if getuid().is_root() {
        return Ok(());
    }
    leave_the_callers().map_err(|error| {
        let text = format!("rights that the file of fwctl gives can't be given up: {error}: take them off it (setcap -r)");
        Failure::new(Exit::Usage, text)
    })
}
