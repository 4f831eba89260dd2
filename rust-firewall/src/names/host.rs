// SPDX-License-Identifier: GPL-2.0-or-later
//! A host's name as it is compared: in lower case, without the dot at its end.
#![deny(clippy::indexing_slicing)]

use crate::names::types::{Names, HOST_BYTES};

/// Writes a name into names.host: ASCII in lower case, one dot at its end dropped; other bytes stay.
/// - Returns false, names.host untouched, if it is then empty or longer than HOST_BYTES.
pub fn fold(bytes: &[u8], names: &mut Names) -> bool {
    let _ = (bytes, names, HOST_BYTES);
    false
}
