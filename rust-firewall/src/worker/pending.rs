// SPDX-License-Identifier: GPL-2.0-or-later
//! Checksums that the kernel has not written yet. A sender with CAP_NET_RAW and a virtual machine choose where the
//! kernel writes the checksum (PACKET_VNET_HDR), so the name in a packet may change after it was read.

use sys_bindings::{NFQA_SKB_CSUMNOTREADY, NFQA_SKB_CSUM_NOTVERIFIED, NFQA_SKB_GSO};

use crate::connection::{checksum, follow, ConnectionChecksum, Connections, Followed};
use crate::packet::verdict::VerdictRestated;
use crate::packet::Packet;
use crate::queue::QueuePacket;

/// Returns the state of a packet's checksum, as the kernel reports it in NFQA_SKB_INFO: not written yet, not checked,
/// or correct.
pub fn state(skb_info: u32) -> ConnectionChecksum {
    match skb_info {
        info if info & NFQA_SKB_CSUMNOTREADY != 0 => ConnectionChecksum::NotReady,
        info if info & NFQA_SKB_CSUM_NOTVERIFIED != 0 => ConnectionChecksum::Unverified,
        _ => ConnectionChecksum::Verified,
    }
}

/// Returns the packet's correct checksum and its place, if the kernel must get the packet back with them: names may
/// depend on its bytes, and the kernel has not written its checksum yet. GSO packets are left out: they are longer than
/// a segment, and the kernel refuses a different checksum offset in them (net: drop bad gso csum_start and offset in
/// virtio_net_hdr, Linux 6.11). Packets that were not copied whole are left out, too: `follow` makes those of other
/// hosts unreadable.
pub fn restated(
    connections: &Connections,
    followed: &Followed,
    packet: &QueuePacket,
    parsed: &Packet,
) -> Option<VerdictRestated> {
    let is_pending = packet.skb_info & (NFQA_SKB_CSUMNOTREADY | NFQA_SKB_GSO);
    let is_whole = packet.payload_bytes == packet.original_bytes;
    if is_pending != NFQA_SKB_CSUMNOTREADY
        || !is_whole
        || !follow::decides(connections, followed, parsed)
    {
        return None;
    }
    let (place, checksum) = checksum::correct(parsed)?;
    Some(VerdictRestated {
        index: 0,
        bytes: packet.payload_bytes,
        place,
        checksum,
    })
}
