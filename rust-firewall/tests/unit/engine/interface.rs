// SPDX-License-Identifier: GPL-2.0-or-later
//! Tests names of interfaces as numbers, and the time for which they are cached.

use std::cell::{Cell, RefCell};

use rust_firewall::engine::interface::{index, init, name, system, value, SLOTS};

const SECOND: u64 = 1_000_000_000;

thread_local! {
    static READS: Cell<u32> = const { Cell::new(0) };
    static PRESENT: RefCell<Option<Vec<u8>>> = const { RefCell::new(None) };
}

fn read_present(_index: u32) -> Option<Vec<u8>> {
    READS.set(READS.get() + 1);
    PRESENT.with_borrow(Clone::clone)
}

fn set_present(name: &str) {
    PRESENT.set(Some(name.as_bytes().to_vec()));
}

#[test]
fn a_name_is_its_bytes_as_a_number() {
    assert_eq!(value(b""), 0);
    assert_eq!(value(b"lo"), 0x6c6f << 112);
    assert_eq!(
        value(b"abcdefghijklmno"),
        0x6162_6364_6566_6768_696a_6b6c_6d6e_6f00
    );
}

#[test]
fn a_name_is_read_once_a_second() {
    let mut interfaces = init(read_present);
    set_present("eth0");
    assert_eq!(name(&mut interfaces, 0, 5), 0);
    assert_eq!(READS.get(), 0);
    assert_eq!(name(&mut interfaces, 7, 5), value(b"eth0"));
    set_present("wan0");
    assert_eq!(name(&mut interfaces, 7, SECOND + 4), value(b"eth0"));
    assert_eq!(READS.get(), 1);
    assert_eq!(name(&mut interfaces, 7, SECOND + 5), value(b"wan0"));
    PRESENT.set(None);
    assert_eq!(name(&mut interfaces, 7, 3 * SECOND), 0);
    assert_eq!(name(&mut interfaces, 7, 3 * SECOND), 0);
    assert_eq!(READS.get(), 3);
}

#[test]
fn indexes_of_one_slot_are_told_apart() {
    let mut interfaces = init(read_present);
    for (present, number) in [("a", 1), ("b", 1 + SLOTS as u32), ("c", 1)] {
        set_present(present);
        assert_eq!(name(&mut interfaces, number, 0), value(present.as_bytes()));
    }
}

#[test]
fn the_system_knows_loopback() {
    assert_eq!(index(b"lo"), 1);
    assert_eq!(index(b"none-of-these"), 0);
    assert_eq!(system(1).as_deref(), Some(&b"lo"[..]));
    assert_eq!(system(u32::MAX / 2), None);
}
