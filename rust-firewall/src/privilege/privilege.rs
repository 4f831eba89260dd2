// SPDX-License-Identifier: GPL-2.0-or-later
//! Least privilege: rights that the program gives up for good when everything that needs them is open.
//!
//! Theory of operation: the program changes its user (only as root), drops capabilities, and sets no_new_privs,
//! Landlock (files) and seccomp (system calls), in this order, while it has one thread: threads that start later
//! inherit all of it. The guard does the same, and retains fewer rights.

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

/// Rights that the process retains when it drops all others.
struct Kept<'a> {
    /// Value of --user; None = the user "twinwall".
    user: Option<&'a str>,
    sandbox: bool,
    /// True if CAP_NET_RAW is retained, too.
    raw: bool,
    list: PrivilegeList,
    /// Options that name the files needed later; None = no files.
    options: Option<&'a Options>,
    /// Policy whose files are needed later; None = no files.
    policy: Option<&'a Policy>,
}

/// Signal that the kernel sends to this process when its parent process ends (PR_SET_PDEATHSIG).
struct PrivilegeEnd {
    parent: Pid,
    signal: Option<Signal>,
}

/// Rights that `lower` has taken away, for `raise`.
pub struct PrivilegeLowered {
    effective: CapsHashSet,
    end: PrivilegeEnd,
}

/// Checks that the user that `drop` will change to exists. If root has not started the program, the user will not
/// change, and the check succeeds. Must be called before all other steps of the start.
pub fn check(options: &Options) -> Result<(), Failure> {
    match geteuid().is_root() {
        true => user::find(options.user.as_deref()).map(|_| ()),
        false => Ok(()),
    }
}

/// Returns the failure to change to a user.
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

/// Returns the signal that the kernel sends to this process at the parent's end. The kernel forgets this signal when
/// the user changes; `restore_parents_end` sets it again.
fn parents_end() -> PrivilegeEnd {
    PrivilegeEnd {
        parent: getppid(),
        signal: get_pdeathsig().unwrap_or_default(),
    }
}

fn restore_parents_end(end: &PrivilegeEnd) {
    let _ = set_pdeathsig(end.signal); // can't fail with a valid signal
    if let Some(signal) = end.signal.filter(|_| getppid() != end.parent) {
        let _ = signal::raise(signal); // the parent ended before prctl
    }
}

/// Lowers the rights to files and sockets until `raise`: to those of the user that `drop` will change to, without
/// capabilities. The process must have one thread. On failure restores the rights except for supplementary groups.
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
    // The groups are not needed any more: `drop` removes them.
    let alone = user.uid == geteuid() || setgroups(&[]).is_ok();
    setfsgid(user.gid);
    setfsuid(user.uid);
    // Neither call reports success, but with an invalid number both return the current value.
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

/// Restores the rights from before `lower`, except for supplementary groups.
pub fn raise(lowered: &PrivilegeLowered) {
    setfsuid(geteuid());
    setfsgid(getegid());
    // This call can't fail: the capabilities are still permitted.
    let _ = caps::set(None, CapSet::Effective, &lowered.effective);
    restore_parents_end(&lowered.end);
}

/// Drops the rights that the program's file has granted (file capabilities, set-user-ID). Does nothing if root has
/// started the program. For commands that need no rights; must be called before they open a file.
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

/// Returns the capabilities to keep: all permitted capabilities if the sandbox is off; otherwise CAP_NET_ADMIN, and
/// CAP_NET_RAW if it is requested, if they are permitted.
fn choose_capabilities(kept: &Kept) -> Result<CapsHashSet, CapsError> {
    let mut chosen = caps::read(None, CapSet::Permitted)?;
    if kept.sandbox {
        chosen.retain(|one| {
            *one == Capability::CAP_NET_ADMIN || (kept.raw && *one == Capability::CAP_NET_RAW)
        });
    }
    Ok(chosen)
}

/// Sets the chosen capabilities, and drops all others.
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

/// Changes to the user, with the chosen capabilities.
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

/// Sets the chosen capabilities without a change of the user. Does nothing if the sandbox is off.
fn stay(kept: &Kept, chosen: &CapsHashSet) -> Result<(), Failure> {
    if !kept.sandbox {
        return Ok(());
    }
    // Failure is ignored: the bounding set has no effect with no_new_privs.
    let _ = caps::clear(None, CapSet::Bounding);
    set_capabilities(chosen).map_err(|_| failure_set_start("capset", Errno::last()))
}

/// Changes the user if root has started the program, and the capabilities.
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

/// Logs a warning for each file of the policy that a reload can't read.
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
    // Sets no_new_privs: programs that are executed later get no more rights than this program.
    set_no_new_privs().map_err(|error| failure_set_start("prctl", error))?;
    let version = landlock(kept.options, kept.policy)?;
    let calls = seccomp(kept.list)?;
    log::debug(format_args!(
        "sandbox: user {user}, {calls} system calls, Landlock {version}"
    ));
    Ok(())
}

/// Drops the rights that the firewall no longer needs. Logs a warning for files of the policy that it can't read again
/// as its new user.
/// - options: if options.sandbox is false, only the user changes.
/// - loaded: policy whose files' folders stay readable; CAP_NET_RAW is retained if the policy rejects. None = no
///   policy.
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

/// Drops the rights that the guard does not need: it retains CAP_NET_ADMIN, and may access no file.
/// - user: value of --user; None = the user "twinwall".
/// - sandbox: false = only the user changes.
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
