// SPDX-License-Identifier: GPL-2.0-or-later
// seccomp: sendto recvfrom close
//! Elements of the kernel's learning sets (--stage, docs/STAGE.md). Each learned address becomes an element with a
//! timeout, in a transaction of nf_tables.
//!
//! Theory of operation: the kernel executes a batch of messages as one transaction, within the call that sends the
//! batch. Therefore the elements are in the set when `add` returns. Kernels before Linux 6.12 do not change the timeout
//! of an existing element, and a failed batch costs an RCU grace period (milliseconds). Therefore one batch adds the
//! addresses of an answer, whether or not they are in the set, then deletes them, and adds them again with their
//! timeout. No packet sees an intermediate state. An address whose element stays long enough is left out: the kernel
//! reports the remaining time without a transaction. Each transaction makes a running nft command begin its list or
//! load again. Therefore the number of transactions per second is limited.
#![deny(clippy::indexing_slicing)]

use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};

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
use crate::names::answer::ADDRESSES_MAX;
use crate::policy::Family;

/// Maximum size of a batch in bytes: three messages, each with the maximum number of IPv6 addresses of an answer.
pub const BATCH_BYTES: usize = 26 * 1024;
/// Maximum number of batches per second, each a transaction of nf_tables, for all workers together.
pub const BATCHES_MAX: u64 = 100;

/// Types of messages and attributes, and flags (linux/netfilter/nf_tables.h, linux/netlink.h).
const NFT_MSG_NEWSETELEM: u32 = 12;
const NFT_MSG_GETSETELEM: u32 = 13;
const NFT_MSG_DELSETELEM: u32 = 14;
const NFTA_SET_ELEM_LIST_TABLE: u16 = 1;
const NFTA_SET_ELEM_LIST_SET: u16 = 2;
const NFTA_SET_ELEM_LIST_ELEMENTS: u16 = 3;
const NFTA_LIST_ELEM: u16 = 1;
const NFTA_SET_ELEM_KEY: u16 = 1;
const NFTA_SET_ELEM_TIMEOUT: u16 = 4;
const NFTA_SET_ELEM_EXPIRATION: u16 = 5;
const NFTA_DATA_VALUE: u16 = 1;
const NLA_F_NESTED: u16 = 1 << 15;
const NLA_TYPE_MASK: u16 = 0x3fff;
const NLM_F_EXCL: u32 = 0x200;
const NLM_F_CREATE: u32 = 0x400;
/// Type of an acknowledgement or error message (NLMSG_ERROR), and the offset of the error number in it.
const NLMSG_ERROR: u16 = 2;
const ERROR_AT: usize = 16;
/// Protocol families of netfilter (linux/netfilter.h).
const NFPROTO_UNSPEC: u8 = 0;
const NFPROTO_INET: u8 = 1;
const NFPROTO_IPV4: u8 = 2;
const NFPROTO_IPV6: u8 = 10;
/// Offset of the attributes in a message about set elements, in bytes.
const ATTRIBUTES_AT: usize = 20;
/// Maximum size of a message from the kernel in bytes. The message describes one element, or has the result of a batch.
const ANSWER_BYTES: usize = 2048;
/// Maximum number of attempts to execute a batch. Before Linux 6.9 a batch fails (ENOENT) if an element expires during
/// it.
const TRIES_MAX: u32 = 4;
const IPV4_BYTES: usize = 4;
/// Additional time of an element's timeout: a tenth of the wanted time, at most MARGIN_MAX_MS. Within this time after a
/// transaction, DNS answers with the same address and lifetime need no transaction.
const MARGIN_PART: u64 = 10;
const MARGIN_MAX_MS: u64 = 60_000;
const SECOND_NS: u64 = 1_000_000_000;
/// Number of low bits of `BATCHES` that contain the number of transactions.
const BATCHES_BITS: u32 = 8;

/// Time of the last transaction in seconds, and the number of transactions in that second (low bits).
static BATCHES: AtomicU64 = AtomicU64::new(0);

/// Result of adding a learned address to the kernel's set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ElementsResult {
    Added,
    /// The element was not added, for example because the set does not exist or is full, a right is missing, or this
    /// second had too many transactions.
    Failed,
}

pub const RESULT_COUNT: usize = ElementsResult::Failed as usize + 1;

/// Netlink socket of a worker, through which it adds elements to the kernel's sets. Closed when dropped.
pub struct Elements {
    socket: OwnedFd,
}

/// Batch of netlink messages that is being written: its buffer and current length.
struct Batch<'a> {
    bytes: &'a mut [u8; BATCH_BYTES],
    length: usize,
}

/// Appends bytes to the batch. The batch's buffer has room for all its messages.
fn append(batch: &mut Batch, bytes: &[u8]) {
    if let Some(to) = batch
        .bytes
        .get_mut(batch.length..batch.length + bytes.len())
    {
        to.copy_from_slice(bytes);
        batch.length += bytes.len();
    }
}

/// Appends the headers of a message. Returns the message's offset in the batch.
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

/// Sets the length of the message that begins at the offset `begin` and ends at the batch's current end.
fn end_message(batch: &mut Batch, begin: usize) {
    let nlmsg_len = (batch.length - begin) as u32;
    if let Some(to) = batch.bytes.get_mut(begin..begin + 4) {
        to.copy_from_slice(&nlmsg_len.to_ne_bytes());
    }
}

/// Appends the header of an attribute. Returns the attribute's offset in the batch.
fn begin_attribute(batch: &mut Batch, kind: u16) -> usize {
    let begin = batch.length;
    append(batch, &[0; 2]);
    append(batch, &kind.to_ne_bytes());
    begin
}

/// Sets the length of the attribute that begins at the offset `begin` and ends at the batch's current end. Appends the
/// attribute's padding.
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

/// Appends an attribute with a name that ends with a NUL byte.
fn append_name(batch: &mut Batch, kind: u16, name: &str) {
    let begin = begin_attribute(batch, kind);
    append(batch, name.as_bytes());
    append(batch, &[0]);
    end_attribute(batch, begin);
}

/// Appends the message that begins or ends a batch.
fn append_edge(batch: &mut Batch, kind: u32) {
    let begin = begin_message(batch, kind, 0, NFPROTO_UNSPEC, NFNL_SUBSYS_NFTABLES);
    end_message(batch, begin);
}

/// Returns the value of a table's family in netlink messages (NFPROTO_*).
fn nfproto_of(family: Family) -> u8 {
    match family {
        Family::Ip => NFPROTO_IPV4,
        Family::Ip6 => NFPROTO_IPV6,
        Family::Inet => NFPROTO_INET,
    }
}

/// Appends an address as a set element.
/// - timeout_ms: timeout of the element; 0 = no timeout.
fn append_element(batch: &mut Batch, set: &CompileKernelSet, address: u128, timeout_ms: u64) {
    let bytes = address.to_be_bytes();
    let skipped = if set.is_ipv6 {
        0
    } else {
        bytes.len() - IPV4_BYTES
    };
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
}

/// Appends a message that adds, deletes or requests elements of a set.
fn append_elements(
    batch: &mut Batch,
    kind: u32,
    flags: u32,
    set: &CompileKernelSet,
    addresses: &[u128],
    timeout_ms: u64,
) {
    let kind = NFNL_SUBSYS_NFTABLES << 8 | kind;
    let begin = begin_message(batch, kind, flags, nfproto_of(set.family), 0);
    append_name(batch, NFTA_SET_ELEM_LIST_TABLE, &set.table);
    append_name(batch, NFTA_SET_ELEM_LIST_SET, &set.name);
    let elements = begin_attribute(batch, NFTA_SET_ELEM_LIST_ELEMENTS | NLA_F_NESTED);
    for address in addresses {
        append_element(batch, set, *address, timeout_ms);
    }
    end_attribute(batch, elements);
    end_message(batch, begin);
}

/// Writes the batch that adds elements to a set, or replaces existing elements. Has no side effects.
/// - addresses: at most `answer::ADDRESSES_MAX` addresses without duplicates; an IPv4 address is less than 2^32.
/// - Returns the number of bytes written.
pub fn build(
    set: &CompileKernelSet,
    addresses: &[u128],
    timeout_ms: u64,
    bytes: &mut [u8; BATCH_BYTES],
) -> usize {
    const ADDED: u32 = NLM_F_CREATE | NLM_F_EXCL | NLM_F_ACK;
    let mut batch = Batch { bytes, length: 0 };
    append_edge(&mut batch, NFNL_MSG_BATCH_BEGIN);
    append_elements(
        &mut batch,
        NFT_MSG_NEWSETELEM,
        NLM_F_CREATE,
        set,
        addresses,
        0,
    );
    append_elements(&mut batch, NFT_MSG_DELSETELEM, 0, set, addresses, 0);
    append_elements(
        &mut batch,
        NFT_MSG_NEWSETELEM,
        ADDED,
        set,
        addresses,
        timeout_ms,
    );
    append_edge(&mut batch, NFNL_MSG_BATCH_END);
    batch.length
}

/// Opens a netlink socket through which elements are added to the kernel's sets.
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

/// Returns the result in a message from the kernel: Ok for an acknowledgement, the errno of an error message, or EPROTO
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

/// Returns the value of the first attribute of a type; None if there is no such attribute.
fn attribute(mut bytes: &[u8], kind: u16) -> Option<&[u8]> {
    loop {
        let &[length_0, length_1, kind_0, kind_1] = bytes.first_chunk()?;
        let length = usize::from(u16::from_ne_bytes([length_0, length_1]));
        let value = bytes.get(NLA_HDRLEN as usize..length)?;
        if u16::from_ne_bytes([kind_0, kind_1]) & NLA_TYPE_MASK == kind {
            return Some(value);
        }
        bytes = bytes.get(length.next_multiple_of(NLA_ALIGNTO as usize)..)?;
    }
}

/// Returns an element's remaining time from the kernel's message, in milliseconds. Returns 0 if the set has no such
/// element, and u64::MAX if the element does not expire.
pub fn left_of(message: &[u8]) -> u64 {
    let bytes = message.get(ATTRIBUTES_AT..).unwrap_or_default();
    let is_error = result_of(message) != Err(Errno::EPROTO);
    let elements = attribute(bytes, NFTA_SET_ELEM_LIST_ELEMENTS).filter(|_| !is_error);
    let Some(element) = elements.and_then(|elements| attribute(elements, NFTA_LIST_ELEM)) else {
        return 0;
    };
    let left = attribute(element, NFTA_SET_ELEM_EXPIRATION);
    match left.map(|left| left.first_chunk()) {
        None => u64::MAX,
        Some(left) => left.map_or(0, |left| u64::from_be_bytes(*left)),
    }
}

/// Sends messages to the kernel, which executes them within this call.
fn execute(elements: &Elements, bytes: &[u8]) -> Result<(), Errno> {
    loop {
        match send(elements.socket.as_raw_fd(), bytes, MsgFlags::MSG_DONTWAIT) {
            Err(Errno::EINTR) => {}
            sent => return sent.map(drop),
        }
    }
}

/// Receives one message from the kernel, without blocking.
fn take_message<'a>(
    elements: &Elements,
    bytes: &'a mut [u8; ANSWER_BYTES],
) -> Result<&'a [u8], Errno> {
    loop {
        match recv(elements.socket.as_raw_fd(), bytes, MsgFlags::MSG_DONTWAIT) {
            Err(Errno::EINTR) => {}
            Err(error) => return Err(error),
            Ok(length) => return Ok(bytes.get(..length).unwrap_or_default()),
        }
    }
}

/// Returns the remaining time of an address in the kernel's set, in milliseconds: u64::MAX if it does not expire, 0 if
/// the set lacks the address or the kernel does not answer.
fn left(elements: &Elements, set: &CompileKernelSet, address: u128) -> u64 {
    let (mut bytes, mut answer) = ([0; BATCH_BYTES], [0; ANSWER_BYTES]);
    let mut batch = Batch {
        bytes: &mut bytes,
        length: 0,
    };
    append_elements(&mut batch, NFT_MSG_GETSETELEM, 0, set, &[address], 0);
    let length = batch.length;
    if execute(elements, bytes.get(..length).unwrap_or_default()).is_err() {
        return 0;
    }
    let mut found = 0;
    while let Ok(message) = take_message(elements, &mut answer) {
        found = left_of(message);
    }
    found
}

/// Executes a batch, and receives all answers. Fails with the first error, or with EPROTO if there is no answer.
fn execute_batch(elements: &Elements, bytes: &[u8]) -> Result<(), Errno> {
    let mut answer = [0; ANSWER_BYTES];
    let mut all = None;
    execute(elements, bytes)?;
    loop {
        match take_message(elements, &mut answer) {
            Err(Errno::EAGAIN) => return all.unwrap_or(Err(Errno::EPROTO)),
            Err(error) => return Err(error),
            Ok(message) => {
                let result = result_of(message);
                all = Some(all.map_or(result, |all: Result<(), Errno>| all.and(result)));
            }
        }
    }
}

/// Counts a transaction. Returns false, without counting it, if there were already too many transactions in this
/// second.
/// - batches: in/out: second of the last transaction, and the number of transactions in it (low 8 bits).
pub fn is_in_time(batches: &AtomicU64, now_ns: u64) -> bool {
    let second = now_ns / SECOND_NS << BATCHES_BITS;
    let next = |last: u64| match last.max(second) {
        last if last & ((1 << BATCHES_BITS) - 1) >= BATCHES_MAX => None,
        last => Some(last + 1),
    };
    let counted = batches.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
    counted.is_ok()
}

/// Returns the timeout of a set element in milliseconds: the wanted time plus the margin (MARGIN_PART).
pub fn timeout_of(wanted_ms: u64) -> u64 {
    wanted_ms + (wanted_ms / MARGIN_PART).min(MARGIN_MAX_MS)
}

/// Adds addresses to the kernel's set, except those that the set keeps for at least `wanted_ms` more. Waits while
/// another transaction of nf_tables runs, but not for an answer: the kernel has answered when the batch is sent.
/// Returns the number of addresses that the set lacked or did not keep long enough (also on failure), and the result.
/// Fails with EBUSY if this second had too many transactions.
pub fn add(
    elements: &Elements,
    set: &CompileKernelSet,
    addresses: &[u128],
    wanted_ms: u64,
    now_ns: u64,
) -> (u64, Result<(), Errno>) {
    let mut bytes = [0; BATCH_BYTES];
    let mut short = [0; ADDRESSES_MAX];
    let mut count = 0;
    for address in addresses {
        let is_there = short
            .get(..count)
            .is_some_and(|short| short.contains(address));
        let place = short.get_mut(count).filter(|_| !is_there);
        if let Some(place) = place.filter(|_| left(elements, set, *address) < wanted_ms) {
            *place = *address;
            count += 1;
        }
    }
    let short = short.get(..count).unwrap_or_default();
    if short.is_empty() {
        return (0, Ok(()));
    }
    if !is_in_time(&BATCHES, now_ns) {
        return (count as u64, Err(Errno::EBUSY));
    }
    let length = build(set, short, timeout_of(wanted_ms), &mut bytes);
    let batch = bytes.get(..length).unwrap_or_default();
    let mut result = Err(Errno::ENOENT);
    for _ in 0..TRIES_MAX {
        result = execute_batch(elements, batch);
        if result != Err(Errno::ENOENT) {
            break;
        }
    }
    (count as u64, result)
}
