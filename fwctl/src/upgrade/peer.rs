// SPDX-License-Identifier: GPL-2.0-or-later
//! Identifies the process that replies at a control socket. Only the kernel's information counts: the process itself
//! may be compromised or a stand-in.
//!
//! Theory of operation: SO_PEERCRED names the process that listens. Its pidfd is opened, and then it receives a
//! request: the kernel reports the process and user that wrote the reply (SCM_CREDENTIALS). If that is the same process
//! id, and the pidfd's process still runs, then it is that very process, for its id can't have been reused meanwhile.
//! So no pidfd of the socket (SO_PEERPIDFD) is needed, which would name the first listener, with the user at that time.

use std::fs;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use nix::poll::{poll, PollFd, PollFlags, PollTimeout};
use rustix::process::{pidfd_open, Pid, PidfdFlags};

use crate::answer::Status;
use crate::client;
use crate::failure::{words, Exit, Failure};

/// The process of a firewall.
pub struct Peer {
    pub pid: i32,
    /// User of the process when it sent the status reply.
    pub uid: u32,
    /// Group of the process when it sent the status reply.
    pub gid: u32,
    /// Status reply of the firewall.
    pub status: Status,
    process: OwnedFd,
}

fn refused(text: impl std::fmt::Display) -> Failure {
    Failure::new(Exit::Refused, text)
}

/// Opens a pidfd of a process.
pub fn open_process(pid: i32) -> Result<OwnedFd, Failure> {
    let opened = Pid::from_raw(pid).ok_or(rustix::io::Errno::SRCH);
    opened
        .and_then(|pid| pidfd_open(pid, PidfdFlags::empty()))
        .map_err(|error| refused(format_args!("pid {pid}: {}", words(&error.into()))))
}

/// Returns true if a pidfd's process has ended.
pub fn has_ended(process: BorrowedFd) -> bool {
    let mut polled = [PollFd::new(process, PollFlags::POLLIN)];
    !matches!(poll(&mut polled, PollTimeout::ZERO), Ok(0))
}

impl Peer {
    /// Identifies the running firewall at a control socket. Fails if another process replies than the process that
    /// listens, or if the process is in another PID namespace.
    pub fn find(socket: &Path) -> Result<Peer, Failure> {
        let mut client = client::connect(socket)?;
        let pid = client.listener().map_or(0, |listener| listener.pid());
        if pid <= 0 {
            let shown = socket.display();
            return Err(refused(format_args!(
                "{shown}: its process is in another PID namespace: run fwctl where the firewall runs"
            )));
        }
        let process = open_process(pid)?;
        let status = client.status()?;
        let Some(writer) = client.writer().filter(|writer| writer.pid() == pid) else {
            return Err(refused(format_args!(
                "{}: pid {pid} listens, but another process answers: this is no firewall",
                socket.display()
            )));
        };
        let peer = Peer {
            pid,
            uid: writer.uid(),
            gid: writer.gid(),
            status,
            process,
        };
        peer.check()?;
        Ok(peer)
    }

    /// Returns the pidfd of the process.
    pub fn process(&self) -> BorrowedFd<'_> {
        self.process.as_fd()
    }

    /// Fails if the process has ended: data read from /proc by its id may then belong to another process.
    pub fn check(&self) -> Result<(), Failure> {
        match has_ended(self.process()) {
            true => Err(refused(format_args!(
                "the firewall (pid {}) has ended",
                self.pid
            ))),
            false => Ok(()),
        }
    }

    /// Returns the path of a file of the process in /proc.
    pub fn file(&self, name: &str) -> PathBuf {
        Path::new("/proc").join(self.pid.to_string()).join(name)
    }

    /// Returns the text of a file of the process in /proc. Fails if the process has ended, because the file may then
    /// belong to another process.
    pub fn read(&self, name: &str) -> Result<String, Failure> {
        let path = self.file(name);
        let text = fs::read_to_string(&path);
        self.check()?;
        text.map_err(|error| refused(format_args!("{}: {}", path.display(), words(&error))))
    }

    /// Fails if the process is in another namespace than this process. A namespace that can't be read is accepted.
    /// - kind: type of namespace, as a file name in /proc/PID/ns.
    /// - what: type of namespace in words, for the message.
    fn check_namespace(&self, kind: &str, what: &str) -> Result<(), Failure> {
        let theirs = fs::metadata(self.file(&format!("ns/{kind}")));
        let ours = fs::metadata(Path::new("/proc/self/ns").join(kind));
        self.check()?;
        let (Ok(theirs), Ok(ours)) = (theirs, ours) else {
            return Ok(());
        };
        if (theirs.dev(), theirs.ino()) == (ours.dev(), ours.ino()) {
            return Ok(());
        }
        let pid = self.pid;
        Err(refused(format_args!(
            "the firewall (pid {pid}) is in another {what} namespace, which fwctl does not enter by \
             itself: run fwctl there, by ip netns exec NAME or nsenter --target {pid} --{kind}"
        )))
    }

    /// Fails if the process's user or network namespace differs from that of this process. In another user namespace,
    /// user and capabilities could have another meaning. In another network namespace, the new firewall would be in the
    /// wrong network.
    pub fn check_namespaces(&self) -> Result<(), Failure> {
        self.check_namespace("user", "user")?;
        self.check_namespace("net", "network")
    }

    /// Returns the value of a key in /proc/PID/status.
    pub fn status_line(&self, key: &str) -> Result<String, Failure> {
        let text = self.read("status")?;
        let value = text
            .lines()
            .find_map(|line| line.strip_prefix(key)?.strip_prefix(':'));
        value
            .map(|value| value.trim().to_owned())
            .ok_or_else(|| refused(format_args!("pid {}: its {key} is not known", self.pid)))
    }
}
