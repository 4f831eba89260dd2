// SPDX-License-Identifier: GPL-2.0-or-later
//! What is printed on stdout.

use std::io::{self, Write};

/// Prints a text. False if nobody reads there any more.
pub fn print(text: &str) -> bool {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())
        .and_then(|()| out.flush())
        .is_ok()
}

/// Prints a line.
pub fn line(text: &str) -> bool {
    print(&format!("{text}\n"))
}
