// SPDX-License-Identifier: GPL-2.0-or-later
//! Tests of single values: from text to number and back.

use crate::support::lines::lines;
use rust_firewall::policy::parse::lexer::Lexer;
use rust_firewall::policy::print;
use rust_firewall::policy::token::TokenKind;
use rust_firewall::policy::value;
use rust_firewall::policy::{Range, RejectKind, Type, ICMPX_NO_ROUTE, TYPES};

fn number_of(hexadecimal: &str) -> u128 {
    u128::from_str_radix(hexadecimal, 16).expect("a hexadecimal number")
}

fn type_of(name: &str) -> Type {
    let found = TYPES.iter().find(|(_, known)| *known == name);
    found.expect("the name of a type").0
}

/// Checks a line `range TYPE LOW HIGH` or `mask TYPE NUMBER` of the vectors: the number must be printed as expected.
fn check_number(line: &str, left: &[&str], expected: &str) {
    let mut out = String::new();
    match left {
        ["range", kind, low, high] => {
            let (low, high) = (number_of(low), number_of(high));
            value::print_range(&mut out, type_of(kind), &Range { low, high });
        }
        ["mask", kind, mask] => value::print_mask(&mut out, type_of(kind), number_of(mask)),
        _ => panic!("not understood: {line}"),
    }
    assert_eq!(out, expected, "{line}");
}

/// Checks a line `TYPE[/BITS] TOKEN` of the vectors: the token must fail with the expected cause, or have the expected
/// number and print.
fn check_token(line: &str, left: &str, expected: Result<&str, &str>) {
    let (name, text) = left.split_once(' ').expect("a type and a token");
    let (name, bits) = name.split_once('/').unwrap_or((name, ""));
    let kind = type_of(name);
    let bits = bits.parse().unwrap_or(value::bits(kind));
    let mut lexer = Lexer::open_text("t", text.as_bytes()).expect("a text");
    let token = lexer.consume();
    assert_eq!(lexer.peek(0).kind, TokenKind::EndOfText, "{line}");
    let found = value::parse(kind, bits, token.kind, lexer.text(&token));
    match expected {
        Err(cause) => assert_eq!(found, Err(cause), "{line}"),
        Ok(expected) => {
            let (number, printed) = expected.split_once(' ').expect("a number and its print");
            let (low, high) = number.split_once('-').unwrap_or((number, number));
            let range = Range {
                low: number_of(low),
                high: number_of(high),
            };
            assert_eq!(found, Ok(range), "{line}");
            let mut out = String::new();
            value::print_range(&mut out, kind, &range);
            assert_eq!(out, printed, "{line}");
        }
    }
}

#[test]
fn values_are_those_of_the_vectors() {
    let mut count = 0;
    for line in lines("values.txt").iter().filter(|line| !line.is_empty()) {
        let taken = line.split_once(" = ");
        let refused = line.split_once(" ! ");
        let (left, right) = taken.or(refused).expect("LEFT = RIGHT or LEFT ! RIGHT");
        let words: Vec<&str> = left.split(' ').collect();
        if ["range", "mask"].contains(&words[0]) {
            check_number(line, &words, right);
        } else {
            check_token(line, left, taken.map(|_| right).ok_or(right));
        }
        count += 1;
    }
    assert!(count >= 100, "only {count} vectors");
}

#[test]
fn a_prefix_covers_its_addresses() {
    let range = |low, high| Ok(Range { low, high });
    let (ipv4, ipv6) = (Type::Ipv4Addr, Type::Ipv6Addr);
    assert_eq!(
        value::prefix(ipv4, 0x0a010203, 8),
        range(0x0a000000, 0x0affffff)
    );
    assert_eq!(
        value::prefix(ipv4, 0x0a010203, 32),
        range(0x0a010203, 0x0a010203)
    );
    assert_eq!(value::prefix(ipv4, 0x0a010203, 0), range(0, 0xffffffff));
    assert_eq!(value::prefix(ipv6, 1, 0), range(0, u128::MAX));
    assert_eq!(value::prefix(ipv6, 1, 127), range(0, 1));
    let refused = value::prefix(ipv4, 0, 33);
    assert_eq!(refused, Err("a prefix of IPv4 has 0 to 32 bits"));
    let refused = value::prefix(ipv6, 0, u64::MAX);
    assert_eq!(refused, Err("a prefix of IPv6 has 0 to 128 bits"));
}

#[test]
fn types_of_sets_are_found_by_name() {
    let found = value::find_type(TokenKind::Word, "inet_service");
    assert_eq!(found, Some(Type::InetService));
    assert_eq!(value::find_type(TokenKind::Word, "tcp_flag"), None);
    assert_eq!(value::find_type(TokenKind::String, "mark"), None);
}

#[test]
fn codes_of_rejects_have_names() {
    let parse = |kind, text| value::parse_reject(kind, TokenKind::Word, text);
    assert_eq!(parse(RejectKind::Icmpx, "no-route"), Ok(ICMPX_NO_ROUTE));
    assert_eq!(parse(RejectKind::Icmpv6, "no-route"), Ok(0));
    assert_eq!(
        parse(RejectKind::Icmp, "frag-needed"),
        Err(
            "not one of net-unreachable host-unreachable prot-unreachable port-unreachable \
             net-prohibited host-prohibited admin-prohibited, nor a number up to 254"
        )
    );
    let number = |kind, number| value::parse_reject(kind, TokenKind::Number(number), "").ok();
    assert_eq!(number(RejectKind::Icmp, 254), Some(254));
    assert_eq!(number(RejectKind::Icmp, 255), None);
    assert_eq!(number(RejectKind::Icmpx, 3), Some(3));
    assert_eq!(number(RejectKind::Icmpx, 4), None);
    for (kind, code) in [
        (RejectKind::Icmp, 13),
        (RejectKind::Icmpv6, 1),
        (RejectKind::Icmpx, 3),
    ] {
        assert_eq!(value::reject_name(kind, code), Some("admin-prohibited"));
    }
    assert_eq!(value::reject_name(RejectKind::Icmp, 4), None);
}

#[test]
fn levels_and_units_have_names() {
    assert_eq!(value::find_level(TokenKind::Word, "debug"), Some(7));
    assert_eq!(value::find_level(TokenKind::Word, "loud"), None);
    assert_eq!(value::level_name(0), "emerg");
    assert_eq!(value::find_unit("week"), Some(604800));
    assert_eq!(value::find_unit("wee"), None);
    assert_eq!(value::unit_name(86400), "day");
}

#[test]
fn flags_are_joined_as_asked() {
    assert_eq!(
        print::value(Type::CtState, 0x46),
        "established,related,untracked"
    );
}
