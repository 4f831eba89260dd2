// SPDX-License-Identifier: GPL-2.0-or-later
//! Netlink sockets to the kernel's netfilter.

use std::os::fd::OwnedFd;

use nix::sys::socket::{
    setsockopt, socket, sockopt, AddressFamily, SockFlag, SockProtocol, SockType,
};
use nix::sys::time::{TimeVal, TimeValLike};

/// Time limit for an answer of the kernel, in seconds.
const PATIENCE_S: i64 = 5;

/// Opens a netlink socket to netfilter, whose reads fail with EAGAIN after five seconds.
pub fn open() -> nix::Result<OwnedFd> {
    let socket = socket(
        AddressFamily::Netlink,
        SockType::Raw,
        SockFlag::SOCK_CLOEXEC,
        SockProtocol::NetlinkNetFilter,
    )?;
    setsockopt(
        &socket,
        sockopt::ReceiveTimeout,
        &TimeVal::seconds(PATIENCE_S),
    )?;
    Ok(socket)
}
