// SPDX-License-Identifier: GPL-2.0-or-later
//! Encodes segments without data: IPv4 (RFC 791), IPv6 (RFC 8200), TCP (RFC 9293).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

pub const TCP: u8 = 6;
const TCP_BYTES: usize = 20;
/// Length of a SYN's TCP header with the maximum segment size option, which every real client sends.
pub const SYN_BYTES: usize = 24;
pub const SYN: u8 = 0x02;
pub const RST: u8 = 0x04;
pub const ACK: u8 = 0x10;
const TTL: u8 = 64;
pub const LONGEST: usize = 40 + SYN_BYTES;

/// Returns the sum of RFC 1071 as 32 bits, not yet folded to 16 and complemented.
/// - start: sum of the preceding bytes.
fn sum(bytes: &[u8], start: u32) -> u32 {
    let words = bytes.chunks(2).map(|pair| match pair {
        [high, low] => u32::from(u16::from_be_bytes([*high, *low])),
        [last] => u32::from(*last) << 8,
        _ => 0,
    });
    words.fold(start, |sum, word| sum + word)
}

fn fold(mut sum: u32) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

/// Writes an IP packet with a SYN to `room`; returns the packet's length. Both addresses have the same family.
///
/// # Panics
/// If the families differ, or the packet exceeds the room; [`LONGEST`] bytes always suffice.
pub fn syn(room: &mut [u8], from: (IpAddr, u16), to: (IpAddr, u16), sequence: u32) -> usize {
    segment(room, from, to, (sequence, 0), SYN)
}

/// Writes an IP packet with a TCP segment to `room`; returns the packet's length.
///
/// # Panics
/// As [`syn`].
pub fn segment(
    room: &mut [u8],
    from: (IpAddr, u16),
    to: (IpAddr, u16),
    (sequence, acknowledged): (u32, u32),
    flags: u8,
) -> usize {
    let len = match flags & SYN {
        0 => TCP_BYTES,
        _ => SYN_BYTES,
    };
    let (header, pseudo) = match (from.0, to.0) {
        (IpAddr::V4(from), IpAddr::V4(to)) => (
            ipv4(room, from, to, len),
            sum(&to.octets(), sum(&from.octets(), 0)),
        ),
        (IpAddr::V6(from), IpAddr::V6(to)) => (
            ipv6(room, from, to, len),
            sum(&to.octets(), sum(&from.octets(), 0)),
        ),
        _ => panic!("the source is of the target's family"),
    };
    let tcp = &mut room[header..header + len];
    tcp[0..2].copy_from_slice(&from.1.to_be_bytes());
    tcp[2..4].copy_from_slice(&to.1.to_be_bytes());
    tcp[4..8].copy_from_slice(&sequence.to_be_bytes());
    tcp[8..12].copy_from_slice(&acknowledged.to_be_bytes());
    tcp[12] = (len as u8 / 4) << 4;
    tcp[13] = flags;
    tcp[14..16].copy_from_slice(&64240u16.to_be_bytes());
    tcp[16..20].fill(0);
    if len == SYN_BYTES {
        // Maximum segment size (kind 2, 4 bytes): 1460.
        tcp[20..24].copy_from_slice(&[2, 4, 0x05, 0xb4]);
    }
    let checksum = fold(sum(tcp, pseudo + u32::from(TCP) + len as u32));
    tcp[16..18].copy_from_slice(&checksum.to_be_bytes());
    header + len
}

fn ipv4(room: &mut [u8], from: Ipv4Addr, to: Ipv4Addr, inside: usize) -> usize {
    let header = &mut room[..20];
    header.fill(0);
    header[0] = 0x45;
    header[2..4].copy_from_slice(&(20 + inside as u16).to_be_bytes());
    // Don't fragment, like the kernel's own SYNs.
    header[6] = 0x40;
    header[8] = TTL;
    header[9] = TCP;
    header[12..16].copy_from_slice(&from.octets());
    header[16..20].copy_from_slice(&to.octets());
    let checksum = fold(sum(header, 0));
    header[10..12].copy_from_slice(&checksum.to_be_bytes());
    20
}

fn ipv6(room: &mut [u8], from: Ipv6Addr, to: Ipv6Addr, inside: usize) -> usize {
    let header = &mut room[..40];
    header.fill(0);
    header[0] = 0x60;
    header[4..6].copy_from_slice(&(inside as u16).to_be_bytes());
    header[6] = TCP;
    header[7] = TTL;
    header[8..24].copy_from_slice(&from.octets());
    header[24..40].copy_from_slice(&to.octets());
    40
}

#[cfg(test)]
mod tests {
    use super::*;

    fn octets(ip: IpAddr) -> Vec<u8> {
        match ip {
            IpAddr::V4(ip) => ip.octets().to_vec(),
            IpAddr::V6(ip) => ip.octets().to_vec(),
        }
    }

    #[test]
    fn checksums_come_out_even() {
        for (from, to) in [("10.0.0.1", "10.0.0.2"), ("fd00::1", "fd00::2")] {
            let (from, to): (IpAddr, IpAddr) = (from.parse().unwrap(), to.parse().unwrap());
            for flags in [SYN, SYN | ACK, RST | ACK] {
                let mut room = [0; LONGEST];
                let len = segment(&mut room, (from, 40000), (to, 80), (0x1234_5678, 9), flags);
                let header = if from.is_ipv4() { 20 } else { 40 };
                let tcp = &room[header..len];
                assert_eq!(tcp.len(), usize::from(tcp[12] >> 4) * 4);
                let pseudo = sum(&octets(to), sum(&octets(from), 0)) + 6 + tcp.len() as u32;
                assert_eq!(fold(sum(tcp, pseudo)), 0);
                if from.is_ipv4() {
                    assert_eq!(fold(sum(&room[..20], 0)), 0);
                    assert_eq!(usize::from(room[3]), len);
                }
            }
        }
    }
}
