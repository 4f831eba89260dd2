// SPDX-License-Identifier: GPL-2.0-or-later
//! Gives up the rights that fwctl's own file grants, and runs code with fewer rights than the caller's.

use nix::errno::Errno;
use nix::unistd::{
    geteuid, getgid, getgroups, getuid, setfsgid, setfsuid, setgroups, setresgid, setresuid, Gid,
    Uid,
};
use rustix::thread::{
    capabilities, capability_is_in_ambient_set, set_capabilities, CapabilitySet, CapabilitySets,
};

use crate::failure::{Exit, Failure};

/// User and group ids of Debian's `nobody` and `nogroup`.
const NOBODY: u32 = 65534;

/// Reduces the rights to the caller's own: user and group, and the capabilities that every program of the caller
/// gets (ambient capabilities).
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

/// Runs `act` with the file access rights of a user and a group, if root runs fwctl: for opening files whose names come
/// from a user that root does not trust. Otherwise, and for the user root, runs `act` with unchanged rights. The
/// process must have a single thread.
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
    // Both calls return only the previous id, also if they fail.
    let is_taken = setfsuid(user) == user && setfsgid(group) == group;
    let done = is_taken.then(act);
    setfsgid(own_group);
    setfsuid(own_user);
    setgroups(&groups).map_err(fail)?;
    done.ok_or_else(|| fail(Errno::EPERM))
}

/// Permanently becomes the user `nobody`, if root runs fwctl: for parsing packets of unknown senders. The process must
/// have a single thread.
pub fn become_nobody() -> Result<(), Failure> {
    if !geteuid().is_root() {
        return Ok(());
    }
    let (user, group) = (Uid::from_raw(NOBODY), Gid::from_raw(NOBODY));
    let done = setgroups(&[])
        .and_then(|()| setresgid(group, group, group))
        .and_then(|()| setresuid(user, user, user));
    done.map_err(|error| {
        let text = format!("the rights of root can't be given up: {}", error.desc());
        Failure::new(Exit::Usage, text)
    })
}

/// Permanently gives up the rights that the program's file grants in addition to the caller's (file capabilities,
/// set-user-ID). Does nothing if root runs fwctl. Must be called before a file is opened.
pub fn give_up() -> Result<(), Failure> {
    if getuid().is_root() {
        return Ok(());
    }
    leave_the_callers().map_err(|error| {
        let text = format!("rights that the file of fwctl gives can't be given up: {error}: take them off it (setcap -r)");
        Failure::new(Exit::Usage, text)
    })
}
