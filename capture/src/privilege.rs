// SPDX-License-Identifier: GPL-2.0-or-later
//! Drops privileges once all rings are open. Root becomes another user, no capability remains but CAP_NET_RAW (only
//! where rings may be opened again), no program can be started with more privileges, and Landlock allows only the
//! output's folder. Must run while the process has a single thread: later threads inherit the restrictions.

use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

use caps::{CapSet, Capability, CapsHashSet};
use landlock::{
    Access, AccessFs, AccessNet, BitFlags, PathBeneath, PathFd, Ruleset, RulesetAttr,
    RulesetCreatedAttr, RulesetError, ABI,
};
use nix::unistd::{geteuid, setgroups, setresgid, setresuid, Gid, Uid, User};

use crate::failure::{Failure, Result};

/// Newest Landlock version used; older kernels apply what they support.
const NEWEST: ABI = ABI::V6;
/// Write permission for group and others.
const OTHERS_WRITE: u32 = 0o022;
/// Sticky bit of a folder: only the owner of a file in it, or of the folder, may rename or remove the file (S_ISVTX,
/// inode(7)).
const STICKY: u32 = 0o1000;

/// The user that root becomes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Who {
    pub uid: u32,
    pub gid: u32,
    pub name: String,
}

impl From<User> for Who {
    fn from(user: User) -> Who {
        Who {
            uid: user.uid.as_raw(),
            gid: user.gid.as_raw(),
            name: user.name,
        }
    }
}

fn number(variable: &str) -> Option<u32> {
    std::env::var(variable).ok()?.parse().ok()
}

/// Chooses the user that root becomes. Returns None if the process is not root and keeps its user. Fails if the wanted
/// user, or each of the default users, is missing.
/// - wanted: name of the user; None: the user of sudo, otherwise twinwall, otherwise nobody.
pub fn choose(wanted: Option<&str>) -> Result<Option<Who>> {
    if !geteuid().is_root() {
        return Ok(None);
    }
    let known = |name: &str| User::from_name(name).ok().flatten().map(Who::from);
    if let Some(name) = wanted {
        let missing = || Failure::usage(format!("--user {name}: there is no such user"));
        return known(name).ok_or_else(missing).map(Some);
    }
    if let (Some(uid), Some(gid)) = (number("SUDO_UID"), number("SUDO_GID")) {
        if uid != 0 {
            let name = std::env::var("SUDO_USER").unwrap_or_else(|_| uid.to_string());
            return Ok(Some(Who { uid, gid, name }));
        }
    }
    let own = known("twinwall").or_else(|| known("nobody"));
    own.map(Some).ok_or_else(|| {
        Failure::usage(
            "there is neither a user twinwall nor nobody to become: choose one by --user",
        )
    })
}

/// Returns true if the process has CAP_NET_ADMIN in its user namespace, to which the network need not belong.
pub fn has_net_admin() -> bool {
    caps::has_cap(None, CapSet::Effective, Capability::CAP_NET_ADMIN).unwrap_or(false)
}

/// Returns true if only root can change the folder's contents and its path, so that no other user can redirect root:
/// the path has no links, root owns each folder, and only root may write to it. A parent folder with the sticky bit,
/// such as /tmp, may be writable: other users can't replace root's entries in it.
pub fn is_roots(folder: &Path) -> bool {
    let Ok(whole) = std::path::absolute(folder) else {
        return false;
    };
    if !std::fs::canonicalize(&whole).is_ok_and(|straight| straight == whole) {
        return false;
    }
    whole.ancestors().enumerate().all(|(up, part)| {
        let seen = std::fs::symlink_metadata(part);
        seen.is_ok_and(|seen| {
            let is_sticky = up > 0 && seen.mode() & STICKY != 0;
            seen.uid() == 0 && (seen.mode() & OTHERS_WRITE == 0 || is_sticky)
        })
    })
}

/// Becomes the user `who` (None: the user stays), drops all capabilities and sets no_new_privs. Retains CAP_NET_RAW if
/// `keep_raw` is true and the process has it.
pub fn drop(who: Option<&Who>, keep_raw: bool) -> Result<()> {
    let refused = |what: &str| {
        Failure::privilege(format!(
            "{what}: leave root CAP_SETUID, CAP_SETGID and CAP_SETPCAP for the start"
        ))
    };
    let kept = caps::read(None, CapSet::Permitted)
        .unwrap_or_default()
        .into_iter()
        .filter(|one| keep_raw && *one == Capability::CAP_NET_RAW)
        .collect::<CapsHashSet>();
    if let Some(who) = who {
        let _ = caps::clear(None, CapSet::Bounding);
        caps::securebits::set_keepcaps(true).map_err(|_| refused("keepcaps"))?;
        let (uid, gid) = (Uid::from_raw(who.uid), Gid::from_raw(who.gid));
        setgroups(&[])
            .and_then(|()| setresgid(gid, gid, gid))
            .and_then(|()| setresuid(uid, uid, uid))
            .map_err(|_| refused(&format!("can't become user {}", who.name)))?;
    }
    let none = CapsHashSet::new();
    caps::set(None, CapSet::Effective, &none)
        .and_then(|()| caps::set(None, CapSet::Inheritable, &none))
        .and_then(|()| caps::set(None, CapSet::Permitted, &kept))
        .and_then(|()| caps::set(None, CapSet::Effective, &kept))
        .map_err(|_| refused("capset"))?;
    nix::sys::prctl::set_no_new_privs().map_err(|error| Failure::system("prctl", &error.into()))
}

/// Restricts file access by Landlock to creating, writing and removing files in the output's folder, or to writing to
/// an output that is a character device or a FIFO; None forbids all files. Also forbids to bind and connect TCP sockets
/// (Linux 6.7). Does nothing if the kernel has no Landlock.
pub fn confine(output: Option<&Path>) -> Result<()> {
    let confined = || -> std::result::Result<(), RulesetError> {
        let mut rules = Ruleset::default()
            .handle_access(AccessFs::from_all(NEWEST))?
            .handle_access(AccessNet::from_all(NEWEST))?
            .create()?;
        if let Some(path) = output {
            let files =
                AccessFs::WriteFile | AccessFs::MakeReg | AccessFs::RemoveFile | AccessFs::Truncate;
            let is_device = |seen: std::fs::Metadata| {
                let kind = seen.file_type();
                kind.is_char_device() || kind.is_fifo()
            };
            let (at, access): (&Path, BitFlags<AccessFs>) =
                match path.metadata().is_ok_and(is_device) {
                    true => (path, AccessFs::WriteFile.into()),
                    false => (folder(path), files),
                };
            if let Ok(at) = PathFd::new(at) {
                rules = rules.add_rule(PathBeneath::new(at, access))?;
            }
        }
        rules.restrict_self().map(|_| ())
    };
    let error = |error: RulesetError| Failure::system("landlock", &io::Error::other(error));
    confined().map_err(error)
}

/// Returns the folder of a file, which need not exist.
pub fn folder(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    }
}
