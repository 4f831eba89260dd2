// SPDX-License-Identifier: GPL-2.0-or-later
//! What a capture ring may hold, as an answer to a SYN: any bytes are read without a panic, and none that were not made
//! with the key are believed.
#![no_main]

use libfuzzer_sys::fuzz_target;
use scanner::syn::frame::{answer, Cookies};

fuzz_target!(init: { KEY.get_or_init(Cookies::new); }, |input: &[u8]| {
    let cookies = KEY.get_or_init(Cookies::new);
    // The key is another in each run, so a number that fits is luck: one in four thousand million.
    assert_eq!(answer(input, 40000, cookies), None);
});

static KEY: std::sync::OnceLock<Cookies> = std::sync::OnceLock::new();
