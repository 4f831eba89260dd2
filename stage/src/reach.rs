// SPDX-License-Identifier: GPL-2.0-or-later
//! Finds the packets that reach a rule: its base chains, and the conditions in its own matches and in those of the
//! jumps that lead to it.
//!
//! The conditions may be too weak, but not too strong: a match that is unknown, or that has no form for the opposite
//! direction, is left out. So all packets of a connection that can reach a name are queued, and perhaps others.

use std::collections::BTreeSet;
use std::ops::Range;

use crate::matches::{self, Layer, Match};
use crate::names::{self, NameRule};
use crate::token::Tokens;
use crate::tree::{self, Base, Rule, Set, Tree};

/// Maximum number of ways (paths of jumps) from one base chain to a rule. If there are more, only the rule's own
/// matches count.
const WAYS_MAX: usize = 64;
/// Maximum number of jumps in one way. The kernel allows fewer (NFT_JUMP_STACK_SIZE).
const DEPTH_MAX: usize = 16;

/// Way: a path of jumps from a base chain to a rule.
#[derive(Clone, Debug)]
pub struct Way {
    /// Index of the base chain in `Tree::chains`.
    pub base: usize,
    pub matches: Vec<Match>,
    /// False if the base chain leads to the rule only by elements that maps may get at run time.
    pub is_certain: bool,
}

/// Tokens and parts of a policy, in which ways (paths of jumps from base chains to a rule) are searched.
pub struct Ways<'a> {
    pub tokens: &'a Tokens,
    pub tree: &'a Tree,
}

/// Returns the token after a counter or a match of a name, which are skipped. None: another statement.
fn passed_over(tokens: &Tokens, at: usize, end: usize) -> Option<usize> {
    if tokens.get(at) == "counter" {
        return Some(match tokens.get(at + 1) {
            "packets" => at + 5,
            "name" => at + 3,
            _ => at + 1,
        });
    }
    if !names::is_field(tokens.get(at), tokens.get(at + 1)) {
        return None;
    }
    match tokens.get(at + 2) {
        "exists" | "missing" => Some(at + 3),
        _ => matches::right_end(tokens, at + 2, end),
    }
}

impl Ways<'_> {
    /// Returns true if a set or map changes at run time: by a rule, by timeouts, or by learning.
    /// - name: with its `@`.
    pub fn changes(&self, name: &str) -> bool {
        let verbs = ["add", "update", "delete"];
        let is_changed = |rule: &Rule| {
            let mut places = rule.tokens.clone();
            places.any(|at| verbs.contains(&self.tokens.get(at)) && self.tokens.get(at + 1) == name)
        };
        let is_timed = |inner: &Range<usize>| {
            let mut places = inner.clone();
            places.any(|at| ["dynamic", "timeout", "learn"].contains(&self.tokens.get(at)))
        };
        let mut sets = self.tree.sets.iter().filter(|set| set.name == name[1..]);
        sets.any(|set| is_timed(&set.inner)) || self.tree.rules.iter().any(is_changed)
    }

    /// Returns the known matches of a rule, up to the first unknown statement. Leaves out matches that can't select
    /// packets to be queued (`Match::is_lasting`), and matches of sets that change.
    pub fn own(&self, rule: &Rule) -> Vec<Match> {
        let (mut found, mut at, end) = (Vec::new(), rule.tokens.start, rule.tokens.end);
        while at < end {
            if let Some(next) = passed_over(self.tokens, at, end) {
                at = next;
            } else if let Some(known) = matches::read(self.tokens, at, end) {
                at = known.tokens.end;
                let words = self.flat(&known.tokens);
                let mut sets = tree::named_sets(self.tokens, &words);
                if known.is_lasting() && !sets.any(|set| self.changes(set)) {
                    found.push(known);
                }
            } else {
                break;
            }
        }
        found
    }

    fn flat(&self, range: &Range<usize>) -> Vec<usize> {
        tree::flat(self.tokens, self.tree, range)
    }

    /// Returns the sets and maps that a rule names: their declarations, and the commands that add elements.
    /// - words: the rule's tokens, as `flat` returns them.
    fn sets<'s>(&'s self, rule: &Rule, words: &'s [usize]) -> impl Iterator<Item = &'s Set> + 's {
        let table = self.tree.chains[rule.chain].table;
        let of_name = move |name: &'s str| {
            let sets = self.tree.sets.iter();
            sets.filter(move |set| set.table == table && set.name == name[1..])
        };
        tree::named_sets(self.tokens, words).flat_map(of_name)
    }

    /// Returns true if a rule may end its chain with `return` or `goto`, directly or by a map.
    pub fn may_end(&self, rule: &Rule) -> bool {
        let is_end = |at: &usize| ["return", "goto"].contains(&self.tokens.get(*at));
        let words = self.flat(&rule.tokens);
        let ends_by = |set: &Set| self.flat(&set.inner).iter().any(is_end);
        words.iter().any(is_end) || self.sets(rule, &words).any(ends_by)
    }

    /// Returns the names of the chains to which a rule leads, directly or by a map.
    pub fn called(&self, rule: &Rule) -> BTreeSet<String> {
        let words = self.flat(&rule.tokens);
        let mut names = tree::called(self.tokens, &words);
        let by_sets = self.sets(rule, &words);
        names.extend(by_sets.flat_map(|set| set.calls.iter().cloned()));
        names
    }

    /// Returns true if a rule leads to a chain, directly or by a map.
    pub fn calls(&self, rule: &Rule, chain: usize) -> bool {
        let (target, from) = (&self.tree.chains[chain], &self.tree.chains[rule.chain]);
        target.table == from.table && self.called(rule).contains(&target.name)
    }

    /// Returns true if a rule looks up a named map of verdicts, which may get elements at run time.
    /// - is_empty: true for maps without elements in the policy only.
    fn looks_up(&self, rule: &Rule, is_empty: bool) -> bool {
        let table = self.tree.chains[rule.chain].table;
        let words = self.flat(&rule.tokens);
        let word = |at: usize| self.tokens.get(at);
        let mut maps = words
            .windows(2)
            .filter(|pair| word(pair[0]) == "vmap" && word(pair[1]).starts_with('@'));
        let has_elements = |name: &str| {
            let lists = |set: &Set| {
                set.inner
                    .clone()
                    .any(|at| self.tokens.get(at) == "elements")
            };
            let own = |set: &&Set| set.table == table && set.name == name;
            let mut sets = self.tree.sets.iter().filter(own);
            sets.any(|set| set.is_element || lists(set))
        };
        maps.any(|pair| !is_empty || !has_elements(&word(pair[1])[1..]))
    }

    /// Returns the rules that lead to a chain: by a jump, or by an element of a map.
    fn certain_callers(&self, chain: usize) -> Vec<&Rule> {
        let rules = self.tree.rules.iter();
        rules.filter(|rule| self.calls(rule, chain)).collect()
    }

    /// Returns the rules that may lead to a chain: also by a map of verdicts that has no elements in the policy. If
    /// there are none, any named map of verdicts may lead to it.
    fn callers(&self, chain: usize) -> Vec<&Rule> {
        let table_of = |chain: usize| self.tree.chains[chain].table;
        let may = |rule: &Rule, is_empty| {
            table_of(rule.chain) == table_of(chain) && self.looks_up(rule, is_empty)
        };
        let find = |is_empty| {
            let rules = self.tree.rules.iter();
            rules.filter(move |rule| self.calls(rule, chain) || may(rule, is_empty))
        };
        let direct: Vec<&Rule> = find(true).collect();
        match direct.is_empty() {
            true => find(false).collect(),
            false => direct,
        }
    }

    /// Returns the beginning of a rule with names: its tokens before the place of its first test of the connection
    /// mark, which the splitter writes instead of a match of a name.
    pub fn before_test(&self, named: &NameRule) -> Rule {
        let rule = &self.tree.rules[named.rule];
        Rule {
            chain: rule.chain,
            tokens: rule.tokens.start..named.first_test(),
        }
    }

    /// Returns the ways (paths of jumps) to a rule from each base chain that leads to it. A base chain with more than
    /// WAYS_MAX ways has one way, without the matches of the jumps.
    pub fn to(&self, rule: &Rule) -> Vec<Way> {
        let own = self.own(rule);
        let search = Search::new(self, rule.chain, Ways::callers);
        let certain = Search::new(self, rule.chain, Ways::certain_callers).bases();
        let way = |base: usize, jumps: Vec<Match>| {
            let all = [jumps, own.clone()].concat();
            let matches = match excludes(self.tokens, &all) {
                true => own.clone(),
                false => all,
            };
            let is_certain = certain.contains(&base);
            Way {
                base,
                matches,
                is_certain,
            }
        };
        let mut ways = Vec::new();
        for base in search.bases() {
            let jumps = search.from(base).into_iter();
            ways.extend(jumps.map(|jumps| way(base, jumps)));
        }
        ways
    }

    pub fn base(&self, chain: usize) -> &Base {
        let base = self.tree.chains[chain].base.as_ref();
        base.expect("a way begins at a base chain")
    }
}

/// Search for the ways (paths of jumps) from base chains to a chain.
struct Search<'a> {
    ways: &'a Ways<'a>,
    /// Chain to which the ways (paths of jumps) lead.
    target: usize,
    /// Rules on the ways (paths of jumps) to the target, each with the chain that it calls.
    calls: Vec<(&'a Rule, usize)>,
}

impl<'a> Search<'a> {
    fn new(
        ways: &'a Ways<'a>,
        target: usize,
        callers: fn(&'a Ways<'a>, usize) -> Vec<&'a Rule>,
    ) -> Search<'a> {
        let (mut chains, mut calls) = (vec![target], Vec::new());
        let mut looked = 0;
        while let Some(&called) = chains.get(looked) {
            looked += 1;
            if ways.tree.chains[called].base.is_some() {
                continue;
            }
            for rule in callers(ways, called) {
                calls.push((rule, called));
                if !chains.contains(&rule.chain) {
                    chains.push(rule.chain);
                }
            }
        }
        Search {
            ways,
            target,
            calls,
        }
    }

    /// Returns the base chains from which a way (path of jumps) leads to the target.
    fn bases(&self) -> BTreeSet<usize> {
        let callers = self.calls.iter().map(|(rule, _)| rule.chain);
        let chains = callers.chain([self.target]);
        chains
            .filter(|chain| self.ways.tree.chains[*chain].base.is_some())
            .collect()
    }

    /// Adds the matches of the jumps on each way (path of jumps) from a chain to the target, up to one way more than
    /// WAYS_MAX.
    /// - before: matches of the jumps to the chain.
    /// - depth: number of these jumps.
    /// - found: in/out: the matches, by way.
    fn walk(&self, chain: usize, before: &[Match], depth: usize, found: &mut Vec<Vec<Match>>) {
        if chain == self.target {
            found.push(before.to_vec());
            return;
        }
        for (rule, called) in self.calls.iter().filter(|(rule, _)| rule.chain == chain) {
            if depth < DEPTH_MAX && found.len() <= WAYS_MAX {
                let matches = [before.to_vec(), self.ways.own(rule)].concat();
                self.walk(*called, &matches, depth + 1, found);
            }
        }
    }

    /// Returns the matches of the jumps on each way (path of jumps) from a base chain to the target; one way without
    /// matches if there are more than WAYS_MAX ways, or if all have more than DEPTH_MAX jumps.
    fn from(&self, base: usize) -> Vec<Vec<Match>> {
        let mut found = Vec::new();
        self.walk(base, &[], 0, &mut found);
        match found.len() {
            1..=WAYS_MAX => found,
            _ => vec![Vec::new()],
        }
    }
}

/// Version of IP that a match requires.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Version {
    V4,
    V6,
    /// `meta nfproto` with a number or a set: nft requires the version of the last value.
    Unclear,
}

fn version(tokens: &Tokens, found: &Match) -> Option<Version> {
    match found.layer {
        Layer::Ip => return Some(Version::V4),
        Layer::Ip6 => return Some(Version::V6),
        _ => {}
    }
    let words: Vec<&str> = found.tokens.clone().map(|at| tokens.get(at)).collect();
    let ["meta", "nfproto", values @ ..] = words.as_slice() else {
        return None;
    };
    match values {
        ["ipv4"] | ["==" | "eq", "ipv4"] => Some(Version::V4),
        ["ipv6"] | ["==" | "eq", "ipv6"] => Some(Version::V6),
        ["&" | "!=" | "ne", ..] => None,
        _ => Some(Version::Unclear),
    }
}

/// Returns true if matches exclude each other, or if nft may assume that they do. nft would refuse them in one rule.
fn excludes(tokens: &Tokens, matches: &[Match]) -> bool {
    let has = |wanted| matches.iter().any(|found| found.layer == wanted);
    let versions: Vec<Version> = matches
        .iter()
        .filter_map(|found| version(tokens, found))
        .collect();
    versions.windows(2).any(|pair| pair[0] != pair[1]) || has(Layer::Tcp) && has(Layer::Udp)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{token, tree};

    fn ways_to(text: &str, rule: &str) -> Vec<String> {
        let tokens = token::tokens(text);
        let tree = tree::read(&tokens);
        let ways = Ways {
            tokens: &tokens,
            tree: &tree,
        };
        let is_it = |found: &&Rule| tokens.text_of(&found.tokens).starts_with(rule);
        let found = ways.to(tree.rules.iter().find(is_it).unwrap());
        let text = |way: &Way| {
            let matches = way
                .matches
                .iter()
                .map(|found| found.text(&tokens, &tree, true));
            let all: Vec<String> = matches.collect();
            format!("{}: {}", ways.base(way.base).hook, all.join(" "))
        };
        found.iter().map(text).collect()
    }

    #[test]
    fn matches_on_the_way() {
        let text = "table inet f {\n set s { type ipv4_addr; flags dynamic; }\n map m { type inet_service : verdict; elements = { 1 : jump x }; }\n \
            chain i { type filter hook input priority 0;\n ip saddr 10.0.0.1 jump x\n tcp dport vmap @m\n }\n \
            chain o { type filter hook output priority 0;\n ct state new goto x\n }\n \
            chain x {\n counter tcp dport 443 ip daddr @s tls sni \"a.example\" iifname \"e\" drop\n }\n}\n";
        let own = "tcp sport 443 oifname \"e\"";
        let want = [
            format!("input: ip daddr 10.0.0.1 {own}"),
            format!("input: {own}"),
            format!("output: {own}"),
        ];
        assert_eq!(ways_to(text, "counter"), want);
    }

    #[test]
    fn matches_that_exclude_each_other_are_left_out() {
        for calls in [
            "meta nfproto ipv4",
            "ip saddr 10.0.0.1",
            "meta nfproto == ipv4",
            "meta nfproto eq ipv4",
            "meta nfproto 2",
            "meta nfproto { ipv6, ipv4 }",
        ] {
            let text = format!(
                "table inet f {{\n chain i {{ type filter hook input priority 0;\n {calls} jump x\n }}\n \
                 chain x {{\n ip6 saddr ::1 tls sni exists drop\n }}\n}}\n"
            );
            assert_eq!(ways_to(&text, "ip6"), ["input: ip6 daddr ::1"]);
        }
    }

    /// If more than WAYS_MAX ways (paths of jumps) lead from a base chain to a rule, the matches of these jumps are
    /// left out. Those of the ways from other base chains stay.
    #[test]
    fn each_base_chain_has_a_way() {
        let text = |count: usize| {
            let jumps = "jump x\n".repeat(count);
            format!(
                "table inet f {{\n \
                 chain i {{ type filter hook input priority 0;\n ip saddr 10.0.0.1 jump x\n{jumps}}}\n \
                 chain f {{ type filter hook forward priority 0;\n ip saddr 10.0.0.2 jump y\n }}\n \
                 chain y {{\n jump x\n }}\n chain x {{\n tcp dport 443 tls sni exists drop\n }}\n}}\n"
            )
        };
        let forward = "forward: ip daddr 10.0.0.2 tcp sport 443";
        let crowded = ["input: tcp sport 443", forward];
        assert_eq!(ways_to(&text(WAYS_MAX), "tcp"), crowded);
        let all = ways_to(&text(WAYS_MAX - 1), "tcp");
        assert_eq!(all.len(), WAYS_MAX + 1);
        assert_eq!(all[0], "input: ip daddr 10.0.0.1 tcp sport 443");
        assert_eq!(all[WAYS_MAX], forward);
    }

    /// Definitions may hold the target of a jump, the elements of a map, and a set.
    #[test]
    fn definitions_lead_on() {
        let text = "define to = \"x\"\ndefine all = { 1 : jump x }\ndefine known = @s\ntable inet f {\n \
            set s { type ipv4_addr; flags dynamic; }\n map m { type inet_service : verdict; elements = $all; }\n \
            chain i { type filter hook input priority 0;\n tcp sport 1 jump $to\n }\n \
            chain o { type filter hook output priority 0;\n tcp dport vmap @m\n }\n \
            chain x {\n ip daddr $known tls sni exists drop\n }\n}\n";
        assert_eq!(
            ways_to(text, "ip daddr"),
            ["input: tcp dport 1", "output: "]
        );
    }

    /// A map of verdicts may get elements at run time, which lead to a chain.
    #[test]
    fn a_map_may_lead_to_a_chain() {
        let chains = |map: &str| {
            format!(
                "table inet f {{\n map m {{ type inet_service : verdict; {map} }}\n \
                 chain i {{ type filter hook input priority 0;\n ip saddr 10.0.0.1 tcp dport vmap @m\n jump y\n }}\n \
                 chain x {{\n udp dport 443 tls sni exists drop\n }}\n chain y {{ }}\n}}\n"
            )
        };
        let want = ["input: ip daddr 10.0.0.1 udp sport 443"];
        assert_eq!(ways_to(&chains(""), "udp"), want);
        assert_eq!(ways_to(&chains("elements = { 1 : jump y }"), "udp"), want);
        let jump = |map| ways_to(&chains(map).replace("jump y\n", "jump x\n"), "udp");
        assert_eq!(jump(""), [want[0], "input: udp sport 443"]);
        let other = "}\ntable ip n {\n map m { type inet_service : ipv4_addr; elements = { 1 : 10.0.0.2 }; }\n}\ntable inet f {";
        let text = chains("").replace("jump y\n", "jump x\n");
        let text = text.replace("table inet f {", &format!("table inet f {{\n{other}"));
        assert_eq!(ways_to(&text, "udp"), jump(""));
        assert_eq!(jump("elements = { 1 : jump y }"), ["input: udp sport 443"]);
    }

    /// A map of verdicts without elements, in a base chain where names can't be matched, may lead to a rule with names.
    /// The policy is split if another way leads to the rule.
    #[test]
    fn a_policy_is_not_refused_for_a_map_that_may_lead_on() {
        let policy = |raw: &str| {
            format!(
                "table inet f {{\n map m {{ type ipv4_addr : verdict; }}\n \
                 chain r {{ type filter hook prerouting priority -300;\n {raw}\n }}\n \
                 chain i {{ type filter hook input priority 0;\n jump x\n }}\n \
                 chain x {{\n tls sni exists drop\n }}\n}}\n"
            )
        };
        let split = |raw| {
            crate::split(
                &crate::text("p", &policy(raw)).unwrap(),
                &crate::Options::default(),
            )
        };
        assert!(split("ip saddr vmap @m").is_ok() && split("jump x").is_err());
        let alone = policy("ip saddr vmap @m").replace("jump x", "accept");
        let alone = crate::text("p", &alone).unwrap();
        assert!(crate::split(&alone, &crate::Options::default()).is_err());
    }

    #[test]
    fn an_unknown_match_ends_what_is_known() {
        let text = "table inet f {\n chain i { type filter hook input priority 0;\n fib daddr type local tcp dport 1 tls sni exists drop\n }\n}\n";
        assert_eq!(ways_to(text, "fib"), ["input: "]);
    }
}
