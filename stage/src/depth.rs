// SPDX-License-Identifier: GPL-2.0-or-later
//! Length of the paths through the chains of the kernel's text. The kernel refuses a path that is too long only when
//! the text is loaded, with `Too many links`; `nft -c` accepts it.

use std::collections::HashMap;

use crate::kernel::Kernel;
use crate::reach::Ways;
use crate::token::{self, Tokens};
use crate::tree::{self, Tree};
use crate::Refusal;

/// Maximum number of chains in a path of jumps, with the base chain (NFT_JUMP_STACK_SIZE of the kernel).
const CHAINS_MAX: usize = 16;

/// Chains of a text, and the chains to which they lead.
struct Graph {
    tree: Tree,
    leads: Vec<Vec<usize>>,
    /// Longest path from each chain: number of chains, and the next chain. None while its paths are followed.
    longest: HashMap<usize, Option<(usize, Option<usize>)>>,
}

impl Graph {
    fn new(tokens: &Tokens) -> Graph {
        let tree = tree::read(tokens);
        let ways = Ways {
            tokens,
            tree: &tree,
        };
        let mut leads = vec![Vec::new(); tree.chains.len()];
        for rule in &tree.rules {
            let table = tree.chains[rule.chain].table;
            let named = |name: &String| {
                let mut chains = tree.chains.iter();
                chains.position(|chain| chain.table == table && chain.name == *name)
            };
            leads[rule.chain].extend(ways.called(rule).iter().filter_map(named));
        }
        Graph {
            tree,
            leads,
            longest: HashMap::new(),
        }
    }

    /// Returns the number of chains in the longest path from a chain. A chain that leads to itself, which nft refuses,
    /// counts once.
    fn depth(&mut self, chain: usize) -> usize {
        if let Some(known) = self.longest.get(&chain) {
            return known.map_or(0, |(count, _)| count);
        }
        self.longest.insert(chain, None);
        let mut longest = (1, None);
        for next in self.leads[chain].clone() {
            let count = self.depth(next) + 1;
            if count > longest.0 {
                longest = (count, Some(next));
            }
        }
        self.longest.insert(chain, Some(longest));
        longest.0
    }

    /// Returns the names of the chains in the longest path from a base chain.
    fn path(&mut self) -> Vec<&str> {
        let bases =
            (0..self.tree.chains.len()).filter(|chain| self.tree.chains[*chain].base.is_some());
        let bases: Vec<usize> = bases.collect();
        let mut next = bases.into_iter().max_by_key(|chain| self.depth(*chain));
        let mut names = Vec::new();
        while let Some(chain) = next {
            names.push(self.tree.chains[chain].name.as_str());
            let known = self.longest.get(&chain).copied().flatten();
            next = known.and_then(|(_, next)| next);
        }
        names
    }
}

/// Returns the index in `Tree::rules` of the policy's rule for which a chain was added: a chain that tries the rule, or
/// a chain for its rejection. None: another chain, such as a copy.
/// - name: name of the chain.
fn rule_of(kernel: &Kernel, name: &str) -> Option<usize> {
    let number = |prefix| name.strip_prefix(prefix)?.parse().ok();
    let trial = number("stage-trial-").and_then(|number| kernel.trials.rule(number));
    trial.or_else(|| kernel.rule_of_reject(number("stage-reject-")?))
}

/// Refuses a policy whose text for the kernel has a path with too many chains because of the chains that the stage
/// adds.
/// - text: text for the kernel.
pub fn check(kernel: &Kernel, text: &str) -> Result<(), Refusal> {
    let tokens = token::tokens(text);
    let mut graph = Graph::new(&tokens);
    let path = graph.path();
    let own = path
        .iter()
        .take_while(|name| !name.starts_with("stage-"))
        .count();
    // If the longest path has no chain of the stage, nft finds a path that is too long.
    let (Some(added), true) = (path.get(own), path.len() > CHAINS_MAX) else {
        return Ok(());
    };
    let rules = &kernel.ways.tree.rules;
    let rule = rule_of(kernel, added).or(kernel.names.rules.first().map(|named| named.rule));
    let at = rule.map_or(0, |rule| rules[rule].tokens.start);
    let reason = format!(
        "a path of {} chains, {own} up to this rule and {} that try unknown names or reset both ends; the kernel allows {CHAINS_MAX}",
        path.len(),
        path.len() - own
    );
    let cure = "write fewer chains that lead to this rule, or to which it leads";
    Err(Refusal::at(kernel.ways.tokens, at, reason, cure))
}

#[cfg(test)]
mod tests {
    use crate::{split, text, Options, Refusal, Split};

    /// Splits a policy whose rule with a name is the last of a path of chains, and leads to another path.
    /// - before: number of chains up to the rule.
    /// - after: number of chains to which the rule leads.
    fn of_depth(before: usize, after: usize, rule: &str) -> Result<Split, Refusal> {
        let mut chains = String::new();
        for number in (1..=after).rev() {
            let next = match number == after {
                true => "accept".to_owned(),
                false => format!("jump b{}", number + 1),
            };
            chains += &format!("chain b{number} {{\n {next}\n }}\n");
        }
        for number in (1..=before).rev() {
            let hook = match number {
                1 => "type filter hook forward priority 0;\n",
                _ => "",
            };
            let next = match number == before {
                true => rule.to_owned(),
                false => format!("jump a{}", number + 1),
            };
            chains += &format!("chain a{number} {{\n {hook}{next}\n }}\n");
        }
        let policy = format!("table inet f {{\n{chains}}}\n");
        split(&text("p.nft", &policy).unwrap(), &Options::default())
    }

    #[test]
    fn a_path_has_at_most_sixteen_chains() {
        let jump = "tls sni \"a.example\" jump b1";
        // One chain tries the rule, and one copy of each chain tries the chains to which it leads.
        assert!(of_depth(8, 7, jump).is_ok());
        let refusal = of_depth(8, 8, jump).unwrap_err();
        let want = "p.nft:27: a path of 17 chains, 8 up to this rule and 9 that try unknown names or reset both ends; \
            the kernel allows 16: write fewer chains that lead to this rule, or to which it leads";
        assert_eq!(refusal.to_string(), want);
        let accept = "tls sni \"a.example\" accept";
        assert!(of_depth(16, 0, accept).is_ok());
    }

    #[test]
    fn a_rejection_needs_two_chains() {
        let reject = "tls sni \"a.example\" drop\n reject";
        assert!(of_depth(14, 0, reject).is_ok());
        let refusal = of_depth(15, 0, reject).unwrap_err();
        assert!(
            refusal.reason.starts_with("a path of 17 chains, 15 up to"),
            "{refusal}"
        );
        assert_eq!(refusal.place.line, 4, "{refusal}");
    }
}
