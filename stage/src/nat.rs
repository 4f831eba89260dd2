// SPDX-License-Identifier: GPL-2.0-or-later
//! Removes the tables that only translate addresses, for callers that only need the filters of a policy.

use crate::source::Source;
use crate::token::{Kind, Tokens};
use crate::tree::{self, Tree};

/// Returns true if a table has base chains, and all of them have type nat.
fn is_nat(tree: &Tree, table: usize) -> bool {
    let own = tree.chains.iter().filter(|chain| chain.table == table);
    let mut bases = own.filter_map(|chain| chain.base.as_ref()).peekable();
    bases.peek().is_some() && bases.all(|base| base.kind == "nat")
}

/// Returns the word `table` that begins a table's block. None: none of the four tokens before `open` is this word.
/// - open: as in `Table`.
fn beginning(tokens: &Tokens, open: usize) -> Option<usize> {
    let near = open.saturating_sub(4)..open;
    near.rev().find(|at| tokens.get(*at) == "table")
}

/// Returns the text of a policy with blanks in place of the tables that only translate addresses. Only the first block
/// of such a table is replaced. Line numbers stay the same.
pub fn without_nat(source: &Source) -> String {
    let tokens = crate::token::tokens(&source.text);
    let tree = tree::read(&tokens);
    let mut text = source.text.clone();
    for (number, table) in tree.tables.iter().enumerate() {
        let Some(first) = beginning(&tokens, table.open).filter(|_| is_nat(&tree, number)) else {
            continue;
        };
        let has_braces = tokens.kind(table.open) == Kind::Sign;
        let range = tokens.start(first)..tokens.end_before(tokens.behind_braces(table.open));
        let blank: String = text[range.clone()]
            .chars()
            .map(|c| {
                if c == '\n' {
                    "\n".to_owned()
                } else {
                    " ".repeat(c.len_utf8())
                }
            })
            .collect();
        if has_braces {
            text.replace_range(range, &blank);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_tables_that_translate_are_left_out() {
        let filter =
            "table inet f {\n\tchain c {\n\t\ttype filter hook input priority 0;\n\t}\n}\n";
        let nat = "table ip n {\n\tchain c {\n\t\ttype nat hook prerouting priority -100;\n\t\tdnat to 10.0.0.1\n\t}\n}\n";
        let source = crate::text("p.nft", &format!("{nat}{filter}")).unwrap();
        let left = without_nat(&source);
        assert_eq!(left.trim(), filter.trim());
        assert_eq!(left.len(), source.text.len());
        assert_eq!(left.lines().count(), source.text.lines().count());
    }
}
