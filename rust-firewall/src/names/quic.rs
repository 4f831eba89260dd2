// SPDX-License-Identifier: GPL-2.0-or-later
//! Parser of QUIC Initial packets: headers, decryption (with keys that every observer can derive), and frames. Formats:
//! RFC 9000, sections 16, 17.2, 19 and A.3; RFC 9001, sections 5.2 to 5.4; RFC 9369, section 3 (version 2).
#![deny(clippy::indexing_slicing)]

use ring::aead::quic::{HeaderProtectionKey, AES_128};
use ring::aead::{Aad, LessSafeKey, Nonce, UnboundKey, AES_128_GCM};
use ring::hkdf::{KeyType, Prk, Salt, HKDF_SHA256};

use crate::names::cursor::{self, Cursor};
use crate::names::hello;

/// Version numbers of QUIC: 1, 2, and the drafts that servers still accept. Drafts 33 and 34 differ from version 1 only
/// in the version number.
pub const VERSION_1: u32 = 0x0000_0001;
pub const VERSION_2: u32 = 0x6b33_43cf;
const DRAFT_29: u32 = 0xff00_001d;
const DRAFT_32: u32 = 0xff00_0020;
const DRAFT_33: u32 = 0xff00_0021;
const DRAFT_34: u32 = 0xff00_0022;
/// Maximum length of a connection ID in bytes (RFC 9000, section 17.2).
pub const CONNECTION_BYTES_MAX: usize = 20;

/// Salts for the Initial secret of each version (RFC 9001, section 5.2; RFC 9369, section 3.3.1;
/// draft-ietf-quic-tls-29, section 5.2).
const SALT_1: [u8; 20] = [
    0x38, 0x76, 0x2c, 0xf7, 0xf5, 0x59, 0x34, 0xb3, 0x4d, 0x17, 0x9a, 0xe6, 0xa4, 0xc8, 0x0c, 0xad,
    0xcc, 0xbb, 0x7f, 0x0a,
];
const SALT_2: [u8; 20] = [
    0x0d, 0xed, 0xe3, 0xde, 0xf7, 0x00, 0xa6, 0xdb, 0x81, 0x93, 0x81, 0xbe, 0x6e, 0x26, 0x9d, 0xcb,
    0xf9, 0xbd, 0x2e, 0xd9,
];
const SALT_29: [u8; 20] = [
    0xaf, 0xbf, 0xec, 0x28, 0x99, 0x93, 0xd2, 0x4c, 0x9e, 0x97, 0x86, 0xf1, 0x9c, 0x61, 0x11, 0xe0,
    0x43, 0x90, 0xa8, 0x99,
];
const SECRET_BYTES: usize = 32;
/// Prefix of HKDF labels (RFC 8446, section 7.1).
const LABEL: &str = "tls13 ";
/// Label of the client's Initial secret (RFC 9001, section 5.2).
const LABEL_CLIENT: &str = "client in";
/// Labels of the client's key, IV and header protection key: LABELS_2 for version 2, LABELS_1 for the other versions.
const LABELS_1: [&str; 3] = ["quic key", "quic iv", "quic hp"];
const LABELS_2: [&str; 3] = ["quicv2 key", "quicv2 iv", "quicv2 hp"];

/// First byte of a long header: the form bit, and the packet type with the numbers of version 1 (RFC 9000, section
/// 17.2).
const LONG: u8 = 0x80;
const TYPE_SHIFT: u8 = 4;
const TYPE_MASK: u8 = 3;
const TYPE_INITIAL: u8 = 0;
const TYPE_HANDSHAKE: u8 = 2;
const TYPE_RETRY: u8 = 3;
/// Bits of a long header's first byte that header protection hides (RFC 9001, section 5.4.1).
const HIDDEN: u8 = 0x0f;
/// Bits of a packet's first byte that contain the length of the packet number minus one.
const NUMBER_MASK: u8 = 3;
/// Offset of header protection's sample from the start of the packet number, in bytes (RFC 9001, section 5.4.2).
const SAMPLE_OFFSET: usize = 4;
/// Length of header protection's sample in bytes.
const SAMPLE_BYTES: usize = 16;

/// Types of frames (RFC 9000, section 19).
const FRAME_PADDING: u64 = 0x00;
const FRAME_PING: u64 = 0x01;
const FRAME_ACK: u64 = 0x02;
const FRAME_ACK_ECN: u64 = 0x03;
const FRAME_CRYPTO: u64 = 0x06;
const FRAME_CLOSE: u64 = 0x1c;
/// Maximum of a variable-length integer, plus one (RFC 9000, section 16).
const NUMBERS: u64 = 1 << 62;

/// Kind of a QUIC packet in a datagram.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum QuicKind {
    /// Malformed or cut long header of a supported version, or a cut version field.
    #[default]
    Bad,
    /// No long header: a packet with keys that only the two ends have, padding, or no QUIC.
    Short,
    /// Long header of an unsupported version, or of version negotiation.
    Unknown,
    /// 0-RTT or Retry packet.
    Long,
    /// Handshake packet: the server has received a complete ClientHello (RFC 9001, section 4.1.4).
    Handshake,
    /// Initial packet.
    Initial,
}

/// Header of a QUIC packet. Offsets in bytes count from the start of the datagram.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QuicHeader {
    pub kind: QuicKind,
    /// QUIC version, for Unknown, Long, Handshake and Initial.
    pub version: u32,
    /// Offset of the first byte of the packet.
    pub start: u32,
    /// Offset of the destination connection ID, for Long, Handshake and Initial.
    pub connection: u32,
    /// Length of the destination connection ID.
    pub connection_bytes: u8,
    /// Offset of the packet number, for Initial.
    pub number: u32,
    /// Offset of the packet's end, where the datagram's next packet may begin. For Bad, Short, Unknown and Retry it is
    /// the datagram's end.
    pub end: u32,
}

/// Keys of a client's Initial packets. A connection stores them as long as it is followed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QuicKeys {
    /// QUIC version of the keys; 0 = no keys yet.
    pub version: u32,
    pub key: [u8; 16],
    pub iv: [u8; 12],
    /// Key of header protection.
    pub header: [u8; 16],
    /// Next expected packet number: one more than the highest packet number that was decrypted.
    pub next: u64,
}

/// Contexts for key derivation. Each thread creates them once for all packets, so that nothing allocates later.
#[derive(Debug)]
pub struct QuicOpener {
    salt_1: Salt,
    salt_2: Salt,
    salt_29: Salt,
}

/// Kind of a frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum QuicFrameKind {
    /// Malformed or cut frame, or a frame that is not allowed in an Initial packet (RFC 9000, section 12.4). Frames
    /// after it can't be read.
    #[default]
    Bad,
    /// Run of adjacent PADDING frames.
    Padding,
    Ping,
    Ack,
    Crypto,
    Close,
}

/// Frame of an Initial packet. Offsets in bytes count from the start of the plaintext.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QuicFrame {
    pub kind: QuicFrameKind,
    /// Offset of the next frame; for Bad, the end of the plaintext.
    pub next: u32,
    /// Offset of the frame's data bytes, for Crypto.
    pub data: u32,
    /// Number of the frame's data bytes, for Crypto.
    pub data_bytes: u32,
    /// Offset of the frame's data in the handshake, for Crypto. offset + data_bytes < 2^62.
    pub offset: u64,
}

/// Creates a thread's contexts for key derivation.
pub fn make() -> QuicOpener {
    QuicOpener {
        salt_1: Salt::new(HKDF_SHA256, &SALT_1),
        salt_2: Salt::new(HKDF_SHA256, &SALT_2),
        salt_29: Salt::new(HKDF_SHA256, &SALT_29),
    }
}

/// Returns true if a version is a draft that uses the salt of draft 29.
fn has_salt_29(version: u32) -> bool {
    (DRAFT_29..=DRAFT_32).contains(&version)
}

/// Returns true if packets of a QUIC version can be read.
pub fn is_understood(version: u32) -> bool {
    matches!(version, VERSION_1 | VERSION_2 | DRAFT_33 | DRAFT_34) || has_salt_29(version)
}

/// Returns true if at most two adjacent bytes of the first five differ from a long header of a version.
/// - seen: first five bytes of the datagram as a big-endian number; of the first byte, only the form bit is kept.
fn is_near_version(seen: u64, version: u32) -> bool {
    let differing = seen ^ (u64::from(version) | u64::from(LONG) << 32);
    (0..4).any(|place| differing & !(0xffff << (8 * place)) == 0)
}

/// Returns true if at most two adjacent bytes of a datagram's first bytes differ from a long header of a supported
/// version. A checksum that is written later can turn such a datagram into a packet of QUIC.
pub fn is_near(datagram: &[u8]) -> bool {
    let Some(&[first, a, b, c, d]) = datagram.first_chunk() else {
        return false;
    };
    let seen = u64::from(u32::from_be_bytes([a, b, c, d])) | u64::from(first & LONG) << 32;
    (DRAFT_29..=DRAFT_34)
        .chain([VERSION_1, VERSION_2])
        .any(|version| is_near_version(seen, version))
}

/// Consumes and returns a variable-length integer (RFC 9000, section 16). Returns 0 if the integer is cut.
fn consume_number(cursor: &mut Cursor) -> u64 {
    let first = cursor::number(cursor, 1);
    let more = (1 << (first >> 6)) - 1;
    let upper = cursor::number(cursor, if more == 7 { 3 } else { 0 });
    let lower = cursor::number(cursor, if more == 7 { 4 } else { more });
    let first = u64::from(first & 0x3f);
    match more {
        _ if cursor.cut => 0,
        7 => first << 56 | u64::from(upper) << 32 | u64::from(lower),
        _ => first << (8 * more) | u64::from(lower),
    }
}

/// Returns the packet type of a long header, with the numbers of version 1. The numbers of version 2 are higher by one,
/// modulo 4 (RFC 9369, section 3.2).
fn type_of(first: u8, version: u32) -> u8 {
    let packet_type = first >> TYPE_SHIFT & TYPE_MASK;
    match version {
        VERSION_2 => packet_type.wrapping_sub(1) & TYPE_MASK,
        _ => packet_type,
    }
}

/// Parses a long header of a supported version after its version field. Returns false if the header is malformed or
/// cut.
/// - left: in/out: rest of the datagram.
/// - header: in/out: before the call, its field version must be set, and its field end must contain the datagram's end.
fn parse_long(first: u8, left: &mut Cursor, header: &mut QuicHeader) -> bool {
    let packet_type = type_of(first, header.version);
    let at = |left: &Cursor, end: u32| end - left.bytes.len() as u32;
    let datagram_end = header.end;
    let destination = cursor::vector(left, 1);
    header.connection = at(left, datagram_end) - destination.bytes.len() as u32;
    let source = cursor::vector(left, 1);
    if left.cut
        || destination.bytes.len() > CONNECTION_BYTES_MAX
        || source.bytes.len() > CONNECTION_BYTES_MAX
    {
        return false;
    }
    header.connection_bytes = destination.bytes.len() as u8;
    header.kind = match packet_type {
        TYPE_HANDSHAKE => QuicKind::Handshake,
        _ => QuicKind::Long,
    };
    if packet_type == TYPE_RETRY {
        return true;
    }
    if packet_type == TYPE_INITIAL {
        let token = consume_number(left);
        if token > left.bytes.len() as u64 {
            return false;
        }
        cursor::part(left, token as u32);
        header.kind = QuicKind::Initial;
    }
    let length = consume_number(left);
    header.number = at(left, datagram_end);
    if left.cut || length > left.bytes.len() as u64 {
        return false;
    }
    header.end = header.number + length as u32;
    true
}

/// Parses the header of a packet in a datagram. The header's fixed bit may be 0 (RFC 9287).
/// - at: offset of the packet, at most the datagram's length; if it is the length, the kind is Short.
pub fn header(datagram: &[u8], at: u32) -> QuicHeader {
    let mut left = cursor::begin(datagram.get(at as usize..).unwrap_or_default());
    let nothing = QuicHeader {
        kind: QuicKind::Short,
        start: at,
        end: datagram.len() as u32,
        ..QuicHeader::default()
    };
    let first = cursor::number(&mut left, 1) as u8;
    if first & LONG == 0 {
        return nothing;
    }
    let mut header = QuicHeader {
        version: cursor::number(&mut left, 4),
        ..nothing
    };
    if !left.cut && !is_understood(header.version) {
        header.kind = QuicKind::Unknown;
        return header;
    }
    if left.cut || !parse_long(first, &mut left, &mut header) {
        return QuicHeader {
            kind: QuicKind::Bad,
            ..nothing
        };
    }
    header
}

/// Number of bytes to derive, in the type that ring requires.
struct Length(usize);

impl KeyType for Length {
    fn len(&self) -> usize {
        self.0
    }
}

/// Derives bytes from a secret by HKDF-Expand-Label with an empty context (RFC 8446, section 7.1). Returns false on
/// failure.
fn expand(secret: &Prk, label: &str, bytes: &mut [u8]) -> bool {
    let length = bytes.len() as u8;
    let label_length = (LABEL.len() + label.len()) as u8;
    let before = [0, length, label_length];
    let info = [&before, LABEL.as_bytes(), label.as_bytes(), &[0]];
    secret
        .expand(&info, Length(bytes.len()))
        .and_then(|output| output.fill(bytes))
        .is_ok()
}

/// Derives the keys of a client's Initial packets from the destination connection ID of its first Initial packet.
/// - header: contains the QUIC version, and the position of that connection ID in `datagram`.
pub fn derive(opener: &QuicOpener, datagram: &[u8], header: &QuicHeader) -> QuicKeys {
    let (salt, labels) = match header.version {
        VERSION_2 => (&opener.salt_2, LABELS_2),
        version if has_salt_29(version) => (&opener.salt_29, LABELS_1),
        _ => (&opener.salt_1, LABELS_1),
    };
    let [key, iv, protection] = labels;
    let connection = header.connection as usize;
    let end = connection + usize::from(header.connection_bytes);
    let initial = salt.extract(datagram.get(connection..end).unwrap_or_default());
    let mut client = [0; SECRET_BYTES];
    let mut keys = QuicKeys {
        version: header.version,
        ..QuicKeys::default()
    };
    let made = expand(&initial, LABEL_CLIENT, &mut client);
    let secret = Prk::new_less_safe(HKDF_SHA256, &client);
    if !made
        || !expand(&secret, key, &mut keys.key)
        || !expand(&secret, iv, &mut keys.iv)
        || !expand(&secret, protection, &mut keys.header)
    {
        return QuicKeys::default();
    }
    keys
}

/// Returns the full packet number for the lowest bytes that were sent: the number with these bytes that is nearest to
/// the next expected number (RFC 9000, section A.3).
/// - sent: sent bytes of the packet number, as a number.
/// - bytes: number of sent bytes, 1 to 4.
fn full_number(expected: u64, sent: u64, bytes: u32) -> u64 {
    let window = 1 << (8 * bytes);
    let half = window / 2;
    let number = expected & !(window - 1) | sent;
    if number + half <= expected && number < NUMBERS - window {
        return number + window;
    }
    if number > expected + half && number >= window {
        return number - window;
    }
    number
}

/// Removes the header protection of an Initial packet (RFC 9001, section 5.4.1).
/// - packet: in/out: packet from its first byte on.
/// - place: offset of the packet number in `packet`.
/// - sent: out: sent bytes of the packet number, as a number.
/// - Returns the length of the sent packet number in bytes; 0 if the packet is too short for a sample.
fn unprotect(keys: &QuicKeys, packet: &mut [u8], place: usize, sent: &mut u64) -> usize {
    let sample = place + SAMPLE_OFFSET;
    let Some(mask) = HeaderProtectionKey::new(&AES_128, &keys.header)
        .ok()
        .zip(packet.get(sample..sample + SAMPLE_BYTES))
        .and_then(|(key, sample)| key.new_mask(sample).ok())
    else {
        return 0;
    };
    let [first_mask, number_mask @ ..] = mask;
    let mut bytes = 0;
    if let Some(first) = packet.first_mut() {
        *first ^= first_mask & HIDDEN;
        bytes = usize::from(*first & NUMBER_MASK) + 1;
    }
    *sent = 0;
    let number = packet.get_mut(place..place + bytes).unwrap_or_default();
    for (byte, mask) in number.iter_mut().zip(number_mask) {
        *byte ^= mask;
        *sent = *sent << 8 | u64::from(*byte);
    }
    bytes
}

/// Decrypts a packet in place, after its header protection was removed (RFC 9001, section 5.3).
/// - head: length of the header in bytes, including the packet number.
/// - number: full packet number.
/// - Returns the number of plaintext bytes, which are moved to the packet's start; 0 if the packet can't be decrypted.
fn decrypt(keys: &QuicKeys, packet: &mut [u8], head: usize, number: u64) -> usize {
    let mut nonce = keys.iv;
    let lower = nonce
        .iter_mut()
        .rev()
        .zip(number.to_be_bytes().into_iter().rev());
    for (byte, number) in lower {
        *byte ^= number;
    }
    let Some((header, sealed)) = packet.split_at_mut_checked(head) else {
        return 0;
    };
    let nonce = Nonce::assume_unique_for_key(nonce);
    let opened = UnboundKey::new(&AES_128_GCM, &keys.key).and_then(|key| {
        let plain = LessSafeKey::new(key).open_in_place(nonce, Aad::from(&*header), sealed);
        plain.map(|plain| plain.len())
    });
    let bytes = opened.unwrap_or(0);
    packet.copy_within(head..head + bytes, 0);
    bytes
}

/// Decrypts an Initial packet.
/// - _opener: unused. The C twin needs libcrypto's contexts; ring needs none.
/// - keys: in/out: keys of the packet's version. `next` changes only if the packet was decrypted.
/// - datagram, header: datagram that contains the Initial packet, and the packet's header; both stay unchanged.
/// - plain: out: frames of the packet.
/// - Returns the number of bytes in plain; 0 if the packet can't be decrypted with these keys, has no frame, or is too
///   long.
pub fn open(
    _opener: &QuicOpener,
    keys: &mut QuicKeys,
    datagram: &[u8],
    header: &QuicHeader,
    plain: &mut [u8; hello::BYTES_MAX],
) -> u32 {
    let place = (header.number - header.start) as usize;
    let from = datagram.get(header.start as usize..header.end as usize);
    let packet = from.and_then(|from| plain.get_mut(..from.len()));
    let (Some(from), Some(packet)) = (from, packet) else {
        return 0;
    };
    let mut sent = 0;
    packet.copy_from_slice(from);
    let number_bytes = unprotect(keys, packet, place, &mut sent);
    if number_bytes == 0 || keys.version != header.version {
        return 0;
    }
    let number = full_number(keys.next, sent, number_bytes as u32);
    let bytes = decrypt(keys, packet, place + number_bytes, number);
    if bytes > 0 {
        keys.next = keys.next.max(number + 1);
    }
    bytes as u32
}

/// Consumes the part of an ACK frame after its type (RFC 9000, section 19.3).
/// - has_ecn: true if the frame contains ECN counts.
fn consume_ack(left: &mut Cursor, has_ecn: bool) {
    consume_number(left);
    consume_number(left);
    let mut ranges = consume_number(left);
    consume_number(left);
    while ranges > 0 && !left.cut {
        consume_number(left);
        consume_number(left);
        ranges -= 1;
    }
    if has_ecn {
        consume_number(left);
        consume_number(left);
        consume_number(left);
    }
}

/// Consumes a number of bytes, and returns a cursor over them. If too few bytes are left, both cursors are cut.
fn consume_part<'a>(left: &mut Cursor<'a>, bytes: u64) -> Cursor<'a> {
    cursor::part(left, bytes.min(u32::MAX.into()) as u32)
}

/// Parses a frame of any type except PADDING and PING. left.cut is set if the frame is cut or its type is not allowed.
/// - end: length of the plaintext.
fn parse_frame(frame_type: u64, end: u32, left: &mut Cursor, frame: &mut QuicFrame) {
    match frame_type {
        FRAME_ACK | FRAME_ACK_ECN => {
            consume_ack(left, frame_type == FRAME_ACK_ECN);
            frame.kind = QuicFrameKind::Ack;
        }
        FRAME_CRYPTO => {
            frame.offset = consume_number(left);
            let bytes = consume_number(left);
            frame.data = end - left.bytes.len() as u32;
            frame.data_bytes = consume_part(left, bytes).bytes.len() as u32;
            frame.kind = QuicFrameKind::Crypto;
        }
        FRAME_CLOSE => {
            consume_number(left);
            consume_number(left);
            let reason = consume_number(left);
            consume_part(left, reason);
            frame.kind = QuicFrameKind::Close;
        }
        _ => left.cut = true,
    }
}

/// Parses a frame of an Initial packet's plaintext.
/// - at: offset of the frame, less than the plaintext's length.
pub fn frame(plain: &[u8], at: u32) -> QuicFrame {
    let mut left = cursor::begin(plain.get(at as usize..).unwrap_or_default());
    let end = plain.len() as u32;
    let mut frame = QuicFrame::default();
    match consume_number(&mut left) {
        FRAME_PADDING => {
            let zeros = left.bytes.iter().take_while(|byte| **byte == 0).count();
            cursor::part(&mut left, zeros as u32);
            frame.kind = QuicFrameKind::Padding;
        }
        FRAME_PING => frame.kind = QuicFrameKind::Ping,
        frame_type => parse_frame(frame_type, end, &mut left, &mut frame),
    }
    if left.cut || frame.offset + u64::from(frame.data_bytes) >= NUMBERS {
        return QuicFrame {
            next: end,
            ..QuicFrame::default()
        };
    }
    frame.next = end - left.bytes.len() as u32;
    frame
}
