// SPDX-License-Identifier: GPL-2.0-or-later
//! Fuzzes the parser of response heads: a head ends inside the bytes with a line end, and the bytes after it change
//! nothing. Also fuzzes the conversion to printable text, which must leave no control characters.
#![no_main]

use libfuzzer_sys::fuzz_target;
use scanner::output::printable;
use scanner::probe::http::{head, Head};

fuzz_target!(|input: &[u8]| {
    if let Head::Whole(len) = head(input) {
        assert!(len <= input.len() && input[..len].ends_with(b"\n"));
        assert_eq!(head(&input[..len]), Head::Whole(len));
        assert_ne!(head(&input[..len - 1]), Head::Whole(len));
    }
    assert!(printable(input)
        .chars()
        .all(|character| !character.is_control()));
});
