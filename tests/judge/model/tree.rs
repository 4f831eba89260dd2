// SPDX-License-Identifier: GPL-2.0-or-later
//! A policy as a small tree of text: enough structure to remove parts, and to find the values around which packets are
//! built.

use std::fmt::{self, Write};

use super::field::Range;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    Ip,
    Ip6,
    Inet,
}

impl Family {
    pub fn text(self) -> &'static str {
        match self {
            Family::Ip => "ip",
            Family::Ip6 => "ip6",
            Family::Inet => "inet",
        }
    }
}

/// Values of enum nf_inet_hooks (linux/netfilter.h).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Hook {
    Prerouting,
    Input,
    Forward,
    Output,
    Postrouting,
}

pub const HOOKS: [Hook; 5] = [
    Hook::Prerouting,
    Hook::Input,
    Hook::Forward,
    Hook::Output,
    Hook::Postrouting,
];

impl Hook {
    pub fn text(self) -> &'static str {
        ["prerouting", "input", "forward", "output", "postrouting"][self as usize]
    }

    pub fn from_number(number: u8) -> Option<Hook> {
        HOOKS.get(usize::from(number)).copied()
    }
}

/// An element of a set or map, with its values.
#[derive(Clone, Debug, PartialEq)]
pub struct Element {
    pub text: String,
    pub ranges: Vec<Range>,
}

/// Statement: `head { elements } tail`, or `head` alone.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Statement {
    pub head: String,
    pub elements: Vec<Element>,
    pub tail: String,
    pub ranges: Vec<Range>,
    /// Name of the named set or map that the statement uses.
    pub set: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rule {
    pub statements: Vec<Statement>,
    pub comment: Option<String>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Base {
    pub hook: Hook,
    pub priority: String,
    pub policy: Option<&'static str>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Chain {
    pub name: String,
    pub base: Option<Base>,
    pub rules: Vec<Rule>,
}

/// A named set or map: its lines before the elements, and its elements.
#[derive(Clone, Debug, PartialEq)]
pub struct Set {
    /// Keyword of the declaration, `set` or `map`.
    pub word: &'static str,
    pub name: String,
    pub lines: Vec<String>,
    pub elements: Vec<Element>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    pub family: Family,
    pub name: String,
    pub sets: Vec<Set>,
    pub chains: Vec<Chain>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Policy {
    pub flush: bool,
    pub tables: Vec<Table>,
}

/// Values that the matches of one rule compare: packets are built around them.
pub type Group = Vec<Range>;

impl fmt::Display for Statement {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(&self.head)?;
        if !self.elements.is_empty() {
            let texts: Vec<&str> = self.elements.iter().map(|one| one.text.as_str()).collect();
            write!(f, "{{ {} }}", texts.join(", "))?;
        }
        f.write_str(&self.tail)
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let texts: Vec<String> = self.statements.iter().map(Statement::to_string).collect();
        f.write_str(&texts.join(" "))?;
        if let Some(comment) = &self.comment {
            write!(f, " comment \"{comment}\"")?;
        }
        Ok(())
    }
}

impl Base {
    pub fn head(&self) -> String {
        format!(
            "type filter hook {} priority {};",
            self.hook.text(),
            self.priority
        )
    }
}

impl Set {
    pub fn elements_text(&self) -> String {
        let texts: Vec<&str> = self.elements.iter().map(|one| one.text.as_str()).collect();
        format!("elements = {{ {} }}", texts.join(", "))
    }
}

/// The plain text: one statement of the language and one rule per line.
impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        if self.flush {
            f.write_str("flush ruleset\n")?;
        }
        for table in &self.tables {
            writeln!(f, "table {} {} {{", table.family.text(), table.name)?;
            for set in &table.sets {
                writeln!(f, "\t{} {} {{", set.word, set.name)?;
                for line in &set.lines {
                    writeln!(f, "\t\t{line}")?;
                }
                if !set.elements.is_empty() {
                    writeln!(f, "\t\t{}", set.elements_text())?;
                }
                f.write_str("\t}\n")?;
            }
            for chain in &table.chains {
                writeln!(f, "\tchain {} {{", chain.name)?;
                if let Some(base) = &chain.base {
                    write!(f, "\t\t{}", base.head())?;
                    if let Some(policy) = base.policy {
                        write!(f, " policy {policy};")?;
                    }
                    f.write_char('\n')?;
                }
                for rule in &chain.rules {
                    writeln!(f, "\t\t{rule}")?;
                }
                f.write_str("\t}\n")?;
            }
            f.write_str("}\n")?;
        }
        Ok(())
    }
}

impl Policy {
    /// Returns the hooks of the policy's base chains, without duplicates, in the order of their numbers.
    pub fn hooks(&self) -> Vec<Hook> {
        let chains = self.tables.iter().flat_map(|table| &table.chains);
        let mut hooks: Vec<Hook> = chains
            .filter_map(|chain| Some(chain.base.as_ref()?.hook))
            .collect();
        hooks.sort_unstable();
        hooks.dedup();
        hooks
    }

    /// Returns the values of each rule. A rule with a set has further groups, each with the values of one element. Only
    /// the first `MAX_ELEMENTS` elements count, so that they don't outweigh the other rules.
    pub fn groups(&self) -> Vec<Group> {
        const MAX_ELEMENTS: usize = 12;
        let mut groups = Vec::new();
        for table in &self.tables {
            let rules = table.chains.iter().flat_map(|chain| &chain.rules);
            for rule in rules {
                let mut made = vec![Group::new()];
                for statement in &rule.statements {
                    let named = statement
                        .set
                        .as_ref()
                        .and_then(|name| table.sets.iter().find(|set| set.name == *name));
                    let elements = named.map_or(&statement.elements, |set| &set.elements);
                    let before = made.last().cloned().unwrap_or_default();
                    for group in &mut made {
                        group.extend(&statement.ranges);
                    }
                    for element in elements.iter().take(MAX_ELEMENTS) {
                        let mut group = before.clone();
                        group.extend(&statement.ranges);
                        group.extend(&element.ranges);
                        made.push(group);
                    }
                }
                groups.extend(made.into_iter().filter(|group| !group.is_empty()));
            }
        }
        groups
    }
}
