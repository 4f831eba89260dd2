// SPDX-License-Identifier: GPL-2.0-or-later
//! Initial packets of QUIC: their headers, their protection, which hides them from nobody, and the frames in them.
//! Formats: RFC 9000, sections 16, 17.2, 19 and A.3; RFC 9001, sections 5.2 to 5.4; RFC 9369, section 3 (version 2).
#![deny(clippy::indexing_slicing)]

use crate::names::hello;

/// Versions that are understood.
pub const VERSION_1: u32 = 0x0000_0001;
pub const VERSION_2: u32 = 0x6b33_43cf;
/// Bytes of a connection id (RFC 9000, section 17.2).
pub const CONNECTION_BYTES_MAX: usize = 20;

/// What a datagram has at some place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum QuicKind {
    /// A long header of a version that is understood, malformed or cut.
    #[default]
    Bad,
    /// No long header: a packet under keys that only its ends have, padding, or no QUIC.
    Short,
    /// A long header of a version that is not understood, or of version negotiation.
    Unknown,
    /// 0-RTT, Handshake or Retry.
    Long,
    /// An Initial packet.
    Initial,
}

/// A packet's header. Places count from the start of the datagram.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QuicHeader {
    pub kind: QuicKind,
    /// With Unknown, Long and Initial.
    pub version: u32,
    /// Where the packet begins.
    pub start: u32,
    /// Where the destination's connection id is, and its bytes; with Long and Initial.
    pub connection: u32,
    pub connection_bytes: u8,
    /// Where the packet's number is; with Initial.
    pub number: u32,
    /// Where the packet ends, and the next one of the datagram may begin. Of Bad, Short and Unknown, and Retry, the datagram's
    /// end.
    pub end: u32,
}

/// The keys of a client's Initial packets. Kept as long as its hello is not whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QuicKeys {
    /// 0 = no keys yet.
    pub version: u32,
    pub key: [u8; 16],
    pub iv: [u8; 12],
    /// Of header protection.
    pub header: [u8; 16],
    /// The packet's number that is expected next: one more than the highest of those opened.
    pub next: u64,
}

/// What is made once for all packets that are opened: nothing allocates afterwards. One a thread.
#[derive(Debug)]
pub struct QuicOpener {}

/// What a frame is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum QuicFrameKind {
    /// Malformed, cut, or not allowed in an Initial packet (RFC 9000, section 12.4): nothing behind it can be read.
    #[default]
    Bad,
    /// As many as stand there side by side.
    Padding,
    Ping,
    Ack,
    Crypto,
    Close,
}

/// A frame. Places count from the start of the plaintext.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QuicFrame {
    pub kind: QuicFrameKind,
    /// Where the next one begins; of Bad the plaintext's end.
    pub next: u32,
    /// Of Crypto: where its bytes are, and how many.
    pub data: u32,
    pub data_bytes: u32,
    /// Of Crypto: where its bytes belong in the handshake. offset + data_bytes < 2^62.
    pub offset: u64,
}

/// Makes an opener.
pub fn make() -> QuicOpener {
    QuicOpener {}
}

/// Reads the header of the packet at a place of a datagram. Its fixed bit may be 0 (RFC 9287).
/// - at: where the packet begins, at most the datagram's length; an empty rest is Short.
pub fn header(datagram: &[u8], at: u32) -> QuicHeader {
    QuicHeader {
        kind: QuicKind::Short,
        start: at,
        end: datagram.len() as u32,
        ..QuicHeader::default()
    }
}

/// Derives the keys of a client's Initial packets from the connection id that its first one is sent to.
/// - header: of an Initial of this datagram.
pub fn derive(opener: &QuicOpener, datagram: &[u8], header: &QuicHeader) -> QuicKeys {
    let _ = (opener, datagram, header);
    QuicKeys::default()
}

/// Opens an Initial packet.
/// - keys: of its version; next goes on if it could be opened, else nothing changes.
/// - datagram, header: of an Initial; the datagram is not written to.
/// - plain: gets its frames.
/// - Returns the bytes in plain; 0 = it can't be opened with these keys, or has no frame, or does not fit.
pub fn open(
    opener: &QuicOpener,
    keys: &mut QuicKeys,
    datagram: &[u8],
    header: &QuicHeader,
    plain: &mut [u8; hello::BYTES_MAX],
) -> u32 {
    let _ = (opener, keys, datagram, header, plain);
    0
}

/// Reads the frame at a place of a plaintext.
/// - at: where it begins, below the plaintext's length.
pub fn frame(plain: &[u8], at: u32) -> QuicFrame {
    let _ = at;
    QuicFrame {
        next: plain.len() as u32,
        ..QuicFrame::default()
    }
}
