// SPDX-License-Identifier: GPL-2.0-or-later
//! Cursor over a message: it reads numbers and parts one after another. A read past the end returns nothing, as do all
//! later ones; callers check for it once, at the end.
#![deny(clippy::indexing_slicing)]

/// Unread rest of a message.
#[derive(Clone, Copy, Debug)]
pub struct Cursor<'a> {
    pub bytes: &'a [u8],
    /// True if a read asked for more bytes than were left. Then no bytes are left.
    pub cut: bool,
}

/// Returns a cursor at the start of a message.
pub fn begin(bytes: &[u8]) -> Cursor<'_> {
    Cursor { bytes, cut: false }
}

/// Consumes bytes as a message of their own, which is cut if there are too few.
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

/// Consumes a big-endian number of up to 4 bytes; returns 0 if there are too few.
pub fn number(cursor: &mut Cursor, bytes: u32) -> u32 {
    let taken = part(cursor, bytes);
    taken
        .bytes
        .iter()
        .fold(0, |number, byte| number.wrapping_shl(8) | u32::from(*byte))
}

/// Consumes a TLS vector (RFC 8446, section 3.4): a length with this number of bytes, and as many bytes as it says.
pub fn vector<'a>(cursor: &mut Cursor<'a>, length_bytes: u32) -> Cursor<'a> {
    let length = number(cursor, length_bytes);
    part(cursor, length)
}
