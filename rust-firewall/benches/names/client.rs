// SPDX-License-Identifier: GPL-2.0-or-later
//! First bytes of clients: a ClientHello in a TLS record or in a QUIC Initial packet, an HTTP request, and a DNS query.

use ring::aead::quic::{HeaderProtectionKey, AES_128};
use ring::aead::{Aad, LessSafeKey, Nonce, UnboundKey, AES_128_GCM};
use rust_firewall::names::quic;

const NAME: &[u8] = b"www.shop.example";
/// Layout of an Initial packet in bytes: its size, the size of its header, the offset of the packet number, and the
/// size of the authentication tag at its end.
const INITIAL_BYTES: usize = 1200;
const INITIAL_HEAD: usize = 22;
const INITIAL_NUMBER: usize = 18;
const TAG_BYTES: usize = 16;

/// Appends the length of a part, as a big-endian number of length_bytes bytes, and then the part.
fn put_part(out: &mut Vec<u8>, length_bytes: usize, part: &[u8]) {
    let length = (part.len() as u32).to_be_bytes();
    out.extend_from_slice(&length[4 - length_bytes..]);
    out.extend_from_slice(part);
}

fn put_extension(out: &mut Vec<u8>, kind: u16, value: &[u8]) {
    out.extend_from_slice(&kind.to_be_bytes());
    put_part(out, 2, value);
}

/// Returns a ClientHello like a browser's, with a key share of share_bytes bytes.
pub fn hello(share_bytes: usize) -> Vec<u8> {
    let mut name = vec![0, NAME.len() as u8 + 3, 0];
    put_part(&mut name, 2, NAME);
    let mut extensions = Vec::new();
    put_extension(&mut extensions, 0, &name);
    put_extension(&mut extensions, 10, &[0, 6, 0x11, 0xec, 0, 29, 0, 23]);
    put_extension(&mut extensions, 13, &[b's'; 18]);
    put_extension(&mut extensions, 16, b"\x00\x0c\x02h2\x08http/1.1");
    put_extension(&mut extensions, 43, &[4, 3, 4, 3, 3]);
    put_extension(&mut extensions, 51, &vec![b'k'; share_bytes]);
    let mut body = vec![3, 3];
    body.extend_from_slice(&[b'r'; 32]);
    put_part(&mut body, 1, &[b'i'; 32]);
    put_part(&mut body, 2, &[0x13; 32]);
    put_part(&mut body, 1, &[0]);
    put_part(&mut body, 2, &extensions);
    let mut message = vec![1];
    put_part(&mut message, 3, &body);
    message
}

/// Returns a TLS record with a handshake message.
pub fn record(handshake: &[u8]) -> Vec<u8> {
    let mut record = vec![22, 3, 1];
    put_part(&mut record, 2, handshake);
    record
}

/// Returns an Initial packet of QUIC version 1 with a handshake message in its CRYPTO frame.
pub fn initial(handshake: &[u8]) -> Vec<u8> {
    let mut packet = vec![0xc3, 0, 0, 0, 1, 8];
    packet.extend_from_slice(b"benchmrk\0\0");
    let sealed = (INITIAL_BYTES - INITIAL_NUMBER) as u16 | 0x4000;
    packet.extend_from_slice(&sealed.to_be_bytes());
    packet.extend_from_slice(&[0; INITIAL_HEAD - INITIAL_NUMBER]);
    packet.extend_from_slice(&[6, 0]);
    packet.extend_from_slice(&(handshake.len() as u16 | 0x4000).to_be_bytes());
    packet.extend_from_slice(handshake);
    packet.resize(INITIAL_BYTES, 0);
    let keys = quic::derive(&quic::make(), &packet, &quic::header(&packet, 0));
    let (head, sealed) = packet.split_at_mut(INITIAL_HEAD);
    let (frames, tag) = sealed.split_at_mut(INITIAL_BYTES - INITIAL_HEAD - TAG_BYTES);
    let key = LessSafeKey::new(UnboundKey::new(&AES_128_GCM, &keys.key).expect("16 bytes"));
    let nonce = Nonce::assume_unique_for_key(keys.iv);
    let made = key.seal_in_place_separate_tag(nonce, Aad::from(&*head), frames);
    tag.copy_from_slice(made.expect("it is short enough").as_ref());
    let key = HeaderProtectionKey::new(&AES_128, &keys.header).expect("16 bytes");
    let mask = key.new_mask(&frames[..TAG_BYTES]).expect("16 bytes");
    head[0] ^= mask[0] & 0x0f;
    for (byte, mask) in head[INITIAL_NUMBER..].iter_mut().zip(&mask[1..]) {
        *byte ^= mask;
    }
    packet
}

/// Number of header fields in an HTTP request.
const FIELDS: usize = 64;

/// Returns an HTTP request.
pub fn request() -> Vec<u8> {
    let mut request = b"GET / HTTP/1.1\r\n".to_vec();
    for _ in 1..FIELDS {
        request.extend_from_slice(b"Accept: text/html\r\n");
    }
    request.extend_from_slice(b"Host: ");
    request.extend_from_slice(NAME);
    request.extend_from_slice(b"\r\n\r\n");
    request
}

/// Returns a DNS query for the IPv4 addresses of a name.
pub fn query() -> Vec<u8> {
    let mut message = vec![0x12, 0x34, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    for label in NAME.split(|byte| *byte == b'.') {
        put_part(&mut message, 1, label);
    }
    message.extend_from_slice(&[0, 0, 1, 0, 1]);
    message
}
