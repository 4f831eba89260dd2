// SPDX-License-Identifier: GPL-2.0-or-later
//! Fuzzes the decoder of SYN replies with arbitrary bytes from a capture ring: it must not panic, and must reject all bytes
//! that were not made with the key.
#![no_main]

use libfuzzer_sys::fuzz_target;
use scanner::syn::frame::{answer, Cookies};

fuzz_target!(init: { KEY.get_or_init(Cookies::new); }, |input: &[u8]| {
    let cookies = KEY.get_or_init(Cookies::new);
    // The key is new in each run, so a match is chance: one in four thousand million.
    assert_eq!(answer(input, 40000, cookies), None);
});

static KEY: std::sync::OnceLock<Cookies> = std::sync::OnceLock::new();
