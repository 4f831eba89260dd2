// SPDX-License-Identifier: GPL-2.0-or-later
// seccomp: openat newfstatat geteuid close
//! Ways to files that others can't bend: the folder of a file is opened component by component, and
//! what is done with the file is done in that folder, without following a link.

use std::os::fd::OwnedFd;

use nix::errno::Errno;
use nix::fcntl::{open, openat, OFlag};
use nix::sys::stat::{fstat, Mode, SFlag};
use nix::unistd::geteuid;

/// Whether nobody but root and this process can have put something into a folder.
fn is_ours(folder: &OwnedFd) -> bool {
    fstat(folder).is_ok_and(|found| {
        (found.st_uid == 0 || found.st_uid == geteuid().as_raw())
            && !Mode::from_bits_truncate(found.st_mode).intersects(Mode::S_IWGRP | Mode::S_IWOTH)
    })
}

/// Opens a folder inside of a folder.
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

/// Opens the folder of a file, for use with openat and its like. A link on the way is followed only
/// in a folder that nobody may write to but its owner, and that is root or who runs the program.
/// - Returns a descriptor (O_PATH) and the last part of path, which may be anything, or nothing at
///   all. Fails with ELOOP for a link that others could have made, with EISDIR for a path that ends
///   with a slash.
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
