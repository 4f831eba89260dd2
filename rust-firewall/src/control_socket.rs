// SPDX-License-Identifier: GPL-2.0-or-later
//! The control socket's file: made so that nobody can connect before mode and owner are right, and
//! removed only if it is ours or nobody's.
// seccomp: newfstatat unlink

use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::lchown;
use std::os::unix::net::UnixListener;

use nix::errno::Errno;
use nix::libc::{gid_t, uid_t};
use nix::sys::socket::{
    bind, connect, getsockopt, listen, socket, sockopt, AddressFamily, Backlog, SockFlag, SockType,
    UnixAddr,
};
use nix::sys::stat::{fchmodat, lstat, umask, FchmodatFlags, FileStat, Mode, SFlag};
use nix::unistd::{getuid, unlink, Group, User};

use crate::arguments;
use crate::control_peer::ControlAccess;
use crate::given;
use crate::log::{self, failure_set, failure_set_start, Failure, LogExit};
use crate::options::Options;

const BACKLOG: i32 = 16;

/// A listening socket and its file.
pub struct ControlSocket {
    pub listener: UnixListener,
    pub path: String,
    /// Of the file, so that another's is not removed.
    pub device: u64,
    pub inode: u64,
    pub access: ControlAccess,
}

fn usage(text: impl std::fmt::Display) -> Failure {
    failure_set(LogExit::Usage, text)
}

/// A failure about the socket's file.
fn fail(path: &str, cause_and_cure: &str) -> Failure {
    usage(format_args!("control socket {path}: {cause_and_cure}"))
}

fn fail_unknown(kind: &str, name: &str) -> Failure {
    let quoted = arguments::quote(name.as_bytes());
    usage(format_args!(
        "--control-owner: there is no {kind} \"{quoted}\": add it or choose another"
    ))
}

/// The number that a text is, if it is one.
fn read_id(text: &str) -> Option<u32> {
    given::read_number(text.as_bytes(), u32::MAX - 1)
}

fn user_of(name: &str) -> Result<uid_t, Failure> {
    let known = User::from_name(name).ok().flatten();
    known
        .map(|user| user.uid.as_raw())
        .or_else(|| read_id(name))
        .ok_or_else(|| fail_unknown("user", name))
}

fn group_of(name: &str) -> Result<gid_t, Failure> {
    let known = Group::from_name(name).ok().flatten();
    known
        .map(|group| group.gid.as_raw())
        .or_else(|| read_id(name))
        .ok_or_else(|| fail_unknown("group", name))
}

/// Reads USER or USER:GROUP, each a name or a number. What is left out is whoever makes the file.
fn read_owner(text: Option<&str>) -> Result<(Option<uid_t>, Option<gid_t>), Failure> {
    let Some(text) = text else {
        return Ok((None, None));
    };
    match text.split_once(':') {
        None => Ok((Some(user_of(text)?), None)),
        Some((user, group)) => Ok((Some(user_of(user)?), Some(group_of(group)?))),
    }
}

/// Tells why bind failed, and what helps.
fn fail_bind(path: &str, error: Errno) -> Failure {
    match error {
        Errno::ENOENT => {
            let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
            fail(
                path,
                &format!(
                    "there is no folder {folder}: make it (mkdir -p {folder}; systemd does by \
                     RuntimeDirectory=) or choose another path"
                ),
            )
        }
        Errno::EACCES | Errno::EPERM | Errno::EROFS => fail(
            path,
            "the folder can't be written to: let the user who starts the firewall write there, or \
             choose another path",
        ),
        Errno::ENOTDIR => fail(path, "a part of the path is no folder: choose another path"),
        error => failure_set_start("bind", error),
    }
}

fn make_socket() -> Result<OwnedFd, Failure> {
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    socket(AddressFamily::Unix, SockType::Stream, flags, None)
        .map_err(|error| failure_set_start("socket", error))
}

/// Whether somebody listens at the path, which is a socket's, and who.
fn check_stale(path: &str, address: &UnixAddr) -> Result<(), Failure> {
    let socket = make_socket()?;
    let listener = match connect(socket.as_raw_fd(), address) {
        Ok(()) => getsockopt(&socket, sockopt::PeerCredentials).ok(),
        Err(Errno::ECONNREFUSED | Errno::ENOENT) => return Ok(()),
        Err(_) => None,
    };
    let who = match listener {
        Some(listener) => format!("pid {}", listener.pid()),
        None => "another program".to_owned(),
    };
    Err(failure_set(
        LogExit::Owned,
        format_args!("control socket {path}: in use by {who}: stop it or choose another path"),
    ))
}

fn is_socket(file: &FileStat) -> bool {
    SFlag::from_bits_truncate(file.st_mode) & SFlag::S_IFMT == SFlag::S_IFSOCK
}

/// Removes a socket's file that nobody listens at.
fn remove_stale(path: &str, address: &UnixAddr) -> Result<(), Failure> {
    match lstat(path) {
        Err(Errno::ENOENT) => return Ok(()),
        Err(error) => return Err(fail_bind(path, error)),
        Ok(found) if !is_socket(&found) => {
            return Err(fail(
                path,
                "there is a file that is no socket: choose another path",
            ))
        }
        Ok(_) => check_stale(path, address)?,
    }
    match unlink(path) {
        Ok(()) | Err(Errno::ENOENT) => Ok(()),
        Err(error) => Err(fail_bind(path, error)),
    }
}

/// Binds with the mode, which the file has from its first moment.
fn bind_with_mode(socket: &OwnedFd, address: &UnixAddr, mode: Mode) -> Result<(), Errno> {
    let before = umask(mode.complement());
    let result = bind(socket.as_raw_fd(), address);
    umask(before);
    result
}

/// Makes the file. Nobody can connect to it, as nobody listens yet.
fn make_file(socket: &OwnedFd, path: &str, mode: Mode) -> Result<(), Failure> {
    let address = UnixAddr::new(path).map_err(|_| {
        fail(
            path,
            "a socket's path has at most 107 bytes: choose a shorter one",
        )
    })?;
    let mut result = bind_with_mode(socket, &address, mode);
    if result == Err(Errno::EADDRINUSE) {
        remove_stale(path, &address)?;
        result = bind_with_mode(socket, &address, mode);
    }
    result.map_err(|error| fail_bind(path, error))
}

/// Gives the file its owner, listens, and keeps what is known of the file.
fn open_made(
    socket: OwnedFd,
    path: &str,
    options: &Options,
    (owner, group): (Option<uid_t>, Option<gid_t>),
) -> Result<ControlSocket, Failure> {
    if owner.is_some() || group.is_some() {
        lchown(path, owner, group).map_err(|error| {
            let error = log::strerror(Errno::try_from(error).unwrap_or(Errno::EIO));
            let name = options.control_owner.as_deref().unwrap_or_default();
            usage(format_args!(
                "control socket {path}: can't be given to {name}: {error}: start as root or leave \
                 --control-owner out"
            ))
        })?;
    }
    let backlog = Backlog::new(BACKLOG).unwrap_or(Backlog::MAXCONN);
    let file = lstat(path)
        .and_then(|file| listen(&socket, backlog).map(|()| file))
        .map_err(|error| failure_set_start("listen", error))?;
    Ok(ControlSocket {
        listener: UnixListener::from(socket),
        path: path.to_owned(),
        device: file.st_dev,
        inode: file.st_ino,
        access: ControlAccess {
            starter: getuid().as_raw(),
            owner: file.st_uid,
            group: file.st_gid,
            mode: file.st_mode,
        },
    })
}

/// Makes the socket at a path, options.control. listener: taken from another process, whose file gets
/// the mode and the owner of the options. Fails for a file that is no socket or that another process
/// listens at, a folder that is not there, an owner that is unknown.
pub fn open(
    path: &str,
    options: &Options,
    listener: Option<OwnedFd>,
) -> Result<ControlSocket, Failure> {
    let owner = read_owner(options.control_owner.as_deref())?;
    let mode = Mode::from_bits_truncate(options.control_mode);
    let is_taken = listener.is_some();
    let socket = match listener {
        Some(listener) => {
            fchmodat(
                nix::fcntl::AT_FDCWD,
                path,
                mode,
                FchmodatFlags::FollowSymlink,
            )
            .map_err(|error| fail_bind(path, error))?;
            listener
        }
        None => {
            let socket = make_socket()?;
            make_file(&socket, path, mode)?;
            socket
        }
    };
    open_made(socket, path, options, owner).inspect_err(|_| {
        if !is_taken {
            // What is left then is a stale socket.
            let _ = unlink(path);
        }
    })
}

/// Removes the file, if it is still this socket's and the rights are still there.
pub fn remove(socket: &ControlSocket) {
    let is_ours = |file: FileStat| (file.st_dev, file.st_ino) == (socket.device, socket.inode);
    if lstat(socket.path.as_str()).is_ok_and(is_ours) {
        let _ = unlink(socket.path.as_str());
    }
}
