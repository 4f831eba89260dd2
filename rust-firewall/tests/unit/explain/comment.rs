// SPDX-License-Identifier: GPL-2.0-or-later
//! Tests the parsing of packets' comments in captures.

use crate::support::lines::{lines, unescape};
use rust_firewall::explain::comment::{parse, Comment};
use rust_firewall::packet::verdict;
use rust_firewall::policy::HOOKS;

fn or_none(value: Option<impl ToString>) -> String {
    value.map_or("-".to_owned(), |value| value.to_string())
}

fn name_or_none(name: &[u8]) -> String {
    or_none((!name.is_empty()).then(|| String::from_utf8_lossy(name)))
}

fn printed(comment: &Comment) -> String {
    let facts = &comment.facts;
    let hook = facts
        .hook
        .and_then(|hook| HOOKS.iter().find(|known| known.0 == hook));
    format!(
        "verdict={} hook={} iif={} oif={} mark={} uid={} gid={} ct={} ctmark={}",
        or_none(comment.verdict.map(verdict::name)),
        or_none(hook.map(|hook| hook.1)),
        name_or_none(&facts.iif),
        name_or_none(&facts.oif),
        facts.mark,
        or_none(facts.uid),
        or_none(facts.gid),
        or_none(facts.ct_state),
        or_none(facts.ct_mark)
    )
}

#[test]
fn comments_are_those_of_the_vectors() {
    let mut count = 0;
    for line in lines("comments.txt").iter().filter(|line| !line.is_empty()) {
        let (text, expected) = line.split_once(" -> ").expect("COMMENT -> WHAT");
        let comment = parse(&unescape(text));
        let said = comment.map_or("damaged".to_owned(), |comment| printed(&comment));
        assert_eq!(said, expected, "{line}");
        count += 1;
    }
    assert!(count >= 40, "only {count} vectors");
}
