// SPDX-License-Identifier: GPL-2.0-or-later
//! Rejections. An ICMP error does not end an established TCP connection (RFC 5461, section 3), so a connection whose
//! names are known gets a RST. The kernel sends the RST only to the packet's sender. The RST is queued, and the
//! firewall resets the other end.

use std::fmt::Write;
use std::ops::Range;

use crate::hooks::Tables;
use crate::kernel::Kernel;
use crate::reach::Ways;
use crate::replace::Edit;
use crate::token::{Kind, Tokens};

/// Returns the nft match, in a table of a family, of RSTs of minimum length: without data and options, as kernel and
/// firewalls send them.
pub fn resets_of(family: &str) -> &'static str {
    match family {
        "ip" => "tcp flags & rst == rst meta length 40",
        "ip6" => "tcp flags & rst == rst meta length 60",
        _ => "tcp flags & rst == rst meta nfproto . meta length { ipv4 . 40, ipv6 . 60 }",
    }
}

/// Name of the chain that queues the RSTs of rejections. If no firewall reads the queue, these RSTs always pass.
pub const REFUSE: &str = "stage-refuse";

/// Match of packets that this host sends: in the hooks of sent packets there is no input interface (0), and packets to
/// the host itself arrive by the loopback interface.
const OWN: &str = "meta iif { 0, \"lo\" }";

/// Statement that rejects.
struct Reject {
    /// Index in `Tree::rules` of the rule that contains the statement.
    rule: usize,
    tokens: Range<usize>,
}

/// Returns the end of the statement at a token if the statement rejects, otherwise None.
fn end(tokens: &Tokens, at: usize) -> Option<usize> {
    let is_name = at > 0 && ["jump", "goto", "name"].contains(&tokens.get(at - 1));
    if tokens.get(at) != "reject" || tokens.kind(at) != Kind::Word || is_name {
        return None;
    }
    Some(
        match (tokens.get(at + 1), tokens.get(at + 2), tokens.get(at + 3)) {
            ("with", "tcp", _) => at + 4,
            ("with", _, "type") => at + 5,
            ("with", ..) => at + 4,
            _ => at + 1,
        },
    )
}

/// Returns the match that the response of a rejection implies. nft adds it before the rule, unless matches before the
/// rejection determine the protocol.
/// - at: token `reject`.
pub fn implied(family: &str, tokens: &Tokens, at: usize) -> &'static str {
    match (family, tokens.get(at + 1), tokens.get(at + 2)) {
        // After a match with `==`, nft refuses matches of other protocols.
        (_, "with", "tcp") => "meta l4proto != { 0-5, 7-255 } ",
        ("inet", "with", "icmp") => "meta nfproto ipv4 ",
        ("inet", "with", "icmpv6") => "meta nfproto ipv6 ",
        _ => "",
    }
}

/// Returns true if a value of `meta l4proto` is ICMP's: a name or a number.
fn is_icmp(word: &str) -> bool {
    word.contains("icmp") || ["1", "58"].contains(&word)
}

/// Returns true if a rule's matches before its rejection determine the protocol that the rejection's answer implies.
/// Only matches of a header's fields and `==` of a protocol do. A word between braces, or after `!=`, determines none.
fn is_determined(tokens: &Tokens, rule: Range<usize>) -> bool {
    let (fields, values): (&[&str], &[&str]) = match tokens.get(rule.end + 2) {
        "tcp" => (&["tcp"], &["tcp"]),
        _ => (&["ip", "ip6", "icmp", "icmpv6"], &["ipv4", "ipv6"]),
    };
    let mut has_protocol = false;
    rule.into_iter().any(|at| {
        let word = tokens.get(at);
        let before = if at == 0 { "" } else { tokens.get(at - 1) };
        has_protocol |= before == "l4proto" && is_icmp(word);
        match before {
            "{" | "," | "!=" | "original" | "reply" => false,
            "l4proto" | "nexthdr" | "nfproto" | "protocol" => values.contains(&word),
            // After `meta l4proto icmp`, fields of ICMP are read in packets of both families.
            _ if has_protocol && word.starts_with("icmp") => false,
            _ => fields.contains(&word) && tokens.get(at + 1) != "option",
        }
    })
}

/// Returns the tokens of the outermost statement around a token.
pub fn outermost(tokens: &Tokens, at: usize) -> Range<usize> {
    let mut start = 0;
    loop {
        let end = tokens.statement_end(start);
        if at < end || end >= tokens.list.len() {
            return start..end;
        }
        start = end + 1;
    }
}

/// Returns the rejections in the tables with names, in the order of the text.
/// - is_asked: returns true for a table with names.
fn find(ways: &Ways, is_asked: impl Fn(usize) -> bool) -> Vec<Reject> {
    let (tokens, tree) = (ways.tokens, ways.tree);
    let mut found = Vec::new();
    for (number, rule) in tree.rules.iter().enumerate() {
        if !is_asked(tree.chains[rule.chain].table) {
            continue;
        }
        let places = rule.tokens.clone();
        let ends = places.filter_map(|at| Some((at, end(tokens, at)?)));
        found.extend(ends.map(|(at, end)| Reject {
            rule: number,
            tokens: at..end,
        }));
    }
    found
}

/// Returns true if a rule of a table rejects packets.
pub fn rejects(ways: &Ways, table: usize) -> bool {
    !find(ways, |own| own == table).is_empty()
}

impl Kernel<'_> {
    fn rejects(&self) -> Vec<Reject> {
        let tables: &Tables = self.tables;
        find(self.ways, |table| tables.contains_key(&table))
    }

    /// Returns true if a rule in a table with names rejects packets.
    pub fn has_rejects(&self) -> bool {
        !self.rejects().is_empty()
    }

    /// Returns the rule of a rejection; an index in `Tree::rules`.
    /// - number: number of the rejection's chain, from 1.
    pub fn rule_of_reject(&self, number: usize) -> Option<usize> {
        let rejects = self.rejects();
        rejects
            .get(number.checked_sub(1)?)
            .map(|reject| reject.rule)
    }

    fn table_of(&self, reject: &Reject) -> usize {
        let tree = self.ways.tree;
        tree.chains[tree.rules[reject.rule].chain].table
    }

    /// Returns the match of TCP connections whose names are known: neither undecided nor unreadable.
    fn known(&self) -> String {
        format!(
            "meta l4proto tcp ct mark & {:#010x} != {{ 0, {:#010x} }}",
            self.layout.class_mask(),
            self.layout.unreadable()
        )
    }

    /// Returns the rule that queues the RSTs of rejections. Only these RSTs have the conntrack state related; other
    /// RSTs belong to their connection.
    pub fn resets(&self, family: &str) -> String {
        let (reset, known) = (resets_of(family), self.known());
        format!("{reset} ct state related {known} goto {REFUSE}")
    }

    /// Returns the edits that replace rejections with jumps to their chains, and that insert the matches that
    /// rejections imply.
    pub fn reject_edits(&self) -> Vec<Edit> {
        let (tokens, rejects) = (self.ways.tokens, self.rejects());
        let mut edits = Vec::new();
        for (number, reject) in (1..).zip(&rejects) {
            let range = &reject.tokens;
            let bytes = tokens.start(range.start)..tokens.end_before(range.end);
            edits.push((bytes, format!("jump stage-reject-{number}")));
            let first = self.ways.tree.rules[reject.rule].tokens.start;
            let start = tokens.start(first);
            let family = &self.ways.tree.tables[self.table_of(reject)].family;
            if !is_determined(tokens, first..range.start) {
                let implied = implied(family, tokens, range.start);
                edits.push((start..start, implied.to_owned()));
            }
        }
        edits
    }

    /// Returns the text of the chains of a table's rejections. They reset TCP connections whose names are known, and
    /// reject other packets as written. They accept the RSTs by which this host rejects a connection; RSTs of the
    /// connection's ends are rejected as written, since no RST answers them.
    pub fn reject_chains(&self, table: usize) -> String {
        let (tokens, known) = (self.ways.tokens, self.known());
        let reset = resets_of(&self.ways.tree.tables[table].family);
        let mut text = String::new();
        for (number, reject) in (1..).zip(&self.rejects()) {
            if self.table_of(reject) != table {
                continue;
            }
            if text.is_empty() {
                let _ = writeln!(
                    text,
                    "\n\tchain stage-refused {{\n\t\t{reset} {OWN} accept\n\t\ttcp flags & rst == rst return\n\t\treject with tcp reset\n\t}}"
                );
            }
            let _ = writeln!(
                text,
                "\n\tchain stage-reject-{number} {{\n\t\t{known} jump stage-refused\n\t\t{}\n\t}}",
                tokens.text_of(&reject.tokens)
            );
        }
        text
    }
}
