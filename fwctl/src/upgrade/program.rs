// SPDX-License-Identifier: GPL-2.0-or-later
//! The program to run: a file that only root and the caller could have made or changed. It is opened once, and executed
//! through its descriptor.

use std::fs::{self, File, Metadata, OpenOptions};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use nix::libc;
use nix::unistd::geteuid;

use super::peer::Peer;
use crate::failure::{words, Exit, Failure};

/// Bits of a file's mode: write permission of group and others, sticky, any execute permission.
const OTHERS_WRITE: u32 = 0o022;
const STICKY: u32 = 0o1000;
const EXECUTE: u32 = 0o111;

pub struct Program {
    /// Descriptor for executing and inspecting only (O_PATH).
    pub file: File,
    /// Path of the file, for messages and as argv[0].
    pub path: PathBuf,
    id: (u64, u64),
}

fn usage(path: &Path, what: impl std::fmt::Display) -> Failure {
    Failure::new(Exit::Usage, format_args!("{}: {what}", path.display()))
}

/// Returns the users, apart from root and the caller, who may change a file or folder, in words for a message; None if
/// there are none. In a sticky folder such as /tmp, everybody may create files, but not rename or remove files of other
/// users: its mode is accepted.
fn changer(data: &Metadata) -> Option<String> {
    let own = geteuid().as_raw();
    let is_sticky = data.is_dir() && data.mode() & STICKY != 0;
    if data.uid() != 0 && data.uid() != own {
        return Some(format!("user {}", data.uid()));
    }
    let others = data.mode() & OTHERS_WRITE != 0 && !is_sticky && !data.is_symlink();
    others.then(|| "others".to_owned())
}

/// Fails if users apart from root and the caller may change the file at a path or a folder on the path. A link on the
/// path is checked itself; its target is not.
fn check_path(path: &Path) -> Result<(), Failure> {
    for part in path.ancestors() {
        let data = fs::symlink_metadata(part).map_err(|error| usage(part, words(&error)))?;
        if let Some(who) = changer(&data) {
            return Err(usage(
                path,
                format_args!(
                    "{who} may change {}: install it where only root may write (install -o root \
                     -g root -m 755)",
                    part.display()
                ),
            ));
        }
    }
    Ok(())
}

/// Returns the program of an opened file. Fails if the file is not executable, or if users apart from root and the
/// caller may change it or its path.
fn check(file: File, path: PathBuf) -> Result<Program, Failure> {
    let fail = |error: std::io::Error| usage(&path, words(&error));
    let data = file.metadata().map_err(fail)?;
    if !data.is_file() || data.mode() & EXECUTE == 0 {
        return Err(usage(&path, "is no program: name a firewall"));
    }
    check_path(&path)?;
    // The real location is checked as well, because the path may contain links.
    check_path(&fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd())).map_err(fail)?)?;
    let id = (data.dev(), data.ino());
    Ok(Program { file, path, id })
}

fn open_path(path: &Path) -> Result<File, Failure> {
    let opened = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_PATH | libc::O_CLOEXEC)
        .open(path);
    opened.map_err(|error| usage(path, format_args!("{}: name a firewall", words(&error))))
}

impl Program {
    /// Opens the program at a path. Fails if users apart from root and the caller may change the file or its path.
    pub fn named(path: &Path) -> Result<Program, Failure> {
        let absolute = std::path::absolute(path).map_err(|error| usage(path, words(&error)))?;
        check(open_path(&absolute)?, absolute)
    }

    /// Opens the file that a process runs. Fails if its path has another file now: the operator must then name the
    /// binary.
    pub fn of(peer: &Peer) -> Result<Program, Failure> {
        let path = peer.file("exe");
        let file = open_path(&path)?;
        let name = fs::read_link(&path);
        peer.check()?;
        let name = name.map_err(|error| usage(&path, words(&error)))?;
        let id = |data: Metadata| (data.dev(), data.ino());
        let (runs, lies) = (file.metadata().map(id), fs::metadata(&name).map(id));
        match (runs, lies) {
            (Ok(runs), Ok(lies)) if runs == lies => check(file, name),
            _ => Err(usage(
                &name,
                "is not what runs any more: name the binary that is to run",
            )),
        }
    }

    /// Returns a program that root has sent. It is not checked: root's process has checked it.
    pub fn received(file: OwnedFd, path: PathBuf) -> Program {
        let file = File::from(file);
        let id = file.metadata().map(|data| (data.dev(), data.ino()));
        let id = id.unwrap_or_default();
        Program { file, path, id }
    }

    /// Returns true if a process runs this program.
    pub fn runs_as(&self, peer: &Peer) -> bool {
        let data = fs::metadata(peer.file("exe"));
        peer.check().is_ok() && data.is_ok_and(|data| (data.dev(), data.ino()) == self.id)
    }
}
