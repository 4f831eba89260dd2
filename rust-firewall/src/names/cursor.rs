// SPDX-License-Identifier: GPL-2.0-or-later
//! Cursor over a message: reads numbers and parts one after another. After a read past the end, all reads return
//! nothing. Therefore callers need to check for it only once, after the last read.
#![deny(clippy::indexing_slicing)]

/// Unread rest of a message.
#[derive(Clone, Copy, Debug)]
pub struct Cursor<'a> {
    pub bytes: &'a [u8],
    /// True if a read requested more bytes than were left. The rest is then empty.
    pub cut: bool,
}

/// Returns a cursor at the start of a message.
pub fn begin(bytes: &[u8]) -> Cursor<'_> {
    Cursor { bytes, cut: false }
}

/// Consumes a number of bytes, and returns a cursor over them. If too few bytes are left, both cursors are empty and
/// cut.
pub fn part<'a>(cursor: &mut Cursor<'a>, bytes: u32) -> Cursor<'a> {
    let Some((taken, left)) = cursor.bytes.split_at_checked(bytes as usize) else {
        *cursor = Cursor {
            bytes: &[],
            cut: true,
        };
        return *cursor;
    };
    cursor.bytes = left;
    Cursor {
        bytes: taken,
        cut: cursor.cut,
    }
}

/// Consumes and returns a big-endian number of up to 4 bytes. Returns 0 if too few bytes are left.
pub fn number(cursor: &mut Cursor, bytes: u32) -> u32 {
    let taken = part(cursor, bytes);
    taken
        .bytes
        .iter()
        .fold(0, |number, byte| number.wrapping_shl(8) | u32::from(*byte))
}

/// Consumes a TLS vector (RFC 8446, section 3.4): a length field, and as many bytes as it states. Returns a cursor over
/// these bytes.
/// - length_bytes: size of the length field.
pub fn vector<'a>(cursor: &mut Cursor<'a>, length_bytes: u32) -> Cursor<'a> {
    let length = number(cursor, length_bytes);
    part(cursor, length)
}
