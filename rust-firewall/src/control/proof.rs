// SPDX-License-Identifier: GPL-2.0-or-later
//! The proof that who asks for an upgrade has CAP_NET_ADMIN in this network namespace, by which alone
//! queues may be taken.
//!
//! Theory of operation: the kernel lets only who has that capability send a netlink message of
//! NETLINK_NETFILTER to another process (netlink_sendmsg and netlink_allowed in
//! net/netlink/af_netlink.c: it asks for the capability in the user namespace of the sender's network
//! namespace, at the time of the call), and finds the receiver in the sender's network namespace only.
//! So the firewall has such a socket, tells a client its port and the connection's number, and the
//! client sends the number there. The kernel says from which process the message is; it must be the
//! one that connected, so that a proof of one's own can't be passed on as another's. Nothing of
//! /proc is read, which may say something else a moment later.
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

/// Maximum number of proofs that are stored for later upgrade requests: one for each client.
const PROOFS_MAX: usize = 16;
/// Bytes of a number as text.
const NUMBER_BYTES: usize = 20;

/// That a process has shown what it can.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Proof {
    pub pid: i32,
    /// The connection's number.
    pub number: u64,
}

pub struct ControlProof {
    fd: OwnedFd,
    /// The socket's port, where proofs are sent to.
    pub port: u32,
    /// The newest last.
    came: VecDeque<Proof>,
}

/// Makes a socket of the kind that proofs are sent from and to.
pub fn make_socket() -> nix::Result<OwnedFd> {
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let protocol = SockProtocol::NetlinkNetFilter;
    socket(AddressFamily::Netlink, SockType::Raw, flags, protocol)
}

/// Opens the socket. To be called before the sandbox stands.
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

/// The proof that a message is, if it is one.
fn proof_of(sender: Option<UnixCredentials>, text: &[u8]) -> Option<Proof> {
    let number = std::str::from_utf8(text).ok()?.parse().ok()?;
    let pid = sender?.pid();
    (pid > 0).then_some(Proof { pid, number })
}

/// Receives a message. Fails with EAGAIN if there is none.
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

/// Whether a process has sent its connection's number. Looks at all that has come.
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
