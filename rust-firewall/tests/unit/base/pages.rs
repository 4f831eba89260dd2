// SPDX-License-Identifier: GPL-2.0-or-later

use rust_firewall::base::pages::{self, Pages};

const HUGE_BYTES: usize = 2 << 20;

#[test]
fn whole_pages_are_made() {
    assert_eq!(pages::round(1), 4096);
    assert_eq!(pages::round(4096), 4096);
    assert_eq!(pages::round(4097), 2 * 4096);
    assert_eq!(pages::round(HUGE_BYTES - 1), HUGE_BYTES);
    assert_eq!(pages::round(HUGE_BYTES), HUGE_BYTES);
    assert_eq!(pages::round(HUGE_BYTES + 1), 2 * HUGE_BYTES);
}

#[test]
fn memory_is_zero_and_keeps_words() {
    for bytes in [100, 5000, HUGE_BYTES + 1] {
        let mut memory = pages::make(bytes);
        assert_eq!(memory.len(), pages::round(bytes));
        assert!(memory.iter().all(|byte| *byte == 0));
        let last = memory.len() - 8;
        pages::set_word(&mut memory, 3, 0x0123_4567_89ab_cdef);
        pages::set_word(&mut memory, last, 7);
        assert_eq!(pages::word(&memory, 3), 0x0123_4567_89ab_cdef);
        assert_eq!((memory[2], memory[11]), (0, 0));
        assert_eq!(pages::word(&memory, last), 7);
    }
}

#[test]
fn what_is_outside_is_none() {
    let mut memory = pages::make(1);
    let end = memory.len();
    pages::set_word(&mut memory, end - 7, u64::MAX);
    assert!(memory.iter().all(|byte| *byte == 0));
    assert_eq!(pages::word(&memory, end - 7), 0);
    assert_eq!(pages::word(&Pages::default(), 0), 0);
}

#[test]
fn a_copy_is_memory_of_its_own() {
    let mut memory = pages::make(1);
    let copy = memory.clone();
    pages::set_word(&mut memory, 0, 7);
    assert_eq!(pages::word(&copy, 0), 0);
    assert_eq!(pages::word(&memory.clone(), 0), 7);
    assert!(Pages::default().clone().is_empty());
}
