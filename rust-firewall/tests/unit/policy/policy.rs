// SPDX-License-Identifier: GPL-2.0-or-later
//! Tests of the properties of fields, and of the comparison of policies.

use crate::support::lines::{lines, unescape};
use rust_firewall::policy::parse;
use rust_firewall::policy::{
    equal, family_name, field_facts, hook_name, type_name, Family, Field, Hook, Layer3, Policy,
    Type, FAMILIES, FIELDS, HOOKS, TYPES,
};

const ICMPV6: u8 = 58;

fn parsed(text: &str) -> Policy {
    let policy = parse::text("t", text.as_bytes());
    policy.unwrap_or_else(|failure| panic!("{}", failure.text))
}

/// Returns a table with a chain of these rules.
fn chain(rules: &str) -> String {
    format!("table ip t {{\nchain c {{\n{rules}\n}}\n}}\n")
}

fn equal_texts(a: &str, b: &str) -> bool {
    let (a, b) = (parsed(a), parsed(b));
    assert_eq!(equal(&a, &b), equal(&b, &a));
    assert!(equal(&a, &a));
    equal(&a, &b)
}

#[test]
fn fields_have_their_facts() {
    let facts = field_facts(Field::Icmpv6Type);
    assert_eq!((facts.text, facts.kind), ("icmpv6 type", Type::Icmpv6Type));
    assert_eq!((facts.bits, facts.layer3), (8, Layer3::NeedsIpv6));
    assert_eq!(facts.protocol, ICMPV6);
    assert_eq!(field_facts(Field::MetaIif).text, "iif");
    assert_eq!(field_facts(Field::IpDscp).bits, 6);
    assert_eq!(field_facts(Field::ThDport).protocol, 0);
    assert_eq!(field_facts(Field::CtMark).text, "ct mark");
}

#[test]
fn parts_have_their_names() {
    assert_eq!(family_name(Family::Inet), "inet");
    assert_eq!(hook_name(Hook::Postrouting), "postrouting");
    assert_eq!(type_name(Type::Ipv4Addr), "ipv4_addr");
    assert_eq!(type_name(Type::Boolean), "boolean");
}

/// Tests that the lists are in the order of their enums, because the values of an enum are the
/// indexes of its list.
#[test]
fn lists_are_in_order() {
    assert!(FIELDS
        .iter()
        .enumerate()
        .all(|(at, facts)| facts.field as usize == at));
    assert!(TYPES
        .iter()
        .enumerate()
        .all(|(at, (kind, _))| *kind as usize == at));
    assert!(HOOKS
        .iter()
        .enumerate()
        .all(|(at, (hook, _))| *hook as usize == at));
    assert!(FAMILIES
        .iter()
        .enumerate()
        .all(|(at, (family, _))| *family as usize == at));
}

#[test]
fn places_and_spelling_do_not_count() {
    assert!(equal_texts("", "# nothing\n"));
    for (a, b) in [
        ("tcp dport 22 accept", "\n\ntcp dport ssh  accept # 22"),
        ("ip saddr 10.0.0.0/8", "ip saddr 10.0.0.0-10.255.255.255"),
        ("meta mark set meta mark | 1 & 3", "mark set mark | 1"),
    ] {
        assert!(equal_texts(&chain(a), &chain(b)), "{a} and {b}");
    }
}

#[test]
fn whatever_differs_counts() {
    let lines = lines("different.txt");
    let text = |line: &String| String::from_utf8(unescape(line)).expect("UTF-8");
    let texts: Vec<String> = lines.iter().map(text).collect();
    let policies: Vec<Policy> = texts.iter().map(|text| parsed(text)).collect();
    assert!(policies.len() >= 70);
    for (a, one) in policies.iter().enumerate() {
        for (b, other) in policies.iter().enumerate() {
            assert_eq!(equal(one, other), a == b, "{}\nand\n{}", texts[a], texts[b]);
        }
    }
}
