// SPDX-License-Identifier: GPL-2.0-or-later
//! Orders for the process that becomes the new firewall, sent over a socket: a line of JSON, whose first byte carries
//! descriptors.

use std::io::{self, IoSlice, IoSliceMut, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

use rustix::net::{
    recvmsg, sendmsg, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags,
};
use serde::{Deserialize, Serialize};

use super::rights::Rights;
use super::surroundings::Surroundings;

/// Maximum size in bytes of the line of orders, with its end.
const LINE_MAX: usize = 1 << 20;
const STEP_BYTES: usize = 1 << 14;

#[derive(Debug, Serialize, Deserialize)]
pub struct Orders {
    /// argv[0] of the firewall.
    pub name: PathBuf,
    pub arguments: Vec<String>,
    /// Environment of the new firewall, without the variables that `launch` adds.
    pub environment: Vec<(String, String)>,
    /// Control socket and process id of the old firewall. `launch` connects there before it gives up its rights, and
    /// passes the connection on. None: the new firewall connects by itself.
    pub connect: Option<(PathBuf, i32)>,
    /// Rights that the new firewall keeps. None: it has the user and group of the process that starts it, and the
    /// rights that the program's file grants.
    pub rights: Option<Rights>,
    pub surroundings: Option<Surroundings>,
}

/// Descriptors sent with the orders.
pub struct Descriptors {
    pub program: OwnedFd,
    /// File with the kernel's counters of queues (/proc/net/netfilter/nfnetlink_queue), for the new firewall; None if
    /// not sent.
    pub figures: Option<OwnedFd>,
}

pub fn send(
    mut stream: &UnixStream,
    orders: &Orders,
    program: BorrowedFd,
    figures: Option<BorrowedFd>,
) -> io::Result<()> {
    let line = serde_json::to_string(orders)? + "\n";
    let fds: Vec<_> = [Some(program), figures].into_iter().flatten().collect();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    control.push(SendAncillaryMessage::ScmRights(&fds));
    let vector = [IoSlice::new(line.as_bytes())];
    let sent = sendmsg(stream, &vector, &mut control, SendFlags::NOSIGNAL)?;
    stream.write_all(line.as_bytes().get(sent..).unwrap_or_default())
}

/// Receives orders and their descriptors over a socket. Fails if the sender closes it before the line's end.
pub fn receive(stream: impl AsFd) -> io::Result<(Orders, Descriptors)> {
    let (mut line, mut fds) = (Vec::new(), Vec::new());
    while line.last() != Some(&b'\n') {
        let mut step = [0; STEP_BYTES];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut vector = [IoSliceMut::new(&mut step)];
        let flags = RecvFlags::CMSG_CLOEXEC;
        let bytes = recvmsg(&stream, &mut vector, &mut control, flags)?.bytes;
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(rights) = message {
                fds.extend(rights);
            }
        }
        line.extend_from_slice(step.get(..bytes).unwrap_or_default());
        if bytes == 0 || line.len() > LINE_MAX {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    let mut fds = fds.into_iter();
    let program = fds.next().ok_or(io::ErrorKind::InvalidData)?;
    let figures = fds.next();
    let orders = serde_json::from_slice(&line)?;
    Ok((orders, Descriptors { program, figures }))
}
