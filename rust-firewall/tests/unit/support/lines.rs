// SPDX-License-Identifier: GPL-2.0-or-later
//! Reads files of tests/corpus/vectors that are not blocks of bytes: line by line, without comments.

use std::fs;
use std::path::Path;

/// Returns the lines of a file in tests/corpus/vectors that do not begin with `#`.
#[allow(dead_code, reason = "not every program that unescapes reads lines")]
pub fn lines(name: &str) -> Vec<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/corpus/vectors");
    let text = fs::read_to_string(folder.join(name)).expect("a file of vectors");
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines.map(str::to_owned).collect()
}

/// Replaces the escapes \n \t \r \\ \xNN in a text by the bytes that they stand for.
#[allow(
    dead_code,
    reason = "not every program that reads lines has escapes in them"
)]
pub fn unescape(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'\\' {
            bytes.push(byte);
            continue;
        }
        bytes.push(match rest.next().expect("what a backslash escapes") {
            b'n' => b'\n',
            b't' => b'\t',
            b'r' => b'\r',
            b'x' => {
                let digits = [rest.next(), rest.next()].map(|digit| digit.expect("two digits"));
                let digits = String::from_utf8_lossy(&digits).into_owned();
                u8::from_str_radix(&digits, 16).expect("hexadecimal digits")
            }
            other => other,
        });
    }
    bytes
}
