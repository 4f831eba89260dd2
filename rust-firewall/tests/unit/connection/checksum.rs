// SPDX-License-Identifier: GPL-2.0-or-later
//! Checksums that the firewall writes itself, and datagrams that a checksum written later may change.

use rust_firewall::connection::checksum;
use rust_firewall::names::quic;
use rust_firewall::packet::{self, Packet};

const TCP: u8 = 6;
const UDP: u8 = 17;
const TCP_BYTES: &[u8] = b"\x9c\x40\x01\xbb\0\0\0\x01\0\0\0\x02\x50\x18\xfa\xf0\x11\x11\0\0abc";
const UDP_BYTES: &[u8] = b"\x9c\x40\0\x35\0\x0b\x11\x11abc";

fn ipv4(protocol: u8, layer4: &[u8]) -> Vec<u8> {
    let length = 20 + layer4.len() as u8;
    let head = [0x45, 0, 0, length, 0, 0, 0, 0, 64, protocol, 0, 0];
    [&head[..], &[192, 0, 2, 1], &[192, 0, 2, 2], layer4].concat()
}

fn ipv6(protocol: u8, layer4: &[u8]) -> Vec<u8> {
    let end = |last| [0x20, 1, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last];
    let head = [0x60, 0, 0, 0, 0, layer4.len() as u8, protocol, 64];
    [&head[..], &end(1), &end(2), layer4].concat()
}

/// Returns the place of a packet's checksum and its correct value; None if the packet was cut.
/// - captured: number of copied bytes.
fn correct(bytes: &[u8], captured: usize) -> Option<(u32, u16)> {
    let mut parsed = Packet::default();
    packet::parse(&bytes[..captured], bytes.len() as u32, &mut parsed);
    checksum::correct(&parsed)
}

fn whole(bytes: &[u8]) -> Option<(u32, u16)> {
    correct(bytes, bytes.len())
}

#[test]
fn the_checksum_is_that_of_the_rfcs() {
    assert_eq!(whole(&ipv4(TCP, TCP_BYTES)), Some((36, 0xce73)));
    assert_eq!(whole(&ipv4(UDP, UDP_BYTES)), Some((26, 0x1afc)));
    assert_eq!(whole(&ipv6(TCP, TCP_BYTES)), Some((56, 0xf702)));
    assert_eq!(whole(&ipv6(UDP, UDP_BYTES)), Some((46, 0x438b)));
}

#[test]
fn a_datagram_without_a_checksum_stays_so() {
    let none = ipv4(UDP, b"\x9c\x40\0\x35\0\x08\0\0");
    assert_eq!(whole(&none), Some((26, 0)));
    let zero = ipv4(UDP, b"\x9c\x40\0\x35\0\x0a\x11\x11\xdf\x60");
    assert_eq!(whole(&zero), Some((26, 0xffff)));
}

#[test]
fn a_packet_that_was_cut_has_none() {
    let bytes = ipv4(TCP, TCP_BYTES);
    assert_eq!(correct(&bytes, bytes.len() - 1), None);
}

#[test]
fn two_bytes_may_make_a_packet_of_quic() {
    let near = [
        [0xc0, 0, 0, 0, 1],
        [0x40, 0, 0, 0, 1],
        [0x40, 9, 0, 0, 1],
        [0xc0, 9, 9, 0, 1],
        [0xc0, 0, 9, 9, 1],
        [0xc0, 0, 0, 9, 9],
        [0xc0, 0x6b, 0x33, 0x43, 0xff],
        [0xc0, 0xff, 0, 0, 0x1f],
    ];
    let others = [
        [0x40, 0, 9, 0, 1],
        [0xc0, 9, 0, 9, 1],
        [0xc0, 0x1a, 0x2a, 0x3a, 0x4a],
        // VXLAN with the network 1, Geneve with Ethernet
        [0x08, 0, 0, 0, 0],
        [0, 0, 0x65, 0x58, 0],
    ];
    assert!(near.iter().all(|start| quic::is_near(start)));
    assert!(!others.iter().any(|start| quic::is_near(start)));
    assert!(!quic::is_near(&near[0][..4]));
}
