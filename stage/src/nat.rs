// SPDX-License-Identifier: GPL-2.0-or-later
//! Removes the tables that only translate addresses, for callers that only need the filters of a policy.

use crate::replace::bytes;
use crate::source::Source;
use crate::tree::{self, Tree};

/// Returns true if a table has base chains, and all of them have type nat.
fn is_nat(tree: &Tree, table: usize) -> bool {
    let own = tree.chains.iter().filter(|chain| chain.table == table);
    let mut bases = own.filter_map(|chain| chain.base.as_ref()).peekable();
    bases.peek().is_some() && bases.all(|base| base.kind == "nat")
}

/// Returns the text of a policy with blanks in place of the commands on tables that only translate addresses. Line
/// numbers stay the same.
pub fn without_nat(source: &Source) -> String {
    let tokens = crate::token::tokens(&source.text);
    let tree = tree::read(&tokens);
    let mut text = source.text.clone();
    let tables = tree.tables.iter().enumerate();
    let translating = tables.filter(|(number, _)| is_nat(&tree, *number));
    for command in translating.flat_map(|(_, table)| &table.commands) {
        let range = bytes(&tokens, command);
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
        text.replace_range(range, &blank);
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
        let chain =
            "\tchain c {\n\t\ttype nat hook prerouting priority -100;\n\t\tdnat to 10.0.0.1\n\t}\n";
        let rest = "\tmap m {\n\t\ttype ipv4_addr : ipv4_addr\n\t}\n";
        for nat in [
            format!("table ip n {{\n{chain}}}\n"),
            format!("add table ip n {{\n{chain}{rest}}}\n"),
            format!(
                "table ip n\ndelete table ip n\ntable ip n {{\n{chain}}}\ntable n {{\n{rest}}}\n"
            ),
            "add table n\nadd chain n c { type nat hook output priority -100; }\nadd counter n k\n\
             insert rule ip n c counter name k dnat to 10.0.0.1; flush chain n c\n\
             add map n m { type mark : ipv4_addr; }\nelement ip n m { 1 : 10.0.0.1 }\n"
                .to_owned(),
        ] {
            let source = crate::text("p.nft", &format!("{nat}{filter}")).unwrap();
            let left = without_nat(&source);
            assert_eq!(
                left.replace(';', " ").trim(),
                filter.replace(';', " ").trim()
            );
            assert_eq!(left.len(), source.text.len());
            assert_eq!(left.lines().count(), source.text.lines().count());
        }
    }
}
