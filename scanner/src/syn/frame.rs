// SPDX-License-Identifier: GPL-2.0-or-later
//! Decodes answers to SYNs: IPv4 (RFC 791), IPv6 (RFC 8200), TCP (RFC 9293), ICMP (RFC 792, RFC 4443).

use std::hash::{BuildHasher, Hasher, RandomState};
use std::net::IpAddr;

use siphasher::sip::SipHasher24;

use super::segment::{ACK, RST, SYN, TCP};
use crate::state::{Reason, State};

const ICMP: u8 = 1;
const ICMPV6: u8 = 58;

/// Key of SYN cookies: sequence numbers that only a receiver of the SYN can acknowledge.
pub struct Cookies {
    keys: (u64, u64),
}

impl Cookies {
    pub fn new() -> Cookies {
        let random = || RandomState::new().build_hasher().finish();
        Cookies {
            keys: (random(), random()),
        }
    }

    /// Returns the sequence number of a SYN to an address and port, from a port.
    pub fn of(&self, to: IpAddr, port: u16, from_port: u16) -> u32 {
        let mut hasher = SipHasher24::new_with_keys(self.keys.0, self.keys.1);
        match to {
            IpAddr::V4(ip) => hasher.write(&ip.octets()),
            IpAddr::V6(ip) => hasher.write(&ip.octets()),
        }
        hasher.write_u16(port);
        hasher.write_u16(from_port);
        hasher.finish() as u32
    }
}

impl Default for Cookies {
    fn default() -> Cookies {
        Cookies::new()
    }
}

/// A target's result, decoded from a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    pub of: IpAddr,
    pub port: u16,
    pub state: State,
    pub reason: Reason,
}

/// Decodes an IP packet. Returns None if it answers none of our SYNs. Accepts arbitrary bytes.
pub fn answer(packet: &[u8], from_port: u16, cookies: &Cookies) -> Option<Answer> {
    let (sender, _, protocol, body) = ip(packet)?;
    match protocol {
        TCP => {
            let port = word(body, 0)?;
            let (to_port, acknowledged, flags) = (word(body, 2)?, long(body, 8)?, *body.get(13)?);
            let expected = cookies.of(sender, port, from_port).wrapping_add(1);
            if to_port != from_port || flags & ACK == 0 || acknowledged != expected {
                return None;
            }
            let (state, reason) = match (flags & SYN != 0, flags & RST != 0) {
                (_, true) => (State::Closed, Reason::Reset),
                (true, false) => (State::Open, Reason::SynAck),
                _ => return None,
            };
            Some(Answer {
                of: sender,
                port,
                state,
                reason,
            })
        }
        ICMP | ICMPV6 => {
            let reason = refusal(protocol, *body.first()?, *body.get(1)?)?;
            // The quoted part of the packet that caused the error.
            let (_, to, TCP, quoted) = ip(body.get(8..)?)? else {
                return None;
            };
            let (asked_from, port, sequence) =
                (word(quoted, 0)?, word(quoted, 2)?, long(quoted, 4)?);
            let ours = asked_from == from_port && sequence == cookies.of(to, port, from_port);
            ours.then_some(Answer {
                of: to,
                port,
                state: State::Filtered,
                reason,
            })
        }
        _ => None,
    }
}

/// Returns the reason of an ICMP destination-unreachable message, by its code; None for other messages and codes.
fn refusal(protocol: u8, kind: u8, code: u8) -> Option<Reason> {
    match (protocol, kind, code) {
        (ICMP, 3, 0 | 6 | 11) => Some(Reason::NetUnreach),
        (ICMP, 3, 1 | 5 | 7 | 8 | 12) => Some(Reason::HostUnreach),
        (ICMP, 3, 2) => Some(Reason::ProtoUnreach),
        (ICMP, 3, 3) => Some(Reason::PortUnreach),
        (ICMP, 3, 9 | 10 | 13) => Some(Reason::AdminProhibited),
        (ICMPV6, 1, 0 | 6) => Some(Reason::NetUnreach),
        (ICMPV6, 1, 1 | 5) => Some(Reason::AdminProhibited),
        (ICMPV6, 1, 2 | 3) => Some(Reason::HostUnreach),
        (ICMPV6, 1, 4) => Some(Reason::PortUnreach),
        _ => None,
    }
}

/// Returns sender, receiver, protocol and payload of an IP packet. None for IPv4's later fragments and for truncated
/// headers.
fn ip(packet: &[u8]) -> Option<(IpAddr, IpAddr, u8, &[u8])> {
    match packet.first()? >> 4 {
        4 => {
            let header = usize::from(packet[0] & 0xf) * 4;
            let is_first = word(packet, 6)? & 0x1fff == 0;
            let address = |at: usize| -> Option<IpAddr> {
                Some(<[u8; 4]>::try_from(packet.get(at..at + 4)?).ok()?.into())
            };
            let body = packet.get(header.max(20)..)?;
            is_first.then_some((address(12)?, address(16)?, packet[9], body))
        }
        6 => {
            let address = |at: usize| -> Option<IpAddr> {
                Some(<[u8; 16]>::try_from(packet.get(at..at + 16)?).ok()?.into())
            };
            Some((
                address(8)?,
                address(24)?,
                *packet.get(6)?,
                packet.get(40..)?,
            ))
        }
        _ => None,
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn long(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::super::segment::{syn, LONGEST, SYN_BYTES};
    use super::*;

    const V4: (&str, &str) = ("10.0.0.1", "10.0.0.2");
    const V6: (&str, &str) = ("fd00::1", "fd00::2");

    fn asked(ips: (&str, &str), cookies: &Cookies) -> (Vec<u8>, IpAddr, IpAddr) {
        let (from, to): (IpAddr, IpAddr) = (ips.0.parse().unwrap(), ips.1.parse().unwrap());
        let mut room = [0; LONGEST];
        let len = syn(
            &mut room,
            (from, 40000),
            (to, 80),
            cookies.of(to, 80, 40000),
        );
        (room[..len].to_vec(), from, to)
    }

    fn reply(ips: (&str, &str), cookies: &Cookies, flags: u8, off_by: u32) -> Vec<u8> {
        let (_, from, to) = asked(ips, cookies);
        let mut room = [0; LONGEST];
        let len = syn(&mut room, (to, 80), (from, 40000), 7);
        let tcp = len - SYN_BYTES;
        let acknowledged = cookies.of(to, 80, 40000).wrapping_add(1 + off_by);
        room[tcp + 8..tcp + 12].copy_from_slice(&acknowledged.to_be_bytes());
        room[tcp + 13] = flags;
        room[..len].to_vec()
    }

    #[test]
    fn answers_are_known_by_their_cookie() {
        let cookies = Cookies::new();
        for ips in [V4, V6] {
            let read = |packet: &[u8]| {
                answer(packet, 40000, &cookies).map(|answer| (answer.state, answer.reason))
            };
            let open = reply(ips, &cookies, SYN | ACK, 0);
            assert_eq!(read(&open), Some((State::Open, Reason::SynAck)));
            assert_eq!(
                read(&reply(ips, &cookies, RST | ACK, 0)),
                Some((State::Closed, Reason::Reset))
            );
            assert_eq!(read(&reply(ips, &cookies, SYN | ACK, 1)), None);
            assert_eq!(read(&reply(ips, &cookies, SYN, 0)), None);
            assert_eq!(read(&reply(ips, &cookies, ACK, 0)), None);
            assert_eq!(answer(&open, 40001, &cookies), None);
            assert_eq!(answer(&open, 40000, &Cookies::new()), None);
            for len in 0..open.len() - 10 {
                assert_eq!(read(&open[..len]), None, "{len}");
            }
        }
    }

    #[test]
    fn icmp_is_believed_if_it_quotes_the_question() {
        let cookies = Cookies::new();
        for (ips, protocol, kind, code, wanted) in [
            (V4, ICMP, 3, 13, Some(Reason::AdminProhibited)),
            (V4, ICMP, 3, 3, Some(Reason::PortUnreach)),
            (V4, ICMP, 11, 0, None),
            (V6, ICMPV6, 1, 4, Some(Reason::PortUnreach)),
            (V6, ICMPV6, 2, 0, None),
        ] {
            let (question, from, to) = asked(ips, &cookies);
            let mut room = [0; LONGEST];
            let header = syn(&mut room, (to, 1), (from, 2), 0) - SYN_BYTES;
            let mut packet = room[..header].to_vec();
            packet[if header == 20 { 9 } else { 6 }] = protocol;
            packet.extend([kind, code, 0, 0, 0, 0, 0, 0]);
            packet.extend(&question[..header + 8]);
            let read = answer(&packet, 40000, &cookies);
            assert_eq!(read.map(|answer| answer.reason), wanted);
            assert!(read.is_none_or(|answer| answer.of == to && answer.port == 80));
            let last = packet.len() - 1;
            packet[last] ^= 1;
            assert_eq!(
                answer(&packet, 40000, &cookies),
                None,
                "a forged sequence number"
            );
        }
    }
}
