// SPDX-License-Identifier: GPL-2.0-or-later
//! Reader of numbers and parts of a message, one after another. Reading past the end gives nothing, then and later on; the
//! caller checks for it at the end.
#![deny(clippy::indexing_slicing)]

/// Rest of a message.
#[derive(Clone, Copy, Debug)]
pub struct Cursor<'a> {
    pub bytes: &'a [u8],
    /// More was taken than there was. Then nothing is left.
    pub cut: bool,
}

/// Begins at the start of a message.
pub fn begin(bytes: &[u8]) -> Cursor<'_> {
    Cursor { bytes, cut: false }
}

/// Consumes so many bytes as a message of its own, which is cut if there are fewer.
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

/// Consumes a big-endian number of up to 4 bytes; 0 if there are fewer.
pub fn number(cursor: &mut Cursor, bytes: u32) -> u32 {
    let taken = part(cursor, bytes);
    taken
        .bytes
        .iter()
        .fold(0, |number, byte| number.wrapping_shl(8) | u32::from(*byte))
}

/// Consumes a TLS vector (RFC 8446, section 3.4): a length of so many bytes, and as many bytes as it says.
pub fn vector<'a>(cursor: &mut Cursor<'a>, length_bytes: u32) -> Cursor<'a> {
    let length = number(cursor, length_bytes);
    part(cursor, length)
}
