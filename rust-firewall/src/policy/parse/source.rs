// SPDX-License-Identifier: GPL-2.0-or-later
// seccomp: openat statx read close
//! Reading of files, and the check that they are text.

use std::fs;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;

use nix::errno::Errno;

use crate::base::log::strerror;
use crate::policy::Place;

/// Content of a file, or of a text in memory.
#[derive(Debug)]
pub struct Source {
    pub bytes: Vec<u8>,
    /// Device and inode of the file; None for a text in memory.
    pub identity: Option<(u64, u64)>,
}

/// Reads at most `limit` bytes of a file, plus one byte if the file is longer, so that the caller notices it.
pub fn read(path: &str, limit: usize) -> io::Result<Source> {
    let file = fs::File::open(path)?;
    let facts = file.metadata()?;
    let mut bytes = Vec::new();
    file.take(limit as u64 + 1).read_to_end(&mut bytes)?;
    Ok(Source {
        bytes,
        identity: Some((facts.dev(), facts.ino())),
    })
}

/// Returns the C library's text for an error of reading.
pub fn reason(error: &io::Error) -> String {
    strerror(Errno::from_raw(error.raw_os_error().unwrap_or(0)))
}

/// Converts bytes to a text. Fails with the bytes, the offset of the first invalid byte (NUL, or not UTF-8, RFC 3629),
/// and the error text.
pub fn check(bytes: Vec<u8>) -> Result<String, (Vec<u8>, usize, String)> {
    let nul = bytes.iter().position(|byte| *byte == 0);
    let valid = std::str::from_utf8(&bytes).map_or_else(|error| error.valid_up_to(), str::len);
    match nul {
        Some(at) if at < valid => Err((bytes, at, "a NUL byte: this is not a text".to_owned())),
        _ => String::from_utf8(bytes).map_err(|error| {
            let bytes = error.into_bytes();
            let cause = format!("byte 0x{:02x} is not UTF-8", bytes[valid]);
            (bytes, valid, cause)
        }),
    }
}

/// Returns the place (file, line, column) of the byte at offset `at` of a file's text.
/// - file: index in `Policy::files`.
pub fn place(file: usize, bytes: &[u8], at: usize) -> Place {
    let before = &bytes[..at];
    let line = before.iter().filter(|byte| **byte == b'\n').count();
    let in_line = before.iter().rev().take_while(|byte| **byte != b'\n');
    Place {
        file: file as u32,
        line: line as u32 + 1,
        column: in_line.count() as u32 + 1,
    }
}
