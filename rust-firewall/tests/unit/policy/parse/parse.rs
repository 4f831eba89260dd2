// SPDX-License-Identifier: GPL-2.0-or-later
//! Tests of the parser: texts that become policies, and texts that are refused.

use crate::support::lines::{lines, unescape};
use rust_firewall::base::log::LogExit;
use rust_firewall::policy::parse;
use rust_firewall::policy::print;
use rust_firewall::policy::{equal, Policy, Right, Rule, StatementKind};

/// Returns the vectors: each is a line with a text, and a line with the expected result.
fn vectors() -> Vec<(String, String)> {
    let all = lines("parse.txt");
    let mut rest = all.iter().filter(|line| !line.is_empty());
    let mut vectors = Vec::new();
    while let Some(text) = rest.next() {
        let expected = rest.next().expect("a line that says what is expected");
        vectors.push((text.clone(), expected.clone()));
    }
    vectors
}

/// Returns the policy text of a vector: the text itself (line `file TEXT`), or a table around the vector's rules (line
/// `FAMILY TEXT`).
fn text_of(line: &str) -> Vec<u8> {
    let (kind, rest) = line.split_once(' ').expect("a kind and a text");
    let text = unescape(rest);
    if kind == "file" {
        return text;
    }
    let mut whole = format!("table {kind} t {{\nchain d {{ }}\nchain c {{\n").into_bytes();
    whole.extend(text);
    whole.extend(b"\n}\n}\n");
    whole
}

/// Returns the print of a policy, or of the rules of its second chain, in the format of the vectors.
/// - is_file: true for the complete policy, false for the rules.
fn print_of(policy: &Policy, is_file: bool) -> String {
    if is_file {
        return print::policy(policy);
    }
    let table = &policy.tables[0];
    let rules = &table.chains[1].rules;
    let rules: Vec<String> = rules
        .iter()
        .map(|rule| print::rule(policy, table, rule))
        .collect();
    rules.join("\n")
}

#[test]
fn vectors_parse_as_expected() {
    let vectors = vectors();
    for (line, expected) in &vectors {
        match parse::text("t.nft", &text_of(line)) {
            Ok(policy) => {
                let wanted = expected.strip_prefix("= ").map(unescape);
                let print = print_of(&policy, line.starts_with("file "));
                let wanted = wanted.map(|bytes| String::from_utf8(bytes).expect("a print"));
                assert_eq!(Some(print), wanted, "{line}");
            }
            Err(failure) => {
                let wanted = expected.replacen("! ", "t.nft:", 1);
                assert_eq!(failure.text, wanted, "{line}");
                assert_eq!(failure.code, LogExit::Usage);
            }
        }
    }
    assert!(vectors.len() > 500);
}

/// Tests that the print of each policy parses to an equal policy.
#[test]
fn prints_parse_to_the_same() {
    let mut policies = 0;
    let other = Policy {
        flush: true,
        ..Policy::default()
    };
    for (line, _) in vectors()
        .iter()
        .filter(|(_, expected)| expected.starts_with('='))
    {
        let policy = parse::text("t", &text_of(line)).expect("a policy");
        let print = print::policy(&policy);
        let again = parse::text("p", print.as_bytes()).expect("what is printed");
        assert!(equal(&policy, &again), "{print}");
        assert!(policy.tables.is_empty() || !equal(&policy, &other));
        policies += 1;
    }
    assert!(policies > 100);
}

fn parse_good(text: &str) -> Policy {
    parse::text("t", text.as_bytes()).expect("a policy")
}

/// Returns the index of the set that a rule's first statement names.
fn set_of(rule: &Rule) -> u32 {
    match &rule.statements[0].kind {
        StatementKind::Match(found) | StatementKind::Vmap(found) => match found.right {
            Right::Named { set, .. } => set,
            _ => panic!("no name of a set"),
        },
        _ => panic!("no match"),
    }
}

#[test]
fn names_become_indices() {
    let policy = parse_good(
        "table t { chain a { jump c\nmark @s\nmark vmap @m\nmark vmap { 1 : goto b }\n}\n\
         chain b { }\nchain c { }\nset r { type mark; }\nset s { type mark; }\n\
         map m { type mark : verdict; elements = { 1 : accept, 2 : jump b }; }\n}",
    );
    let table = &policy.tables[0];
    let rules = &table.chains[0].rules;
    match &rules[0].statements[0].kind {
        StatementKind::Verdict(target) => assert_eq!(target.chain_index, 2),
        _ => panic!("no verdict"),
    }
    assert_eq!(set_of(&rules[1]), 1);
    assert_eq!(set_of(&rules[2]), 2);
    match &rules[3].statements[0].kind {
        StatementKind::Vmap(found) => match &found.right {
            Right::Literal(elements) => assert_eq!(elements.targets[0].chain_index, 1),
            _ => panic!("no elements"),
        },
        _ => panic!("no vmap"),
    }
    assert_eq!(table.sets[2].elements.targets[1].chain_index, 1);
}

#[test]
fn places_are_those_of_the_text() {
    let policy =
        parse_good("table t {\n  chain a {\n\n    counter jump b\n  }\n  chain b { }\n}\n");
    let rule = &policy.tables[0].chains[0].rules[0];
    assert_eq!((rule.place.line, rule.place.column), (4, 5));
    assert_eq!(rule.statements[0].place.column, 5);
    assert_eq!(rule.statements[1].place.column, 13);
    match &rule.statements[1].kind {
        StatementKind::Verdict(target) => assert_eq!(target.place.column, 18),
        _ => panic!("no verdict"),
    }
    assert_eq!(policy.tables[0].chains[1].place.line, 6);
    assert_eq!(policy.files, ["t"]);
}

#[test]
fn base_chains_are_counted_as_declared() {
    let policy = parse_good(
        "table t { chain a { type filter hook input priority 0; }\nchain b { }\n}\n\
         table u { chain a { type filter hook input priority 0; }\n}\n\
         table t { chain b { }\nchain c { type filter hook output priority 0; }\n}",
    );
    let declared = |table: usize, chain: usize| {
        let chain = &policy.tables[table].chains[chain];
        chain.base.map(|base| base.declared)
    };
    assert_eq!(declared(0, 0), Some(0));
    assert_eq!(declared(1, 0), Some(1));
    assert_eq!(declared(0, 2), Some(2));
}

/// Returns a table of chains, each of which jumps to the next chain.
fn jumps(chains: u32) -> String {
    let mut text = String::from("table t {\n");
    for chain in 1..chains {
        text += &format!("chain c{chain} {{ jump c{}\n}}\n", chain + 1);
    }
    text + &format!("chain c{chains} {{ }}\n}}\n")
}

#[test]
fn ways_have_16_chains() {
    let told = |chains| parse::text("t", jumps(chains).as_bytes()).map_err(|failure| failure.text);
    assert!(told(16).is_ok());
    let too_long = "t:2:17: \"c2\": a way of more than 16 chains";
    assert_eq!(told(17).err().as_deref(), Some(too_long));
    let too_long = "t:19968:20: \"c9985\": a way of more than 16 chains";
    assert_eq!(told(10000).err().as_deref(), Some(too_long));
}

#[test]
fn a_file_that_is_not_there_is_told() {
    let told = |path| {
        let failure = parse::file(path).expect_err("no such file");
        assert_eq!(failure.code, LogExit::Usage);
        failure.text
    };
    assert_eq!(
        told("/nowhere/a.nft"),
        "/nowhere/a.nft: cannot read the policy: No such file or directory"
    );
    assert_eq!(told("/"), "/: cannot read the policy: Is a directory");
}
