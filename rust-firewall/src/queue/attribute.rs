// SPDX-License-Identifier: GPL-2.0-or-later
//! Checks of a packet message's netlink attributes, made before any library parses them.

use std::mem::offset_of;

use nix::errno::Errno;
use sys_bindings::{
    nfqnl_msg_packet_hdr, nfqnl_msg_packet_hw, nfqnl_msg_packet_timestamp, nlattr, nlmsghdr,
    CTA_MARK, NFQA_CAP_LEN, NFQA_CT, NFQA_CT_INFO, NFQA_GID, NFQA_HWADDR, NFQA_IFINDEX_INDEV,
    NFQA_IFINDEX_OUTDEV, NFQA_IFINDEX_PHYSINDEV, NFQA_IFINDEX_PHYSOUTDEV, NFQA_MARK,
    NFQA_PACKET_HDR, NFQA_SECCTX, NFQA_SKB_INFO, NFQA_TIMESTAMP, NFQA_UID, NLA_ALIGNTO, NLA_HDRLEN,
    NLA_TYPE_MASK,
};

use crate::queue::types::{QueuePacket, MESSAGE_BYTES, UNKNOWN};

pub(crate) const PACKET_HDR_BYTES: usize = size_of::<nfqnl_msg_packet_hdr>();
const _: () = assert!(PACKET_HDR_BYTES == 7, "id, ethertype, hook");

/// Fields of nlmsghdr (the header of every netlink message) that are checked, in host order.
pub(crate) struct Header {
    pub nlmsg_len: u32,
    pub nlmsg_type: u16,
}
const _: () =
    assert!(offset_of!(nlmsghdr, nlmsg_len) == 0 && offset_of!(nlmsghdr, nlmsg_type) == 4);

/// Returns the length and the type in a message's header; both are 0 if there are fewer than 6 bytes.
pub(crate) fn header_of(bytes: &[u8]) -> Header {
    match bytes.first_chunk() {
        Some([a, b, c, d, e, f]) => Header {
            nlmsg_len: u32::from_ne_bytes([*a, *b, *c, *d]),
            nlmsg_type: u16::from_ne_bytes([*e, *f]),
        },
        None => Header {
            nlmsg_len: 0,
            nlmsg_type: 0,
        },
    }
}

/// Returns the bytes of a message up to nlmsg_len, which `frame` has checked.
pub(crate) fn message_of(bytes: &[u8]) -> &[u8] {
    bytes
        .get(..header_of(bytes).nlmsg_len as usize)
        .unwrap_or_default()
}

/// Parses the value of an NFQA_PACKET_HDR (id, ethertype, hook). Leaves the packet unchanged if the value is too short.
pub(crate) fn take_packet_hdr(value: &[u8], packet: &mut QueuePacket) {
    if let Some([a, b, c, d, e, f, g]) = value.first_chunk::<PACKET_HDR_BYTES>() {
        packet.id = u32::from_be_bytes([*a, *b, *c, *d]);
        packet.ethertype = u16::from_be_bytes([*e, *f]);
        packet.hook = *g;
    }
}

/// Returns the required length of an attribute's value in bytes; 0 = any length. All backends require the lengths that
/// nfq_nlmsg_parse requires, also for NFQA_SECCTX: that string counts as a number in the library, and the firewall
/// never requests it.
fn attribute_bytes(kind: u16) -> usize {
    match u32::from(kind) {
        NFQA_PACKET_HDR => size_of::<nfqnl_msg_packet_hdr>(),
        NFQA_TIMESTAMP => size_of::<nfqnl_msg_packet_timestamp>(),
        NFQA_HWADDR => size_of::<nfqnl_msg_packet_hw>(),
        NFQA_MARK
        | NFQA_IFINDEX_INDEV
        | NFQA_IFINDEX_OUTDEV
        | NFQA_IFINDEX_PHYSINDEV
        | NFQA_IFINDEX_PHYSOUTDEV
        | NFQA_CT_INFO
        | NFQA_CAP_LEN
        | NFQA_SKB_INFO
        | NFQA_UID
        | NFQA_GID
        | NFQA_SECCTX => size_of::<u32>(),
        _ => 0,
    }
}

/// Returns true if the length of a value is valid for an attribute's type (without its flag bits). A value of fixed
/// size must have exactly that size, as nfq_nlmsg_parse of libnetfilter_queue 1.0.5 requires.
pub fn attribute_fits(kind: u16, value_bytes: usize) -> bool {
    let bytes = attribute_bytes(kind);
    bytes == 0 || value_bytes == bytes
}

/// Attribute of a netlink message, with the offsets of its value and of the next attribute.
pub(crate) struct Attribute<'a> {
    /// Type of the attribute without its flag bits.
    pub kind: u16,
    pub value: &'a [u8],
    /// Offset of the value from the message's start.
    pub value_offset: usize,
    /// Offset of the next attribute; after the message's end if this is the last attribute and has no padding.
    pub next_offset: usize,
}
const _: () = assert!(offset_of!(nlattr, nla_len) == 0 && offset_of!(nlattr, nla_type) == 2);

/// Returns the attribute at an offset of a message. Returns None if its header or value exceeds the message, or if the
/// value's length is wrong for the attribute's type.
pub(crate) fn attribute_at(message: &[u8], offset: usize) -> Option<Attribute<'_>> {
    let left = message.get(offset..)?;
    let [a, b, c, d] = left.first_chunk::<{ NLA_HDRLEN as usize }>()?;
    let nla_len = usize::from(u16::from_ne_bytes([*a, *b]));
    let kind = u16::from_ne_bytes([*c, *d]) & NLA_TYPE_MASK as u16;
    let value = left.get(NLA_HDRLEN as usize..nla_len)?;
    attribute_fits(kind, value.len()).then_some(Attribute {
        kind,
        value,
        value_offset: offset + NLA_HDRLEN as usize,
        next_offset: offset + nla_len.next_multiple_of(NLA_ALIGNTO as usize),
    })
}

/// Returns the first 32 bits of a value, from network to host order; 0 if the value is shorter.
pub(crate) fn be32_of(value: &[u8]) -> u32 {
    value
        .first_chunk()
        .map_or(0, |bytes| u32::from_be_bytes(*bytes))
}

/// Parses the connection's mark in the value of an NFQA_CT. The mark is 0 if there is no CTA_MARK. Fails with EBADMSG
/// if the length of a nested attribute is invalid, or CTA_MARK is not 4 bytes long.
pub fn conntrack_mark(value: &[u8]) -> Result<u32, Errno> {
    let mut offset = 0;
    let mut mark = 0;
    while offset < value.len() {
        let left = value.get(offset..).unwrap_or_default();
        let [a, b, c, d] = left
            .first_chunk::<{ NLA_HDRLEN as usize }>()
            .ok_or(Errno::EBADMSG)?;
        let nla_len = usize::from(u16::from_ne_bytes([*a, *b]));
        let kind = u16::from_ne_bytes([*c, *d]) & NLA_TYPE_MASK as u16;
        let found = left
            .get(NLA_HDRLEN as usize..nla_len)
            .ok_or(Errno::EBADMSG)?;
        if u32::from(kind) == CTA_MARK {
            let found = <[u8; 4]>::try_from(found).map_err(|_| Errno::EBADMSG)?;
            mark = u32::from_be_bytes(found);
        }
        offset += nla_len.next_multiple_of(NLA_ALIGNTO as usize);
    }
    Ok(mark)
}

/// Values that libnetfilter_queue's callback API has no functions to read. `check_attributes` fills them in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueExtras {
    /// Value of NFQA_CAP_LEN (the packet's original length in bytes) in host order; None if absent.
    pub cap_len: Option<u32>,
    pub ct_info: u32,
    pub has_ct_mark: bool,
    pub ct_mark: u32,
}

/// Parses an attribute of valid length for which the callback API has no function; ignores other attributes. Fails with
/// EBADMSG if an NFQA_CT is malformed.
fn take_extra(attribute: &Attribute, extras: &mut QueueExtras) -> Result<(), Errno> {
    match u32::from(attribute.kind) {
        NFQA_CAP_LEN => extras.cap_len = Some(be32_of(attribute.value)),
        NFQA_CT_INFO => extras.ct_info = be32_of(attribute.value),
        NFQA_CT => {
            extras.has_ct_mark = true;
            extras.ct_mark = conntrack_mark(attribute.value)?;
        }
        _ => {}
    }
    Ok(())
}

/// Checks that a packet message has the properties that the libraries assume: every attribute header and value lies
/// within nlmsg_len; a value of fixed size has that size; nested attributes of NFQA_CT lie within its value; there is
/// an NFQA_PACKET_HDR. Unknown attributes are skipped. 1 to 3 bytes after the last attribute are malformed, too.
/// - bytes: message that `frame` has found complete.
/// - Returns the values that the callback API does not return. Fails with EBADMSG.
pub fn check_attributes(bytes: &[u8]) -> Result<QueueExtras, Errno> {
    let message = message_of(bytes);
    let mut offset = MESSAGE_BYTES;
    let mut extras = QueueExtras {
        cap_len: None,
        ct_info: UNKNOWN,
        has_ct_mark: false,
        ct_mark: 0,
    };
    let mut has_packet_hdr = false;
    while offset < message.len() {
        let attribute = attribute_at(message, offset).ok_or(Errno::EBADMSG)?;
        take_extra(&attribute, &mut extras)?;
        has_packet_hdr = has_packet_hdr || u32::from(attribute.kind) == NFQA_PACKET_HDR;
        offset = attribute.next_offset;
    }
    if has_packet_hdr {
        Ok(extras)
    } else {
        Err(Errno::EBADMSG)
    }
}
