// SPDX-License-Identifier: GPL-2.0-or-later
//! First data of a client: a ClientHello (RFC 8446, section 4.1.2) that current servers answer, and an HTTP request.

/// First bytes of a client, with offsets of their parts.
#[derive(Clone, Debug)]
pub struct Opening {
    pub bytes: Vec<u8>,
    /// Offset of the host name.
    pub name_at: usize,
    /// Number of padding bytes before the name.
    pub padding: usize,
    pub port: u16,
    /// First bytes of the server's answer to the whole data.
    pub answer: &'static [u8],
}

fn with_length16(bytes: &[u8]) -> Vec<u8> {
    [&(bytes.len() as u16).to_be_bytes()[..], bytes].concat()
}

fn extension(kind: u16, body: &[u8]) -> Vec<u8> {
    [&kind.to_be_bytes()[..], &with_length16(body)].concat()
}

/// Default protocols of a hello (ALPN).
const ALPN: &[u8] = b"\x08http/1.1";

/// Returns the handshake message without a record.
/// - host: empty for a hello that shows no name.
/// - padding: bytes of a padding extension before the name. It moves the name as far back as in a hello with a
///   post-quantum key share.
/// - share: key share. If it is empty, the server requests another hello.
/// - alpn: protocols, each preceded by its length.
fn handshake(host: &str, padding: usize, share: &[u8], alpn: &[u8]) -> Vec<u8> {
    let name = [&[0][..], &with_length16(host.as_bytes())].concat();
    let shown = match host {
        "" => Vec::new(),
        _ => extension(0, &with_length16(&name)),
    };
    let extensions = [
        extension(21, &vec![0; padding]),
        shown,
        extension(10, &with_length16(&[0, 0x1d, 0, 0x17])),
        extension(13, &with_length16(&[4, 3, 8, 4, 4, 1, 5, 3, 8, 5, 8, 6])),
        extension(43, &[2, 3, 4]),
        extension(51, &with_length16(share)),
        extension(16, &with_length16(alpn)),
    ]
    .concat();
    let body = [
        &[3, 3][..],
        &[7; 32],
        &[32],
        &[8; 32],
        &with_length16(&[0x13, 1, 0x13, 2, 0x13, 3]),
        &[1, 0],
        &with_length16(&extensions),
    ]
    .concat();
    let length = (body.len() as u32).to_be_bytes();
    [&[1][..], &length[1..], &body].concat()
}

/// Returns an X25519 key share.
fn share() -> Vec<u8> {
    [&[0, 0x1d][..], &with_length16(&[9; 32])].concat()
}

fn record(bytes: &[u8]) -> Vec<u8> {
    [&[0x16, 3, 1][..], &with_length16(bytes)].concat()
}

/// Start of every answer to a whole ClientHello: a handshake record; an alert has another type.
const SERVER_HELLO: &[u8] = &[0x16, 3, 3];

/// Returns a hello in one record.
pub fn tls(host: &str, padding: usize) -> Opening {
    tls_records(host, padding, &[])
}

/// Returns a hello in several records, which end at these offsets in the handshake.
pub fn tls_records(host: &str, padding: usize, cuts: &[usize]) -> Opening {
    let message = handshake(host, padding, &share(), ALPN);
    let mut bytes = Vec::new();
    let mut from = 0;
    for &end in cuts.iter().chain([&message.len()]) {
        bytes.extend(record(&message[from..end]));
        from = end;
    }
    let position = |needle: &[u8]| bytes.windows(needle.len()).position(|part| part == needle);
    Opening {
        name_at: position(host.as_bytes()).unwrap_or(0),
        bytes,
        padding,
        port: 443,
        answer: SERVER_HELLO,
    }
}

/// Returns a hello in one record.
/// - host: empty for a hello that shows no name.
/// - alpn: offered protocols, each preceded by its length.
pub fn tls_offering(host: &str, alpn: &[u8]) -> Vec<u8> {
    record(&handshake(host, 0, &share(), alpn))
}

/// Returns a hello without records, for CRYPTO frames of QUIC.
/// - host: empty for a hello that shows no name.
/// - alpn: offered protocols, each preceded by its length.
pub fn quic_offering(host: &str, alpn: &[u8]) -> Vec<u8> {
    handshake(host, 0, &share(), alpn)
}

/// Returns a hello to which the server answers with HelloRetryRequest (RFC 8446, section 4.1.4).
pub fn tls_retried(host: &str, padding: usize) -> Vec<u8> {
    record(&handshake(host, padding, &[], ALPN))
}

/// Returns the offset of the name in the handshake, for the cuts of records.
pub fn name_in_handshake(host: &str, padding: usize) -> usize {
    let message = handshake(host, padding, &share(), ALPN);
    let mut parts = message.windows(host.len());
    parts.position(|part| part == host.as_bytes()).unwrap_or(0)
}

/// Returns an HTTP request.
/// - line_end: end of each of its lines.
pub fn http(host: &str, line_end: &str) -> Opening {
    let start = format!("GET / HTTP/1.1{line_end}Host: ");
    Opening {
        bytes: format!("{start}{host}{line_end}Accept: */*{line_end}{line_end}").into_bytes(),
        name_at: start.len(),
        padding: 0,
        port: 80,
        answer: b"HTTP/1.1 200",
    }
}
