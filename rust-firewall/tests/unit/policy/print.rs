// SPDX-License-Identifier: GPL-2.0-or-later
//! Tests of the print of single rules and values. (tests/corpus/policy tests the print of whole policies.)

use rust_firewall::policy::parse;
use rust_firewall::policy::print;
use rust_firewall::policy::Type;

const TEXT: &str = "table ip6 t {
chain c {
tcp dport 22 counter reject comment \"a\"
tcp flags syn,ack reject with tcp reset
}
}
";

#[test]
fn rules_are_one_line() {
    let policy = parse::text("t", TEXT.as_bytes()).expect("a policy");
    let table = &policy.tables[0];
    let rules = &table.chains[0].rules;
    assert_eq!(
        print::rule(&policy, table, &rules[0]),
        "tcp dport 22 counter packets 0 bytes 0 reject comment \"a\""
    );
    assert_eq!(
        print::rule(&policy, table, &rules[1]),
        "tcp flags syn,ack reject with tcp reset"
    );
}

#[test]
fn values_are_printed_by_their_type() {
    assert_eq!(print::value(Type::Ipv4Addr, 0xc0000201), "192.0.2.1");
    assert_eq!(print::value(Type::TcpFlag, 0x12), "syn,ack");
    assert_eq!(print::value(Type::Mark, 1), "0x00000001");
    assert_eq!(print::value(Type::Integer, 1500), "1500");
}
