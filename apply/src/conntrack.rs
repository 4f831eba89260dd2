// SPDX-License-Identifier: GPL-2.0-or-later
//! Marks of the connections that the kernel tracks, read and cleared over netlink
//! (linux/netfilter/nfnetlink_conntrack.h).

use std::os::fd::{AsRawFd, OwnedFd};

use nix::errno::Errno;
use nix::libc;
use nix::sys::socket::{recv, send, MsgFlags};

use crate::failure::{system, Failure, Result};
use crate::netlink;

const SUBSYSTEM: u16 = (libc::NFNL_SUBSYS_CTNETLINK as u16) << 8;
const MSG_NEW: u16 = SUBSYSTEM;
const MSG_GET: u16 = SUBSYSTEM | 1;
const TUPLE: u16 = 1;
const MARK: u16 = 8;
const ZONE: u16 = 18;
const MARK_MASK: u16 = 21;
/// Mask of a netlink attribute's type, without the flags for its encoding.
const TYPE_MASK: u16 = 0x3fff;
/// Sizes in bytes, in order: struct nlmsghdr; struct nlmsghdr with struct nfgenmsg; header of an attribute (struct
/// nlattr); receive buffer.
const HEADER: usize = 16;
const HEAD: usize = HEADER + 4;
const ATTRIBUTE: usize = 4;
const ANSWER_BYTES: usize = 1 << 16;
/// Maximum number of attempts to list the connections while the kernel's table changes.
const LOOKS: usize = 5;

/// Tracked connection: its key and its mark.
struct Connection {
    family: u8,
    /// Attributes that identify the connection (tuple, zone), with headers and padding.
    key: Vec<u8>,
    mark: u32,
}

/// Result of a listing of the kernel's connections.
struct Listing {
    connections: Vec<Connection>,
    /// True if connections may be missing, because the table changed during the listing.
    is_torn: bool,
}

fn fail(error: Errno) -> Failure {
    system(format_args!(
        "the kernel does not list its connections ({}): modprobe nf_conntrack_netlink",
        error.desc()
    ))
}

fn message(kind: u16, flags: i32, family: u8, attributes: &[u8]) -> Vec<u8> {
    let length = (HEAD + attributes.len()) as u32;
    let mut message = length.to_ne_bytes().to_vec();
    message.extend(kind.to_ne_bytes());
    message.extend(((libc::NLM_F_REQUEST | flags) as u16).to_ne_bytes());
    message.extend([0; 8]); // sequence and port
    message.extend([family, 0, 0, 0]);
    message.extend(attributes);
    message
}

fn number(bytes: &[u8], at: usize) -> Option<u16> {
    let two = bytes.get(at..at + 2)?;
    Some(u16::from_ne_bytes([two[0], two[1]]))
}

fn length(bytes: &[u8]) -> Option<usize> {
    let four = bytes.get(..4)?;
    Some(u32::from_ne_bytes([four[0], four[1], four[2], four[3]]) as usize)
}

/// Iterates over netlink attributes: type, the whole attribute with its padding, value.
fn attributes(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8], &[u8])> {
    std::iter::from_fn(move || {
        let length = usize::from(number(bytes, 0)?);
        let kind = number(bytes, 2)? & TYPE_MASK;
        let value = bytes.get(ATTRIBUTE..length)?;
        let whole = length.next_multiple_of(4).min(bytes.len());
        let attribute = &bytes[..whole];
        bytes = &bytes[whole..];
        Some((kind, attribute, value))
    })
}

/// Parses a message about a connection. Returns None if it is malformed.
fn connection(message: &[u8]) -> Option<Connection> {
    let family = *message.get(HEADER)?;
    let (mut key, mut mark) = (Vec::new(), 0);
    for (kind, whole, value) in attributes(message.get(HEAD..)?) {
        match kind {
            TUPLE | ZONE => {
                key.extend(whole);
                key.resize(key.len().next_multiple_of(4), 0);
            }
            MARK => mark = u32::from_be_bytes(value.try_into().ok()?),
            _ => {}
        }
    }
    Some(Connection { family, key, mark })
}

/// Returns the negative error code of an NLMSG_ERROR message; 0 is an acknowledgement. None: the message is too short.
fn code(message: &[u8]) -> Option<i32> {
    let four = message.get(HEADER..HEADER + 4)?;
    Some(i32::from_ne_bytes([four[0], four[1], four[2], four[3]]))
}

fn list(socket: &OwnedFd) -> nix::Result<Listing> {
    let request = message(MSG_GET, libc::NLM_F_DUMP, libc::AF_UNSPEC as u8, &[]);
    send(socket.as_raw_fd(), &request, MsgFlags::empty())?;
    let mut listing = Listing {
        connections: Vec::new(),
        is_torn: false,
    };
    let mut answer = vec![0; ANSWER_BYTES];
    loop {
        let received = recv(socket.as_raw_fd(), &mut answer, MsgFlags::empty())?;
        let mut rest = &answer[..received];
        while let Some(length) =
            length(rest).filter(|length| (HEADER..=rest.len()).contains(length))
        {
            let message = &rest[..length];
            let flags = number(message, 6).unwrap_or_default();
            listing.is_torn |= i32::from(flags) & libc::NLM_F_DUMP_INTR != 0;
            match i32::from(number(message, 4).unwrap_or_default()) {
                libc::NLMSG_DONE => return Ok(listing),
                libc::NLMSG_ERROR => {
                    let code = code(message).filter(|code| *code != 0);
                    return Err(code.map_or(Errno::EBADMSG, |code| Errno::from_raw(-code)));
                }
                _ => listing.connections.extend(connection(message)),
            }
            rest = &rest[length.next_multiple_of(4).min(rest.len())..];
        }
    }
}

/// Clears the bits of `mask` in a connection's mark. A connection that has ended meanwhile is no error.
fn clear_one(socket: &OwnedFd, connection: &Connection, mask: u32) -> nix::Result<()> {
    let mut attributes = connection.key.clone();
    for (kind, value) in [(MARK, 0), (MARK_MASK, mask)] {
        attributes.extend((ATTRIBUTE as u16 + 4).to_ne_bytes());
        attributes.extend(kind.to_ne_bytes());
        attributes.extend(value.to_be_bytes());
    }
    let request = message(MSG_NEW, libc::NLM_F_ACK, connection.family, &attributes);
    send(socket.as_raw_fd(), &request, MsgFlags::empty())?;
    let mut answer = [0; 4096];
    let received = recv(socket.as_raw_fd(), &mut answer, MsgFlags::empty())?;
    match code(&answer[..received]) {
        Some(0) => Ok(()),
        Some(code) if Errno::from_raw(-code) == Errno::ENOENT => Ok(()),
        Some(code) => Err(Errno::from_raw(-code)),
        None => Err(Errno::EBADMSG),
    }
}

/// Returns the marks of all connections. Connections may be missing if the kernel's table changes during the listing.
pub fn marks() -> Result<Vec<u32>> {
    let listing = netlink::open()
        .and_then(|socket| list(&socket))
        .map_err(fail)?;
    Ok(listing.connections.iter().map(|one| one.mark).collect())
}

/// Clears the bits of `mask` in the marks of all connections. Fails if the kernel's table changes during each of LOOKS
/// listings.
pub fn clear(mask: u32) -> Result<()> {
    let socket = netlink::open().map_err(fail)?;
    for _ in 0..LOOKS {
        let listing = list(&socket).map_err(fail)?;
        for one in listing
            .connections
            .iter()
            .filter(|one| one.mark & mask != 0)
        {
            clear_one(&socket, one, mask).map_err(fail)?;
        }
        if !listing.is_torn {
            return Ok(());
        }
    }
    Err(system(
        "the kernel's connections change faster than they can be listed: run fwctl apply again",
    ))
}
