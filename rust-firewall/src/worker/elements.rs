// SPDX-License-Identifier: GPL-2.0-or-later
// seccomp: sendto recvfrom close
//! Elements of the kernel's sets that learn (--stage, docs/STAGE.md): each learned address becomes
//! an element with a timeout, in a transaction of nf_tables.
//!
//! Theory of operation: the kernel executes a batch within the call that sends it, so that an
//! element is in the set when `add` returns. Kernels before Linux 6.12 do not change the timeout of
//! an element that exists; it is then deleted and added in one transaction, which no packet sees
//! half done.
#![deny(clippy::indexing_slicing)]

use std::os::fd::{AsRawFd, OwnedFd};

use nix::errno::Errno;
use nix::sys::socket::{
    bind, recv, send, socket, AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol,
    SockType,
};
use sys_bindings::{
    NFNETLINK_V0, NFNL_MSG_BATCH_BEGIN, NFNL_MSG_BATCH_END, NFNL_SUBSYS_NFTABLES, NLA_ALIGNTO,
    NLA_HDRLEN, NLM_F_ACK, NLM_F_REQUEST,
};

use crate::base::log::{failure_set_start, Failure};
use crate::engine::compiled::CompileKernelSet;
use crate::policy::Family;

/// Maximum size of a batch in bytes.
pub const BATCH_BYTES: usize = 2048;

/// Messages, attributes and flags (linux/netfilter/nf_tables.h, linux/netlink.h).
const NFT_MSG_NEWSETELEM: u32 = 12;
const NFT_MSG_DELSETELEM: u32 = 14;
const NFTA_SET_ELEM_LIST_TABLE: u16 = 1;
const NFTA_SET_ELEM_LIST_SET: u16 = 2;
const NFTA_SET_ELEM_LIST_ELEMENTS: u16 = 3;
const NFTA_LIST_ELEM: u16 = 1;
const NFTA_SET_ELEM_KEY: u16 = 1;
const NFTA_SET_ELEM_TIMEOUT: u16 = 4;
const NFTA_DATA_VALUE: u16 = 1;
const NLA_F_NESTED: u16 = 1 << 15;
const NLM_F_EXCL: u32 = 0x200;
const NLM_F_CREATE: u32 = 0x400;
/// Type of a message about a result (NLMSG_ERROR), and the offset of its error number.
const NLMSG_ERROR: u16 = 2;
const ERROR_AT: usize = 16;
/// Values of enum nf_inet_proto (linux/netfilter.h).
const NFPROTO_UNSPEC: u8 = 0;
const NFPROTO_INET: u8 = 1;
const NFPROTO_IPV4: u8 = 2;
const NFPROTO_IPV6: u8 = 10;
/// Maximum number of batches for one element: it may expire, or be added, between two of them.
const TRIES_MAX: u32 = 4;
const IPV4_BYTES: usize = 4;

/// Result of adding an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ElementsResult {
    Added,
    /// The kernel refused it: the set does not exist or is full, or a right is missing.
    Failed,
}

pub const RESULT_COUNT: usize = ElementsResult::Failed as usize + 1;

/// A worker's netlink socket for elements, closed when dropped.
pub struct Elements {
    socket: OwnedFd,
}

/// Batch that is being written: its buffer and current length.
struct Batch<'a> {
    bytes: &'a mut [u8; BATCH_BYTES],
    length: usize,
}

/// Appends bytes; bytes beyond the buffer, which never occur, are cut off.
fn append(batch: &mut Batch, bytes: &[u8]) {
    if let Some(to) = batch
        .bytes
        .get_mut(batch.length..batch.length + bytes.len())
    {
        to.copy_from_slice(bytes);
        batch.length += bytes.len();
    }
}

/// Begins a message. Returns its place.
fn begin_message(batch: &mut Batch, kind: u32, flags: u32, family: u8, res_id: u32) -> usize {
    let begin = batch.length;
    // nlmsg_len, nlmsg_type, nlmsg_flags, nlmsg_seq, nlmsg_pid
    append(batch, &[0; 4]);
    append(batch, &(kind as u16).to_ne_bytes());
    append(batch, &((NLM_F_REQUEST | flags) as u16).to_ne_bytes());
    append(batch, &[0; 8]);
    // nfgen_family, version, res_id
    append(batch, &[family, NFNETLINK_V0 as u8]);
    append(batch, &(res_id as u16).to_be_bytes());
    begin
}

/// Sets the length of the message at a place.
fn end_message(batch: &mut Batch, begin: usize) {
    let nlmsg_len = (batch.length - begin) as u32;
    if let Some(to) = batch.bytes.get_mut(begin..begin + 4) {
        to.copy_from_slice(&nlmsg_len.to_ne_bytes());
    }
}

/// Begins an attribute. Returns its place.
fn begin_attribute(batch: &mut Batch, kind: u16) -> usize {
    let begin = batch.length;
    append(batch, &[0; 2]);
    append(batch, &kind.to_ne_bytes());
    begin
}

/// Sets the length of the attribute at a place, and pads it.
fn end_attribute(batch: &mut Batch, begin: usize) {
    let length = batch.length - begin;
    if let Some(to) = batch.bytes.get_mut(begin..begin + 2) {
        to.copy_from_slice(&(length as u16).to_ne_bytes());
    }
    let padding = length.next_multiple_of(NLA_ALIGNTO as usize) - length;
    append(
        batch,
        [0; NLA_ALIGNTO as usize].get(..padding).unwrap_or_default(),
    );
}

/// Appends an attribute with a value.
fn append_attribute(batch: &mut Batch, kind: u16, value: &[u8]) {
    const { assert!(NLA_HDRLEN == 4) };
    let begin = begin_attribute(batch, kind);
    append(batch, value);
    end_attribute(batch, begin);
}

/// Appends an attribute with a name, which ends with a 0.
fn append_name(batch: &mut Batch, kind: u16, name: &str) {
    let begin = begin_attribute(batch, kind);
    append(batch, name.as_bytes());
    append(batch, &[0]);
    end_attribute(batch, begin);
}

/// Appends the message that begins or ends the batch.
fn append_edge(batch: &mut Batch, kind: u32) {
    let begin = begin_message(batch, kind, 0, NFPROTO_UNSPEC, NFNL_SUBSYS_NFTABLES);
    end_message(batch, begin);
}

/// Returns the family of a table in netlink's messages.
fn nfproto_of(family: Family) -> u8 {
    match family {
        Family::Ip => NFPROTO_IPV4,
        Family::Ip6 => NFPROTO_IPV6,
        Family::Inet => NFPROTO_INET,
    }
}

/// Appends a message about an element of a set.
/// - timeout_ms: 0: the message has none.
fn append_element(
    batch: &mut Batch,
    kind: u32,
    flags: u32,
    set: &CompileKernelSet,
    address: u128,
    timeout_ms: u64,
) {
    let bytes = address.to_be_bytes();
    let skipped = if set.is_ipv6 {
        0
    } else {
        bytes.len() - IPV4_BYTES
    };
    let kind = NFNL_SUBSYS_NFTABLES << 8 | kind;
    let begin = begin_message(batch, kind, flags, nfproto_of(set.family), 0);
    append_name(batch, NFTA_SET_ELEM_LIST_TABLE, &set.table);
    append_name(batch, NFTA_SET_ELEM_LIST_SET, &set.name);
    let elements = begin_attribute(batch, NFTA_SET_ELEM_LIST_ELEMENTS | NLA_F_NESTED);
    let element = begin_attribute(batch, NFTA_LIST_ELEM | NLA_F_NESTED);
    let key = begin_attribute(batch, NFTA_SET_ELEM_KEY | NLA_F_NESTED);
    append_attribute(
        batch,
        NFTA_DATA_VALUE,
        bytes.get(skipped..).unwrap_or_default(),
    );
    end_attribute(batch, key);
    if timeout_ms > 0 {
        append_attribute(batch, NFTA_SET_ELEM_TIMEOUT, &timeout_ms.to_be_bytes());
    }
    end_attribute(batch, element);
    end_attribute(batch, elements);
    end_message(batch, begin);
}

/// Writes the batch that adds an element to a set. Pure.
/// - address: an IPv4 address is less than 2^32.
/// - replaces: the element exists, and is deleted before; else it must not exist.
/// - Returns the number of bytes written.
pub fn build(
    set: &CompileKernelSet,
    address: u128,
    timeout_ms: u64,
    replaces: bool,
    bytes: &mut [u8; BATCH_BYTES],
) -> usize {
    let mut batch = Batch { bytes, length: 0 };
    append_edge(&mut batch, NFNL_MSG_BATCH_BEGIN);
    if replaces {
        append_element(&mut batch, NFT_MSG_DELSETELEM, 0, set, address, 0);
    }
    append_element(
        &mut batch,
        NFT_MSG_NEWSETELEM,
        NLM_F_CREATE | NLM_F_EXCL | NLM_F_ACK,
        set,
        address,
        timeout_ms,
    );
    append_edge(&mut batch, NFNL_MSG_BATCH_END);
    batch.length
}

/// Opens a socket. Fails if the system has no such sockets.
pub fn open() -> Result<Elements, Failure> {
    let socket = socket(
        AddressFamily::Netlink,
        SockType::Raw,
        SockFlag::SOCK_CLOEXEC,
        SockProtocol::NetlinkNetFilter,
    )
    .map_err(|error| failure_set_start("socket", error))?;
    bind(socket.as_raw_fd(), &NetlinkAddr::new(0, 0))
        .map_err(|error| failure_set_start("bind", error))?;
    Ok(Elements { socket })
}

/// Returns the result in a message of the kernel: the error number, 0 for an acknowledgement. EPROTO
/// for any other message.
pub fn result_of(message: &[u8]) -> Result<(), Errno> {
    let kind = message.get(4..6).and_then(|bytes| bytes.first_chunk());
    let error = message
        .get(ERROR_AT..)
        .and_then(|bytes| bytes.first_chunk());
    match (kind.map(|kind| u16::from_ne_bytes(*kind)), error) {
        (Some(NLMSG_ERROR), Some(error)) => match i32::from_ne_bytes(*error) {
            0 => Ok(()),
            error => Err(Errno::from_raw(error.wrapping_neg())),
        },
        _ => Err(Errno::EPROTO),
    }
}

/// Receives the kernel's results of a batch. Fails with the first error, or with EPROTO if there
/// is none and no acknowledgement.
fn take_results(elements: &Elements) -> Result<(), Errno> {
    let mut bytes = [0; BATCH_BYTES];
    let mut all = None;
    loop {
        match recv(
            elements.socket.as_raw_fd(),
            &mut bytes,
            MsgFlags::MSG_DONTWAIT,
        ) {
            Err(Errno::EINTR) => {}
            Err(Errno::EAGAIN) => return all.unwrap_or(Err(Errno::EPROTO)),
            Err(error) => return Err(error),
            Ok(length) => {
                let result = result_of(bytes.get(..length).unwrap_or_default());
                all = Some(all.map_or(result, |all: Result<(), Errno>| all.and(result)));
            }
        }
    }
}

/// Sends a batch, which the kernel executes within the call, and returns its result.
fn execute(elements: &Elements, bytes: &[u8]) -> Result<(), Errno> {
    loop {
        match send(elements.socket.as_raw_fd(), bytes, MsgFlags::MSG_DONTWAIT) {
            Err(Errno::EINTR) => {}
            Err(error) => return Err(error),
            Ok(_) => return take_results(elements),
        }
    }
}

/// Adds an address to the kernel's set, or sets the timeout of one that is in it. Does not wait for
/// the kernel's answer, which is there when the batch is sent.
pub fn add(
    elements: &Elements,
    set: &CompileKernelSet,
    address: u128,
    timeout_ms: u64,
) -> Result<(), Errno> {
    let mut bytes = [0; BATCH_BYTES];
    let mut replaces = false;
    for _ in 0..TRIES_MAX {
        let length = build(set, address, timeout_ms, replaces, &mut bytes);
        match execute(elements, bytes.get(..length).unwrap_or_default()) {
            Err(Errno::EEXIST) if !replaces => replaces = true,
            // It has expired meanwhile.
            Err(Errno::ENOENT) if replaces => replaces = false,
            result => return result,
        }
    }
    Err(Errno::EBUSY)
}
