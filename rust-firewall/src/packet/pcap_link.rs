// SPDX-License-Identifier: GPL-2.0-or-later
//! Search for the IP packet in a captured frame, without side effects. Link types: tcpdump.org/linktypes.html.

// Supported link types.
pub const LINK_NULL: u16 = 0;
pub const LINK_ETHERNET: u16 = 1;
pub const LINK_RAW_BSD: u16 = 12;
pub const LINK_RAW_OPENBSD: u16 = 14;
pub const LINK_RAW: u16 = 101;
pub const LINK_SLL: u16 = 113;
pub const LINK_IPV4: u16 = 228;
pub const LINK_IPV6: u16 = 229;
pub const LINK_SLL2: u16 = 276;

const ETHERTYPE_IPV4: u16 = 0x0800;
const ETHERTYPE_IPV6: u16 = 0x86dd;
const ETHERNET_BYTES: usize = 14;
const SLL_BYTES: usize = 16;
const SLL2_BYTES: usize = 20;
const NULL_BYTES: usize = 4;
const VLAN_BYTES: usize = 4;
const IPV4_BYTES: usize = 20;
const IPV6_BYTES: usize = 40;

/// Position of an IP packet in a captured frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// Offset of the IP header in bytes from the frame's start.
    pub offset: usize,
    /// Number of captured bytes of the packet, from its IP header on.
    pub captured: usize,
    /// Length in bytes of the complete IP packet, without link header and padding.
    pub original: u32,
    /// IP version that the frame's link layer states: 4 or 6; 0 = not stated.
    pub version: u8,
}

/// Returns the 16-bit value at an offset, from network to host order; None if it exceeds the bytes.
fn be16_at(bytes: &[u8], offset: usize) -> Option<u16> {
    let bytes = bytes.get(offset..)?.first_chunk()?;
    Some(u16::from_be_bytes(*bytes))
}

/// Returns true if a link type is supported.
pub fn is_known(link: u16) -> bool {
    matches!(
        link,
        LINK_NULL
            | LINK_ETHERNET
            | LINK_RAW_BSD
            | LINK_RAW_OPENBSD
            | LINK_RAW
            | LINK_SLL
            | LINK_IPV4
            | LINK_IPV6
            | LINK_SLL2
    )
}

/// Returns the IP version for an address family of BSD or Linux, a 32-bit value in either byte order; None = not IP.
fn version_of_family(bytes: &[u8]) -> Option<u8> {
    match bytes.first_chunk()? {
        [family, 0, 0, 0] | [0, 0, 0, family] => match family {
            2 => Some(4),
            10 | 24 | 28 | 30 => Some(6),
            _ => None,
        },
        _ => None,
    }
}

fn is_vlan(ethertype: u16) -> bool {
    matches!(ethertype, 0x8100 | 0x88a8 | 0x9100)
}

/// Finds the IP header after a link header and the VLAN tags behind it. Returns its offset and IP version, or None if
/// the ethertype after the tags is not that of IP or was not captured.
/// - ethertype: ethertype in the link header.
/// - offset: offset of the first byte after the link header.
fn find_behind_ethertype(
    bytes: &[u8],
    mut ethertype: u16,
    mut offset: usize,
) -> Option<(usize, u8)> {
    while is_vlan(ethertype) {
        ethertype = be16_at(bytes, offset + 2)?;
        offset += VLAN_BYTES;
    }
    match ethertype {
        ETHERTYPE_IPV4 => Some((offset, 4)),
        ETHERTYPE_IPV6 => Some((offset, 6)),
        _ => None,
    }
}

/// Returns the offset of the IP header in a frame, and the IP version that the link layer states (0 = not stated).
/// Returns None if the link layer states no IP packet, the link header is cut, or the link type is not supported.
fn find_offset(link: u16, bytes: &[u8]) -> Option<(usize, u8)> {
    let (offset, version) = match link {
        LINK_RAW_BSD | LINK_RAW_OPENBSD | LINK_RAW => (0, 0),
        LINK_IPV4 => (0, 4),
        LINK_IPV6 => (0, 6),
        LINK_NULL => (NULL_BYTES, version_of_family(bytes)?),
        LINK_ETHERNET => find_behind_ethertype(bytes, be16_at(bytes, 12)?, ETHERNET_BYTES)?,
        LINK_SLL => find_behind_ethertype(bytes, be16_at(bytes, 14)?, SLL_BYTES)?,
        LINK_SLL2 => find_behind_ethertype(bytes, be16_at(bytes, 0)?, SLL2_BYTES)?,
        _ => return None,
    };
    (offset <= bytes.len()).then_some((offset, version))
}

/// Returns the packet's length as its IP header states it, at most `original`; returns `original` if no header states a
/// length. Ethernet pads short packets, and the kernel removes the padding (ip_rcv_core, ip6_rcv_core).
fn claimed_bytes(bytes: &[u8], original: u32) -> u32 {
    let version = bytes.first().map_or(0, |first| first >> 4);
    let claimed = match (version, be16_at(bytes, 2), be16_at(bytes, 4)) {
        (4, Some(total), _) if bytes.len() >= IPV4_BYTES && usize::from(total) >= IPV4_BYTES => {
            total.into()
        }
        (6, _, Some(payload)) if bytes.len() >= IPV6_BYTES && payload > 0 => {
            IPV6_BYTES as u32 + u32::from(payload)
        }
        _ => original,
    };
    claimed.min(original)
}

/// Finds the IP packet in a frame of `original` bytes, without the bytes after its length in the IP header. Returns
/// None if the link layer states no IP packet, the link header is cut, or the link type is not supported. The IP header
/// is not checked.
pub fn find_ip(link: u16, bytes: &[u8], original: u32) -> Option<Found> {
    let (offset, version) = find_offset(link, bytes)?;
    let packet = bytes.get(offset..)?;
    let captured = u32::try_from(packet.len()).unwrap_or(u32::MAX);
    let original = original.saturating_sub(offset as u32).max(captured);
    let original = claimed_bytes(packet, original);
    Some(Found {
        offset,
        captured: captured.min(original) as usize,
        original,
        version,
    })
}
