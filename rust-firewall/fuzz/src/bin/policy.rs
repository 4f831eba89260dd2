// SPDX-License-Identifier: GPL-2.0-or-later
//! `parse::text` on any text: it never panics; what it refuses has a place, and what it takes is printed as a policy
//! that is equal and prints the same.
//!
//! Input: the text of a policy. Includes would read files of this machine, so a text with one is no input.
#![no_main]

use libfuzzer_sys::{fuzz_target, Corpus};
use rust_firewall::policy;
use rust_firewall::policy::parse;
use rust_firewall::policy::print;

const INCLUDE: &[u8] = b"include";

fuzz_target!(|input: &[u8]| -> Corpus {
    if input.windows(INCLUDE.len()).any(|bytes| bytes == INCLUDE) {
        return Corpus::Reject;
    }
    match parse::text("t", input) {
        Err(failure) => assert!(failure.text.starts_with("t:"), "{}", failure.text),
        Ok(parsed) => {
            let text = print::policy(&parsed);
            let again = parse::text("print", text.as_bytes());
            let again = again.unwrap_or_else(|failure| panic!("{}\n{text}", failure.text));
            assert!(policy::equal(&parsed, &again), "another policy:\n{text}");
            assert_eq!(print::policy(&again), text);
        }
    }
    Corpus::Keep
});
