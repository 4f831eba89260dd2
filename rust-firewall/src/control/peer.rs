// SPDX-License-Identifier: GPL-2.0-or-later
//! Who is at the other end of a connection of the control socket, and whether they may ask.
// seccomp: getsockopt

use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use nix::errno::Errno;
use nix::libc::{self, gid_t, mode_t, pid_t, socklen_t, uid_t};
use nix::sys::socket::{getsockopt, sockopt};
use nix::sys::stat::Mode;

/// Maximum number of groups of a user; a user with more counts as a member of the first group only.
pub const GROUPS_MAX: usize = 1024;

/// The owner, group and mode of the socket's file, and who started the program: they may ask.
#[derive(Clone, Copy, Debug)]
pub struct ControlAccess {
    /// User who started the program.
    pub starter: uid_t,
    /// The file's owner.
    pub owner: uid_t,
    /// The file's group.
    pub group: gid_t,
    /// The file's mode.
    pub mode: mode_t,
}

/// Identity of the client.
#[derive(Clone, Debug)]
pub struct ControlPeer {
    /// 0 if it is not to be seen from here.
    pub pid: pid_t,
    pub uid: uid_t,
    /// The first is that of the process.
    pub groups: Vec<gid_t>,
}

/// Identity of a client that the kernel does not report.
pub const UNKNOWN: ControlPeer = ControlPeer {
    pid: 0,
    uid: uid_t::MAX,
    groups: Vec::new(),
};

/// The groups besides that of the process; none if the kernel does not tell them.
fn read_groups(fd: BorrowedFd) -> Vec<gid_t> {
    let mut groups: Vec<gid_t> = vec![0; GROUPS_MAX];
    let mut bytes = size_of_val(groups.as_slice()) as socklen_t;
    // SAFETY: the kernel writes at most `bytes` bytes, which is the size of `groups`; every value of
    // the bytes is one of a number.
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

/// Reads the credentials that the kernel kept when the other end connected.
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

/// Whether they may ask: root, the starter, whom the program runs as, the file's owner, and members
/// of its group if they may write to it.
pub fn may_ask(peer: &ControlPeer, access: &ControlAccess, runs_as: uid_t) -> bool {
    if [0, access.starter, access.owner, runs_as].contains(&peer.uid) {
        return true;
    }
    let group_may = Mode::from_bits_truncate(access.mode).contains(Mode::S_IWGRP);
    group_may && peer.groups.contains(&access.group)
}

/// Whether they may take over, once they have shown CAP_NET_ADMIN: root, and whom the program runs
/// as. Who may ask as a member of the group has to be one of them, too.
pub fn may_take_over(uid: uid_t, runs_as: uid_t) -> bool {
    [0, runs_as].contains(&uid)
}
