// SPDX-License-Identifier: GPL-2.0-or-later
//! Finds tables, chains, rules and sets in tokens. The statements of rules are parsed elsewhere; other items are
//! dropped.

use std::collections::{BTreeSet, HashMap};
use std::ops::Range;

use crate::token::{Kind, Tokens};

/// Hook of a base chain, with its type and priority.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Base {
    /// Type of the base chain: `filter`, `nat` or `route`.
    pub kind: String,
    pub hook: String,
    /// Priority; None if it is neither a decimal number nor a known name (`filter`, `filter - 3`).
    pub priority: Option<i32>,
}

#[derive(Clone, Debug)]
pub struct Chain {
    /// Index in `Tree::tables`.
    pub table: usize,
    pub name: String,
    pub base: Option<Base>,
    /// True if the chain's policy is drop.
    pub drops: bool,
}

/// Rule: the tokens of its statements.
#[derive(Clone, Debug)]
pub struct Rule {
    /// Index in `Tree::chains`.
    pub chain: usize,
    pub tokens: Range<usize>,
}

/// Declaration of a named set or map, or a command that adds elements to it.
#[derive(Clone, Debug)]
pub struct Set {
    /// Index in `Tree::tables`.
    pub table: usize,
    pub name: String,
    /// True for a command that adds elements: `add element`, `create element`, or `element` alone.
    pub is_element: bool,
    /// Tokens from the first word to the closing brace.
    pub tokens: Range<usize>,
    /// Tokens between the braces.
    pub inner: Range<usize>,
    /// Names of the chains to which the elements lead.
    pub calls: BTreeSet<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    pub family: String,
    pub name: String,
    /// Tokens of each command on the table, such as a block or `add rule`.
    pub commands: Vec<Range<usize>>,
}

/// A policy's parts, in the order of the text.
#[derive(Clone, Debug, Default)]
pub struct Tree {
    pub tables: Vec<Table>,
    pub chains: Vec<Chain>,
    pub rules: Vec<Rule>,
    /// Declarations of sets and maps, and commands that add elements (these have no type).
    pub sets: Vec<Set>,
    /// Values of `define` as tokens, by name without `$`.
    pub defines: HashMap<String, Range<usize>>,
    /// First tokens of the definitions that give an earlier name another value.
    pub redefined: Vec<usize>,
    /// True if the text contains `flush ruleset`.
    pub flushes: bool,
    /// Table and first token of each command that inserts between, replaces or removes earlier rules or elements of the
    /// table. The tree doesn't follow these commands: it has all rules and elements, in the order of the text.
    pub changes: Vec<(usize, usize)>,
    /// First tokens of commands that are not understood.
    pub unknown: Vec<usize>,
}

/// Returns the name in `Tree::chains` of a chain between braces. No other chain has this name.
/// - open: token of the opening brace.
pub fn unnamed(open: usize) -> String {
    format!("{{{open}")
}

/// Parser of a policy: its tokens, and the parts read so far.
struct Reader<'a> {
    tokens: &'a Tokens,
    tree: Tree,
}

/// Returns the priority for a word (nft(8), chains). The family bridge has other priorities, but can't match names.
fn priority_word(word: &str) -> Option<i32> {
    Some(match word {
        "raw" => -300,
        "mangle" => -150,
        "dstnat" => -100,
        "filter" => 0,
        "security" => 50,
        "srcnat" => 100,
        _ => return None,
    })
}

/// Parses a number with a sign. None for a leading zero, too: nft reads the number as octal, but as decimal if it is in
/// the string of a definition.
fn signed(text: &str) -> Option<i32> {
    let digits = text.trim_start_matches(['+', '-']);
    let has_zero = digits.len() > 1 && digits.starts_with('0');
    text.parse().ok().filter(|_| !has_zero)
}

/// Parses a priority: `filter - 3`, `-150`, `mangle`.
fn priority(text: &str) -> Option<i32> {
    let text: String = text.chars().filter(|c| !c.is_whitespace()).collect();
    if let Some(number) = signed(&text) {
        return Some(number);
    }
    let split = text.find(['+', '-']).unwrap_or(text.len());
    let (word, rest) = text.split_at(split);
    let offset = if rest.is_empty() { 0 } else { signed(rest)? };
    Some(priority_word(word)? + offset)
}

const FAMILIES: [&str; 6] = ["ip", "ip6", "inet", "arp", "bridge", "netdev"];

/// Verbs of commands that declare a part of a policy.
const DECLARES: [&str; 3] = ["add", "create", "insert"];
/// Verbs of commands that change or remove declared parts.
const CHANGES: [&str; 5] = ["delete", "destroy", "flush", "rename", "replace"];
/// Parts of a policy that this parser reads.
const PARTS: [&str; 6] = ["table", "chain", "rule", "set", "map", "element"];
/// Other first words of commands, after the verb (DECLARES, CHANGES) if there is one. These commands contain no rules,
/// marks or names.
const OTHERS: [&str; 10] = [
    "flowtable",
    "counter",
    "quota",
    "limit",
    "ct",
    "secmark",
    "synproxy",
    "undefine",
    "list",
    "reset",
];

impl Reader<'_> {
    /// Returns the table of a command, and the token after its name. None: the table is not known yet, and the command
    /// does not declare it.
    /// - at: token of the table's family or name.
    fn table(&mut self, at: usize, declares: bool) -> Option<(usize, usize)> {
        let has_family = FAMILIES.contains(&self.tokens.get(at));
        let family = if has_family {
            self.tokens.get(at)
        } else {
            "ip"
        };
        let at = at + usize::from(has_family);
        let name = self.tokens.get(at);
        let is_same = |table: &Table| table.family == family && table.name == name;
        let found = self.tree.tables.iter().position(is_same);
        if found.is_none() && declares {
            self.tree.tables.push(Table {
                family: family.to_owned(),
                name: name.to_owned(),
                commands: Vec::new(),
            });
            return Some((self.tree.tables.len() - 1, at + 1));
        }
        Some((found?, at + 1))
    }

    fn chain(&mut self, table: usize, name: &str) -> usize {
        let is_same = |chain: &Chain| chain.table == table && chain.name == name;
        let found = self.tree.chains.iter().position(is_same);
        found.unwrap_or_else(|| {
            self.tree.chains.push(Chain {
                table,
                name: name.to_owned(),
                base: None,
                drops: false,
            });
            self.tree.chains.len() - 1
        })
    }

    /// Returns the text of tokens, with `$NAME` replaced.
    fn resolved(&self, range: Range<usize>) -> String {
        let words = range.flat_map(|at| {
            let define = self.tokens.get(at).strip_prefix('$');
            let value = define.and_then(|name| self.tree.defines.get(name));
            value.cloned().unwrap_or(at..at + 1)
        });
        let words: Vec<&str> = words.map(|at| self.tokens.get(at)).collect();
        words.join(" ")
    }

    /// Parses the head of a base chain: `type filter hook forward priority 0`.
    fn head(&mut self, chain: usize, statement: Range<usize>) {
        let find = |word| statement.clone().find(|at| self.tokens.get(*at) == word);
        let (Some(hook), Some(priority_at)) = (find("hook"), find("priority")) else {
            return;
        };
        let base = Base {
            kind: self.tokens.get(statement.start + 1).to_owned(),
            hook: self.tokens.get(hook + 1).to_owned(),
            priority: priority(
                &self
                    .resolved(priority_at + 1..statement.end)
                    .replace('"', ""),
            ),
        };
        self.tree.chains[chain].base = Some(base);
    }

    /// Parses the statements between a chain's braces.
    fn chain_body(&mut self, chain: usize, body: Range<usize>) {
        let mut at = body.start;
        while at < body.end {
            let end = self.tokens.statement_end(at).min(body.end);
            match self.tokens.get(at) {
                _ if at == end => {}
                "type" => self.head(chain, at..end),
                "policy" => {
                    let policy = self.resolved(at + 1..end).replace('"', "");
                    self.tree.chains[chain].drops = policy != "accept";
                }
                "comment" | "flags" | "device" | "devices" => {}
                "define" | "redefine" => self.define(at, end),
                _ => self.rule(chain, at..end),
            }
            at = end + 1;
        }
    }

    /// Parses a rule. The rule may end with a chain between braces (`jump { … }`), which becomes a separate chain.
    fn rule(&mut self, chain: usize, tokens: Range<usize>) {
        let is_inner = |at: &usize| {
            self.tokens.get(*at) == "{" && ["jump", "goto"].contains(&self.tokens.get(at - 1))
        };
        let Some(open) = tokens.clone().skip(1).find(is_inner) else {
            return self.tree.rules.push(Rule { chain, tokens });
        };
        let tokens = tokens.start..open;
        self.tree.rules.push(Rule { chain, tokens });
        let inner = self.chain(self.tree.chains[chain].table, &unnamed(open));
        let close = self.tokens.behind_braces(open) - 1;
        self.chain_body(inner, open + 1..close);
    }

    fn define(&mut self, at: usize, end: usize) {
        let (tokens, value) = (self.tokens, at + 3..end);
        let name = tokens.get(at + 1).to_owned();
        let earlier = self.tree.defines.insert(name, value.clone());
        if earlier.is_some_and(|earlier| tokens.text_of(&earlier) != tokens.text_of(&value)) {
            self.tree.redefined.push(at);
        }
    }

    fn set(&mut self, table: usize, name: usize, start: usize, open: usize) {
        let end = self.tokens.behind_braces(open);
        let inner = open + 1..end - 1;
        let calls = called(self.tokens, &flat(self.tokens, &self.tree, &inner));
        self.tree.sets.push(Set {
            table,
            name: self.tokens.get(name).to_owned(),
            is_element: (start..name).any(|at| self.tokens.get(at) == "element"),
            tokens: start..end,
            inner,
            calls,
        });
    }

    /// Parses the items between a table's braces.
    fn table_body(&mut self, table: usize, body: Range<usize>) {
        let mut at = body.start;
        while at < body.end {
            let end = self.tokens.statement_end(at).min(body.end);
            let open = (at..end).find(|at| self.tokens.get(*at) == "{");
            match (self.tokens.get(at), open) {
                ("chain", Some(open)) => {
                    let chain = self.chain(table, self.tokens.get(at + 1));
                    let close = self.tokens.behind_braces(open) - 1;
                    self.chain_body(chain, open + 1..close);
                }
                ("set" | "map", Some(open)) => self.set(table, at + 1, at, open),
                ("define" | "redefine", _) => self.define(at, end),
                _ => {}
            }
            at = end + 1;
        }
    }

    /// Records a command that the tree doesn't follow, if rules or sets of its table precede it, or chains that it may
    /// remove or rename.
    fn change(&mut self, table: usize, start: usize) {
        let tree = &mut self.tree;
        let mut tables = tree.rules.iter().map(|rule| tree.chains[rule.chain].table);
        let has_rules = tables.any(|own| own == table);
        let has_chains = tree.chains.iter().any(|chain| chain.table == table);
        let words = (self.tokens.get(start), self.tokens.get(start + 1));
        let removes_chains = match words {
            ("flush", "ruleset") => true,
            (verb, "chain" | "table") => ["delete", "destroy", "rename"].contains(&verb),
            _ => false,
        };
        let is_changed = has_rules || has_chains && removes_chains;
        if is_changed || tree.sets.iter().any(|set| set.table == table) {
            tree.changes.push((table, start));
        }
    }

    /// Parses a command outside of tables. A command without a verb declares.
    fn command(&mut self, start: usize, end: usize) {
        let verb = self.tokens.get(start);
        let is_change = CHANGES.contains(&verb);
        let at = start + usize::from(is_change || DECLARES.contains(&verb));
        let open = (at..end).find(|at| self.tokens.get(*at) == "{");
        let what = self.tokens.get(at);
        match what {
            "define" | "redefine" => return self.define(at, end),
            "ruleset" if verb == "flush" => {
                self.tree.flushes |= at + 1 == end;
                for table in 0..self.tree.tables.len() {
                    self.change(table, start);
                }
                return;
            }
            _ => {}
        }
        if !PARTS.contains(&what) && !OTHERS.contains(&what) {
            self.tree.unknown.push(start);
        }
        let declares = !is_change && PARTS.contains(&what);
        let Some((table, at)) = self.table(at + 1, declares) else {
            return;
        };
        self.tree.tables[table].commands.push(start..end);
        let has_position = ["index", "position", "handle"].contains(&self.tokens.get(at + 1));
        if is_change || verb == "insert" || what == "rule" && has_position {
            self.change(table, start);
        }
        if !declares {
            return;
        }
        let name = self.tokens.get(at).to_owned();
        match (what, open) {
            ("table", Some(open)) => {
                let close = self.tokens.behind_braces(open) - 1;
                self.table_body(table, open + 1..close);
            }
            ("chain", _) => {
                let chain = self.chain(table, &name);
                if let Some(open) = open {
                    let close = self.tokens.behind_braces(open) - 1;
                    self.chain_body(chain, open + 1..close);
                }
            }
            ("rule", _) => {
                let chain = self.chain(table, &name);
                self.rule(chain, at + 1 + 2 * usize::from(has_position)..end);
            }
            ("set" | "map" | "element", Some(open)) => self.set(table, at, start, open),
            ("set" | "map" | "element", None) => self.tree.unknown.push(start),
            _ => {}
        }
    }
}

/// Finds the parts of a policy.
pub fn read(tokens: &Tokens) -> Tree {
    let tree = Tree::default();
    let mut reader = Reader { tokens, tree };
    let mut at = 0;
    while at < tokens.list.len() {
        let end = tokens.statement_end(at);
        if tokens.kind(at) != Kind::End && end > at {
            reader.command(at, end);
        }
        at = end + 1;
    }
    reader.tree
}

/// Maximum nesting depth of `$NAME` in definitions.
const EXPAND_MAX: u32 = 16;

fn add_flat(
    tokens: &Tokens,
    tree: &Tree,
    range: &Range<usize>,
    depth: u32,
    found: &mut Vec<usize>,
) {
    for at in range.clone() {
        let define = tokens.get(at).strip_prefix('$');
        match define.and_then(|name| tree.defines.get(name)) {
            Some(value) if depth > 0 => add_flat(tokens, tree, value, depth - 1, found),
            _ => found.push(at),
        }
    }
}

/// Returns tokens with `$NAME` replaced by the tokens of its definition.
pub fn flat(tokens: &Tokens, tree: &Tree, range: &Range<usize>) -> Vec<usize> {
    let mut found = Vec::new();
    add_flat(tokens, tree, range, EXPAND_MAX, &mut found);
    found
}

/// Returns the names of the chains to which tokens lead.
/// - words: the tokens, as `flat` returns them.
pub fn called(tokens: &Tokens, words: &[usize]) -> BTreeSet<String> {
    let is_call = |place: &usize| ["jump", "goto"].contains(&tokens.get(words[*place]));
    let name = |place: usize| {
        // The tokens of a rule end before a chain between braces.
        let next = words.get(place + 1).copied();
        let next = next.unwrap_or(words[place] + 1);
        match tokens.get(next) {
            "{" => unnamed(next),
            word => word.trim_matches('"').to_owned(),
        }
    };
    (0..words.len()).filter(is_call).map(name).collect()
}

/// Returns the names of the sets and maps in tokens, with their `@`.
/// - words: the tokens, as `flat` returns them.
pub fn named_sets<'a>(
    tokens: &'a Tokens,
    words: &'a [usize],
) -> impl Iterator<Item = &'a str> + 'a {
    let all = words.iter().map(|at| tokens.get(*at));
    all.filter(|word| word.starts_with('@'))
}

/// Returns tokens as text, separated by blanks, with `$NAME` replaced by its definition.
pub fn expand(tokens: &Tokens, tree: &Tree, range: &Range<usize>) -> String {
    let words: Vec<&str> = flat(tokens, tree, range)
        .into_iter()
        .map(|at| tokens.get(at))
        .collect();
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::token;

    const TEXT: &str = "define p = -10\nflush ruleset\ntable inet f {\n set a { type ipv4_addr; }\n chain in {\n  \
        type filter hook input priority filter - 3; policy drop;\n  tcp dport { 22,\n 23 } accept\n  jump x; drop\n }\n \
        chain x { type filter hook forward priority $p; }\n}\nadd rule inet f x counter\nadd element inet f a { 10.0.0.1 }\n";

    /// nft accepts the policy before the type, as a definition, and in another block of the chain.
    #[test]
    fn the_policy_of_a_chain_counts_in_each_spelling() {
        let head = "type filter hook input priority 0;";
        for (body, drops) in [
            (format!("{head} policy drop;"), true),
            (format!("policy drop; {head}"), true),
            (format!("{head} policy $p;"), true),
            (format!("{head} policy drop; }} chain c {{ {head}"), true),
            (format!("{head} policy accept;"), false),
            (head.to_owned(), false),
        ] {
            let text = format!("define p = \"drop\"\ntable inet f {{ chain c {{ {body} }} }}\n");
            assert_eq!(read(&token::tokens(&text)).chains[0].drops, drops, "{body}");
        }
    }

    #[test]
    fn parts_are_found() {
        let tokens = token::tokens(TEXT);
        let tree = read(&tokens);
        assert!(tree.flushes);
        assert_eq!(tree.tables.len(), 1);
        let base = |at: usize| tree.chains[at].base.clone().unwrap();
        assert_eq!(
            (base(0).hook.as_str(), base(0).priority),
            ("input", Some(-3))
        );
        assert_eq!(
            (base(1).hook.as_str(), base(1).priority),
            ("forward", Some(-10))
        );
        let rules: Vec<&str> = tree
            .rules
            .iter()
            .map(|rule| tokens.text_of(&rule.tokens))
            .collect();
        assert_eq!(
            rules,
            ["tcp dport { 22,\n 23 } accept", "jump x", "drop", "counter"]
        );
        assert_eq!(tree.sets.len(), 2);
        assert_eq!(tokens.text_of(&tree.sets[1].inner), "10.0.0.1");
    }

    #[test]
    fn a_chain_between_braces_is_one_of_its_own() {
        let text = "table inet f {\n chain c {\n tcp dport { 1, 2 } jump { ip saddr 10.0.0.1 drop; goto { counter }\n }\n accept\n }\n}\n";
        let tokens = token::tokens(text);
        let tree = read(&tokens);
        let rules: Vec<(usize, &str)> = tree
            .rules
            .iter()
            .map(|rule| (rule.chain, tokens.text_of(&rule.tokens)))
            .collect();
        let want = [
            (0, "tcp dport { 1, 2 } jump"),
            (1, "ip saddr 10.0.0.1 drop"),
            (1, "goto"),
            (2, "counter"),
            (0, "accept"),
        ];
        assert_eq!(rules, want);
    }

    #[test]
    fn priorities() {
        assert_eq!(priority("filter+10"), Some(10));
        assert_eq!(priority("-150"), Some(-150));
        assert_eq!(priority("mangle - 1"), Some(-151));
        assert_eq!(priority("0"), Some(0));
        for text in ["$x", "010", "-010", "filter + 010"] {
            assert_eq!(priority(text), None, "{text}");
        }
    }
}
