// SPDX-License-Identifier: GPL-2.0-or-later
//! Tests of the reader of captures: times, lengths, link types, and damaged captures.

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use rust_firewall::base::log::LogExit;
use rust_firewall::packet::pcap::{next, open};
use rust_firewall::packet::pcap_link::{
    find_ip, Found, LINK_ETHERNET, LINK_IPV4, LINK_IPV6, LINK_NULL, LINK_RAW,
};

/// Path of a temporary capture file, which is removed when the value is dropped.
struct Capture(PathBuf);

impl Capture {
    fn new(bytes: &[u8]) -> Capture {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("twinwall-pcap-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::write(&path, bytes).unwrap();
        Capture(path)
    }

    fn path(&self) -> &str {
        self.0.to_str().unwrap()
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// Packet that was read: number, time in nanoseconds, bytes and original length.
type Read = (u64, u64, Vec<u8>, u32);

/// Returns all packets of a capture, or the text of the failure.
fn read_all(bytes: &[u8]) -> Result<Vec<Read>, String> {
    let capture = Capture::new(bytes);
    let failed = |failure: rust_firewall::base::log::Failure| {
        assert_eq!(failure.code, LogExit::Usage);
        failure.text
    };
    let mut pcap = open(capture.path()).map_err(failed)?;
    let mut packets = Vec::new();
    while let Some(packet) = next(&mut pcap).map_err(failed)? {
        let bytes = packet.bytes.to_vec();
        packets.push((packet.number, packet.time_ns, bytes, packet.original));
    }
    Ok(packets)
}

/// Big-endian pcap file with nanoseconds and raw IP. It has one packet: 4 captured bytes of 60, at 2.000000007 s.
const CLASSIC: [u8; 44] = [
    0xa1, 0xb2, 0x3c, 0x4d, 0, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0, 0, 0, 101, 0,
    0, 0, 2, 0, 0, 0, 7, 0, 0, 0, 4, 0, 0, 0, 60, 0x45, 1, 2, 3,
];

/// Section with an interface (microseconds, offset 5 s, snap length 2), an enhanced packet of 4 bytes at 1.000001 s,
/// and a simple packet of 9 bytes.
const NG: [u8; 120] = [
    0x0a, 0x0d, 0x0d, 0x0a, 28, 0, 0, 0, 0x4d, 0x3c, 0x2b, 0x1a, 1, 0, 0, 0, 0xff, 0xff, 0xff,
    0xff, 0xff, 0xff, 0xff, 0xff, 28, 0, 0, 0, // section
    1, 0, 0, 0, 36, 0, 0, 0, 101, 0, 0, 0, 2, 0, 0, 0, 14, 0, 8, 0, 5, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    0, 0, 36, 0, 0, 0, // interface
    6, 0, 0, 0, 36, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x41, 0x42, 0x0f, 0, 4, 0, 0, 0, 4, 0, 0, 0,
    0x45, 1, 2, 3, 36, 0, 0, 0, // enhanced packet
    3, 0, 0, 0, 20, 0, 0, 0, 9, 0, 0, 0, 0x60, 9, 0, 0, 20, 0, 0, 0, // simple packet
];

/// Section with an interface, and an enhanced packet of 2 bytes with the comments "no", "twinwall: a" and "twinwall:
/// b".
const COMMENTED: [u8; 124] = *b"\x0a\x0d\x0d\x0a\x1c\0\0\0\x4d\x3c\x2b\x1a\x01\0\0\0\
    \xff\xff\xff\xff\xff\xff\xff\xff\x1c\0\0\0\
    \x01\0\0\0\x14\0\0\0\x65\0\0\0\0\0\0\0\x14\0\0\0\
    \x06\0\0\0\x4c\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x02\0\0\0\x02\0\0\0\x45\x01\0\0\
    \x01\0\x02\0no\0\0\x01\0\x0b\0twinwall: a\0\
    \x01\0\x0b\0twinwall: b\0\x4c\0\0\0";

#[test]
fn a_record_has_its_time_and_lengths() {
    let expected = vec![(1, 2_000_000_007, vec![0x45, 1, 2, 3], 60)];
    assert_eq!(read_all(&CLASSIC), Ok(expected));
}

/// A simple packet is cut at the interface's snap length, and has the time of the packet before it.
#[test]
fn blocks_have_theirs() {
    let expected = vec![
        (1, 6_000_001_000, vec![0x45, 1, 2, 3], 4),
        (2, 6_000_001_000, vec![0x60, 9], 9),
    ];
    assert_eq!(read_all(&NG), Ok(expected));
}

/// The packet's comment is the first comment that begins with "twinwall:". An option that exceeds its block is damage.
#[test]
fn a_packet_has_its_comment() {
    let capture = Capture::new(&COMMENTED);
    let mut pcap = open(capture.path()).unwrap();
    let packet = next(&mut pcap).unwrap().unwrap();
    assert_eq!(
        (packet.comment, packet.bytes),
        (Some(&b" a"[..]), &[0x45, 1][..])
    );
    let mut damaged = COMMENTED;
    damaged[COMMENTED.len() - 18] = 13;
    let why = read_all(&damaged).unwrap_err();
    assert!(
        why.contains("at byte 48: a packet with a damaged option"),
        "{why}"
    );
}

#[test]
fn no_prefix_of_a_capture_is_taken_for_a_whole_one() {
    for length in 0..CLASSIC.len() {
        let read = read_all(&CLASSIC[..length]);
        assert_eq!(read.is_ok(), length == 24, "{length}: {read:?}");
    }
    for length in 0..NG.len() {
        let read = read_all(&NG[..length]);
        let whole = matches!(length, 28 | 64 | 100);
        assert_eq!(read.is_ok(), whole, "{length}: {read:?}");
    }
}

/// A capture with a changed bit is read or refused, without a panic.
#[test]
fn no_byte_leads_astray() {
    for at in 0..NG.len() {
        for bit in 0..8 {
            let mut bytes = NG;
            bytes[at] ^= 1 << bit;
            let _ = read_all(&bytes);
        }
    }
}

#[test]
fn link_types_have_their_headers() {
    let mut ethernet = [0; 60];
    ethernet[12..24].copy_from_slice(&[0x81, 0, 0, 5, 0x08, 0, 0x45, 0, 0, 21, 0, 0]);
    let without_padding = Found {
        offset: 18,
        captured: 21,
        original: 21,
        version: 4,
    };
    assert_eq!(find_ip(LINK_ETHERNET, &ethernet, 60), Some(without_padding));
    // The link type raw IP does not state the IP version. The frame is longer than the length in the IP header.
    let raw = Found {
        offset: 0,
        captured: 21,
        original: 21,
        version: 0,
    };
    assert_eq!(find_ip(LINK_RAW, &ethernet[18..], 62), Some(raw));
    let version3 = [0x30; 60];
    let version_of = |link| find_ip(link, &version3, 80).map(|found| found.version);
    assert_eq!(version_of(LINK_RAW), Some(0));
    assert_eq!(version_of(LINK_IPV4), Some(4));
    assert_eq!(version_of(LINK_IPV6), Some(6));
    let mut arp = [0; 60];
    arp[12..14].copy_from_slice(&[8, 6]);
    assert_eq!(find_ip(LINK_ETHERNET, &arp, 60), None);
    assert_eq!(find_ip(LINK_ETHERNET, &ethernet[..13], 60), None);
    assert_eq!(find_ip(LINK_ETHERNET, &ethernet[..17], 60), None);
    let family = |bytes: [u8; 4]| find_ip(LINK_NULL, &bytes, 4).map(|found| found.version);
    assert_eq!(family([0, 0, 0, 30]), Some(6));
    assert_eq!(family([30, 0, 0, 0]), Some(6));
    assert_eq!(family([2, 0, 0, 0]), Some(4));
    assert_eq!(find_ip(LINK_NULL, &[0, 0, 0, 29], 4), None);
    assert_eq!(find_ip(105, &ethernet, 60), None);
}
