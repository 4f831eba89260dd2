// SPDX-License-Identifier: GPL-2.0-or-later
//! What a rule does with a packet whose name it can't tell: the kernel walks one way only, where the firewalls walk both.
//!
//! The rule is passed over, unless a way by which it holds may be accepted where none by which it doesn't need be.

use std::collections::BTreeSet;

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

/// Walks through chains, each once.
struct Walk<'a> {
    ways: &'a Ways<'a>,
    seen: BTreeSet<usize>,
}

impl Walk<'_> {
    /// Possible ends of a rule and of all that it leads to.
    fn rule(&mut self, rule: &Rule) -> Leads {
        let mut leads = Leads::default();
        for word in self.ways.words(rule) {
            match word.as_str() {
                "accept" | "queue" => leads.accepts = true,
                "drop" | "reject" => leads.drops = true,
                // The end of a chain that was entered by goto is the end of this one, too.
                "return" | "goto" => leads.returns = true,
                _ => {}
            }
        }
        for chain in 0..self.ways.tree.chains.len() {
            if self.ways.calls(rule, chain) && self.seen.insert(chain) {
                let inner = self.chain(chain, 0);
                leads.accepts |= inner.accepts;
                leads.drops |= inner.drops;
            }
        }
        leads
    }

    /// Possible ends of a chain's rules, from a rule on.
    fn chain(&mut self, chain: usize, first: usize) -> Leads {
        let tree = self.ways.tree;
        let mut all = Leads::default();
        let behind = tree.rules.iter().skip(first);
        for rule in behind.filter(|rule| rule.chain == chain) {
            let leads = self.rule(rule);
            all.accepts |= leads.accepts;
            all.drops |= leads.drops;
            all.returns |= leads.returns;
        }
        all
    }
}

fn leads_of(ways: &Ways, walk: impl Fn(&mut Walk) -> Leads) -> Leads {
    let seen = BTreeSet::new();
    walk(&mut Walk { ways, seen })
}

/// The verdict of a rule of which it is not known whether it holds, where such packets may pass; None: it is passed over.
pub fn verdict(ways: &Ways, number: usize) -> Option<&'static str> {
    let rule = &ways.tree.rules[number];
    let own = leads_of(ways, |walk| walk.rule(rule));
    if own.accepts {
        return Some("accept");
    }
    if !own.returns {
        return None;
    }
    let chain = &ways.tree.chains[rule.chain];
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
        verdict(&ways, tree.rules.iter().position(is_it).unwrap())
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
