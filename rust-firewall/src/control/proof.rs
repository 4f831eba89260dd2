// SPDX-License-Identifier: GPL-2.0-or-later
//! Proof that the client of an upgrade has CAP_NET_ADMIN in this network namespace, the capability
//! that a process needs to bind queues.
//!
//! Theory of operation: only a process with CAP_NET_ADMIN can send a netlink message of
//! NETLINK_NETFILTER to another process. The kernel checks it at the time of the call, in the user
//! namespace of the sender's network namespace, and it finds the receiver only in that network
//! namespace (netlink_sendmsg and netlink_allowed in net/netlink/af_netlink.c). So the firewall has
//! such a socket. It sends the socket's port and the number of the connection to the client, and
//! the client sends the number to this port. The kernel reports the process that sent the message.
//! This must be the process that connected to the control socket, so that no process can use
//! another process's proof. Nothing is read from /proc, where the answer may differ a moment later.
// seccomp: recvmsg

use std::collections::VecDeque;
use std::io::IoSliceMut;
use std::os::fd::{AsRawFd, OwnedFd};

use nix::cmsg_space;
use nix::errno::Errno;
use nix::sys::socket::{
    bind, getsockname, recvmsg, setsockopt, socket, sockopt, AddressFamily, ControlMessageOwned,
    MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, UnixCredentials,
};

use crate::base::log::{failure_set_start, Failure};

/// Maximum number of received proofs of CAP_NET_ADMIN that are stored for later upgrade requests, as many as there can
/// be clients. A newer proof replaces the oldest.
const PROOFS_MAX: usize = 16;
/// Maximum length of a connection's number as text.
const NUMBER_BYTES: usize = 20;

/// Proof by a process that it has CAP_NET_ADMIN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Proof {
    pub pid: i32,
    /// Number of the process's connection to the control socket.
    pub number: u64,
}

/// Netlink socket that receives the proofs of processes that they have CAP_NET_ADMIN, and the last PROOFS_MAX of these
/// proofs.
pub struct ControlProof {
    fd: OwnedFd,
    /// Netlink port of the socket, to which clients send proofs of CAP_NET_ADMIN.
    pub port: u32,
    /// Last received proofs of CAP_NET_ADMIN, at most PROOFS_MAX, the newest last.
    came: VecDeque<Proof>,
}

/// Opens a netlink socket that can send and receive proofs of CAP_NET_ADMIN.
pub fn make_socket() -> nix::Result<OwnedFd> {
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let protocol = SockProtocol::NetlinkNetFilter;
    socket(AddressFamily::Netlink, SockType::Raw, flags, protocol)
}

/// Opens and binds the socket that receives proofs of CAP_NET_ADMIN. Must be called before the sandbox is in place.
pub fn open() -> Result<ControlProof, Failure> {
    let made = || -> nix::Result<ControlProof> {
        let fd = make_socket()?;
        setsockopt(&fd, sockopt::PassCred, &true)?;
        bind(fd.as_raw_fd(), &NetlinkAddr::new(0, 0))?;
        let port = getsockname::<NetlinkAddr>(fd.as_raw_fd())?.pid();
        let came = VecDeque::with_capacity(PROOFS_MAX);
        Ok(ControlProof { fd, port, came })
    };
    made().map_err(|error| failure_set_start("the socket for proofs", error))
}

/// Returns a message's proof that its sender has CAP_NET_ADMIN; None if the message is not a proof.
fn proof_of(sender: Option<UnixCredentials>, text: &[u8]) -> Option<Proof> {
    let number = std::str::from_utf8(text).ok()?.parse().ok()?;
    let pid = sender?.pid();
    (pid > 0).then_some(Proof { pid, number })
}

/// Receives a message. Returns its proof that the sender has CAP_NET_ADMIN; None if the message is not a proof. Fails
/// with EAGAIN if there is no message.
fn receive(proof: &ControlProof) -> nix::Result<Option<Proof>> {
    let mut text = [0; NUMBER_BYTES];
    let mut control = cmsg_space!(UnixCredentials);
    let mut vectors = [IoSliceMut::new(&mut text)];
    let flags = MsgFlags::MSG_DONTWAIT;
    let socket = proof.fd.as_raw_fd();
    let message = recvmsg::<NetlinkAddr>(socket, &mut vectors, Some(&mut control), flags)?;
    let sender = message.cmsgs()?.find_map(|control| match control {
        ControlMessageOwned::ScmCredentials(sender) => Some(sender),
        _ => None,
    });
    let bytes = message.bytes;
    Ok(proof_of(sender, text.get(..bytes).unwrap_or_default()))
}

/// Receives all waiting messages. Returns true if the wanted proof of CAP_NET_ADMIN is one of the last PROOFS_MAX that
/// came.
pub fn has_come(proof: &mut ControlProof, wanted: Proof) -> bool {
    loop {
        match receive(proof) {
            Ok(None) | Err(Errno::EINTR | Errno::ENOBUFS) => {}
            Ok(Some(came)) => {
                if proof.came.len() == PROOFS_MAX {
                    proof.came.pop_front();
                }
                proof.came.push_back(came);
            }
            Err(_) => return proof.came.contains(&wanted),
        }
    }
}
