// SPDX-License-Identifier: GPL-2.0-or-later
//! Rejections by an ICMP error: it ends no connection of TCP that stands (RFC 5461, section 3), so one whose names are known gets a RST.

use std::fmt::Write;
use std::ops::Range;

use crate::kernel::Kernel;
use crate::token::{Kind, Tokens};

/// A statement that rejects by an ICMP error.
struct Reject {
    /// Into `Tree::rules`.
    rule: usize,
    tokens: Range<usize>,
}

/// End of the statement at a token, if it rejects by an ICMP error.
fn end(tokens: &Tokens, at: usize) -> Option<usize> {
    let is_name = at > 0 && ["jump", "goto", "name"].contains(&tokens.get(at - 1));
    if tokens.get(at) != "reject" || tokens.kind(at) != Kind::Word || is_name {
        return None;
    }
    match (tokens.get(at + 1), tokens.get(at + 2), tokens.get(at + 3)) {
        ("with", "tcp", _) => None,
        ("with", _, "type") => Some(at + 5),
        ("with", ..) => Some(at + 4),
        _ => Some(at + 1),
    }
}

/// Outermost statement around a token.
fn outermost(tokens: &Tokens, at: usize) -> Range<usize> {
    let mut start = 0;
    loop {
        let end = tokens.statement_end(start);
        if at < end || end >= tokens.list.len() {
            return start..end;
        }
        start = end + 1;
    }
}

impl Kernel<'_> {
    /// The rejections in tables that ask for names, in their order.
    fn rejects(&self) -> Vec<Reject> {
        let (tokens, tree) = (self.ways.tokens, self.ways.tree);
        let mut found = Vec::new();
        for (number, rule) in tree.rules.iter().enumerate() {
            if !self.tables.contains_key(&tree.chains[rule.chain].table) {
                continue;
            }
            let ends = rule
                .tokens
                .clone()
                .filter_map(|at| Some((at, end(tokens, at)?)));
            found.extend(ends.map(|(at, end)| Reject {
                rule: number,
                tokens: at..end,
            }));
        }
        found
    }

    /// Match that an error's family implies in a table of both, as nft puts it in front of its rule.
    fn family_of(&self, reject: &Reject) -> &'static str {
        let table = &self.ways.tree.tables[self.table_of(reject)];
        let kind = self.ways.tokens.get(reject.tokens.start + 2);
        match (table.family.as_str(), kind) {
            ("inet", "icmp") => "meta nfproto ipv4 ",
            ("inet", "icmpv6") => "meta nfproto ipv6 ",
            _ => "",
        }
    }

    fn table_of(&self, reject: &Reject) -> usize {
        let tree = self.ways.tree;
        tree.chains[tree.rules[reject.rule].chain].table
    }

    /// The edits that have rejections jump to their chains, and those that insert the chains.
    pub fn reject_edits(&self) -> Vec<(Range<usize>, String)> {
        let (tokens, rejects) = (self.ways.tokens, self.rejects());
        let mut edits = Vec::new();
        for (number, reject) in (1..).zip(&rejects) {
            let range = &reject.tokens;
            let bytes = tokens.start(range.start)..tokens.end_before(range.end);
            edits.push((bytes, format!("jump stage-reject-{number}")));
            let start = tokens.start(self.ways.tree.rules[reject.rule].tokens.start);
            edits.push((start..start, self.family_of(reject).to_owned()));
        }
        for table in self.tables.keys() {
            let mut own = rejects
                .iter()
                .filter(|reject| self.table_of(reject) == *table);
            let Some(first) = own.next() else { continue };
            let chains = self.reject_chains(&rejects, *table);
            let statement = outermost(tokens, first.tokens.start);
            let mut words = statement.clone().map(|at| tokens.get(at));
            // A chain must be there when a rule jumps to it.
            let (at, text) = match words.next() {
                Some("table") => {
                    let open = statement.clone().find(|at| tokens.get(*at) == "{");
                    (
                        tokens.end_before(open.unwrap_or(statement.start) + 1),
                        chains,
                    )
                }
                _ => {
                    let table = &self.ways.tree.tables[*table];
                    let (family, name) = (&table.family, &table.name);
                    let text = format!("table {family} {name} {{{chains}}}\n");
                    (tokens.start(statement.start), text)
                }
            };
            edits.push((at..at, text));
        }
        edits
    }

    /// The chains of a table's rejections.
    fn reject_chains(&self, rejects: &[Reject], table: usize) -> String {
        let (tokens, layout) = (self.ways.tokens, &self.layout);
        let known = format!(
            "meta l4proto tcp ct mark & {:#010x} != {{ 0, {:#010x} }} reject with tcp reset",
            layout.class_mask(),
            layout.unreadable()
        );
        let mut text = String::new();
        for (number, reject) in (1..).zip(rejects) {
            if self.table_of(reject) != table {
                continue;
            }
            let _ = writeln!(
                text,
                "\n\tchain stage-reject-{number} {{\n\t\t{known}\n\t\t{}\n\t}}",
                tokens.text_of(&reject.tokens)
            );
        }
        text
    }
}
