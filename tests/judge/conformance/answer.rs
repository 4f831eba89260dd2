// SPDX-License-Identifier: GPL-2.0-or-later
//! Parses the packets that `reject` sends: their content, and the packet that caused them.

use std::net::{Ipv4Addr, Ipv6Addr};

use twinwall_judge::field::{ICMP, ICMPV6, TCP};
use twinwall_judge::packet::{folded, sum};

use crate::cell::Shot;

/// A reject response as text, without variable parts (identification, hops, length of the quote).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Answer(pub String);

struct View<'a> {
    version: u8,
    source: String,
    destination: String,
    protocol: u8,
    layer4: &'a [u8],
    /// Address bytes of the pseudo header.
    addresses: &'a [u8],
}

/// Parses a packet without extension headers: responses have none, except the RST to a packet that had some.
fn view(packet: &[u8]) -> Option<View<'_>> {
    match packet.first()? >> 4 {
        4 => {
            let header = usize::from(packet[0] & 15) * 4;
            let total = usize::from(u16::from_be_bytes([*packet.get(2)?, *packet.get(3)?]));
            Some(View {
                version: 4,
                source: Ipv4Addr::from(<[u8; 4]>::try_from(packet.get(12..16)?).ok()?).to_string(),
                destination: Ipv4Addr::from(<[u8; 4]>::try_from(packet.get(16..20)?).ok()?)
                    .to_string(),
                protocol: packet[9],
                layer4: packet.get(header..total.min(packet.len()))?,
                addresses: &packet[12..20],
            })
        }
        6 => Some(View {
            version: 6,
            source: Ipv6Addr::from(<[u8; 16]>::try_from(packet.get(8..24)?).ok()?).to_string(),
            destination: Ipv6Addr::from(<[u8; 16]>::try_from(packet.get(24..40)?).ok()?)
                .to_string(),
            protocol: packet[6],
            layer4: packet.get(40..)?,
            addresses: &packet[8..40],
        }),
        _ => None,
    }
}

/// Returns the number that the judge stored in a packet's IPv4 identification or IPv6 flow label.
fn number_in(packet: &[u8]) -> Option<u32> {
    match packet.first()? >> 4 {
        4 => Some(u32::from(u16::from_be_bytes([
            *packet.get(4)?,
            *packet.get(5)?,
        ]))),
        6 => Some(u32::from_be_bytes(packet.get(..4)?.try_into().ok()?) & 0xf_ffff),
        _ => None,
    }
}

fn be32(bytes: &[u8]) -> u32 {
    bytes
        .iter()
        .fold(0, |so_far, byte| so_far << 8 | u32::from(*byte))
}

fn reset_text(seen: &View, bits: u32) -> String {
    let tcp = seen.layer4;
    let (sequence, acknowledged) = (be32(&tcp[4..8]), be32(&tcp[8..12]));
    format!(
        "tcp reset {}:{} > {}:{} flags {:#04x} seq {} ack {}",
        seen.source,
        be32(&tcp[..2]),
        seen.destination,
        be32(&tcp[2..4]),
        tcp[13],
        sequence & bits,
        acknowledged & bits
    )
}

fn error_text(seen: &View) -> String {
    let (kind, code) = (seen.layer4[0], seen.layer4[1]);
    let mut so_far = sum(seen.layer4, 0);
    if seen.version == 6 {
        so_far = sum(seen.addresses, so_far) + u32::from(ICMPV6) + seen.layer4.len() as u32;
    }
    let checksum = if folded(so_far) == 0 {
        ""
    } else {
        ", checksum wrong"
    };
    format!(
        "icmp type {kind} code {code} to {}{checksum}",
        seen.destination
    )
}

/// Returns true if an ICMP message is an error that `reject` sends.
fn is_unreachable(seen: &View) -> bool {
    matches!((seen.version, seen.layer4[0]), (4, 3) | (6, 1))
}

/// Parses a response that left the cell (a subject's namespace) after one packet was sent. Returns None for any other
/// packet.
pub fn of(packet: &[u8]) -> Option<Answer> {
    let seen = view(packet)?;
    match seen.protocol {
        TCP if seen.layer4.len() >= 20 && seen.layer4[13] & 0x04 != 0 => {
            Some(Answer(reset_text(&seen, u32::MAX)))
        }
        ICMP | ICMPV6 if seen.layer4.len() >= 8 => {
            is_unreachable(&seen).then(|| Answer(error_text(&seen)))
        }
        _ => None,
    }
}

/// Bits of a sequence number below those with the packet's number.
const BELOW_NUMBER: u32 = 0xfff;

/// Parses a response that left the cell. Returns the number of the packet that caused it, and the response. Returns
/// None for any other packet.
pub fn read(packet: &[u8], shots: &[Shot]) -> Option<(u32, Answer)> {
    let seen = view(packet)?;
    let shot = |number: u32| shots.iter().find(|shot| shot.number == number);
    match seen.protocol {
        TCP if seen.layer4.len() >= 20 && seen.layer4[13] & 0x04 != 0 => {
            let tcp = seen.layer4;
            let (sequence, acknowledged) = (be32(&tcp[4..8]), be32(&tcp[8..12]));
            // The judge stores the packet's number in the upper bits of its sequence numbers.
            let number = [sequence, acknowledged]
                .map(|word| word >> 12)
                .into_iter()
                .find(|number| *number != 0)?;
            shot(number)?;
            Some((number, Answer(reset_text(&seen, BELOW_NUMBER))))
        }
        ICMP | ICMPV6 if seen.layer4.len() >= 8 => {
            let number = number_in(&seen.layer4[8..]).filter(|_| is_unreachable(&seen))?;
            shot(number)?;
            Some((number, Answer(error_text(&seen))))
        }
        _ => None,
    }
}
