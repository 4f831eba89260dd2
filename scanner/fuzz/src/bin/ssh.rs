// SPDX-License-Identifier: GPL-2.0-or-later
//! The version line of an SSH server, in any bytes: it lies in them, has no line end, begins as it should, and is found
//! as soon as its end has come, however the bytes were cut on their way.
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
    // What was decided of a part is not taken back when more comes.
    if let Some(Line::Version(from, to)) = first {
        assert_eq!(whole, Line::Version(from, to));
    }
});
