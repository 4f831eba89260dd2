// SPDX-License-Identifier: GPL-2.0-or-later
//! Rights: those that fwctl's own file gives, for which there is no use, and fewer than the caller's.

use nix::errno::Errno;
use nix::unistd::{
    geteuid, getgid, getgroups, getuid, setfsgid, setfsuid, setgroups, setresgid, setresuid, Gid,
    Uid,
};
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

/// Does something with the rights to files that a user and a group have, if root runs fwctl: files that are named by whom
/// root does not believe are opened so. There must be one thread.
pub fn as_user<T>(user: Uid, group: Gid, act: impl FnOnce() -> T) -> Result<T, Failure> {
    if !geteuid().is_root() || user.is_root() {
        return Ok(act());
    }
    let fail = |error: Errno| {
        let text = format!("the rights of user {user} can't be taken: {}", error.desc());
        Failure::new(Exit::Usage, text)
    };
    let groups = getgroups().map_err(fail)?;
    setgroups(&[group]).map_err(fail)?;
    let (own_user, own_group) = (setfsuid(user), setfsgid(group));
    // They tell the former one only, also if they fail.
    let is_taken = setfsuid(user) == user && setfsgid(group) == group;
    let done = is_taken.then(act);
    setfsgid(own_group);
    setfsuid(own_user);
    setgroups(&groups).map_err(fail)?;
    done.ok_or_else(|| fail(Errno::EPERM))
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
