// SPDX-License-Identifier: GPL-2.0-or-later
//! Tests the index numbers of interfaces.

use rust_firewall::explain::indexes::{add, iif, name_of, oif, Indexes};

#[test]
fn a_name_of_the_policy_has_one_number() {
    let indexes = Indexes::default();
    for number in 0..100 {
        let name = format!("eth{number}");
        let first = add(&indexes, name.as_bytes());
        assert_eq!(add(&indexes, name.as_bytes()), first);
        assert_eq!(iif(&indexes, name.as_bytes()), first);
        assert_eq!(oif(&indexes, name.as_bytes(), b"x"), first);
        assert_eq!(name_of(&indexes, first, b"", b""), name.as_bytes());
    }
    assert_ne!(iif(&indexes, b"eth0"), iif(&indexes, b"eth1"));
}

/// Checks that two interfaces that the policy does not name have the same number if and only if they have the same
/// name.
#[test]
fn other_names_have_theirs_for_a_packet() {
    let indexes = Indexes::default();
    let named = add(&indexes, b"eth0");
    let (a, b) = (iif(&indexes, b"a"), oif(&indexes, b"b", b"a"));
    assert!(![0, named, b].contains(&a) && ![0, named].contains(&b));
    assert_eq!(oif(&indexes, b"a", b"a"), a);
    assert_eq!((iif(&indexes, b""), oif(&indexes, b"", b"")), (0, 0));
    assert_eq!(name_of(&indexes, a, b"a", b"b"), b"a");
    assert_eq!(name_of(&indexes, b, b"a", b"b"), b"b");
    assert_eq!(name_of(&indexes, 0, b"a", b"b"), b"");
}
