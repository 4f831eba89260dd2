// SPDX-License-Identifier: GPL-2.0-or-later
//! Tests of the replies of `reject`: their bytes, and the packets that get no reply.

use rust_firewall::packet::{self, Packet};
use rust_firewall::policy::{Reject, RejectKind};
use rust_firewall::worker::reject::{build, build_back, build_onward, code, IPV4_MAX, IPV6_MAX};

const RESET: Reject = Reject {
    kind: RejectKind::TcpReset,
    code: 0,
};
const HOST: Reject = Reject {
    kind: RejectKind::Icmp,
    code: 1,
};
const POLICY_FAIL: Reject = Reject {
    kind: RejectKind::Icmpv6,
    code: 5,
};

fn reply(how: &Reject, bytes: &[u8], original: usize) -> Vec<u8> {
    let mut packet = Packet::default();
    packet::parse(bytes, original as u32, &mut packet);
    let mut reply = [0; IPV6_MAX];
    let length = build(how, &packet, &mut reply);
    reply[..length].to_vec()
}

fn whole(how: &Reject, bytes: &[u8]) -> Vec<u8> {
    reply(how, bytes, bytes.len())
}

/// SYN from 10.0.0.1:1024 to 10.0.0.2:80, with sequence number 0x01020304 and 2 bytes of data.
const SYN: [u8; 42] = [
    0x45, 0, 0, 42, 0, 1, 0, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2, 4, 0, 0, 80, 1, 2, 3, 4, 9,
    9, 9, 9, 0x50, 2, 1, 0, 0, 0, 0, 0, b'h', b'i',
];

/// UDP datagram from fd00::1 to fd00::2.
fn datagram6() -> Vec<u8> {
    let mut bytes = vec![0x60, 0, 0, 0, 0, 8, 17, 64];
    for last in [1, 2] {
        bytes.push(0xfd);
        bytes.extend([0; 14]);
        bytes.push(last);
    }
    bytes.extend([4, 0, 0, 53, 0, 8, 0, 0]);
    bytes
}

/// The RST's acknowledgement number is the SYN's sequence number plus 3: 1 for the SYN, and 2 for the bytes of data.
#[test]
fn a_reset_acknowledges_all_that_a_segment_takes_up() {
    let reply = whole(&RESET, &SYN);
    assert_eq!(reply.len(), 40);
    assert_eq!(reply[12..20], [10, 0, 0, 2, 10, 0, 0, 1]);
    assert_eq!(
        reply[20..36],
        [0, 80, 4, 0, 0, 0, 0, 0, 1, 2, 3, 7, 0x50, 0x14, 0, 0]
    );
    assert_eq!((reply[8], reply[6]), (64, 0x40));
}

#[test]
fn a_reset_takes_its_sequence_from_an_acknowledgement() {
    let mut bytes = SYN;
    bytes[33] = 0x10;
    let reply = whole(&RESET, &bytes);
    assert_eq!(reply[24..34], [9, 9, 9, 9, 0, 0, 0, 0, 0x50, 4]);
    bytes[33] = 0x14;
    assert!(whole(&RESET, &bytes).is_empty());
}

/// Returns the RST to the destination of a packet, with sequence number 0x0a0b0c0d.
fn onward(bytes: &[u8]) -> Vec<u8> {
    let mut packet = Packet::default();
    packet::parse(bytes, bytes.len() as u32, &mut packet);
    let mut reset = [0; IPV6_MAX];
    let length = build_onward(&packet, 0x0a0b_0c0d, &mut reset);
    reset[..length].to_vec()
}

#[test]
fn a_reset_to_the_sender_of_one_is_sent_back() {
    let mut bytes = SYN;
    bytes[33] = 4;
    let mut packet = Packet::default();
    packet::parse(&bytes, bytes.len() as u32, &mut packet);
    let mut reset = [0; IPV6_MAX];
    assert_eq!(build_back(&packet, 0x0a0b_0c0d, &mut reset), 40);
    assert_eq!(reset[12..20], [10, 0, 0, 2, 10, 0, 0, 1]);
    assert_eq!(
        reset[20..36],
        [0, 80, 4, 0, 10, 11, 12, 13, 0, 0, 0, 0, 0x50, 4, 0, 0]
    );
    assert_eq!(sum(&reset[12..40], 6 + 20), 0xffff);
    let bytes = datagram6();
    packet::parse(&bytes, bytes.len() as u32, &mut packet);
    assert_eq!(build_back(&packet, 0, &mut reset), 0);
}

/// Returns a TCP segment from fd00::1 to fd00::2 with ACK.
fn segment6() -> Vec<u8> {
    let mut bytes = datagram6();
    bytes[5] = 20;
    bytes[6] = 6;
    bytes.truncate(40);
    bytes.extend(&SYN[20..40]);
    bytes[53] = 0x10;
    bytes
}

#[test]
fn a_reset_to_the_receiver_takes_nothing_from_the_packet_but_its_ends() {
    let reset = onward(&SYN);
    assert_eq!(reset.len(), 40);
    assert_eq!(reset[12..20], SYN[12..20]);
    assert_eq!(
        reset[20..36],
        [4, 0, 0, 80, 10, 11, 12, 13, 0, 0, 0, 0, 0x50, 4, 0, 0]
    );
    let six = onward(&segment6());
    assert_eq!((six.len(), &six[8..40]), (60, &segment6()[8..40]));
    assert_eq!(six[40..56], reset[20..36]);
    for (reset, pseudo) in [(&reset[12..], 6 + 20), (&six[8..], 6 + 20)] {
        assert_eq!(sum(reset, pseudo), 0xffff);
    }
    assert_eq!(sum(&reset[..20], 0), 0xffff);
    let mut bytes = SYN;
    bytes[33] |= 4;
    assert!(onward(&bytes).is_empty()); // answer to a RST
    assert!(onward(&datagram6()).is_empty());
}

/// Returns the checksum's sum of a message and its pseudo header; 0xffff if the checksum is right.
/// - bytes: the message; before it the addresses of its pseudo header, if it has one.
/// - pseudo: sum of protocol and length in the pseudo header; 0 without a pseudo header.
fn sum(bytes: &[u8], pseudo: usize) -> usize {
    let words = bytes.chunks(2).map(|word| {
        let low = word.get(1).copied().unwrap_or(0);
        usize::from(u16::from_be_bytes([word[0], low]))
    });
    let mut sum = pseudo + words.sum::<usize>();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum
}

#[test]
fn checksums_are_right() {
    let reset = whole(&RESET, &SYN);
    assert_eq!(sum(&reset[..20], 0), 0xffff);
    assert_eq!(sum(&reset[12..], 6 + 20), 0xffff);
    assert_eq!(sum(&whole(&HOST, &SYN)[20..], 0), 0xffff);
    let error = whole(&POLICY_FAIL, &datagram6());
    assert_eq!(sum(&error[8..], 58 + error.len() - 40), 0xffff);
}

#[test]
fn an_error_quotes_the_packet_as_far_as_it_may() {
    let error = whole(&HOST, &SYN);
    assert_eq!(error[20..22], [3, 1]);
    assert_eq!(error[28..], SYN);
    let mut long = SYN.to_vec();
    long.resize(2000, 0);
    long[2..4].copy_from_slice(&2000_u16.to_be_bytes());
    assert_eq!(whole(&HOST, &long).len(), IPV4_MAX);
    assert_eq!(reply(&HOST, &long[..100], 2000).len(), 128);
    let mut long = datagram6();
    long.resize(2000, 0);
    long[4..6].copy_from_slice(&1960_u16.to_be_bytes());
    let error = whole(&POLICY_FAIL, &long);
    assert_eq!((error.len(), error[40], error[41]), (IPV6_MAX, 1, 5));
}

#[test]
fn icmpx_has_a_code_of_each_family() {
    for (number, code4, code6) in [(0, 0, 0), (1, 3, 4), (2, 1, 3), (3, 13, 1)] {
        let how = Reject {
            kind: RejectKind::Icmpx,
            code: number,
        };
        assert_eq!((code(&how, 4), code(&how, 6)), (code4, code6));
    }
    assert_eq!(code(&HOST, 4), 1);
}

/// Checks that a packet gets a reply, but gets none after the byte at the offset `at` was changed to `byte`.
fn assert_not_due(how: &Reject, bytes: &[u8], at: usize, byte: u8) {
    let mut bytes = bytes.to_vec();
    assert!(!whole(how, &bytes).is_empty());
    bytes[at] = byte;
    assert!(whole(how, &bytes).is_empty(), "byte {at} = {byte}");
}

#[test]
fn what_gets_no_answer() {
    assert_not_due(&HOST, &SYN, 16, 224); // to a multicast address
    assert_not_due(&HOST, &SYN, 12, 224); // from a multicast address
    assert_not_due(&HOST, &SYN, 7, 1); // a later fragment
    assert_not_due(&RESET, &SYN, 9, 17); // no TCP
    assert_not_due(&POLICY_FAIL, &datagram6(), 24, 0xff);
    assert_not_due(&POLICY_FAIL, &datagram6(), 8, 0xff);
    assert!(whole(&POLICY_FAIL, &SYN).is_empty());
    assert!(whole(&HOST, &datagram6()).is_empty());
    assert!(reply(&RESET, &SYN[..39], SYN.len()).is_empty()); // its header is cut off
    assert!(reply(&HOST, &SYN[..19], SYN.len()).is_empty());
    let mut echo = datagram6();
    echo[6] = 58;
    echo[40] = 128;
    assert_not_due(&POLICY_FAIL, &echo, 40, 127); // an ICMPv6 error
}

#[test]
fn icmp_errors_get_no_answer() {
    let mut bytes = [0; 28];
    bytes[..20].copy_from_slice(&SYN[..20]);
    bytes[3] = 28;
    bytes[9] = 1;
    for kind in 0..=255 {
        bytes[20] = kind;
        let is_query = matches!(kind, 0 | 8 | 13..=18);
        assert_eq!(!whole(&HOST, &bytes).is_empty(), is_query, "type {kind}");
    }
}
