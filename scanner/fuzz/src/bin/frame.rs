// SPDX-License-Identifier: GPL-2.0-or-later
//! Fuzzes the decoder of SYN replies with arbitrary bytes from a capture ring: it must not panic, and must reject all bytes
//! that were not made with the key.
#![no_main]

use libfuzzer_sys::fuzz_target;
use scanner::syn::frame::{answer, Cookies};

fuzz_target!(|input: &[u8]| {
    // A new key for each input: libFuzzer sees the operands of comparisons, and repeats them in later inputs. So a match is
    // chance: one in four thousand million.
    assert_eq!(answer(input, 40000, &Cookies::new()), None);
});
