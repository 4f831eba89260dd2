// SPDX-License-Identifier: GPL-2.0-or-later
//! Host name in the form for comparison: lower case, without a final dot.
#![deny(clippy::indexing_slicing)]

use crate::names::types::{Names, HOST_BYTES};

/// Writes a name into names.host: ASCII in lower case, without a final dot; other bytes stay.
/// - Returns false, names.host unchanged, if the name is empty or longer than HOST_BYTES.
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
