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
use nix::sys::signal::raise;
use nix::unistd::{access, geteuid, getppid, setgroups, setresgid, setresuid, AccessFlags, User};

use crate::load::{self, Loaded};
use crate::log::{self, failure_set, failure_set_start, Failure, LogExit};
use crate::options::Options;
use crate::policy::Policy;
use crate::privilege_landlock::landlock;
use crate::privilege_seccomp::{seccomp, PrivilegeList};

/// Who to be, if root may choose; the second is on every machine.
const USER_OWN: &str = "twinwall";
const USER_ELSE: &str = "nobody";

/// What is kept, and for whom.
struct Kept<'a> {
    /// As --user; none = the default.
    user: Option<&'a str>,
    sandbox: bool,
    /// CAP_NET_RAW, too.
    raw: bool,
    list: PrivilegeList,
    /// Whose files are needed later.
    options: Option<&'a Options>,
    /// Likewise.
    policy: Option<&'a Policy>,
}

/// The user to become.
fn find_user(name: Option<&str>) -> Result<User, Failure> {
    let named = |name| User::from_name(name).ok().flatten();
    named(name.unwrap_or(USER_OWN))
        .or_else(|| named(name.unwrap_or(USER_ELSE)))
        .ok_or_else(|| {
            let name = name.unwrap_or(USER_ELSE);
            failure_set(
                LogExit::Usage,
                format_args!("there is no user \"{name}\": choose another with --user"),
            )
        })
}

/// Whom `drop` will become; none if it stays who it is, or there is no such user.
pub fn user(options: &Options) -> Option<User> {
    let is_root = geteuid().is_root();
    is_root.then(|| find_user(options.user.as_deref()))?.ok()
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

fn change_ids(user: &User) -> nix::Result<()> {
    setresgid(user.gid, user.gid, user.gid)?;
    setgroups(&[])?;
    setresuid(user.uid, user.uid, user.uid)
}

/// Becomes the user, with the capabilities that were chosen.
fn become_user(user: &User, kept: &Kept, chosen: &CapsHashSet) -> Result<(), Failure> {
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
    change().map_err(|_| {
        let name = &user.name;
        failure_set(
            LogExit::Capability,
            format_args!(
                "can't become user \"{name}\": leave root CAP_SETUID, CAP_SETGID and CAP_SETPCAP for \
                 the start, or say --user root"
            ),
        )
    })
}

/// Stays who it is, with the capabilities that were chosen.
fn stay(kept: &Kept, chosen: &CapsHashSet) -> Result<(), Failure> {
    if !kept.sandbox {
        return Ok(());
    }
    // Only who has CAP_SETPCAP can; without new privileges the set means nothing any more.
    let _ = caps::clear(None, CapSet::Bounding);
    set_capabilities(chosen).map_err(|_| failure_set_start("capset", Errno::last()))
}

/// Changes user and capabilities. The kernel forgets by that what the parent's end is to do.
fn change_rights(kept: &Kept) -> Result<(), Failure> {
    let parent = getppid();
    let user = match geteuid().is_root() {
        true => Some(find_user(kept.user)?),
        false => None,
    };
    let signal = get_pdeathsig().unwrap_or_default();
    let chosen =
        choose_capabilities(kept).map_err(|_| failure_set_start("capget", Errno::last()))?;
    match user.filter(|user| !user.uid.is_root()) {
        Some(user) => become_user(&user, kept, &chosen)?,
        None => stay(kept, &chosen)?,
    }
    let _ = set_pdeathsig(signal); // it can't fail
    if let Some(signal) = signal.filter(|_| getppid() != parent) {
        let _ = raise(signal); // it ended between the two
    }
    Ok(())
}

/// Says which files can't be opened again, as a reload or SIGUSR2 would.
fn warn_of_files(kept: &Kept) {
    let user = User::from_uid(geteuid()).ok().flatten();
    let name = user.map_or("?".to_owned(), |user| user.name);
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
    // What is executed later gets no more rights than the program has.
    set_no_new_privs().map_err(|error| failure_set_start("prctl", error))?;
    let version = landlock(kept.options, kept.policy)?;
    let calls = seccomp(kept.list)?;
    log::debug(format_args!(
        "sandbox: user {user}, {calls} system calls, Landlock {version}"
    ));
    Ok(())
}

/// Gives up what the firewall needs no more. Warns of files that it will not be able to read again as
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

/// The same for the guard, which needs CAP_NET_ADMIN and no file.
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
