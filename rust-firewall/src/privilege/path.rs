// SPDX-License-Identifier: GPL-2.0-or-later
// seccomp: openat newfstatat geteuid close
//! Paths that other users can't redirect: a file's folder is opened component by component, and the file is accessed
//! within that folder, without following a link.

use std::os::fd::OwnedFd;

use nix::errno::Errno;
use nix::fcntl::{open, openat, OFlag};
use nix::sys::stat::{fstat, Mode, SFlag};
use nix::unistd::geteuid;

/// Returns true if only root and this process's user can have written to a folder.
fn is_ours(folder: &OwnedFd) -> bool {
    fstat(folder).is_ok_and(|found| {
        (found.st_uid == 0 || found.st_uid == geteuid().as_raw())
            && !Mode::from_bits_truncate(found.st_mode).intersects(Mode::S_IWGRP | Mode::S_IWOTH)
    })
}

/// Opens a folder within a folder. Follows a link only if no user except root and this process's user can have
/// created it.
fn step(folder: &OwnedFd, name: &str) -> Result<OwnedFd, Errno> {
    let flags = OFlag::O_PATH | OFlag::O_CLOEXEC;
    let next = openat(folder, name, flags | OFlag::O_NOFOLLOW, Mode::empty())?;
    let kind = SFlag::from_bits_truncate(fstat(&next)?.st_mode) & SFlag::S_IFMT;
    match kind {
        SFlag::S_IFDIR => Ok(next),
        SFlag::S_IFLNK if is_ours(folder) => {
            openat(folder, name, flags | OFlag::O_DIRECTORY, Mode::empty())
        }
        SFlag::S_IFLNK => Err(Errno::ELOOP),
        _ => Err(Errno::ENOTDIR),
    }
}

/// Opens the folder of a file, for openat and similar calls. Follows a link only in a folder that is owned by root or
/// by this process's user, and that only the owner may write to.
/// - Returns a descriptor (O_PATH) and the last component of path, which need not exist. Fails with ELOOP for a link
///   that other users could have created, with EISDIR for a path that ends with a slash.
pub fn folder(path: &str) -> Result<(OwnedFd, &str), Errno> {
    let (folders, name) = path.rsplit_once('/').unwrap_or(("", path));
    let start = if path.starts_with('/') { "/" } else { "." };
    let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
    let mut folder = open(start, flags, Mode::empty())?;
    if name.is_empty() {
        return Err(Errno::EISDIR);
    }
    for part in folders.split('/').filter(|part| !part.is_empty()) {
        folder = step(&folder, part)?;
    }
    Ok((folder, name))
}
