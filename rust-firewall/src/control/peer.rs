// SPDX-License-Identifier: GPL-2.0-or-later
//! Identity of the control socket's clients, and their permissions.
// seccomp: getsockopt

use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use nix::errno::Errno;
use nix::libc::{self, gid_t, mode_t, pid_t, socklen_t, uid_t};
use nix::sys::socket::{getsockopt, sockopt};
use nix::sys::stat::Mode;

/// Maximum number of a client's supplementary groups; a client with more counts as a member of its
/// primary group only.
pub const GROUPS_MAX: usize = 1024;

/// Data that decides which users may send requests: owner, group and mode of the socket's file, and
/// the user who started the program.
#[derive(Clone, Copy, Debug)]
pub struct ControlAccess {
    /// User who started the program.
    pub starter: uid_t,
    /// Owner of the socket's file.
    pub owner: uid_t,
    /// Group of the socket's file.
    pub group: gid_t,
    /// Mode of the socket's file.
    pub mode: mode_t,
}

/// User, process and groups of a client.
#[derive(Clone, Debug)]
pub struct ControlPeer {
    /// Process id; 0 if it is not visible in this pid namespace.
    pub pid: pid_t,
    pub uid: uid_t,
    /// Groups of the client; the first is the primary group of its process.
    pub groups: Vec<gid_t>,
}

/// Identity of a client whose credentials the kernel does not report.
pub const UNKNOWN: ControlPeer = ControlPeer {
    pid: 0,
    uid: uid_t::MAX,
    groups: Vec::new(),
};

/// Returns the supplementary groups of the process at the other end; none if the kernel does not
/// report them.
fn read_groups(fd: BorrowedFd) -> Vec<gid_t> {
    let mut groups: Vec<gid_t> = vec![0; GROUPS_MAX];
    let mut bytes = size_of_val(groups.as_slice()) as socklen_t;
    // SAFETY: the kernel writes at most `bytes` bytes, which is the size of `groups`; all values of
    // these bytes are valid numbers.
    let result = unsafe {
        libc::getsockopt(
            fd.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERGROUPS,
            groups.as_mut_ptr().cast(),
            &mut bytes,
        )
    };
    let bytes = if result < 0 { 0 } else { bytes as usize };
    groups.truncate(bytes / size_of::<gid_t>());
    groups
}

/// Reads the credentials of a client, which the kernel stored when the client connected.
/// - fd: connection to the client.
pub fn read(fd: &impl AsFd) -> Result<ControlPeer, Errno> {
    let credentials = getsockopt(fd, sockopt::PeerCredentials)?;
    let mut groups = vec![credentials.gid()];
    groups.extend(read_groups(fd.as_fd()));
    Ok(ControlPeer {
        pid: credentials.pid(),
        uid: credentials.uid(),
        groups,
    })
}

/// Returns true if a client may send requests: root, the user who started the program, the user
/// that the program runs as, the owner of the socket's file, and members of the file's group if the
/// group may write to the file.
pub fn may_ask(peer: &ControlPeer, access: &ControlAccess, runs_as: uid_t) -> bool {
    if [0, access.starter, access.owner, runs_as].contains(&peer.uid) {
        return true;
    }
    let group_may = Mode::from_bits_truncate(access.mode).contains(Mode::S_IWGRP);
    group_may && peer.groups.contains(&access.group)
}

/// Returns true if a client may take over the firewall, provided that it proves CAP_NET_ADMIN
/// (`control::proof`). Only root and the user that the firewall runs as may take it over. Other
/// members of the socket file's group may not.
pub fn may_take_over(uid: uid_t, runs_as: uid_t) -> bool {
    [0, runs_as].contains(&uid)
}
