// SPDX-License-Identifier: GPL-2.0-or-later
//! A packet as a source passes it to the reader.

/// A VLAN tag that the kernel or the network card has removed from the frame; both fields in host order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tag {
    pub tpid: u16,
    pub tci: u16,
}

/// The kernel's description of a packet's origin (sockaddr_ll, packet(7)).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    /// EtherType, in host order.
    pub protocol: u16,
    pub interface: u32,
    /// Hardware type (ARPHRD_*).
    pub hardware: u16,
    /// Packet type (PACKET_HOST, PACKET_OUTGOING, …).
    pub kind: u8,
    pub address_bytes: u8,
    pub address: [u8; 8],
}

#[derive(Clone, Copy, Debug)]
pub struct Packet<'a> {
    /// Time of the packet in nanoseconds since 1970: from the kernel, or the time of reading if the kernel reports
    /// none.
    pub time_ns: u64,
    /// Length of the uncut packet in bytes; `bytes` may be shorter.
    pub original: u32,
    pub bytes: &'a [u8],
    pub tag: Option<Tag>,
    pub origin: Origin,
    /// Comment to record with the packet; empty if there is none.
    pub comment: &'a str,
}

impl From<&libc::sockaddr_ll> for Origin {
    fn from(address: &libc::sockaddr_ll) -> Origin {
        Origin {
            protocol: u16::from_be(address.sll_protocol),
            interface: address.sll_ifindex as u32,
            hardware: address.sll_hatype,
            kind: address.sll_pkttype,
            address_bytes: address.sll_halen.min(8),
            address: address.sll_addr,
        }
    }
}

/// Returns a packet's VLAN tag, if the kernel reports one in `status` (TP_STATUS_VLAN_*).
pub fn tag(status: u32, tci: u16, tpid: u16) -> Option<Tag> {
    if status & libc::TP_STATUS_VLAN_VALID == 0 {
        return None;
    }
    let tpid = match status & libc::TP_STATUS_VLAN_TPID_VALID {
        0 => libc::ETH_P_8021Q as u16,
        _ => tpid,
    };
    Some(Tag { tpid, tci })
}
