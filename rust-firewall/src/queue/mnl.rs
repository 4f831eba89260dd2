// SPDX-License-Identifier: GPL-2.0-or-later
// seccomp: sendto close
//! Backend `mnl`: libmnl and the message API of libnetfilter_queue. Sends all verdicts of a batch by one
//! mnl_socket_sendto, if they fit into one datagram.

use std::os::fd::{AsRawFd, IntoRawFd, OwnedFd};
use std::os::raw::{c_char, c_int, c_void};
use std::ptr::{self, NonNull};

use nix::errno::Errno;
use sys_bindings::{
    mnl_attr_get_payload, mnl_attr_get_payload_len, mnl_attr_get_u32, mnl_attr_put_u32,
    mnl_socket_bind, mnl_socket_close, mnl_socket_fdopen, mnl_socket_get_fd, mnl_socket_get_portid,
    mnl_socket_open2, mnl_socket_sendto, nfq_nlmsg_cfg_put_cmd, nfq_nlmsg_cfg_put_params,
    nfq_nlmsg_cfg_put_qmaxlen, nfq_nlmsg_parse, nfq_nlmsg_put, nfq_nlmsg_verdict_put,
    nfq_nlmsg_verdict_put_mark, nlattr, nlmsghdr, NETLINK_NETFILTER, NFQA_CAP_LEN, NFQA_CFG_FLAGS,
    NFQA_CFG_MASK, NFQA_CT, NFQA_CT_INFO, NFQA_GID, NFQA_IFINDEX_INDEV, NFQA_IFINDEX_OUTDEV,
    NFQA_MARK, NFQA_MAX, NFQA_PACKET_HDR, NFQA_PAYLOAD, NFQA_SKB_INFO, NFQA_UID,
    NFQNL_CFG_CMD_BIND, NFQNL_CFG_CMD_UNBIND, NFQNL_COPY_META, NFQNL_COPY_PACKET, NFQNL_MSG_CONFIG,
    NFQNL_MSG_VERDICT, NFQNL_MSG_VERDICT_BATCH, NLM_F_ACK,
};

use crate::packet::verdict::VerdictRun;
use crate::queue::attribute;
use crate::queue::frame;
use crate::queue::socket;
use crate::queue::types::{
    MnlLibrary, Queue, QueueBackend, QueuePacket, QueueParsed, QueueRequest, FLAGS_ALL,
    GAP_SEQUENCE, REQUEST_BYTES, UNKNOWN, VERDICT_BYTES,
};

/// Name of the system call that sends verdicts.
pub const VERDICT_CALL: &str = "sendto";

/// Number of entries in a table of attributes. nfq_nlmsg_parse writes entries up to the NFQA_MAX with which the library
/// was built, which may be newer.
const ATTRIBUTES_MAX: usize = 64;
const _: () = assert!(
    (NFQA_MAX as usize) < ATTRIBUTES_MAX,
    "the table holds every attribute"
);

/// Attributes of a message by type; null = absent. They point into the message.
type Attributes = [*mut nlattr; ATTRIBUTES_MAX];

// SAFETY: libmnl keeps no thread-local state, and only the owner of this value uses the socket.
unsafe impl Send for MnlLibrary {}

impl Drop for MnlLibrary {
    fn drop(&mut self) {
        // SAFETY: mnl_socket_open2 made it (open checks for null), and this is its only close.
        unsafe { mnl_socket_close(self.0.as_ptr()) };
    }
}

/// Returns the attributes of a message as nfq_nlmsg_parse finds them; None if the library rejects an attribute, or if
/// the message is not 4-byte aligned.
/// - bytes: message that `check_attributes` has accepted.
fn parse_attributes(bytes: &[u8]) -> Option<Attributes> {
    let message: *const nlmsghdr = bytes.as_ptr().cast();
    let mut attributes: Attributes = [ptr::null_mut(); ATTRIBUTES_MAX];
    if !message.is_aligned() {
        return None;
    }
    // SAFETY: the message is aligned (above), its nlmsg_len lies within bytes (frame) and its
    // attributes within nlmsg_len (check_attributes); the table has room for every type that the
    // library knows (ATTRIBUTES_MAX).
    let parsed = unsafe { nfq_nlmsg_parse(message, attributes.as_mut_ptr()) };
    (parsed >= 0).then_some(attributes)
}

/// Returns the attribute of a type; null if absent.
fn attribute_of(attributes: &Attributes, kind: u32) -> *mut nlattr {
    attributes
        .get(kind as usize)
        .copied()
        .unwrap_or(ptr::null_mut())
}

/// Returns the value of an attribute in host order, or `absent` without the attribute. `attribute_fits` must require 4
/// bytes for its type.
fn u32_of(attributes: &Attributes, kind: u32, absent: u32) -> u32 {
    let attribute = attribute_of(attributes, kind);
    if attribute.is_null() {
        return absent;
    }
    // SAFETY: parse_attributes returned it; check_attributes found that the attributes lie within the message and, for
    // the types requested here, have 4 bytes.
    u32::from_be(unsafe { mnl_attr_get_u32(attribute) })
}

/// Returns the offset of an attribute's value from the message's start, and the value's length; None for null.
fn value_of(attribute: *mut nlattr, bytes: &[u8]) -> Option<(usize, usize)> {
    if attribute.is_null() {
        return None;
    }
    // SAFETY: parse_attributes returned it, and check_attributes found that it lies in bytes with its value.
    let (value, length) = unsafe {
        (
            mnl_attr_get_payload(attribute),
            mnl_attr_get_payload_len(attribute),
        )
    };
    Some((
        value as usize - bytes.as_ptr() as usize,
        usize::from(length),
    ))
}

/// Parses the connection's mark in an NFQA_CT that `check_attributes` has accepted.
fn take_conntrack(attributes: &Attributes, bytes: &[u8], packet: &mut QueuePacket) {
    if let Some((offset, length)) = value_of(attribute_of(attributes, NFQA_CT), bytes) {
        let value = bytes.get(offset..offset + length).unwrap_or_default();
        packet.has_ct_mark = true;
        packet.ct_mark = attribute::conntrack_mark(value).unwrap_or(0);
    }
}

/// Fills in a packet from attributes that `check_attributes` has accepted.
fn take_attributes(attributes: &Attributes, bytes: &[u8], packet: &mut QueuePacket) {
    *packet = QueuePacket::default();
    if let Some((offset, _)) = value_of(attribute_of(attributes, NFQA_PACKET_HDR), bytes) {
        attribute::take_packet_hdr(bytes.get(offset..).unwrap_or_default(), packet);
    }
    packet.mark = u32_of(attributes, NFQA_MARK, 0);
    packet.indev = u32_of(attributes, NFQA_IFINDEX_INDEV, 0);
    packet.outdev = u32_of(attributes, NFQA_IFINDEX_OUTDEV, 0);
    packet.uid = u32_of(attributes, NFQA_UID, UNKNOWN);
    packet.gid = u32_of(attributes, NFQA_GID, UNKNOWN);
    packet.ct_info = u32_of(attributes, NFQA_CT_INFO, UNKNOWN);
    packet.skb_info = u32_of(attributes, NFQA_SKB_INFO, 0);
    take_conntrack(attributes, bytes, packet);
    if let Some((offset, length)) = value_of(attribute_of(attributes, NFQA_PAYLOAD), bytes) {
        packet.payload_offset = offset;
        packet.payload_bytes = length as u32;
    }
    packet.original_bytes = u32_of(attributes, NFQA_CAP_LEN, packet.payload_bytes);
}

/// Parses one message by nfq_nlmsg_parse, after the checks of `frame` and `check_attributes`. Has no side effects.
/// - bytes: received bytes, 4-byte aligned.
/// - packet: out: filled in for `Packet`, otherwise unspecified.
pub fn parse(bytes: &[u8], packet: &mut QueuePacket) -> QueueParsed {
    let framed = frame::frame(bytes, packet);
    if framed != QueueParsed::Packet || packet.truncated {
        return framed;
    }
    if attribute::check_attributes(bytes).is_err() {
        return QueueParsed::Malformed;
    }
    let Some(attributes) = parse_attributes(bytes) else {
        return QueueParsed::Malformed;
    };
    take_attributes(&attributes, bytes, packet);
    QueueParsed::Packet
}

/// Writes the verdict messages of some runs, one per run, for the queue with a number.
/// - buffer: out: 4-byte aligned, VERDICT_BYTES per run.
/// - Returns the number of bytes written; 0 if the buffer is too small or not aligned.
pub fn build_verdicts(number: u16, runs: &[VerdictRun], buffer: &mut [u8]) -> usize {
    let mut length = 0;
    if !buffer.as_ptr().cast::<nlmsghdr>().is_aligned() || buffer.len() < runs.len() * VERDICT_BYTES
    {
        return length;
    }
    for run in runs {
        let kind = if run.gap || run.count > 1 {
            NFQNL_MSG_VERDICT_BATCH
        } else {
            NFQNL_MSG_VERDICT
        };
        let at = buffer.as_mut_ptr().wrapping_add(length).cast::<c_char>();
        // SAFETY: the buffer has VERDICT_BYTES for each run (checked above), of which a message
        // with a mark takes all, in multiples of 4 bytes: this one begins aligned and fits.
        length += unsafe {
            let message = nfq_nlmsg_put(at, kind as c_int, u32::from(number));
            (*message).nlmsg_seq = if run.gap { GAP_SEQUENCE } else { 0 };
            nfq_nlmsg_verdict_put(message, run.last_id as c_int, run.kernel as c_int);
            if run.has_mark {
                nfq_nlmsg_verdict_put_mark(message, run.mark);
            }
            (*message).nlmsg_len as usize
        };
    }
    length
}

/// Creates and binds the netlink socket, and stores it in the queue.
pub fn open(queue: &mut Queue) -> Result<(), Errno> {
    // SAFETY: the arguments are numbers.
    let socket = unsafe { mnl_socket_open2(NETLINK_NETFILTER as c_int, libc::SOCK_CLOEXEC) };
    let socket = NonNull::new(socket).ok_or_else(Errno::last)?;
    queue.backend = QueueBackend::Mnl(MnlLibrary(socket));
    // SAFETY: the socket was opened above. queue.backend keeps it open; queue::close forgets the
    // file descriptor before it closes the backend.
    unsafe { socket::set_fd(&mut queue.socket, mnl_socket_get_fd(socket.as_ptr())) };
    // SAFETY: the socket was opened above. 0 is MNL_SOCKET_AUTOPID.
    Errno::result(unsafe { mnl_socket_bind(socket.as_ptr(), 0, 0) })?;
    // SAFETY: the socket was opened above.
    queue.portid = unsafe { mnl_socket_get_portid(socket.as_ptr()) };
    Ok(())
}

/// Makes the queue use and own a bound netlink socket.
pub fn adopt(queue: &mut Queue, owned: OwnedFd) -> Result<(), Errno> {
    // SAFETY: the descriptor is open. On failure owned keeps it; otherwise the library owns it.
    let socket = unsafe { mnl_socket_fdopen(owned.as_raw_fd()) };
    let socket = NonNull::new(socket).ok_or_else(Errno::last)?;
    queue.backend = QueueBackend::Mnl(MnlLibrary(socket));
    // SAFETY: as in open.
    unsafe { socket::set_fd(&mut queue.socket, owned.into_raw_fd()) };
    // SAFETY: the socket was opened above.
    queue.portid = unsafe { mnl_socket_get_portid(socket.as_ptr()) };
    Ok(())
}

/// Sends a datagram to the kernel, which accepts the whole datagram or nothing.
fn send(queue: &Queue, bytes: &[u8]) -> Result<(), Errno> {
    let QueueBackend::Mnl(MnlLibrary(socket)) = &queue.backend else {
        return Err(Errno::EBADF);
    };
    loop {
        // SAFETY: the socket is open (it is in the backend), and all of bytes can be read.
        let sent = unsafe {
            mnl_socket_sendto(
                socket.as_ptr(),
                bytes.as_ptr().cast::<c_void>(),
                bytes.len(),
            )
        };
        match Errno::result(sent) {
            Err(Errno::EINTR) => {}
            sent => return sent.map(drop),
        }
    }
}

/// Buffer of a configuration request, aligned for the library.
#[repr(C, align(4))]
struct Request([u8; REQUEST_BYTES]);
const _: () = assert!(align_of::<Request>() == align_of::<nlmsghdr>());

/// Writes a configuration request. Returns the number of bytes written.
fn put_request(queue: &Queue, request: QueueRequest, buffer: &mut Request) -> usize {
    let settings = &queue.settings;
    let at = buffer.0.as_mut_ptr().cast::<c_char>();
    let unspec = libc::AF_UNSPEC as u16;
    // SAFETY: the buffer is aligned (Request) and holds REQUEST_BYTES, of which the largest request,
    // headers and two attributes of 8 bytes, takes 36.
    unsafe {
        let message = nfq_nlmsg_put(at, NFQNL_MSG_CONFIG as c_int, u32::from(settings.number));
        match request {
            QueueRequest::Bind => nfq_nlmsg_cfg_put_cmd(message, unspec, NFQNL_CFG_CMD_BIND as u8),
            QueueRequest::Length => nfq_nlmsg_cfg_put_qmaxlen(message, settings.queue_length),
            QueueRequest::Flags => {
                mnl_attr_put_u32(message, NFQA_CFG_FLAGS as u16, queue.flags.to_be());
                mnl_attr_put_u32(message, NFQA_CFG_MASK as u16, FLAGS_ALL.to_be());
            }
            QueueRequest::Mode => {
                let copy_bytes = settings.copy_bytes;
                let mode = if copy_bytes > 0 {
                    NFQNL_COPY_PACKET
                } else {
                    NFQNL_COPY_META
                };
                nfq_nlmsg_cfg_put_params(message, mode as u8, copy_bytes as c_int);
            }
            QueueRequest::Unbind => {
                nfq_nlmsg_cfg_put_cmd(message, unspec, NFQNL_CFG_CMD_UNBIND as u8);
            }
        }
        if request != QueueRequest::Unbind {
            (*message).nlmsg_flags |= NLM_F_ACK as u16;
        }
        (*message).nlmsg_len as usize
    }
}

/// Sends a configuration request, and waits until the kernel has executed it (except for `Unbind`).
pub fn request(queue: &mut Queue, request: QueueRequest) -> Result<(), Errno> {
    let mut buffer = Request([0; REQUEST_BYTES]);
    let length = put_request(queue, request, &mut buffer);
    send(queue, buffer.0.get(..length).unwrap_or_default())?;
    match request {
        QueueRequest::Unbind => Ok(()),
        _ => frame::await_ack(queue),
    }
}

/// Sends the verdicts of runs in one datagram. Returns the number of runs that were sent.
pub fn verdict(queue: &mut Queue, runs: &[VerdictRun]) -> Result<usize, Errno> {
    match build_verdicts(queue.settings.number, runs, &mut queue.verdicts) {
        0 => return Err(Errno::EINVAL),
        length => send(queue, queue.verdicts.get(..length).unwrap_or_default())?,
    }
    Ok(runs.len())
}
