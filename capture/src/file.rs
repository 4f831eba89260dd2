// SPDX-License-Identifier: GPL-2.0-or-later
//! Output: a file that always ends at a whole block, or a pipe.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Seek, SeekFrom, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Instant;

use nix::fcntl::{fcntl, FcntlArg, OFlag};
use nix::unistd::geteuid;

use crate::name;

/// Mode of new files: only the owner may read a recording.
const MODE: u32 = 0o600;
/// Maximum number of name suffixes tried; more taken names indicate an error.
const MOST_NUMBERS: u32 = 100_000;

#[derive(Debug)]
pub struct Out {
    file: File,
    /// Offset of the first byte of this run; the file retains its bytes before it.
    start: u64,
    /// Number of bytes that this program wrote and did not truncate.
    pub bytes: u64,
    /// True if the output is a regular file; other files can't be truncated.
    is_regular: bool,
    /// Path of the file; None means stdout.
    pub path: Option<PathBuf>,
    pub since: Instant,
}

/// A write that stopped before its end.
#[derive(Debug)]
pub struct Short {
    /// Bytes written before the error.
    pub written: usize,
    pub error: io::Error,
}

/// Returns the offset at which the next byte is written to a regular file.
fn offset(mut file: &File) -> io::Result<u64> {
    let flags = OFlag::from_bits_truncate(fcntl(file, FcntlArg::F_GETFL)?);
    match flags.contains(OFlag::O_APPEND) {
        true => Ok(file.metadata()?.len()),
        false => file.stream_position(),
    }
}

impl Out {
    fn of(file: File, path: Option<PathBuf>) -> io::Result<Out> {
        let is_regular = file.metadata()?.is_file();
        Ok(Out {
            start: 0,
            bytes: 0,
            file,
            is_regular,
            path,
            since: Instant::now(),
        })
    }

    pub fn stdout() -> io::Result<Out> {
        let own: OwnedFd = io::stdout().as_fd().try_clone_to_owned()?;
        let mut out = Out::of(own.into(), None)?;
        if out.is_regular {
            out.start = offset(&out.file)?;
        }
        Ok(out)
    }

    /// Opens a file and truncates an existing one; does not follow links. If the process is not root, refuses a file
    /// that belongs neither to its user nor to root: the owner could read the recording. If it is root, the caller must
    /// check the folder (`privilege::is_roots`).
    pub fn replace(path: &Path) -> io::Result<Out> {
        let file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .mode(MODE)
            .custom_flags(libc::O_NOFOLLOW)
            .open(path)?;
        let (seen, user) = (file.metadata()?, geteuid());
        if seen.is_file() {
            if !user.is_root() && ![0, user.as_raw()].contains(&seen.uid()) {
                return Err(io::Error::other(
                    "it is there already and another user's: choose another name",
                ));
            }
            file.set_len(0)?;
        }
        Out::of(file, Some(path.to_owned()))
    }

    /// Creates a new file. If the name is taken, a number is added.
    pub fn create(path: &Path) -> io::Result<Out> {
        let mut number = 0;
        loop {
            let path = name::numbered(path, number);
            let mut options = OpenOptions::new();
            match options.write(true).create_new(true).mode(MODE).open(&path) {
                Ok(file) => return Out::of(file, Some(path)),
                Err(error) if error.kind() == ErrorKind::AlreadyExists && number < MOST_NUMBERS => {
                    number += 1;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Returns the path, or "stdout", for messages.
    pub fn name(&self) -> String {
        match &self.path {
            Some(path) => path.display().to_string(),
            None => "stdout".to_owned(),
        }
    }

    /// Changes the owner of a file that root created.
    pub fn give(&self, uid: u32, gid: u32) -> io::Result<()> {
        std::os::unix::fs::fchown(&self.file, Some(uid), Some(gid))
    }

    /// Writes all bytes. After a short write the caller must call `cut`.
    pub fn put(&mut self, bytes: &[u8]) -> Result<(), Short> {
        let mut written = 0;
        while written < bytes.len() {
            match self.file.write(&bytes[written..]) {
                Ok(0) => {
                    let error = ErrorKind::WriteZero.into();
                    return Err(Short { written, error });
                }
                Ok(more) => written += more,
                Err(error) if error.kind() == ErrorKind::Interrupted => (),
                Err(error) => return Err(Short { written, error }),
            }
        }
        self.bytes += bytes.len() as u64;
        Ok(())
    }

    /// Retains the first `keep` bytes of a short write, and truncates a regular file after them.
    pub fn cut(&mut self, keep: usize) -> io::Result<()> {
        self.bytes += keep as u64;
        if self.is_regular {
            let end = self.start + self.bytes;
            self.file.set_len(end)?;
            self.file.seek(SeekFrom::Start(end))?;
        }
        Ok(())
    }
}
