// SPDX-License-Identifier: GPL-2.0-or-later
// seccomp: write
//! Output on stdout.

use std::io::{self, Write};

/// Writes a text to stdout and flushes it. Errors are ignored: the reader may have closed stdout.
pub fn print(text: &str) {
    let mut out = io::stdout().lock();
    let _ = out.write_all(text.as_bytes());
    let _ = out.flush();
}
