// SPDX-License-Identifier: GPL-2.0-or-later
//! Blocks of pcapng (draft-ietf-opsawg-pcapng), in the host's byte order: one interface, whose packets begin with their IP
//! header, times in nanoseconds.

const SECTION: u32 = 0x0a0d_0d0a;
const BYTE_ORDER: u32 = 0x1a2b_3c4d;
const INTERFACE: u32 = 1;
const STATISTICS: u32 = 5;
const PACKET: u32 = 6;
const LINKTYPE_RAW: u16 = 101;
const COMMENT: u16 = 1;
/// Option numbers of epb_dropcount and isb_ifrecv.
const DROP_COUNT: u16 = 4;
const RECEIVED: u16 = 4;
/// Option number of isb_ifdrop.
const DROPPED: u16 = 5;
/// if_tsresol with the value 10^-9.
const RESOLUTION: (u16, u8) = (9, 9);

pub struct Packet<'a> {
    pub time_ns: u64,
    pub original: u32,
    pub bytes: &'a [u8],
    /// Packets missed before it.
    pub drops: u64,
    pub comment: &'a str,
}

fn put_padded(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend_from_slice(bytes);
    out.resize(out.len().next_multiple_of(4), 0);
}

/// Appends an option; an option whose value exceeds its length field is omitted.
fn option(out: &mut Vec<u8>, code: u16, value: &[u8]) {
    if let Ok(length) = u16::try_from(value.len()) {
        out.extend_from_slice(&code.to_ne_bytes());
        out.extend_from_slice(&length.to_ne_bytes());
        put_padded(out, value);
    }
}

fn block(kind: u32, body: &[u8]) -> Vec<u8> {
    let length = (body.len() as u32 + 12).to_ne_bytes();
    [&kind.to_ne_bytes()[..], &length, body, &length].concat()
}

/// Appends the time as high and low word.
fn put_time(out: &mut Vec<u8>, time_ns: u64) {
    out.extend_from_slice(&((time_ns >> 32) as u32).to_ne_bytes());
    out.extend_from_slice(&(time_ns as u32).to_ne_bytes());
}

/// Returns the section header and the interface description.
pub fn head() -> Vec<u8> {
    let mut section = BYTE_ORDER.to_ne_bytes().to_vec();
    section.extend_from_slice(&1u16.to_ne_bytes());
    section.extend_from_slice(&0u16.to_ne_bytes());
    section.extend_from_slice(&u64::MAX.to_ne_bytes());
    let mut interface = LINKTYPE_RAW.to_ne_bytes().to_vec();
    interface.extend_from_slice(&[0; 6]);
    option(&mut interface, RESOLUTION.0, &[RESOLUTION.1]);
    option(&mut interface, 0, &[]);
    [block(SECTION, &section), block(INTERFACE, &interface)].concat()
}

pub fn packet(packet: &Packet) -> Vec<u8> {
    let mut body = 0u32.to_ne_bytes().to_vec();
    put_time(&mut body, packet.time_ns);
    body.extend_from_slice(&(packet.bytes.len() as u32).to_ne_bytes());
    // A GSO packet may be longer than its header says, never shorter than the bytes present.
    let original = packet.original.max(packet.bytes.len() as u32);
    body.extend_from_slice(&original.to_ne_bytes());
    put_padded(&mut body, packet.bytes);
    if packet.drops > 0 {
        option(&mut body, DROP_COUNT, &packet.drops.to_ne_bytes());
    }
    option(&mut body, COMMENT, packet.comment.as_bytes());
    option(&mut body, 0, &[]);
    block(PACKET, &body)
}

/// Returns the final block: the number of packets, and the number of missed packets.
pub fn statistics(received: u64, missed: u64) -> Vec<u8> {
    let mut body = 0u32.to_ne_bytes().to_vec();
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    put_time(&mut body, since.map_or(0, |since| since.as_nanos() as u64));
    option(&mut body, RECEIVED, &received.to_ne_bytes());
    option(&mut body, DROPPED, &missed.to_ne_bytes());
    option(&mut body, 0, &[]);
    block(STATISTICS, &body)
}
