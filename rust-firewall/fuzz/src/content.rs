// SPDX-License-Identifier: GPL-2.0-or-later
//! First bytes of clients that request a name: a TLS ClientHello, HTTP requests, DNS queries.

pub const DENIED: &str = "www.denied.example";
const ALLOWED: &str = "www.amused.example";

pub const BYTES: usize = 1600;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContentKind {
    Tls,
    Http,
    Dns,
}

pub const KINDS: [ContentKind; 3] = [ContentKind::Tls, ContentKind::Http, ContentKind::Dns];

fn short(number: usize) -> [u8; 2] {
    (number as u16).to_be_bytes()
}

/// Returns a TLS vector: its length in two bytes, and its bytes.
fn vector(bytes: &[u8]) -> Vec<u8> {
    [&short(bytes.len()), bytes].concat()
}

/// Returns the extensions of a ClientHello: padding, server name, versions.
fn extensions(host: &str, padding: usize) -> Vec<u8> {
    let name = [&[0], &vector(host.as_bytes())[..]].concat();
    [
        &short(21)[..],
        &vector(&vec![0; padding]),
        &short(0),
        &vector(&vector(&name)),
        &[0, 0x2b, 0, 3, 2, 3, 4],
    ]
    .concat()
}

fn tls(host: &str, padding: usize) -> Vec<u8> {
    let extensions = vector(&extensions(host, padding));
    let hello = [
        &[3, 3][..],
        &[0; 32],
        &[0, 0, 2, 0x13, 1, 1, 0],
        &extensions,
    ]
    .concat();
    let handshake = [&[1, 0][..], &vector(&hello)].concat();
    [
        &[0x16, 3, 1][..],
        &vector(&handshake),
        b"\x17\x03\x03\0\x100123456789abcdef",
    ]
    .concat()
}

fn request(host: &str) -> Vec<u8> {
    format!("POST /a HTTP/1.1\r\nContent-Length: 4\r\nHost: {host}\r\n\r\nbody").into_bytes()
}

/// Returns a DNS query with its length before it, as over TCP.
fn query(host: &str) -> Vec<u8> {
    let mut query = b"\x12\x34\x01\0\0\x01\0\0\0\0\0\0".to_vec();
    for label in host.split('.') {
        query.push(label.len() as u8);
        query.extend(label.as_bytes());
    }
    query.extend([0, 0, 1, 0, 1]);
    vector(&query)
}

/// Returns the first bytes of a client that requests a denied (is_denied) or an allowed name. The number of bytes is
/// the same for both. HTTP and DNS clients first request an allowed name.
/// - padding: number of padding bytes in a ClientHello.
pub fn make(kind: ContentKind, is_denied: bool, padding: u8) -> Vec<u8> {
    let host = if is_denied { DENIED } else { ALLOWED };
    match kind {
        ContentKind::Tls => tls(host, padding.into()),
        ContentKind::Http => [request(ALLOWED), request(host)].concat(),
        ContentKind::Dns => [query(ALLOWED), query(host), query(ALLOWED)].concat(),
    }
}
