// SPDX-License-Identifier: GPL-2.0-or-later
//! Fuzzer of `parse::text`: it must never panic. The message about a refused text must begin with its file's name. An
//! accepted policy must be equal after it is printed and parsed again, and print the same text.
//!
//! Input: the text of a policy. Texts with an include are rejected, because they would read files of this machine.
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
