// SPDX-License-Identifier: GPL-2.0-or-later
//! Conversion of a host name for comparisons: lower case, without a final dot.
#![deny(clippy::indexing_slicing)]

use crate::names::types::{Names, HOST_BYTES};

/// Writes a name into names.host: ASCII in lower case, without a final dot; other bytes stay.
/// - Returns false if the name without its final dot is empty or longer than HOST_BYTES; names.host then stays
///   unchanged.
pub fn fold(bytes: &[u8], names: &mut Names) -> bool {
    let name = bytes.strip_suffix(b".").unwrap_or(bytes);
    if name.is_empty() || name.len() > HOST_BYTES {
        return false;
    }
    for (to, from) in names.host.iter_mut().zip(name) {
        *to = from.to_ascii_lowercase();
    }
    names.host_length = name.len() as u8;
    true
}
