// SPDX-License-Identifier: GPL-2.0-or-later
//! Fuzzer of the parsers of names. Input: a byte that selects the parser, then the parser's input. Names must be
//! complete or empty. A decided result for the first bytes of a stream must not change with later bytes, except that
//! another protocol may become unreadable. No result may change with the division into segments. With TWINWALL_LINES
//! set, prints a line for each input, to be compared with the C twin's.
#![no_main]

#[path = "../../../tests/unit/support/names.rs"]
mod names;

use std::cell::RefCell;

use libfuzzer_sys::{fuzz_target, Corpus};
use names::{ask, is_same_in_segments, ASKS};
use rust_firewall_fuzz::guarded::Guarded;

/// Maximum number of segments that the input's stream is divided into.
const SEGMENTS: usize = 64;

thread_local! {
    static MEMORY: RefCell<Guarded> = RefCell::new(Guarded::new());
}

fuzz_target!(|input: &[u8]| -> Corpus {
    let Some((first, bytes)) = input.split_first() else {
        return Corpus::Reject;
    };
    let what = ASKS[usize::from(*first) % ASKS.len()];
    MEMORY.with_borrow_mut(|memory| {
        let line = ask(what, memory.copy(bytes, 1));
        if std::env::var_os("TWINWALL_LINES").is_some() {
            println!("{line}");
        }
        if ["hello", "client", "framed", "request", "chunk"].contains(&what) {
            let end = usize::from(input[input.len() - 1]) % input.len();
            let shorter = ask(what, memory.copy(&bytes[..end], 1));
            let is_undecided = shorter.contains("\"state\":\"undecided\"");
            // A stream of another protocol becomes unreadable if later bytes have a header field Host of HTTP.
            let becomes_unreadable = shorter.contains("\"state\":\"known\",\"protocol\":\"other\"")
                && line.contains("\"state\":\"unreadable\",\"protocol\":\"other\"");
            assert!(
                is_undecided || becomes_unreadable || shorter == line,
                "{end}: {shorter}"
            );
        }
        if ["client", "request"].contains(&what) {
            let segment = 1 + bytes.len() / (1 + usize::from(input[input.len() - 1]) % SEGMENTS);
            assert!(is_same_in_segments(what, memory.copy(bytes, 1), segment));
        }
    });
    Corpus::Keep
});
