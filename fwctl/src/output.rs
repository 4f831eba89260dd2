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

/// A text that came from elsewhere, as a terminal may have it: `?` for all that is no printable ASCII.
pub fn printable(text: &str) -> String {
    let show = |c: char| match c {
        ' '..='~' => c,
        _ => '?',
    };
    text.chars().map(show).collect()
}

/// Prints a line.
pub fn line(text: &str) -> bool {
    print(&format!("{text}\n"))
}
