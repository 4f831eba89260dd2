// SPDX-License-Identifier: GPL-2.0-or-later
//! Writes the questions of a scan, or their answers, as a capture (pcap, link type RAW), for the firewall to explain.

use std::io::{self, Write};
use std::net::IpAddr;
use std::time::Duration;

use crate::syn::segment::{segment, ACK, LONGEST, RST, SYN};

const MAGIC: u32 = 0xa1b2_c3d4;
/// Link type of the capture: IPv4 or IPv6 without a link layer.
const LINKTYPE_RAW: u32 = 101;
const SNAP_BYTES: u32 = 65535;
/// The scanner's port in all segments of the capture. It lies in the kernel's ephemeral range, as the local port of a
/// real connection does.
const FROM_PORT: u16 = 40000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// SYN of the scanner, the question.
    Syn,
    /// SYN-ACK: the answer of an open port.
    SynAck,
    /// RST: the answer of a closed port, or of `reject with tcp reset`.
    Reset,
}

/// Writes a capture with one segment for each port of `host`: a SYN to the port, or an answer from it, according to
/// `kind`.
/// - from: the scanner's address.
/// - apart: difference of the timestamps of two successive segments; the function does not wait.
pub fn write(
    to: &mut impl Write,
    kind: Kind,
    (from, host): (IpAddr, IpAddr),
    ports: impl Iterator<Item = u16>,
    apart: Duration,
) -> io::Result<()> {
    let mut header = Vec::with_capacity(24);
    header.extend(MAGIC.to_le_bytes());
    header.extend([2, 0, 4, 0]);
    header.extend([0; 8]);
    header.extend(SNAP_BYTES.to_le_bytes());
    header.extend(LINKTYPE_RAW.to_le_bytes());
    to.write_all(&header)?;
    let mut time = Duration::ZERO;
    let mut packet = [0; LONGEST];
    for port in ports {
        let (client, server) = ((from, FROM_PORT), (host, port));
        let len = match kind {
            Kind::Syn => segment(&mut packet, client, server, (1, 0), SYN),
            Kind::SynAck => segment(&mut packet, server, client, (1, 2), SYN | ACK),
            Kind::Reset => segment(&mut packet, server, client, (0, 2), RST | ACK),
        };
        let words = [
            time.as_secs() as u32,
            time.subsec_micros(),
            len as u32,
            len as u32,
        ];
        for word in words {
            to.write_all(&word.to_le_bytes())?;
        }
        to.write_all(&packet[..len])?;
        time += apart;
    }
    to.flush()
}
