// SPDX-License-Identifier: GPL-2.0-or-later
//! Interfaces by numbers.

use rust_firewall::explain::names::{add, iif, name_of, oif, Names};

#[test]
fn a_name_of_the_policy_has_one_number() {
    let names = Names::default();
    for number in 0..100 {
        let name = format!("eth{number}");
        let first = add(&names, name.as_bytes());
        assert_eq!(add(&names, name.as_bytes()), first);
        assert_eq!(iif(&names, name.as_bytes()), first);
        assert_eq!(oif(&names, name.as_bytes(), b"x"), first);
        assert_eq!(name_of(&names, first, b"", b""), name.as_bytes());
    }
    assert_ne!(iif(&names, b"eth0"), iif(&names, b"eth1"));
}

/// Two that the policy does not name are equal if their names are.
#[test]
fn other_names_have_theirs_for_a_packet() {
    let names = Names::default();
    let named = add(&names, b"eth0");
    let (a, b) = (iif(&names, b"a"), oif(&names, b"b", b"a"));
    assert!(![0, named, b].contains(&a) && ![0, named].contains(&b));
    assert_eq!(oif(&names, b"a", b"a"), a);
    assert_eq!((iif(&names, b""), oif(&names, b"", b"")), (0, 0));
    assert_eq!(name_of(&names, a, b"a", b"b"), b"a");
    assert_eq!(name_of(&names, b, b"a", b"b"), b"b");
    assert_eq!(name_of(&names, 0, b"a", b"b"), b"");
}
