// SPDX-License-Identifier: GPL-2.0-or-later
//! Fuzzes the parser of SSH version lines: the line lies in the bytes, has no line end and begins with SSH-. If it is
//! found in the first bytes, the same line is found after more bytes have arrived.
#![no_main]

use libfuzzer_sys::fuzz_target;
use scanner::probe::ssh::{version_line, Line};

fuzz_target!(|input: &[u8]| {
    let whole = version_line(input);
    let first = (0..input.len())
        .map(|len| version_line(&input[..len]))
        .find(|line| *line != Line::More);
    if let Line::Version(from, to) = whole {
        let line = &input[from..to];
        assert!(line.starts_with(b"SSH-") && line.len() < 255 && !line.contains(&b'\n'));
        assert!(from == 0 || input[from - 1] == b'\n');
    }
    // A version line that was found in a part must be found when more bytes arrive.
    if let Some(Line::Version(from, to)) = first {
        assert_eq!(whole, Line::Version(from, to));
    }
});
