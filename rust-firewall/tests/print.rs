// SPDX-License-Identifier: GPL-2.0-or-later
//! Whole policies are printed by tests/policy; here is what it does not reach.

use rust_firewall::policy::{
    Family, Field, Key, Match, Op, Place, Range, Right, Statement, StatementKind, Table, Type,
};
use rust_firewall::{parse, print};

const TEXT: &str = "table ip6 t {
chain c {
tcp dport 22 counter reject comment \"a\"
tcp flags syn,ack reject with tcp reset
}
}
";

#[test]
fn rules_and_statements_are_one_line() {
    let policy = parse::text("t", TEXT.as_bytes()).expect("a policy");
    let table = &policy.tables[0];
    let rules = &table.chains[0].rules;
    assert_eq!(
        print::rule(table, &rules[0]),
        "tcp dport 22 counter packets 0 bytes 0 reject comment \"a\""
    );
    assert_eq!(
        print::rule(table, &rules[1]),
        "tcp flags syn,ack reject with tcp reset"
    );
    let statements = &rules[0].statements;
    let printed = print::statement(table, &statements[1]);
    assert_eq!(printed, "counter packets 0 bytes 0");
    assert_eq!(print::statement(table, &statements[2]), "reject");
}

#[test]
fn values_are_printed_by_their_type() {
    assert_eq!(print::value(Type::Ipv4Addr, 0xc0000201), "192.0.2.1");
    assert_eq!(print::value(Type::TcpFlag, 0x12), "syn,ack");
    assert_eq!(print::value(Type::Mark, 1), "0x00000001");
    assert_eq!(print::value(Type::Integer, 1500), "1500");
}

fn none_of(flags: u128) -> Statement {
    let range = Range {
        low: flags,
        high: flags,
    };
    Statement {
        place: Place::default(),
        kind: StatementKind::Match(Box::new(Match {
            key: Key {
                fields: vec![Field::TcpFlags],
            },
            mask: None,
            op: Op::BitsNone,
            right: Right::Range(range),
        })),
    }
}

/// Of bits of which none may be set there is no other word in the language.
#[test]
fn no_bits_are_a_mask() {
    let table = Table {
        family: Family::Inet,
        name: String::new(),
        comment: String::new(),
        sets: Vec::new(),
        chains: Vec::new(),
    };
    let printed = print::statement(&table, &none_of(0x12));
    assert_eq!(printed, "tcp flags & (syn | ack) == 0x0");
    assert_eq!(
        print::statement(&table, &none_of(2)),
        "tcp flags & syn == 0x0"
    );
}
