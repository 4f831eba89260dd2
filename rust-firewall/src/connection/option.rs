// SPDX-License-Identifier: GPL-2.0-or-later
//! Options of a TCP header (RFC 9293, section 3.1).
#![deny(clippy::indexing_slicing)]

/// Kind of the option Multipath TCP (RFC 8684).
pub const MULTIPATH: u8 = 30;
/// Kind of the TCP option that ends the list of options.
const END: u8 = 0;
/// Kind of the TCP option without a length: padding of one byte.
const NONE: u8 = 1;

/// Returns true if the options contain an option of the given kind. An option with an invalid length ends the list, as
/// in Linux (tcp_parse_options).
/// - options: the bytes after the first 20 bytes of a header.
pub fn has(options: &[u8], kind: u8) -> bool {
    let mut left = options;
    while let [first, rest @ ..] = left {
        if *first == END {
            return false;
        }
        if *first == NONE {
            left = rest;
            continue;
        }
        let bytes = rest.first().copied().map_or(0, usize::from);
        let Some(behind) = left.get(bytes..).filter(|_| bytes >= 2) else {
            return false;
        };
        if *first == kind {
            return true;
        }
        left = behind;
    }
    false
}
