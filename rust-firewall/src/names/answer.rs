// SPDX-License-Identifier: GPL-2.0-or-later
//! Parser of DNS answers for address queries: the question, and the addresses of the question's name. An alias record
//! (CNAME) replaces the name by another name (RFC 1034, section 3.6.2), and must precede that name's records. All
//! addresses get the shortest TTL of the aliases and address records that are used (RFC 2181, sections 5.2 and 8).
//! Format: RFC 1035, sections 3.2 and 4.1; RFC 3596, section 2 (AAAA).
#![deny(clippy::indexing_slicing)]

use crate::names::cursor::{self, Cursor};
use crate::names::types::HOST_BYTES;

/// Types and class of a question or resource record (RFC 1035, section 3.2; RFC 3596, section 2).
pub const TYPE_A: u16 = 1;
pub const TYPE_AAAA: u16 = 28;
const TYPE_CNAME: u16 = 5;
const CLASS_IN: u16 = 1;
/// Maximum number of addresses in an answer; an answer with more addresses is unreadable.
pub const ADDRESSES_MAX: usize = 256;
/// Bits of the header's 16 flag bits: answer (QR), kind of query (OPCODE: 0 = standard), truncated (TC), error code
/// (RCODE: 0 = no error).
const ANSWER: u32 = 0x8000;
const OPCODE: u32 = 0x7800;
const TRUNCATED: u32 = 0x0200;
const RCODE: u32 = 0x000f;
const HEADER_BYTES: usize = 12;
/// Size of the rest of the header after the number of answers, in bytes: two 16-bit counts.
const COUNTS_BYTES: u32 = 4;
/// Maximum length of a label in bytes. Values from POINTER on are compression pointers; the values in between are
/// reserved.
const LABEL_BYTES_MAX: u32 = 63;
const POINTER: u32 = 0xc0;
/// Maximum number of pointers that are followed for one name.
const POINTERS_MAX: u32 = 127;
/// First TTL value that counts as 0 (RFC 2181, section 8).
const TTL_END: u32 = 1 << 31;

/// Name in lower case and without a final dot, for comparisons; the root's name is empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AnswerHost {
    pub length: u8,
    pub bytes: [u8; HOST_BYTES],
}

/// Parsed DNS message: its question, and the addresses that an answer has for the question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    pub id: u16,
    /// True for an answer, false for a query.
    pub is_answer: bool,
    /// Type of the question.
    pub dns_type: u16,
    /// Class of the question.
    pub class: u16,
    /// Name of the question.
    pub host: AnswerHost,
    /// Shortest TTL of the addresses and of the aliases that lead to them, in seconds.
    pub ttl: u32,
    /// Number of addresses; 0 if the answer is unreadable, is truncated or has an error code.
    pub count: u32,
    pub addresses: [u128; ADDRESSES_MAX],
}

impl Default for AnswerHost {
    fn default() -> Self {
        AnswerHost {
            length: 0,
            bytes: [0; HOST_BYTES],
        }
    }
}

impl Default for Answer {
    fn default() -> Self {
        Answer {
            id: 0,
            is_answer: false,
            dns_type: 0,
            class: 0,
            host: AnswerHost::default(),
            ttl: 0,
            count: 0,
            addresses: [0; ADDRESSES_MAX],
        }
    }
}

/// Resource record without its name.
struct Record<'a> {
    is_internet: bool,
    kind: u16,
    ttl: u32,
    /// Offset of the record's data in the message.
    data_offset: usize,
    data: Cursor<'a>,
}

/// Appends a label to a name. Returns false if the label contains a dot, which would look like two labels, or the name
/// becomes too long.
fn add_label(host: &mut AnswerHost, label: &[u8]) -> bool {
    let before = usize::from(host.length);
    let start = before + usize::from(before > 0);
    let end = start + label.len();
    if end > HOST_BYTES || label.contains(&b'.') {
        return false;
    }
    if let Some(dot) = host.bytes.get_mut(before) {
        *dot = b'.';
    }
    let place = host.bytes.get_mut(start..end).unwrap_or_default();
    for (to, from) in place.iter_mut().zip(label) {
        *to = from.to_ascii_lowercase();
    }
    host.length = end as u8;
    true
}

/// Reads a name, and follows its compression pointers. Each pointer's target must lie before the name, and before the
/// previous pointer's target.
/// - offset: offset of the name in the message.
/// - host: out: the name.
/// - Returns the offset after the name's bytes at `offset`; None if the name is malformed.
fn parse_name(message: &[u8], offset: usize, host: &mut AnswerHost) -> Option<usize> {
    let mut left = cursor::begin(message.get(offset..)?);
    let mut end = None;
    let mut limit = offset;
    let mut pointers = 0;
    *host = AnswerHost::default();
    loop {
        let mut length = cursor::number(&mut left, 1);
        if length >= POINTER {
            length = (length - POINTER) << 8 | cursor::number(&mut left, 1);
            let target = length as usize;
            let is_behind = target < HEADER_BYTES || target >= limit;
            if left.cut || is_behind || pointers == POINTERS_MAX {
                return None;
            }
            end = end.or(Some(message.len() - left.bytes.len()));
            pointers += 1;
            limit = target;
            left = cursor::begin(message.get(target..)?);
            continue;
        }
        let label = cursor::part(&mut left, length);
        if label.cut || length > LABEL_BYTES_MAX {
            return None;
        }
        if length == 0 {
            return end.or(Some(message.len() - left.bytes.len()));
        }
        if !add_label(host, label.bytes) {
            return None;
        }
    }
}

/// Reads a record. Returns None if the record is cut.
/// - offset: offset after the record's name.
fn parse_record(message: &[u8], offset: usize) -> Option<Record<'_>> {
    let mut left = cursor::begin(message.get(offset..)?);
    let kind = cursor::number(&mut left, 2) as u16;
    let is_internet = cursor::number(&mut left, 2) == u32::from(CLASS_IN);
    let ttl = cursor::number(&mut left, 4);
    let bytes = cursor::number(&mut left, 2);
    let data_offset = message.len() - left.bytes.len();
    let data = cursor::part(&mut left, bytes);
    (!data.cut).then_some(Record {
        is_internet,
        kind,
        ttl: if ttl < TTL_END { ttl } else { 0 },
        data_offset,
        data,
    })
}

/// Adds a record's address to the answer, and lowers the answer's TTL to the record's. Returns false if the data is no
/// address of the question's type or there is no room.
fn add_address(record: &Record, answer: &mut Answer) -> bool {
    let bytes = match answer.dns_type {
        TYPE_A => 4,
        _ => 16,
    };
    let Some(place) = answer.addresses.get_mut(answer.count as usize) else {
        return false;
    };
    if record.data.bytes.len() != bytes {
        return false;
    }
    *place = 0;
    for byte in record.data.bytes {
        *place = *place << 8 | u128::from(*byte);
    }
    answer.count += 1;
    answer.ttl = answer.ttl.min(record.ttl);
    true
}

/// Reads the answer records, and adds the addresses of the question's name, also after aliases. Returns false if a
/// record is malformed, or there are more than ADDRESSES_MAX addresses.
/// - offset: offset of the first record in the message.
fn parse_records(message: &[u8], mut offset: usize, records: u32, answer: &mut Answer) -> bool {
    let mut sought = answer.host;
    let mut owner = AnswerHost::default();
    for _ in 0..records {
        let behind = parse_name(message, offset, &mut owner);
        let Some(record) = behind.and_then(|behind| parse_record(message, behind)) else {
            return false;
        };
        offset = record.data_offset + record.data.bytes.len();
        if !record.is_internet || owner != sought {
            continue;
        }
        if record.kind == TYPE_CNAME {
            if parse_name(message, record.data_offset, &mut sought) != Some(offset) {
                return false;
            }
            answer.ttl = answer.ttl.min(record.ttl);
        } else if record.kind == answer.dns_type && !add_address(&record, answer) {
            return false;
        }
    }
    true
}

/// Returns true if the question is for addresses: class IN, and type A or AAAA.
pub fn asks_address(answer: &Answer) -> bool {
    answer.class == CLASS_IN && matches!(answer.dns_type, TYPE_A | TYPE_AAAA)
}

/// Parses the question of a message.
/// - message: complete message, from its header on.
/// - answer: out: id, is_answer and the fields of the question; the addresses stay unchanged.
/// - Returns the offset after the question; None if the message does not have exactly one question, if the question is
///   cut or malformed, or if OPCODE is not 0 (standard query).
pub fn question(message: &[u8], answer: &mut Answer) -> Option<usize> {
    let mut left = cursor::begin(message);
    answer.id = cursor::number(&mut left, 2) as u16;
    let flags = cursor::number(&mut left, 2);
    let questions = cursor::number(&mut left, 2);
    answer.is_answer = flags & ANSWER != 0;
    if flags & OPCODE != 0 || questions != 1 {
        return None;
    }
    let offset = parse_name(message, HEADER_BYTES, &mut answer.host)?;
    left = cursor::begin(message.get(offset..)?);
    answer.dns_type = cursor::number(&mut left, 2) as u16;
    answer.class = cursor::number(&mut left, 2) as u16;
    (!left.cut).then_some(message.len() - left.bytes.len())
}

/// Parses the records of an answer to a question for addresses.
/// - offset: result of `question`.
/// - answer: in: result of `question`; out: addresses, count and ttl are set. count is 0 if the answer has an error
///   code, is truncated, or is unreadable.
/// - Returns false if the answer is unreadable: a record is malformed, or there are more than ADDRESSES_MAX addresses.
pub fn parse(message: &[u8], offset: usize, answer: &mut Answer) -> bool {
    let mut left = cursor::begin(message);
    cursor::number(&mut left, 2);
    let flags = cursor::number(&mut left, 2);
    cursor::number(&mut left, 2);
    let records = cursor::number(&mut left, 2);
    cursor::part(&mut left, COUNTS_BYTES);
    answer.count = 0;
    answer.ttl = TTL_END - 1;
    let is_read = !left.cut && parse_records(message, offset, records, answer);
    if !is_read || flags & (TRUNCATED | RCODE) != 0 {
        answer.count = 0;
    }
    is_read
}
