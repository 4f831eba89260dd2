// SPDX-License-Identifier: GPL-2.0-or-later
//! Least privilege: what the program gives up for good once all that needs rights is open.
//!
//! Theory of operation: the user (only root can change it), the capabilities, no_new_privs, Landlock
//! (which files) and seccomp (which system calls), in this order, on the only thread there is:
//! threads that start later inherit it all. The guard does the same with less.

use caps::errors::CapsError;
use caps::{CapSet, Capability, CapsHashSet};
use nix::errno::Errno;
use nix::sys::prctl::{get_pdeathsig, set_no_new_privs, set_pdeathsig};
use nix::sys::signal::{self, Signal};
use nix::unistd::{
    access, getegid, geteuid, getgid, getppid, getuid, setfsgid, setfsuid, setgroups, setresgid,
    setresuid, AccessFlags, Gid, Pid, Uid, User,
};

use crate::base::log::{self, failure_set, failure_set_start, Failure, LogExit};
use crate::options::Options;
use crate::policy::Policy;
use crate::privilege::landlock::landlock;
use crate::privilege::seccomp::{seccomp, PrivilegeList};
use crate::privilege::user::{self, PrivilegeUser};
use crate::ruleset::load::{self, Loaded};

/// Capabilities to retain, and the user for them.
struct Kept<'a> {
    /// As --user; none = the default.
    user: Option<&'a str>,
    sandbox: bool,
    /// CAP_NET_RAW, too.
    raw: bool,
    list: PrivilegeList,
    /// The options that name the files needed later.
    options: Option<&'a Options>,
    /// Likewise.
    policy: Option<&'a Policy>,
}

/// The signal that the parent's end sends (PR_SET_PDEATHSIG).
struct PrivilegeEnd {
    parent: Pid,
    signal: Option<Signal>,
}

/// Result of `raise`, for `lower`.
pub struct PrivilegeLowered {
    effective: CapsHashSet,
    end: PrivilegeEnd,
}

/// Checks whether there is the user that `drop` will become, before anything else is done.
pub fn check(options: &Options) -> Result<(), Failure> {
    match geteuid().is_root() {
        true => user::find(options.user.as_deref()).map(|_| ()),
        false => Ok(()),
    }
}

/// A failure to become a user.
fn fail_become(user: &PrivilegeUser) -> Failure {
    let name = &user.name;
    failure_set(
        LogExit::Capability,
        format_args!(
            "can't become user \"{name}\": leave root CAP_SETUID, CAP_SETGID and CAP_SETPCAP for \
             the start, or say --user root"
        ),
    )
}

/// The signal that the parent's end sends, which the kernel forgets when the user changes.
fn parents_end() -> PrivilegeEnd {
    PrivilegeEnd {
        parent: getppid(),
        signal: get_pdeathsig().unwrap_or_default(),
    }
}

fn restore_parents_end(end: &PrivilegeEnd) {
    let _ = set_pdeathsig(end.signal); // it can't fail
    if let Some(signal) = end.signal.filter(|_| getppid() != end.parent) {
        let _ = signal::raise(signal); // it ended between the two
    }
}

/// Has files opened, made and connected to with no more rights than `drop` will leave, until `raise`:
/// as its user, without any capability. For the only thread there is.
pub fn lower(options: &Options) -> Result<PrivilegeLowered, Failure> {
    let user = match geteuid().is_root() {
        true => user::find(options.user.as_deref())?,
        false => PrivilegeUser {
            uid: geteuid(),
            gid: getegid(),
            name: String::new(),
        },
    };
    let lowered = PrivilegeLowered {
        effective: caps::read(None, CapSet::Effective).map_err(|_| fail_become(&user))?,
        end: parents_end(),
    };
    // The groups are not needed any more: `drop` gives them up.
    let alone = user.uid == geteuid() || setgroups(&[]).is_ok();
    setfsgid(user.gid);
    setfsuid(user.uid);
    // Neither call tells whether it went well, but with a number that nobody has both tell what is.
    if alone
        && caps::clear(None, CapSet::Effective).is_ok()
        && setfsuid(Uid::from_raw(u32::MAX)) == user.uid
        && setfsgid(Gid::from_raw(u32::MAX)) == user.gid
    {
        return Ok(lowered);
    }
    raise(&lowered);
    Err(fail_become(&user))
}

/// Restores the rights from before `lower`.
pub fn raise(lowered: &PrivilegeLowered) {
    setfsuid(geteuid());
    setfsgid(getegid());
    let _ = caps::set(None, CapSet::Effective, &lowered.effective); // they are permitted, still
    restore_parents_end(&lowered.end);
}

/// Drops for good the capabilities that the program's file granted to a user without them. For commands
/// that need no rights: to be called before they open a file.
pub fn none() -> Result<(), Failure> {
    let (user, group) = (getuid(), getgid());
    if user.is_root() {
        return Ok(());
    }
    setresgid(group, group, group)
        .and_then(|()| setresuid(user, user, user))
        .map_err(|error| failure_set_start("capset", error))?;
    set_capabilities(&CapsHashSet::new()).map_err(|_| failure_set_start("capset", Errno::last()))
}

/// The capabilities that shall be left, of those that there are.
fn choose_capabilities(kept: &Kept) -> Result<CapsHashSet, CapsError> {
    let mut chosen = caps::read(None, CapSet::Permitted)?;
    if kept.sandbox {
        chosen.retain(|one| {
            *one == Capability::CAP_NET_ADMIN || (kept.raw && *one == Capability::CAP_NET_RAW)
        });
    }
    Ok(chosen)
}

/// Leaves these capabilities only.
fn set_capabilities(chosen: &CapsHashSet) -> Result<(), CapsError> {
    caps::set(None, CapSet::Effective, chosen)?;
    caps::set(None, CapSet::Permitted, chosen)?;
    caps::clear(None, CapSet::Inheritable)?;
    caps::clear(None, CapSet::Ambient)
}

fn change_ids(user: &PrivilegeUser) -> nix::Result<()> {
    setresgid(user.gid, user.gid, user.gid)?;
    setgroups(&[])?;
    setresuid(user.uid, user.uid, user.uid)
}

/// Becomes the user, with the capabilities that were chosen.
fn become_user(user: &PrivilegeUser, kept: &Kept, chosen: &CapsHashSet) -> Result<(), Failure> {
    let change = || -> Result<(), CapsError> {
        if kept.sandbox {
            caps::clear(None, CapSet::Bounding)?;
        }
        caps::securebits::set_keepcaps(true)?;
        change_ids(user).map_err(|error| CapsError::from(error.desc()))?;
        caps::set(None, CapSet::Effective, chosen)?;
        if kept.sandbox {
            set_capabilities(chosen)?;
        }
        caps::securebits::set_keepcaps(false)
    };
    change().map_err(|_| fail_become(user))
}

/// Stays who it is, with the capabilities that were chosen.
fn stay(kept: &Kept, chosen: &CapsHashSet) -> Result<(), Failure> {
    if !kept.sandbox {
        return Ok(());
    }
    // If it can't be changed, it has no effect without new privileges.
    let _ = caps::clear(None, CapSet::Bounding);
    set_capabilities(chosen).map_err(|_| failure_set_start("capset", Errno::last()))
}

/// Changes user and capabilities.
fn change_rights(kept: &Kept) -> Result<(), Failure> {
    let end = parents_end();
    let user = match geteuid().is_root() {
        true => Some(user::find(kept.user)?),
        false => None,
    };
    let chosen =
        choose_capabilities(kept).map_err(|_| failure_set_start("capget", Errno::last()))?;
    match user.filter(|user| !user.uid.is_root()) {
        Some(user) => become_user(&user, kept, &chosen)?,
        None => stay(kept, &chosen)?,
    }
    restore_parents_end(&end);
    Ok(())
}

/// Says which files can't be opened again, as a reload or SIGUSR2 would.
fn warn_of_files(kept: &Kept) {
    let user = User::from_uid(geteuid()).ok().flatten();
    let name = user.map_or(geteuid().to_string(), |user| user.name);
    for file in kept.policy.map_or(&[][..], |policy| &policy.files) {
        if let Err(error) = access(file.as_str(), AccessFlags::R_OK) {
            log::warn(format_args!(
                "{file}: {} for user {name}: a reload will fail: let that user read it, or choose \
                 another with --user",
                log::strerror(error)
            ));
        }
    }
}

fn drop_to(kept: &Kept) -> Result<(), Failure> {
    change_rights(kept)?;
    let user = geteuid();
    warn_of_files(kept);
    if !kept.sandbox {
        return Ok(());
    }
    // A program executed later gets no more rights than this one.
    set_no_new_privs().map_err(|error| failure_set_start("prctl", error))?;
    let version = landlock(kept.options, kept.policy)?;
    let calls = seccomp(kept.list)?;
    log::debug(format_args!(
        "sandbox: user {user}, {calls} system calls, Landlock {version}"
    ));
    Ok(())
}

/// Drops the rights that the firewall needs no more. Warns of files that it will not be able to read again as
/// the user that it becomes.
/// loaded: the policy, whose folders stay readable; it says whether CAP_NET_RAW is kept.
pub fn drop(options: &Options, loaded: Option<&Loaded>) -> Result<(), Failure> {
    drop_to(&Kept {
        user: options.user.as_deref(),
        sandbox: options.sandbox,
        raw: loaded.is_some_and(|loaded| load::requirement(loaded).reject),
        list: PrivilegeList::Firewall,
        options: Some(options),
        policy: loaded.map(|loaded| &loaded.policy),
    })
}

/// Drops the rights that the guard does not need: it needs CAP_NET_ADMIN and no file.
/// user: as --user; none = the default.
pub fn drop_guard(user: Option<&str>, sandbox: bool) -> Result<(), Failure> {
    drop_to(&Kept {
        user,
        sandbox,
        raw: false,
        list: PrivilegeList::Guard,
        options: None,
        policy: None,
    })
}
