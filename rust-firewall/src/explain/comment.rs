// SPDX-License-Identifier: GPL-2.0-or-later
//! Metadata of a packet in a capture's comment, as `fwctl record` writes it: `twinwall: verdict=drop by=rule
//! rule=web.nft:6 hook=input iif=eth0 mark=0x0 ct=new`. Each field has one space before it, and a value without spaces;
//! percent signs and unprintable characters are written as %XX. Unknown fields are ignored.

use crate::options::explain;
use crate::options::types::OptionsFacts;
use crate::options::values;
use crate::packet::verdict::{self, Verdict};

/// Maximum length of a known field's value, in bytes. A comment with a longer value is damaged.
const VALUE_BYTES_MAX: usize = 63;

/// Metadata and verdict from the comment of a captured packet. Fields that the comment does not name are unset.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Comment {
    pub facts: OptionsFacts,
    pub verdict: Option<Verdict>,
}

/// A known field: its name, and the function that parses its value. The function returns None if the value is invalid.
struct Field {
    name: &'static str,
    store: fn(&mut Comment, &[u8]) -> Option<()>,
}

fn store_verdict(comment: &mut Comment, value: &[u8]) -> Option<()> {
    let mut verdicts = verdict::VERDICTS.iter();
    let named = verdicts.find(|(_, name)| name.as_bytes() == value)?;
    comment.verdict = Some(named.0);
    Some(())
}

fn store_hook(comment: &mut Comment, value: &[u8]) -> Option<()> {
    comment.facts.hook = Some(explain::parse_hook(value)?);
    Some(())
}

fn store_iif(comment: &mut Comment, value: &[u8]) -> Option<()> {
    comment.facts.iif = explain::parse_interface(value)?;
    Some(())
}

fn store_oif(comment: &mut Comment, value: &[u8]) -> Option<()> {
    comment.facts.oif = explain::parse_interface(value)?;
    Some(())
}

fn store_mark(comment: &mut Comment, value: &[u8]) -> Option<()> {
    comment.facts.mark = values::parse_mark(value)?;
    Some(())
}

fn store_uid(comment: &mut Comment, value: &[u8]) -> Option<()> {
    comment.facts.uid = Some(explain::parse_id(value)?);
    Some(())
}

fn store_gid(comment: &mut Comment, value: &[u8]) -> Option<()> {
    comment.facts.gid = Some(explain::parse_id(value)?);
    Some(())
}

fn store_ct_state(comment: &mut Comment, value: &[u8]) -> Option<()> {
    comment.facts.ct_state = Some(explain::parse_ct_state(value)?);
    Some(())
}

fn store_ct_mark(comment: &mut Comment, value: &[u8]) -> Option<()> {
    comment.facts.ct_mark = Some(values::parse_mark(value)?);
    Some(())
}

const FIELDS: [Field; 9] = [
    Field {
        name: "verdict",
        store: store_verdict,
    },
    Field {
        name: "hook",
        store: store_hook,
    },
    Field {
        name: "iif",
        store: store_iif,
    },
    Field {
        name: "oif",
        store: store_oif,
    },
    Field {
        name: "mark",
        store: store_mark,
    },
    Field {
        name: "uid",
        store: store_uid,
    },
    Field {
        name: "gid",
        store: store_gid,
    },
    Field {
        name: "ct",
        store: store_ct_state,
    },
    Field {
        name: "ctmark",
        store: store_ct_mark,
    },
];

/// Returns the value of a hexadecimal digit; None if the byte is no digit.
fn digit_of(byte: u8) -> Option<u8> {
    let digit = char::from(byte).to_digit(16)?;
    Some(digit as u8)
}

/// Decodes %XX in a value; None if the value contains a NUL, or is damaged or too long.
fn decode(text: &[u8]) -> Option<Vec<u8>> {
    let mut value = Vec::new();
    let mut left = text.iter();
    while let Some(byte) = left.next() {
        let mut byte = *byte;
        if byte == b'%' {
            let (high, low) = (digit_of(*left.next()?)?, digit_of(*left.next()?)?);
            byte = high * 16 + low;
        }
        if byte == 0 || value.len() == VALUE_BYTES_MAX {
            return None;
        }
        value.push(byte);
    }
    Some(value)
}

/// Returns true if the text is not empty and all its bytes lie within the range.
fn all_within(text: &[u8], low: u8, high: u8) -> bool {
    !text.is_empty() && text.iter().all(|byte| (low..=high).contains(byte))
}

/// Parses a field, NAME=VALUE; ignores a field with an unknown name. Returns None if the field is damaged or repeated.
/// - seen: in/out: bit n is set if FIELDS[n] has been parsed.
fn parse_word(comment: &mut Comment, text: &[u8], seen: &mut u32) -> Option<()> {
    let equals = text.iter().position(|byte| *byte == b'=')?;
    let (name, value) = (text.get(..equals)?, text.get(equals + 1..)?);
    if !all_within(name, b'a', b'z') || !all_within(value, b'!', b'~') {
        return None;
    }
    let mut fields = FIELDS.iter().enumerate();
    let Some((at, field)) = fields.find(|(_, field)| field.name.as_bytes() == name) else {
        return Some(());
    };
    if *seen & 1 << at != 0 {
        return None;
    }
    *seen |= 1 << at;
    (field.store)(comment, &decode(value)?)
}

/// Parses the text of a packet's comment after `COMMENT_BEGIN`. Returns None if it is damaged.
pub fn parse(text: &[u8]) -> Option<Comment> {
    let mut comment = Comment::default();
    let mut seen = 0;
    for field in text.strip_prefix(b" ")?.split(|byte| *byte == b' ') {
        parse_word(&mut comment, field, &mut seen)?;
    }
    Some(comment)
}
