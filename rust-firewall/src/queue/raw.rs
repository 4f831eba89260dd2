// SPDX-License-Identifier: GPL-2.0-or-later
// seccomp: sendto close
//! Backend `raw`: writes and parses netlink messages without a library. Sends all verdicts of a batch by one sendto, if
//! they fit into one datagram.

use std::os::fd::{AsRawFd, OwnedFd};

use nix::errno::Errno;
use nix::sys::socket::{
    bind, getsockname, send, socket, AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol,
    SockType,
};
use sys_bindings::{
    nfgenmsg, nfqnl_msg_config_cmd, nfqnl_msg_config_params, nfqnl_msg_verdict_hdr, nlmsghdr,
    NFNETLINK_V0, NFNL_SUBSYS_QUEUE, NFQA_CAP_LEN, NFQA_CFG_CMD, NFQA_CFG_FLAGS, NFQA_CFG_MASK,
    NFQA_CFG_PARAMS, NFQA_CFG_QUEUE_MAXLEN, NFQA_CT, NFQA_CT_INFO, NFQA_GID, NFQA_IFINDEX_INDEV,
    NFQA_IFINDEX_OUTDEV, NFQA_MARK, NFQA_PACKET_HDR, NFQA_PAYLOAD, NFQA_SKB_INFO, NFQA_UID,
    NFQA_VERDICT_HDR, NFQNL_CFG_CMD_BIND, NFQNL_CFG_CMD_UNBIND, NFQNL_COPY_META, NFQNL_COPY_PACKET,
    NFQNL_MSG_CONFIG, NFQNL_MSG_VERDICT, NFQNL_MSG_VERDICT_BATCH, NLA_ALIGNTO, NLA_HDRLEN,
    NLM_F_ACK, NLM_F_REQUEST,
};

use crate::packet::verdict::VerdictRun;
use crate::queue::attribute::{self, Attribute};
use crate::queue::frame;
use crate::queue::socket;
use crate::queue::types::{
    Queue, QueueBackend, QueuePacket, QueueParsed, QueueRequest, QueueSettings, RawSocket,
    FLAGS_ALL, GAP_SEQUENCE, MESSAGE_BYTES, REQUEST_BYTES, VERDICT_BYTES,
};

/// Name of the system call that sends verdicts.
pub const VERDICT_CALL: &str = "sendto";

const _: () = assert!(size_of::<nfqnl_msg_verdict_hdr>() == 8, "verdict, id");
const _: () = assert!(
    size_of::<nfqnl_msg_config_cmd>() == 4,
    "command, padding, family"
);
const _: () = assert!(
    size_of::<nfqnl_msg_config_params>() == 5,
    "copy range, copy mode"
);
const _: () = assert!(
    MESSAGE_BYTES + (NLA_HDRLEN as usize + 8) + (NLA_HDRLEN as usize + 4) == VERDICT_BYTES,
    "headers, NFQA_VERDICT_HDR, NFQA_MARK"
);

/// Parses an attribute whose length `attribute_at` has checked. Fails with EBADMSG if an NFQA_CT is malformed.
fn take_attribute(attribute: &Attribute, packet: &mut QueuePacket) -> Result<(), Errno> {
    let value = attribute.value;
    match u32::from(attribute.kind) {
        NFQA_PACKET_HDR => attribute::take_packet_hdr(value, packet),
        NFQA_MARK => packet.mark = attribute::be32_of(value),
        NFQA_IFINDEX_INDEV => packet.indev = attribute::be32_of(value),
        NFQA_IFINDEX_OUTDEV => packet.outdev = attribute::be32_of(value),
        NFQA_PAYLOAD => {
            packet.payload_offset = attribute.value_offset;
            packet.payload_bytes = value.len() as u32;
        }
        NFQA_CAP_LEN => packet.original_bytes = attribute::be32_of(value),
        NFQA_SKB_INFO => packet.skb_info = attribute::be32_of(value),
        NFQA_UID => packet.uid = attribute::be32_of(value),
        NFQA_GID => packet.gid = attribute::be32_of(value),
        NFQA_CT_INFO => packet.ct_info = attribute::be32_of(value),
        NFQA_CT => {
            packet.has_ct_mark = true;
            packet.ct_mark = attribute::conntrack_mark(value)?;
        }
        _ => {}
    }
    Ok(())
}

/// Parses one message in one pass over its attributes. Has no side effects, and the same result as `queue_mnl::parse`
/// for every aligned input.
/// - bytes: received bytes, in any alignment.
/// - packet: out: filled in for `Packet`, otherwise unspecified.
pub fn parse(bytes: &[u8], packet: &mut QueuePacket) -> QueueParsed {
    let framed = frame::frame(bytes, packet);
    if framed != QueueParsed::Packet || packet.truncated {
        return framed;
    }
    let message = attribute::message_of(bytes);
    let mut offset = MESSAGE_BYTES;
    // One bit per attribute type below 64.
    let mut seen: u64 = 0;
    *packet = QueuePacket::default();
    while offset < message.len() {
        let Some(attribute) = attribute::attribute_at(message, offset) else {
            return QueueParsed::Malformed;
        };
        if take_attribute(&attribute, packet).is_err() {
            return QueueParsed::Malformed;
        }
        seen |= 1_u64.checked_shl(u32::from(attribute.kind)).unwrap_or(0);
        offset = attribute.next_offset;
    }
    if seen & 1 << NFQA_PACKET_HDR == 0 {
        return QueueParsed::Malformed;
    }
    if seen & 1 << NFQA_CAP_LEN == 0 {
        packet.original_bytes = packet.payload_bytes;
    }
    QueueParsed::Packet
}

/// Writes bytes at an offset of a buffer, which must be large enough. Returns the offset after the written bytes.
fn put(buffer: &mut [u8], at: usize, bytes: &[u8]) -> usize {
    let end = at + bytes.len();
    if let Some(to) = buffer.get_mut(at..end) {
        to.copy_from_slice(bytes);
    }
    end
}

/// Writes the headers of a message without the length, which `end_message` sets. Returns the offset after the headers.
fn begin_message(
    buffer: &mut [u8],
    at: usize,
    kind: u32,
    flags: u32,
    sequence: u32,
    number: u16,
) -> usize {
    const { assert!(size_of::<nlmsghdr>() == 16 && size_of::<nfgenmsg>() == 4) };
    let nlmsg_type = (NFNL_SUBSYS_QUEUE << 8 | kind) as u16;
    // nlmsg_len, nlmsg_type, nlmsg_flags, nlmsg_seq, nlmsg_pid
    let at = put(buffer, at, &[0; 4]);
    let at = put(buffer, at, &nlmsg_type.to_ne_bytes());
    let at = put(buffer, at, &(flags as u16).to_ne_bytes());
    let at = put(buffer, at, &sequence.to_ne_bytes());
    let at = put(buffer, at, &[0; 4]);
    // nfgen_family, version, res_id
    let at = put(buffer, at, &[libc::AF_UNSPEC as u8, NFNETLINK_V0 as u8]);
    put(buffer, at, &number.to_be_bytes())
}

/// Sets the length in the header of a message.
/// - begin, end: offsets of the message, and of the byte after it.
pub fn end_message(buffer: &mut [u8], begin: usize, end: usize) {
    put(buffer, begin, &((end - begin) as u32).to_ne_bytes());
}

/// Writes an attribute with its padding. Returns the offset after them.
/// - value: at most 65,531 bytes.
pub fn put_attribute(buffer: &mut [u8], at: usize, kind: u32, value: &[u8]) -> usize {
    let nla_len = NLA_HDRLEN as usize + value.len();
    let padding = nla_len.next_multiple_of(NLA_ALIGNTO as usize) - nla_len;
    let at = put(buffer, at, &(nla_len as u16).to_ne_bytes());
    let at = put(buffer, at, &(kind as u16).to_ne_bytes());
    let at = put(buffer, at, value);
    put(
        buffer,
        at,
        [0; NLA_ALIGNTO as usize].get(..padding).unwrap_or_default(),
    )
}

fn put_be32(buffer: &mut [u8], at: usize, kind: u32, value: u32) -> usize {
    put_attribute(buffer, at, kind, &value.to_be_bytes())
}

/// Writes the verdict messages of some runs, one per run, for the queue with a number.
/// - buffer: out: VERDICT_BYTES per run.
/// - Returns the number of bytes written. The bytes are equal to those of `queue_mnl::build_verdicts`.
pub fn build_verdicts(number: u16, runs: &[VerdictRun], buffer: &mut [u8]) -> usize {
    let mut at = 0;
    for run in runs {
        let sequence = if run.gap { GAP_SEQUENCE } else { 0 };
        let kind = if run.gap || run.count > 1 {
            NFQNL_MSG_VERDICT_BATCH
        } else {
            NFQNL_MSG_VERDICT
        };
        let [a, b, c, d] = run.kernel.to_be_bytes();
        let [e, f, g, h] = run.last_id.to_be_bytes();
        let begin = at;
        at = begin_message(buffer, at, kind, NLM_F_REQUEST, sequence, number);
        at = put_attribute(buffer, at, NFQA_VERDICT_HDR, &[a, b, c, d, e, f, g, h]);
        if run.has_mark {
            at = put_be32(buffer, at, NFQA_MARK, run.mark);
        }
        end_message(buffer, begin, at);
    }
    at
}

fn put_command(buffer: &mut [u8], at: usize, command: u32) -> usize {
    // command, padding, family
    put_attribute(buffer, at, NFQA_CFG_CMD, &[command as u8, 0, 0, 0])
}

fn put_mode(buffer: &mut [u8], at: usize, copy_bytes: u32) -> usize {
    let [a, b, c, d] = copy_bytes.to_be_bytes();
    let copy_mode = if copy_bytes > 0 {
        NFQNL_COPY_PACKET
    } else {
        NFQNL_COPY_META
    };
    put_attribute(buffer, at, NFQA_CFG_PARAMS, &[a, b, c, d, copy_mode as u8])
}

/// Writes a configuration request.
/// - flags: NFQA_CFG_F_* for `QueueRequest::Flags`.
/// - acknowledged: true if the kernel must acknowledge the executed request; it always reports a failure.
/// - buffer: out: REQUEST_BYTES.
/// - Returns the number of bytes written.
pub fn build_request(
    settings: &QueueSettings,
    flags: u32,
    request: QueueRequest,
    acknowledged: bool,
    buffer: &mut [u8],
) -> usize {
    let ack = if acknowledged { NLM_F_ACK } else { 0 };
    let mut at = begin_message(
        buffer,
        0,
        NFQNL_MSG_CONFIG,
        NLM_F_REQUEST | ack,
        0,
        settings.number,
    );
    match request {
        QueueRequest::Bind => at = put_command(buffer, at, NFQNL_CFG_CMD_BIND),
        QueueRequest::Length => {
            at = put_be32(buffer, at, NFQA_CFG_QUEUE_MAXLEN, settings.queue_length);
        }
        QueueRequest::Flags => {
            at = put_be32(buffer, at, NFQA_CFG_FLAGS, flags);
            at = put_be32(buffer, at, NFQA_CFG_MASK, FLAGS_ALL);
        }
        QueueRequest::Mode => at = put_mode(buffer, at, settings.copy_bytes),
        QueueRequest::Unbind => at = put_command(buffer, at, NFQNL_CFG_CMD_UNBIND),
    }
    end_message(buffer, 0, at);
    at
}

/// Creates and binds the netlink socket, and stores it in the queue.
pub fn open(queue: &mut Queue) -> Result<(), Errno> {
    let owned = socket(
        AddressFamily::Netlink,
        SockType::Raw,
        SockFlag::SOCK_CLOEXEC,
        SockProtocol::NetlinkNetFilter,
    )?;
    bind(owned.as_raw_fd(), &NetlinkAddr::new(0, 0))?;
    adopt(queue, owned)
}

/// Makes the queue use and own a bound netlink socket.
pub fn adopt(queue: &mut Queue, owned: OwnedFd) -> Result<(), Errno> {
    let fd = owned.as_raw_fd();
    queue.portid = getsockname::<NetlinkAddr>(fd)?.pid();
    queue.backend = QueueBackend::Raw(RawSocket { _owned: owned });
    // SAFETY: queue.backend keeps it open; queue::close forgets it before it closes the backend.
    unsafe { socket::set_fd(&mut queue.socket, fd) };
    Ok(())
}

/// Sends a datagram to the kernel over the queue's socket. The kernel accepts the whole datagram or nothing.
pub fn send_whole(queue: &Queue, bytes: &[u8]) -> Result<(), Errno> {
    let fd = socket::fd(&queue.socket)?;
    loop {
        match send(fd.as_raw_fd(), bytes, MsgFlags::empty()) {
            Err(Errno::EINTR) => {}
            sent => return sent.map(drop),
        }
    }
}

/// Sends a configuration request, and waits until the kernel has executed it (except for `Unbind`).
pub fn request(queue: &mut Queue, request: QueueRequest) -> Result<(), Errno> {
    let mut buffer = [0; REQUEST_BYTES];
    let acknowledged = request != QueueRequest::Unbind;
    let length = build_request(
        &queue.settings,
        queue.flags,
        request,
        acknowledged,
        &mut buffer,
    );
    send_whole(queue, buffer.get(..length).unwrap_or_default())?;
    if acknowledged {
        frame::await_ack(queue)?;
    }
    Ok(())
}

/// Sends the verdicts of runs in one datagram. The backend `classic` calls it for a gap, because its library can't set
/// a message's sequence number. Returns the number of runs that were sent.
/// - runs: at most as many as queue.verdicts has room for.
pub fn verdict(queue: &mut Queue, runs: &[VerdictRun]) -> Result<usize, Errno> {
    let length = build_verdicts(queue.settings.number, runs, &mut queue.verdicts);
    send_whole(queue, queue.verdicts.get(..length).unwrap_or_default())?;
    Ok(runs.len())
}
