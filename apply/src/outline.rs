// SPDX-License-Identifier: GPL-2.0-or-later
//! Tables that a text declares, with the chains and other objects in their blocks. Only nft parses rules and elements.

use crate::source::{commands, named_table, Command, Table};

/// Kinds of named objects in a table's block, besides chains and `ct` objects.
const OBJECTS: [&str; 8] = [
    "map",
    "set",
    "flowtable",
    "counter",
    "quota",
    "limit",
    "synproxy",
    "secmark",
];

/// Chain that a text declares in a table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Chain {
    pub name: String,
    /// Hook of a base chain; None: the chain is no base chain.
    pub hook: Option<String>,
    /// Policy of a base chain: `accept`, `drop`, or a definition (`$NAME`). None if the text declares none.
    pub policy: Option<String>,
    /// True if the chain has a comment, flags or devices, which don't change when the chain is declared again.
    pub is_fixed: bool,
}

/// Table that a text declares: its chains, and kind and name of its other objects. Rules and elements are omitted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outline {
    pub table: Table,
    pub chains: Vec<Chain>,
    /// Named objects besides chains, by kind and name: `set known`, `ct helper ftp`.
    pub objects: Vec<String>,
    /// True if the table has a comment, flags, or objects of an unknown kind: then it can't be emptied, only removed
    /// whole.
    pub is_fixed: bool,
}

impl Outline {
    /// Returns the chains with a hook.
    pub fn base_chains(&self) -> impl Iterator<Item = &Chain> {
        self.chains.iter().filter(|chain| chain.hook.is_some())
    }

    pub fn chain(&self, name: &str) -> Option<&Chain> {
        self.chains.iter().find(|chain| chain.name == name)
    }

    /// Adds a chain with the hook, policy and fixed properties that its block declares. If a chain of that name is
    /// known, updates that chain.
    fn add_chain(&mut self, name: &str, block: &str) {
        let name = name.trim_matches('"');
        let found = self.chains.iter().position(|chain| chain.name == name);
        let at = found.unwrap_or_else(|| {
            self.chains.push(Chain {
                name: name.to_owned(),
                ..Chain::default()
            });
            self.chains.len() - 1
        });
        let chain = &mut self.chains[at];
        for statement in commands(block) {
            let words: Vec<&str> = statement.words.iter().map(String::as_str).collect();
            match words[..] {
                ["type", ..] => {
                    let mut behind = words.iter().skip_while(|word| **word != "hook").skip(1);
                    chain.hook = behind.next().map(|word| (*word).to_owned());
                    chain.is_fixed |= words.iter().any(|word| word.starts_with("device"));
                }
                ["policy", word, ..] => chain.policy = Some(word.to_owned()),
                ["comment" | "flags" | "device" | "devices", ..] => chain.is_fixed = true,
                _ => {}
            }
        }
    }

    /// Adds the chains and other objects of a table's block. Sets `is_fixed` if the block has anything else, except
    /// definitions.
    fn add_block(&mut self, block: &str) {
        for command in commands(block) {
            let words: Vec<&str> = command.words.iter().map(String::as_str).collect();
            match words[..] {
                ["chain", name, ..] => self.add_chain(name, inner(block, &command)),
                ["ct", kind, name, ..] => self.objects.push(format!("ct {kind} {name}")),
                [kind, name, ..] if OBJECTS.contains(&kind) => {
                    self.objects.push(format!("{kind} {name}"));
                }
                ["define" | "redefine" | "undefine", ..] => {}
                _ => self.is_fixed = true,
            }
        }
    }
}

fn inner<'a>(text: &'a str, command: &Command) -> &'a str {
    let range = command.inner.clone();
    range.map_or("", |range| &text[range])
}

/// Returns the tables that a text declares, in the order of the text.
pub fn outlines(text: &str) -> Vec<Outline> {
    let mut found: Vec<Outline> = Vec::new();
    for command in commands(text) {
        let words = command.words.iter().map(String::as_str);
        let mut words = words
            .skip_while(|word| ["add", "create"].contains(word))
            .peekable();
        let kind = words.next().unwrap_or_default();
        let is_declared = ["table", "chain"].contains(&kind);
        let Some(table) = is_declared.then(|| named_table(&mut words)).flatten() else {
            continue;
        };
        let at = found.iter().position(|one| one.table == table);
        let at = at.unwrap_or_else(|| {
            found.push(Outline {
                table,
                chains: Vec::new(),
                objects: Vec::new(),
                is_fixed: false,
            });
            found.len() - 1
        });
        match words.next() {
            Some(name) if kind == "chain" => found[at].add_chain(name, inner(text, &command)),
            _ => found[at].add_block(inner(text, &command)),
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const LISTED: &str = "table inet host {
	comment \"x\"
	ct helper ftp {
		type \"ftp\" protocol tcp
		l3proto inet
	}

	map ports {
		type inet_service : verdict
		elements = { 22 : jump ssh }
	}

	chain ssh {
		counter packets 0 bytes 0 accept
	}

	chain input {
		type filter hook input priority filter; policy drop;
		tcp dport vmap @ports
		tcp dport { 80, 443 } accept comment \"chain x {\"
	}
}
";

    #[test]
    fn a_list_has_chains_and_objects() {
        let all = outlines(LISTED);
        assert_eq!(all.len(), 1);
        let [host] = &all[..] else { unreachable!() };
        assert_eq!(host.table.to_string(), "inet host");
        assert_eq!(host.objects, ["ct helper ftp", "map ports"]);
        assert!(host.is_fixed);
        let names: Vec<&str> = host.chains.iter().map(|one| one.name.as_str()).collect();
        assert_eq!(names, ["ssh", "input"]);
        let base: Vec<&Chain> = host.base_chains().collect();
        assert_eq!(base[0].hook.as_deref(), Some("input"));
        assert_eq!(base[0].policy.as_deref(), Some("drop"));
    }

    #[test]
    fn commands_and_blocks_declare_the_same() {
        let text = "define p = 5\nadd table inet a\nadd chain inet a c { type filter hook input priority $p; }\n\
                    table inet a { chain c { policy drop; }\n chain d { counter; }\n }\nadd rule inet a d accept\n";
        let all = outlines(text);
        assert_eq!(all.len(), 1);
        assert!(!all[0].is_fixed);
        let c = all[0].chain("c").unwrap();
        assert_eq!(
            (c.hook.as_deref(), c.policy.as_deref()),
            (Some("input"), Some("drop"))
        );
        assert_eq!(all[0].chain("d").unwrap().hook, None);
    }

    #[test]
    fn what_a_second_declaration_leaves_is_fixed() {
        for header in ["comment \"x\"", "flags offload", "devices = { lo }"] {
            let text = format!("table inet a {{\n chain c {{ type filter hook ingress priority 0; {header}; }}\n}}");
            assert!(outlines(&text)[0].chains[0].is_fixed, "{header}");
        }
        assert!(outlines("table netdev a {\n chain c {\n type filter hook ingress device lo priority 0\n }\n}")[0].chains[0].is_fixed);
        assert!(outlines("table inet a {\n flags dormant\n}")[0].is_fixed);
        assert!(outlines("table inet a {\n tunnel t { }\n}")[0].is_fixed);
    }
}
