// SPDX-License-Identifier: GPL-2.0-or-later
//! Reads the vectors in tests/corpus/vectors of the repository: blocks of `KEY VALUE` lines, separated by
//! blank lines; `#` begins a comment line.

use std::fs;
use std::path::Path;

use crate::support::lines::unescape;

/// Vector: its lines, each with a key and a value, in the order of the file.
pub struct Block {
    lines: Vec<(String, String)>,
}

impl Block {
    /// Returns the value of the last line with this key, if any.
    pub fn value(&self, key: &str) -> Option<&str> {
        self.lines
            .iter()
            .rev()
            .find(|(k, _)| k == key)
            .map(|(_, value)| value.as_str())
    }

    /// Returns the values of all lines with this key, in order.
    #[allow(dead_code, reason = "most vectors have one line of a key")]
    pub fn values(&self, key: &str) -> Vec<&str> {
        let lines = self.lines.iter().filter(|(k, _)| k == key);
        lines.map(|(_, value)| value.as_str()).collect()
    }

    pub fn name(&self) -> &str {
        self.value("name").expect("every vector has a name")
    }

    /// Returns the bytes of the `hex`, `hexrepeat` and `text` lines, in order.
    pub fn bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (key, value) in &self.lines {
            match key.as_str() {
                "hex" => bytes.extend(hex(value)),
                "text" => bytes.extend(unescape(value)),
                "hexrepeat" => {
                    let (byte, count) = value.split_once(' ').expect("hexrepeat NN COUNT");
                    let byte = hex(byte)[0];
                    bytes.extend(std::iter::repeat_n(byte, number(count) as usize));
                }
                _ => {}
            }
        }
        bytes
    }
}

/// Parses hexadecimal digits, two for each byte. Ignores blanks.
fn hex(text: &str) -> Vec<u8> {
    let digits: String = text.split_whitespace().collect();
    assert!(digits.len() % 2 == 0, "half a byte in {text:?}");
    (0..digits.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&digits[at..at + 2], 16).expect("hex digits"))
        .collect()
}

/// Parses a decimal number of a vector.
pub fn number(text: &str) -> u32 {
    text.trim().parse().expect("a number")
}

/// Returns all vectors of a file in tests/corpus/vectors of the repository.
pub fn read(file: &str) -> Vec<Block> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../tests/corpus/vectors")
        .join(file);
    let text = fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let mut blocks = Vec::new();
    let mut lines = Vec::new();
    for line in text.lines().chain([""]) {
        if line.trim().is_empty() {
            if !lines.is_empty() {
                blocks.push(Block {
                    lines: std::mem::take(&mut lines),
                });
            }
        } else if !line.starts_with('#') {
            let (key, value) = line.split_once(' ').unwrap_or((line, ""));
            lines.push((key.to_owned(), value.trim().to_owned()));
        }
    }
    blocks
}
