// SPDX-License-Identifier: GPL-2.0-or-later
//! The program that is to run: a file that nobody could have made or changed but who may do anything
//! here anyway. It is opened once, and run by its descriptor.

use std::fs::{self, File, Metadata, OpenOptions};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use nix::libc;
use nix::unistd::geteuid;

use super::peer::Peer;
use crate::failure::{words, Exit, Failure};

/// Permission bits of a file's mode.
const OTHERS_WRITE: u32 = 0o022;
const STICKY: u32 = 0o1000;
const EXECUTE: u32 = 0o111;

pub struct Program {
    /// Only to be run and looked at (O_PATH).
    pub file: File,
    /// Its name, for messages and as argv[0].
    pub path: PathBuf,
    id: (u64, u64),
}

fn usage(path: &Path, what: impl std::fmt::Display) -> Failure {
    Failure::new(Exit::Usage, format_args!("{}: {what}", path.display()))
}

/// Who else may change what is there. In a folder that is sticky, as /tmp is, everybody may make
/// files, but not rename or remove those of others.
fn changer(data: &Metadata) -> Option<String> {
    let own = geteuid().as_raw();
    let is_sticky = data.is_dir() && data.mode() & STICKY != 0;
    if data.uid() != 0 && data.uid() != own {
        return Some(format!("user {}", data.uid()));
    }
    let others = data.mode() & OTHERS_WRITE != 0 && !is_sticky && !data.is_symlink();
    others.then(|| "others".to_owned())
}

/// Fails if others may change a file, a folder on the way to it, or a link.
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

/// Takes a file that was opened by a path, if nobody else may change either.
fn check(file: File, path: PathBuf) -> Result<Program, Failure> {
    let fail = |error: std::io::Error| usage(&path, words(&error));
    let data = file.metadata().map_err(fail)?;
    if !data.is_file() || data.mode() & EXECUTE == 0 {
        return Err(usage(&path, "is no program: name a firewall"));
    }
    check_path(&path)?;
    // Where it really lies: links may lead there.
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
    /// The program with this name.
    pub fn named(path: &Path) -> Result<Program, Failure> {
        let absolute = std::path::absolute(path).map_err(|error| usage(path, words(&error)))?;
        check(open_path(&absolute)?, absolute)
    }

    /// The program that a process runs: the very file. One that was replaced is to be named, for there
    /// are two of that name then.
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

    /// One that root has looked at, and gave.
    pub fn received(file: OwnedFd, path: PathBuf) -> Program {
        let file = File::from(file);
        let id = file.metadata().map(|data| (data.dev(), data.ino()));
        let id = id.unwrap_or_default();
        Program { file, path, id }
    }

    /// Whether a process runs it.
    pub fn runs_as(&self, peer: &Peer) -> bool {
        let data = fs::metadata(peer.file("exe"));
        peer.check().is_ok() && data.is_ok_and(|data| (data.dev(), data.ino()) == self.id)
    }
}
