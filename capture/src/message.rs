// SPDX-License-Identifier: GPL-2.0-or-later
//! Messages on stderr.

use std::fmt::Arguments;
use std::io::{self, Write};

/// Writes to stderr. Errors are ignored, where eprintln! would panic: a closed pipe or terminal must not end a capture.
/// - text: whole lines, with their line ends.
pub fn print(text: Arguments) {
    let _ = io::stderr().write_fmt(text);
}
