// SPDX-License-Identifier: GPL-2.0-or-later
//! What a rule does with a packet whose name it can't tell: the kernel walks one way only, where the firewalls walk both.
//!
//! The rule is passed over, unless a way by which it holds may be accepted where none by which it doesn't need be.

use std::collections::BTreeSet;
use std::ops::Range;

use crate::reach::Ways;
use crate::tree::Rule;

/// Possible ends of packets from a rule on.
#[derive(Clone, Copy, Debug, Default)]
struct Leads {
    accepts: bool,
    drops: bool,
    /// To the end of the chain, before all of it was walked.
    returns: bool,
}

impl Leads {
    fn add(&mut self, other: Leads) {
        self.accepts |= other.accepts;
        self.drops |= other.drops;
        self.returns |= other.returns;
    }
}

/// Walks through chains, each once.
struct Walk<'a> {
    ways: &'a Ways<'a>,
    seen: BTreeSet<usize>,
}

impl Walk<'_> {
    fn words<'a>(words: impl Iterator<Item = &'a str>) -> Leads {
        let mut leads = Leads::default();
        for word in words {
            match word {
                "accept" | "queue" => leads.accepts = true,
                "drop" | "reject" => leads.drops = true,
                // The end of a chain that was entered by goto is the end of this one, too.
                "return" | "goto" => leads.returns = true,
                _ => {}
            }
        }
        leads
    }

    /// Possible ends of chains that are called.
    fn called(&mut self, is_called: impl Fn(&Walk, usize) -> bool) -> Leads {
        let mut leads = Leads::default();
        for chain in 0..self.ways.tree.chains.len() {
            if is_called(self, chain) && self.seen.insert(chain) {
                let inner = self.chain(chain, 0);
                leads.accepts |= inner.accepts;
                leads.drops |= inner.drops;
            }
        }
        leads
    }

    /// Possible ends of a rule and of all that it leads to.
    fn rule(&mut self, rule: &Rule) -> Leads {
        let mut leads = Self::words(self.ways.words(rule).iter().map(String::as_str));
        leads.add(self.called(|walk, chain| walk.ways.calls(rule, chain)));
        leads
    }

    /// Possible ends of a verdict of a table's map.
    fn verdict(&mut self, table: usize, verdict: &str) -> Leads {
        let mut leads = Self::words(verdict.split(' '));
        let name = verdict.split(' ').nth(1);
        leads.add(self.called(|walk, chain| {
            let chain = &walk.ways.tree.chains[chain];
            chain.table == table && Some(chain.name.as_str()) == name
        }));
        leads
    }

    /// Possible ends of a chain's rules, from a rule on.
    fn chain(&mut self, chain: usize, first: usize) -> Leads {
        let tree = self.ways.tree;
        let mut all = Leads::default();
        let behind = tree.rules.iter().skip(first);
        for rule in behind.filter(|rule| rule.chain == chain) {
            all.add(self.rule(rule));
        }
        all
    }
}

fn leads_of(ways: &Ways, walk: impl Fn(&mut Walk) -> Leads) -> Leads {
    let seen = BTreeSet::new();
    walk(&mut Walk { ways, seen })
}

/// The verdict of a rule of which it is not known whether it holds, where such packets may pass; None: it is passed over.
/// - lookup: of names, as tokens, and what its element leads to
pub fn verdict(
    ways: &Ways,
    number: usize,
    lookup: Option<(&Range<usize>, &str)>,
) -> Option<&'static str> {
    let rule = &ways.tree.rules[number];
    let chain = &ways.tree.chains[rule.chain];
    let own = leads_of(ways, |walk| {
        let Some((lookup, leads)) = lookup else {
            return walk.rule(rule);
        };
        let mut all = walk.verdict(chain.table, leads);
        for tokens in [rule.tokens.start..lookup.start, lookup.end..rule.tokens.end] {
            let chain = rule.chain;
            all.add(walk.rule(&Rule { chain, tokens }));
        }
        all
    });
    if own.accepts {
        return Some("accept");
    }
    if !own.returns {
        return None;
    }
    if let Some(base) = &chain.base {
        return (!base.drops).then_some("accept");
    }
    let rest = leads_of(ways, |walk| walk.chain(rule.chain, number + 1));
    match (rest.drops, rest.accepts) {
        (false, _) => None,
        (true, false) => Some("return"),
        (true, true) => Some("accept"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{token, tree};

    /// The verdict of the rule with `ASKED`, in a chain that the base chain jumps to.
    fn of(policy: &str, more: &str, rules: &str) -> Option<&'static str> {
        let text = format!(
            "table inet f {{\n map m {{ type inet_service : verdict; elements = {{ 1 : accept }}; }}\n chain yes {{ ip daddr 10.0.0.1 accept; }}\n \
             chain no {{ ip daddr 10.0.0.1 drop; }}\n chain in {{\n {rules}\n }}\n chain base {{\n type filter hook input priority 0; policy {policy};\n {more}\n jump in\n }}\n}}\n"
        );
        let tokens = token::tokens(&text);
        let tree = tree::read(&tokens);
        let ways = Ways {
            tokens: &tokens,
            tree: &tree,
        };
        let is_it = |rule: &Rule| tokens.text_of(&rule.tokens).starts_with("ASKED");
        verdict(&ways, tree.rules.iter().position(is_it).unwrap(), None)
    }

    #[test]
    fn what_may_accept_accepts() {
        for rule in [
            "ASKED accept",
            "ASKED jump yes",
            "ASKED goto yes",
            "ASKED tcp dport vmap @m",
        ] {
            assert_eq!(of("drop", "", rule), Some("accept"), "{rule}");
        }
        for rule in ["ASKED drop", "ASKED jump no", "ASKED counter"] {
            assert_eq!(of("drop", "", rule), None, "{rule}");
        }
    }

    #[test]
    fn what_may_return_returns_before_what_drops() {
        for rule in ["ASKED return", "ASKED goto no"] {
            assert_eq!(of("drop", "", &format!("{rule}\ndrop")), Some("return"));
            let both = format!("{rule}\ntcp dport 1 accept\ndrop");
            assert_eq!(of("drop", "", &both), Some("accept"));
            assert_eq!(of("drop", "", &format!("{rule}\naccept")), None);
            // In a base chain its policy decides.
            assert_eq!(of("drop", &format!("{rule}\ndrop"), ""), None);
            assert_eq!(of("accept", &format!("{rule}\ndrop"), ""), Some("accept"));
        }
    }
}
