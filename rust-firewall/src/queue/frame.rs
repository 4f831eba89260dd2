// SPDX-License-Identifier: GPL-2.0-or-later
//! Checks of a netlink message's length and type, made before any library parses the message.

use std::mem::offset_of;

use nix::errno::Errno;
use sys_bindings::{
    nfgenmsg, nlmsgerr, nlmsghdr, NFNL_SUBSYS_QUEUE, NFQA_PACKET_HDR, NFQNL_MSG_PACKET, NLA_HDRLEN,
    NLMSG_ERROR, NLMSG_HDRLEN,
};

use crate::queue::attribute::{
    attribute_at, header_of, message_of, take_packet_hdr, PACKET_HDR_BYTES,
};
use crate::queue::socket;
use crate::queue::types::{Queue, QueuePacket, QueueParsed, GAP_SEQUENCE, MESSAGE_BYTES};

const PACKET_TYPE: u16 = (NFNL_SUBSYS_QUEUE << 8 | NFQNL_MSG_PACKET) as u16;
const _: () = assert!(
    size_of::<nlmsghdr>() + size_of::<nfgenmsg>() == MESSAGE_BYTES,
    "a message begins with 20 bytes"
);
const _: () = assert!(
    size_of::<nlmsgerr>() == 20,
    "an errno and the header of the request"
);

const SEQUENCE_OFFSET: usize = offset_of!(nlmsghdr, nlmsg_seq);
/// Returns the result of a complete NLMSG_ERROR: an acknowledgement (Ignored), or a refusal with its errno. Returns
/// Malformed if the message is too short.
fn frame_error(message: &[u8]) -> QueueParsed {
    let body = message.get(NLMSG_HDRLEN as usize..).unwrap_or_default();
    match body.first_chunk() {
        Some(error) if body.len() >= size_of::<nlmsgerr>() => match i32::from_ne_bytes(*error) {
            0 => QueueParsed::Ignored,
            error => QueueParsed::Refused(error.saturating_abs()),
        },
        _ => QueueParsed::Malformed,
    }
}

/// Parses ID, ethertype and hook at the start of a truncated or malformed packet message.
/// - Returns `Packet` with packet filled in (truncated set, no payload), or `Malformed` if they can't be read.
pub fn truncated(bytes: &[u8], packet: &mut QueuePacket) -> QueueParsed {
    const NEEDED: usize = MESSAGE_BYTES + NLA_HDRLEN as usize + PACKET_HDR_BYTES;
    let header = header_of(bytes);
    if bytes.len() < NEEDED
        || (header.nlmsg_len as usize) < NEEDED
        || header.nlmsg_type != PACKET_TYPE
    {
        return QueueParsed::Malformed;
    }
    match attribute_at(bytes, MESSAGE_BYTES) {
        Some(first) if u32::from(first.kind) == NFQA_PACKET_HDR => {
            *packet = QueuePacket {
                truncated: true,
                ..QueuePacket::default()
            };
            take_packet_hdr(first.value, packet);
            QueueParsed::Packet
        }
        _ => QueueParsed::Malformed,
    }
}

/// Checks a message's length and type.
/// - bytes: received bytes of one message (nfnetlink_queue sends one per datagram).
/// - packet: out: truncated is cleared. If the message is longer than the received bytes, packet is filled in as by
///   `truncated`.
/// - Returns `Packet` for a packet message. Unless packet.truncated is set, the message is then complete: its
///   attributes may be parsed up to nlmsg_len. Otherwise returns another kind.
pub fn frame(bytes: &[u8], packet: &mut QueuePacket) -> QueueParsed {
    packet.truncated = false;
    let header = header_of(bytes);
    if bytes.len() < MESSAGE_BYTES || (header.nlmsg_len as usize) < MESSAGE_BYTES {
        return QueueParsed::Malformed;
    }
    if header.nlmsg_len as usize > bytes.len() {
        return truncated(bytes, packet);
    }
    if u32::from(header.nlmsg_type) == NLMSG_ERROR {
        return frame_error(message_of(bytes));
    }
    match header.nlmsg_type {
        PACKET_TYPE => QueueParsed::Packet,
        _ => QueueParsed::Ignored,
    }
}

/// Returns true if a message is the kernel's error ENOENT for the verdict of a gap: no waiting packet had an ID of the
/// gap.
pub fn is_vacant(bytes: &[u8]) -> bool {
    const NEEDED: usize = NLMSG_HDRLEN as usize + size_of::<nlmsgerr>();
    let header = header_of(bytes);
    let sequence = bytes.get(SEQUENCE_OFFSET..).and_then(<[u8]>::first_chunk);
    u32::from(header.nlmsg_type) == NLMSG_ERROR
        && sequence.is_some_and(|sequence| u32::from_ne_bytes(*sequence) == GAP_SEQUENCE)
        && (NEEDED..=bytes.len()).contains(&(header.nlmsg_len as usize))
        && frame_error(message_of(bytes)) == QueueParsed::Refused(libc::ENOENT)
}

/// Returns true if the header of a message, which must have MESSAGE_BYTES or more, has the type of packet messages.
pub fn tells_of_packet(bytes: &[u8]) -> bool {
    header_of(bytes).nlmsg_type == PACKET_TYPE
}

/// Waits for the kernel's answer to the last request, for backends without a function that does so. Makes one receive
/// call: packets or an overrun (ENOBUFS) before the acknowledgement prove the request's execution, too. Packets stay in
/// the arena. Fails with the errno of a refusal or of receiving, or with ETIMEDOUT.
pub fn await_ack(queue: &mut Queue) -> Result<(), Errno> {
    let count = match socket::receive(&mut queue.socket, true) {
        Err(Errno::ENOBUFS) => {
            // Only packets can have filled the buffer, and they arrive only after the kernel has executed `Mode`.
            queue.pending_overruns += 1;
            return Ok(());
        }
        count => count?,
    };
    if count == 0 {
        return Err(Errno::ETIMEDOUT);
    }
    for index in 0..count {
        let message = socket::message(&queue.socket, index);
        match frame(message.bytes, &mut QueuePacket::default()) {
            QueueParsed::Packet | QueueParsed::Malformed => queue.pending = count,
            QueueParsed::Refused(error) => return Err(Errno::from_raw(error)),
            QueueParsed::Ignored => {}
        }
    }
    Ok(())
}
