// SPDX-License-Identifier: GPL-2.0-or-later
//! Builds IP packets from a description: RFC 791, 8200, 4302, 9293, 768, 792, 4443. Checksums are correct unless specified
//! otherwise.

use super::field::{ICMP, ICMPV6, TCP, UDP};

pub const HOP_BY_HOP: u8 = 0;
pub const ROUTING: u8 = 43;
pub const FRAGMENT: u8 = 44;
pub const AH: u8 = 51;
pub const NO_NEXT: u8 = 59;
pub const DESTINATION: u8 = 60;
pub const MOBILITY: u8 = 135;

/// An IPv6 extension header.
#[derive(Clone, Debug, PartialEq)]
pub struct Extension {
    pub kind: u8,
    /// Offset (in bytes) and flags of a fragment header, as on the wire.
    pub fragment: u16,
    /// Length after the first 8 bytes, in units of 8 bytes (for AH: 4 bytes).
    pub units: u8,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Layer4 {
    Tcp {
        source: u16,
        destination: u16,
        flags: u8,
        /// TCP options, a multiple of 4 bytes, up to 40.
        options: Vec<u8>,
        /// Value for the field data offset (in words of 4 bytes); None: the correct value.
        data_offset: Option<u8>,
    },
    Udp {
        source: u16,
        destination: u16,
        /// Value for the length field of the UDP header; None: the correct length.
        length: Option<u16>,
    },
    Icmp {
        kind: u8,
        code: u8,
    },
    /// Literal bytes in place of a layer 4 header, for any protocol.
    Other(Vec<u8>),
}

#[derive(Clone, Debug, PartialEq)]
pub struct Packet {
    /// IP version, 4 or 6.
    pub version: u8,
    /// Addresses as numbers; IPv4 addresses in the low 32 bits.
    pub source: u128,
    pub destination: u128,
    pub hops: u8,
    /// Traffic class: DSCP and ECN, as in the IP header.
    pub traffic_class: u8,
    /// IPv4 flags and offset, as on the wire.
    pub fragment: u16,
    /// Number of bytes of IPv4 options, a multiple of 4 up to 40.
    pub options: u8,
    pub extensions: Vec<Extension>,
    /// IPv4 protocol, or the next header after the extensions.
    pub protocol: u8,
    pub layer4: Layer4,
    pub payload: Vec<u8>,
    /// Number of bytes to which layer 4 and payload are truncated; the IP header has the truncated length.
    pub cut: Option<usize>,
    pub bad_checksum: bool,
    /// TCP sequence and acknowledgement numbers; None: derived from `number`.
    pub sequence: Option<(u32, u32)>,
    /// Number that identifies the packet. It is stored where no rule tests it: in the IPv4 identification or IPv6 flow
    /// label, and in TCP's sequence numbers.
    pub number: u32,
}

/// Adds bytes to an Internet checksum (RFC 1071), starting from a previous sum.
pub fn sum(bytes: &[u8], so_far: u32) -> u32 {
    let words = bytes.chunks(2).map(|pair| match pair {
        [high, low] => u32::from(u16::from_be_bytes([*high, *low])),
        [last] => u32::from(*last) << 8,
        _ => 0,
    });
    words.fold(so_far, u32::wrapping_add)
}

pub fn folded(mut sum: u32) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

impl Packet {
    /// Returns a plain packet of a protocol.
    pub fn new(version: u8, protocol: u8) -> Packet {
        let (source, destination) = match version {
            4 => (0x0a00_0001, 0x0a00_0002),
            _ => (0x2001_0db8 << 96 | 1, 0x2001_0db8 << 96 | 2),
        };
        let mut packet = Packet {
            version,
            source,
            destination,
            hops: 64,
            traffic_class: 0,
            fragment: 0,
            options: 0,
            extensions: Vec::new(),
            protocol,
            layer4: Layer4::Other(Vec::new()),
            payload: Vec::new(),
            cut: None,
            bad_checksum: false,
            sequence: None,
            number: 0,
        };
        packet.set_protocol(protocol);
        packet
    }

    /// Sets the protocol, with a layer 4 header that fits it.
    pub fn set_protocol(&mut self, protocol: u8) {
        self.protocol = protocol;
        self.layer4 = match (protocol, self.version) {
            (TCP, _) => Layer4::Tcp {
                source: 40000,
                destination: 80,
                flags: 0x02,
                options: Vec::new(),
                data_offset: None,
            },
            (UDP, _) => Layer4::Udp {
                source: 40000,
                destination: 53,
                length: None,
            },
            (ICMP, _) | (ICMPV6, _) => Layer4::Icmp {
                kind: if protocol == ICMP { 8 } else { 128 },
                code: 0,
            },
            // Bytes that would be the ports 40000 and 80.
            _ => Layer4::Other(vec![0x9c, 0x40, 0, 80, 0, 0, 0, 0, 1, 2, 3, 4]),
        };
    }

    /// Returns the bytes from the IP header on.
    pub fn bytes(&self) -> Vec<u8> {
        match self.version {
            4 => self.ipv4(),
            _ => self.ipv6(),
        }
    }

    /// Turns the packet into the other end's reply.
    pub fn turn_round(&mut self) {
        std::mem::swap(&mut self.source, &mut self.destination);
        match &mut self.layer4 {
            Layer4::Tcp {
                source,
                destination,
                flags,
                ..
            } => {
                std::mem::swap(source, destination);
                *flags = 0x10 | *flags & 0x02;
            }
            Layer4::Udp {
                source,
                destination,
                ..
            } => std::mem::swap(source, destination),
            Layer4::Icmp { kind, .. } => {
                *kind = match *kind {
                    8 => 0,
                    128 => 129,
                    kind => kind,
                }
            }
            Layer4::Other(_) => {}
        }
    }

    fn ipv4(&self) -> Vec<u8> {
        let pseudo = {
            let mut pseudo = (self.source as u32).to_be_bytes().to_vec();
            pseudo.extend((self.destination as u32).to_be_bytes());
            pseudo
        };
        let layer4 = self.layer4_bytes(&pseudo);
        let header_bytes = 20 + usize::from(self.options);
        let total = header_bytes + layer4.len();
        let mut packet = vec![0x40 | (header_bytes / 4) as u8, self.traffic_class];
        packet.extend((total as u16).to_be_bytes());
        packet.extend((self.number as u16).to_be_bytes());
        packet.extend(self.fragment.to_be_bytes());
        packet.extend([self.hops, self.protocol, 0, 0]);
        packet.extend((self.source as u32).to_be_bytes());
        packet.extend((self.destination as u32).to_be_bytes());
        // No-operation options, up to the end of options.
        packet.resize(header_bytes, 1);
        let checksum = folded(sum(&packet, 0));
        packet[10..12].copy_from_slice(&checksum.to_be_bytes());
        packet.extend(layer4);
        packet
    }

    fn ipv6(&self) -> Vec<u8> {
        let pseudo = [self.source.to_be_bytes(), self.destination.to_be_bytes()].concat();
        let layer4 = self.layer4_bytes(&pseudo);
        let mut chain = Vec::new();
        for (index, extension) in self.extensions.iter().enumerate() {
            let next = self
                .extensions
                .get(index + 1)
                .map_or(self.protocol, |next| next.kind);
            chain.extend(extension.bytes(next, self.number));
        }
        chain.extend(layer4);
        let length = chain.len();
        let first = 6 << 28 | u32::from(self.traffic_class) << 20 | self.number & 0xf_ffff;
        let mut packet = first.to_be_bytes().to_vec();
        packet.extend((length as u16).to_be_bytes());
        packet.push(
            self.extensions
                .first()
                .map_or(self.protocol, |first| first.kind),
        );
        packet.push(self.hops);
        packet.extend(pseudo);
        packet.extend(chain);
        packet
    }

    fn layer4_bytes(&self, pseudo: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        let length = self.payload.len();
        let checksum_at = match &self.layer4 {
            Layer4::Tcp {
                source,
                destination,
                flags,
                options,
                data_offset,
            } => {
                bytes.extend(source.to_be_bytes());
                bytes.extend(destination.to_be_bytes());
                let numbered = (self.number << 12, self.number << 12 | 1);
                let (sequence, acknowledged) = self.sequence.unwrap_or(numbered);
                bytes.extend(sequence.to_be_bytes());
                bytes.extend(acknowledged.to_be_bytes());
                let words = data_offset.unwrap_or(5 + options.len() as u8 / 4);
                bytes.extend([words << 4, *flags, 0x20, 0, 0, 0, 0, 0]);
                bytes.extend(options);
                Some(16)
            }
            Layer4::Udp {
                source,
                destination,
                length: said,
            } => {
                bytes.extend(source.to_be_bytes());
                bytes.extend(destination.to_be_bytes());
                bytes.extend(said.unwrap_or((8 + length) as u16).to_be_bytes());
                bytes.extend([0, 0]);
                Some(6)
            }
            Layer4::Icmp { kind, code } => {
                bytes.extend([*kind, *code, 0, 0]);
                bytes.extend(self.number.to_be_bytes());
                Some(2)
            }
            Layer4::Other(given) => {
                bytes.extend(given);
                None
            }
        };
        bytes.extend(&self.payload);
        if let Some(at) = checksum_at {
            let mut so_far = sum(&bytes, 0);
            if self.protocol != ICMP {
                so_far = sum(pseudo, so_far) + u32::from(self.protocol) + bytes.len() as u32;
            }
            let mut checksum = folded(so_far);
            if self.bad_checksum {
                checksum = checksum.wrapping_add(0x1234);
            }
            if checksum == 0 && self.protocol == UDP {
                checksum = 0xffff;
            }
            bytes[at..at + 2].copy_from_slice(&checksum.to_be_bytes());
        }
        if let Some(cut) = self.cut {
            bytes.truncate(cut);
        }
        bytes
    }
}

impl Extension {
    pub fn new(kind: u8) -> Extension {
        Extension {
            kind,
            fragment: 0,
            units: 0,
        }
    }

    fn bytes(&self, next: u8, number: u32) -> Vec<u8> {
        match self.kind {
            FRAGMENT => {
                let mut bytes = vec![next, 0];
                bytes.extend(self.fragment.to_be_bytes());
                bytes.extend(number.to_be_bytes());
                bytes
            }
            AH => {
                let mut bytes = vec![next, self.units, 0, 0];
                bytes.resize(8 + usize::from(self.units) * 4, 0x11);
                bytes
            }
            ROUTING => {
                // Type 2, no segments left: every node forwards it.
                let mut bytes = vec![next, self.units, 2, 0];
                bytes.resize(8 + usize::from(self.units) * 8, 0);
                bytes
            }
            MOBILITY => {
                let mut bytes = vec![next, self.units, 0, 0, 0, 0, 0, 0];
                bytes.resize(8 + usize::from(self.units) * 8, 0);
                bytes
            }
            _ => {
                // PadN over the whole header.
                let total = 8 + usize::from(self.units) * 8;
                let mut bytes = vec![next, self.units];
                let mut left = total - 2;
                while left > 0 {
                    // Linux drops a PadN longer than 7 bytes.
                    let piece = left.min(7);
                    match piece {
                        1 => bytes.push(0),
                        _ => {
                            bytes.extend([1, piece as u8 - 2]);
                            bytes.resize(bytes.len() + piece - 2, 0);
                        }
                    }
                    left -= piece;
                }
                bytes
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns true if the layer 4 checksum is correct, computed independently: the sum over header and data is 0.
    fn layer4_checks(packet: &Packet) -> bool {
        let bytes = packet.bytes();
        let (pseudo, start) = match packet.version {
            4 => (&bytes[12..20], usize::from(bytes[0] & 15) * 4),
            _ => (&bytes[8..40], 40),
        };
        let layer4 = &bytes[start..];
        let mut so_far = sum(layer4, 0);
        if packet.protocol != ICMP {
            so_far = sum(pseudo, so_far) + u32::from(packet.protocol) + layer4.len() as u32;
        }
        folded(so_far) == 0
    }

    #[test]
    fn checksums_are_right_unless_told_otherwise() {
        for (version, protocol) in [
            (4, TCP),
            (4, UDP),
            (4, ICMP),
            (6, TCP),
            (6, UDP),
            (6, ICMPV6),
        ] {
            let mut packet = Packet::new(version, protocol);
            packet.payload = b"odd".to_vec();
            packet.options = if version == 4 { 8 } else { 0 };
            assert!(layer4_checks(&packet), "{version} {protocol}");
            if version == 4 {
                assert_eq!(folded(sum(&packet.bytes()[..28], 0)), 0);
            }
            packet.bad_checksum = true;
            assert!(!layer4_checks(&packet), "{version} {protocol}");
        }
    }

    #[test]
    fn lengths_are_what_is_there() {
        let mut packet = Packet::new(6, TCP);
        packet.extensions = [HOP_BY_HOP, DESTINATION, ROUTING, FRAGMENT, AH, MOBILITY]
            .map(|kind| Extension {
                units: u8::from(kind != FRAGMENT) * 2,
                ..Extension::new(kind)
            })
            .to_vec();
        packet.cut = Some(4);
        let bytes = packet.bytes();
        assert_eq!(
            usize::from(u16::from_be_bytes([bytes[4], bytes[5]])),
            bytes.len() - 40
        );
        assert_eq!(bytes.len(), 40 + 4 * 24 + 8 + 16 + 4);
        assert_eq!(bytes[6], HOP_BY_HOP);
        let mut packet = Packet::new(4, UDP);
        packet.options = 12;
        packet.payload = vec![0; 3];
        let bytes = packet.bytes();
        assert_eq!(
            usize::from(u16::from_be_bytes([bytes[2], bytes[3]])),
            bytes.len()
        );
        assert_eq!(bytes.len(), 20 + 12 + 8 + 3);
    }
}
