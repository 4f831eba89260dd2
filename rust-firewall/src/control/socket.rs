// SPDX-License-Identifier: GPL-2.0-or-later
//! File of the control socket: created so that no client can connect before mode and owner are set,
//! and removed only if it belongs to this socket or no process listens at it. All operations use
//! the folder's descriptor and follow no link, because root runs them in folders where other users
//! may write.
// seccomp: newfstatat unlinkat listen close

use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixListener;

use nix::errno::Errno;
use nix::fcntl::{openat, AtFlags, OFlag};
use nix::sys::socket::{
    bind, connect, getsockopt, listen, socket, sockopt, AddressFamily, Backlog, SockFlag, SockType,
    UnixAddr,
};
use nix::sys::stat::{fchmodat, fstat, fstatat, umask, FchmodatFlags, FileStat, Mode, SFlag};
use nix::unistd::{fchownat, getuid, unlinkat, Gid, Group, Uid, UnlinkatFlags, User};

use crate::base::log::{self, failure_set, failure_set_start, Failure, LogExit};
use crate::control::peer::ControlAccess;
use crate::options::arguments;
use crate::options::values;
use crate::options::Options;
use crate::privilege;

const BACKLOG: i32 = 16;
const TOO_LONG: &str = "a socket's path has at most 107 bytes: choose a shorter one";
const NO_SOCKET: &str = "there is a file that is no socket: choose another path";

/// Listening control socket and its file.
pub struct ControlSocket {
    pub listener: UnixListener,
    place: Place,
    /// Device of the file; with the inode it identifies the file before it is removed.
    pub device: u64,
    pub inode: u64,
    pub access: ControlAccess,
}

/// Location of the socket's file.
struct Place {
    path: String,
    folder: OwnedFd,
    /// Name of the file in the folder.
    name: String,
}

fn usage(text: impl std::fmt::Display) -> Failure {
    failure_set(LogExit::Usage, text)
}

/// Returns a failure about the socket's file.
fn fail(path: &str, cause_and_cure: &str) -> Failure {
    usage(format_args!("control socket {path}: {cause_and_cure}"))
}

fn fail_unknown(kind: &str, name: &str) -> Failure {
    let quoted = arguments::quote(name.as_bytes());
    usage(format_args!(
        "--control-owner: there is no {kind} \"{quoted}\": add it or choose another"
    ))
}

/// Parses a user or group id; None if the text is not a number from 0 to 2^32 - 2.
fn parse_id(text: &str) -> Option<u32> {
    values::parse_number(text.as_bytes(), u32::MAX - 1)
}

fn user_of(name: &str) -> Result<Uid, Failure> {
    let known = User::from_name(name).ok().flatten();
    known
        .map(|user| user.uid)
        .or_else(|| parse_id(name).map(Uid::from_raw))
        .ok_or_else(|| fail_unknown("user", name))
}

fn group_of(name: &str) -> Result<Gid, Failure> {
    let known = Group::from_name(name).ok().flatten();
    known
        .map(|group| group.gid)
        .or_else(|| parse_id(name).map(Gid::from_raw))
        .ok_or_else(|| fail_unknown("group", name))
}

/// Parses USER or USER:GROUP, each a name or a number. A part that is missing is None: then the
/// file keeps its owner or group.
fn parse_owner(text: Option<&str>) -> Result<(Option<Uid>, Option<Gid>), Failure> {
    let Some(text) = text else {
        return Ok((None, None));
    };
    match text.split_once(':') {
        None => Ok((Some(user_of(text)?), None)),
        Some((user, group)) => Ok((Some(user_of(user)?), Some(group_of(group)?))),
    }
}

/// Returns the failure for the error of a system call on the socket's file or its folder, with the
/// cure.
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
        Errno::ELOOP => fail(
            path,
            "others could redirect it by a link: choose another path",
        ),
        Errno::EISDIR => fail(path, NO_SOCKET),
        error => failure_set_start("bind", error),
    }
}

fn make_socket() -> Result<OwnedFd, Failure> {
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    socket(AddressFamily::Unix, SockType::Stream, flags, None)
        .map_err(|error| failure_set_start("socket", error))
}

/// Fails if a process may listen at the socket's file. The failure names the process, if it is known.
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

/// Removes the socket's file. Fails if the file is no socket, or if a process listens at it.
fn remove_stale(place: &Place, address: &UnixAddr) -> Result<(), Failure> {
    let found = fstatat(
        &place.folder,
        place.name.as_str(),
        AtFlags::AT_SYMLINK_NOFOLLOW,
    );
    match found {
        Err(Errno::ENOENT) => return Ok(()),
        Err(error) => return Err(fail_bind(&place.path, error)),
        Ok(found) if !is_socket(&found) => return Err(fail(&place.path, NO_SOCKET)),
        Ok(_) => check_stale(&place.path, address)?,
    }
    match unlink(place) {
        Ok(()) | Err(Errno::ENOENT) => Ok(()),
        Err(error) => Err(fail_bind(&place.path, error)),
    }
}

fn unlink(place: &Place) -> Result<(), Errno> {
    unlinkat(
        &place.folder,
        place.name.as_str(),
        UnlinkatFlags::NoRemoveDir,
    )
}

/// Binds the socket so that its file has the mode from its creation.
fn bind_with_mode(socket: &OwnedFd, address: &UnixAddr, mode: Mode) -> Result<(), Errno> {
    let before = umask(mode.complement());
    let result = bind(socket.as_raw_fd(), address);
    umask(before);
    result
}

/// Creates the socket's file in the open folder, through /proc/self/fd, since bind accepts no
/// folder descriptor. Replaces a socket at which no process listens. No client can connect yet, as
/// the new socket does not listen.
fn make_file(socket: &OwnedFd, place: &Place, mode: Mode) -> Result<(), Failure> {
    let path = format!("/proc/self/fd/{}/{}", place.folder.as_raw_fd(), place.name);
    let address = UnixAddr::new(path.as_str()).map_err(|_| fail(&place.path, TOO_LONG))?;
    let mut result = bind_with_mode(socket, &address, mode);
    if result == Err(Errno::EADDRINUSE) {
        remove_stale(place, &address)?;
        result = bind_with_mode(socket, &address, mode);
    }
    result.map_err(|error| fail_bind(&place.path, error))
}

/// Sets owner and group of the open file (O_PATH) if they differ from the options, and its mode if
/// the socket was taken over. If nothing differs, no rights are needed.
fn give_file(
    file: &OwnedFd,
    path: &str,
    options: &Options,
    is_taken: bool,
    (owner, group): (Option<Uid>, Option<Gid>),
) -> Result<(), Failure> {
    let found = fstat(file).map_err(|error| fail_bind(path, error))?;
    let owner = owner.filter(|owner| owner.as_raw() != found.st_uid);
    let group = group.filter(|group| group.as_raw() != found.st_gid);
    let mode = Mode::from_bits_truncate(options.control_mode);
    if is_taken && Mode::from_bits_truncate(found.st_mode) != mode {
        let opened = format!("/proc/self/fd/{}", file.as_raw_fd());
        let follow = FchmodatFlags::FollowSymlink;
        fchmodat(nix::fcntl::AT_FDCWD, opened.as_str(), mode, follow)
            .map_err(|error| fail_bind(path, error))?;
    }
    if owner.is_none() && group.is_none() {
        return Ok(());
    }
    fchownat(file, "", owner, group, AtFlags::AT_EMPTY_PATH).map_err(|error| {
        let error = log::strerror(error);
        let name = options.control_owner.as_deref().unwrap_or_default();
        usage(format_args!(
            "control socket {path}: can't be given to {name}: {error}: start as root or as a member \
             of the group (SupplementaryGroups= in the unit), or leave --control-owner out"
        ))
    })
}

/// Sets the owner and group of the socket's file if the options contain them. Also sets the file's
/// mode if the socket was taken over (is_taken). Listens at the socket. Returns the file's
/// identity, owner, group and mode. Fails if the file is no socket or has a second link; the file
/// is then unchanged.
fn open_made(
    socket: &OwnedFd,
    place: &Place,
    options: &Options,
    is_taken: bool,
    owner: (Option<Uid>, Option<Gid>),
) -> Result<FileStat, Failure> {
    let flags = OFlag::O_PATH | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    let file = openat(&place.folder, place.name.as_str(), flags, Mode::empty())
        .map_err(|error| fail_bind(&place.path, error))?;
    if !fstat(&file).is_ok_and(|found| is_socket(&found) && found.st_nlink == 1) {
        return Err(fail(&place.path, NO_SOCKET));
    }
    give_file(&file, &place.path, options, is_taken, owner)?;
    let backlog = Backlog::new(BACKLOG).unwrap_or(Backlog::MAXCONN);
    fstat(&file)
        .and_then(|found| listen(socket, backlog).map(|()| found))
        .map_err(|error| failure_set_start("listen", error))
}

/// Opens the folder of the socket's file.
fn open_folder(path: &str) -> Result<Place, Failure> {
    UnixAddr::new(path).map_err(|_| fail(path, TOO_LONG))?;
    let (folder, name) = privilege::path::folder(path).map_err(|error| fail_bind(path, error))?;
    Ok(Place {
        path: path.to_owned(),
        folder,
        name: name.to_owned(),
    })
}

/// Creates the listening socket at `path` (options.control). Fails, for example, if the file is no
/// socket or another process listens at it, if the folder does not exist, or if the owner is unknown.
/// - listener: socket that was taken over from another process; its file gets the mode and owner of
///   the options.
pub fn open(
    path: &str,
    options: &Options,
    listener: Option<OwnedFd>,
) -> Result<ControlSocket, Failure> {
    let owner = parse_owner(options.control_owner.as_deref())?;
    let place = open_folder(path)?;
    let is_taken = listener.is_some();
    let socket = match listener {
        Some(listener) => listener,
        None => {
            let socket = make_socket()?;
            let mode = Mode::from_bits_truncate(options.control_mode);
            make_file(&socket, &place, mode)?;
            socket
        }
    };
    let file = open_made(&socket, &place, options, is_taken, owner).inspect_err(|_| {
        if !is_taken {
            // Removes the file, because no process listens at it.
            let _ = unlink(&place);
        }
    })?;
    Ok(ControlSocket {
        listener: UnixListener::from(socket),
        place,
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

/// Makes this process the listener again, after a new firewall has listened at the socket in an
/// upgrade that failed: clients learn from the kernel (SO_PEERCRED) which process listened last.
pub fn listen_again(listener: BorrowedFd) {
    let backlog = Backlog::new(BACKLOG).unwrap_or(Backlog::MAXCONN);
    let _ = listen(&listener, backlog); // can't fail: the socket listens already
}

/// Closes the socket.
/// - remove: also removes the file, if it still belongs to this socket and the process still has
///   the rights.
pub fn close(socket: ControlSocket, remove: bool) {
    let place = &socket.place;
    let is_ours = |file: FileStat| (file.st_dev, file.st_ino) == (socket.device, socket.inode);
    let found = fstatat(
        &place.folder,
        place.name.as_str(),
        AtFlags::AT_SYMLINK_NOFOLLOW,
    );
    if remove && found.is_ok_and(is_ours) {
        let _ = unlink(place);
    }
}
