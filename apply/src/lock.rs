// SPDX-License-Identifier: GPL-2.0-or-later
//! Lock of the state folder: one operation at a time. The nft process that loads a transaction inherits the lock: if
//! fwctl is killed, the lock is held until nft's transaction has ended.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::fcntl::{Flock, FlockArg};
use rustix::io::{fcntl_setfd, FdFlags};
use rustix::process::{pidfd_open, pidfd_send_signal, Pid, PidfdFlags, Signal};

use crate::failure::{at, system, Result};

/// Maximum wait for the end of killed processes that hold the lock.
const KILLED: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(10);

/// Lock of the state folder, held until dropped.
pub struct Lock(Flock<File>);

impl Lock {
    /// Sets whether programs started from now on inherit the lock.
    pub fn set_inherited(&self, is_inherited: bool) -> Result<()> {
        let flags = match is_inherited {
            true => FdFlags::empty(),
            false => FdFlags::CLOEXEC,
        };
        let set = fcntl_setfd(&*self.0, flags);
        set.map_err(|error| system(format_args!("the lock: {error}: run fwctl again")))
    }

    /// Returns another descriptor of the lock, for a started program. If this process is killed, the lock is held until
    /// that program closes the descriptor.
    pub fn share(&self) -> Result<File> {
        let shared = self.0.try_clone();
        shared.map_err(|error| system(format_args!("the lock: {error}: run fwctl again")))
    }
}

fn open(path: &Path) -> Result<File> {
    let mut options = OpenOptions::new();
    let file = options.read(true).write(true).create(true).mode(0o600);
    let file = file.custom_flags(nix::libc::O_NOFOLLOW).open(path);
    file.map_err(at(path))
}

/// Acquires the lock; waits until no other process holds it.
pub fn wait(path: &Path) -> Result<Lock> {
    let locked = Flock::lock(open(path)?, FlockArg::LockExclusive);
    let locked = locked.map_err(|(_, error)| at(path)(error.into()))?;
    Ok(Lock(locked))
}

/// Returns all other processes that have the lock's file open.
fn holders(path: &Path) -> Vec<Pid> {
    let Ok(lock) = fs::metadata(path) else {
        return Vec::new();
    };
    let is_lock = |fd: &PathBuf| {
        fs::metadata(fd).is_ok_and(|data| (data.dev(), data.ino()) == (lock.dev(), lock.ino()))
    };
    let own = std::process::id().to_string();
    let mut found = Vec::new();
    for process in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let name = process.file_name().to_string_lossy().into_owned();
        let number = name.parse().ok().and_then(Pid::from_raw);
        let (Some(pid), false) = (number, name == own) else {
            continue;
        };
        let fds = fs::read_dir(process.path().join("fd"));
        let mut fds = fds.into_iter().flatten().flatten().map(|fd| fd.path());
        if fds.any(|fd| is_lock(&fd)) {
            found.push(pid);
        }
    }
    found
}

/// Acquires the lock at the deadline of a generation. While another process holds the lock, kills all other processes
/// that have its file open: their operation has exceeded its time.
pub fn seize(path: &Path) -> Result<Lock> {
    let begun = Instant::now();
    let mut file = open(path)?;
    loop {
        file = match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            Ok(locked) => return Ok(Lock(locked)),
            Err((file, _)) => file,
        };
        if begun.elapsed() > KILLED {
            return Err(system(format_args!(
                "{}: the processes that hold it don't end: end them, then run fwctl revert",
                path.display()
            )));
        }
        for pid in holders(path) {
            if let Ok(process) = pidfd_open(pid, PidfdFlags::empty()) {
                let _ = pidfd_send_signal(process, Signal::KILL);
            }
        }
        std::thread::sleep(PAUSE);
    }
}
