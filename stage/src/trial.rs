// SPDX-License-Identifier: GPL-2.0-or-later
//! Trials: chains that find out whether a packet whose names are unknown may be accepted from a rule on. If a rule may
//! hold, the firewalls follow both ways: the rule holds, or it doesn't. The kernel follows only one way. So the kernel
//! first tries the way on which the rule holds, in copies of the chains without their effects. A packet that no copy
//! accepts continues after the rule.
//!
//! A drop on the tried way is noted in the packet's mark, so that the copies that called this copy end as well.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use crate::marks::Layout;
use crate::names::NameRule;
use crate::reach::Ways;
use crate::reject::outermost;
use crate::replace::Edit;
use crate::steps::{self, Lead, Step, Way};

/// Chain of a trial, which finds out whether a packet with unknown names may be accepted from a rule on.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Trial {
    /// Copy of a chain: its index in `Tree::chains`, and the index in `Tree::rules` from which its rules are copied.
    Rules(usize, usize),
    /// Rules that try the case that a rule holds, before the packet skips the rule: the rule's index, and the text of
    /// these rules.
    Rule(usize, String),
    /// Jump to the copy `Rules` with the same values: the rules after a rule that may return. Then the chain clears the
    /// mark of a drop in that copy, because the packet may also return.
    Returns(usize, usize),
    /// Jump to the copy `Rules` with the same values: the rules after the rule that began the trial and may return.
    /// Then the chain sets the mark by which the packet leaves that rule's chain.
    Leaves(usize, usize),
}

/// Chains by which a policy tries packets with unknown names. A chain is created when a rule first leads to it.
pub struct Trials<'a> {
    ways: &'a Ways<'a>,
    names: &'a [NameRule],
    layout: Layout,
    /// Words of the fields and sets (`mark`, `@s`) changed by statements that trials leave out.
    changed: BTreeSet<String>,
    numbers: RefCell<BTreeMap<Trial, usize>>,
    /// Table and rules of each chain, in the order of the chains' numbers.
    chains: RefCell<Vec<(usize, Vec<String>)>>,
    /// Rules after which a packet may leave the chain; indexes in `Tree::rules`.
    leaving: RefCell<BTreeSet<usize>>,
}

/// Names of two chains in each table with trials: one marks a packet as dropped in a trial, one clears a trial's mark.
const ENDED: &str = "stage-ended";
const LEFT: &str = "stage-left";

/// Returns the fields and sets that some rules change, as words (`mark`, `@s`): the rules with names, the later rules
/// of a chain that such a rule may end by `return` or `goto`, and all rules of the chains to which these rules lead,
/// directly or through other chains.
fn changed(ways: &Ways, names: &[NameRule]) -> BTreeSet<String> {
    let tree = ways.tree;
    let of_chain = |chain: usize, first: usize| {
        let rules = first..tree.rules.len();
        rules.filter(move |number| tree.rules[*number].chain == chain)
    };
    let mut waiting: Vec<usize> = Vec::new();
    for named in names {
        waiting.push(named.rule);
        if ways.may_end(&tree.rules[named.rule]) {
            waiting.extend(of_chain(tree.rules[named.rule].chain, named.rule));
        }
    }
    let (mut seen, mut words) = (BTreeSet::new(), BTreeSet::new());
    while let Some(number) = waiting.pop() {
        if seen.insert(number) {
            let rule = &tree.rules[number];
            words.extend(steps::changes(ways, rule));
            let called = (0..tree.chains.len()).filter(|chain| ways.calls(rule, *chain));
            waiting.extend(called.flat_map(|chain| of_chain(chain, 0)));
        }
    }
    words
}

impl<'a> Trials<'a> {
    pub fn new(ways: &'a Ways<'a>, names: &'a [NameRule], layout: Layout) -> Trials<'a> {
        Trials {
            ways,
            names,
            layout,
            changed: changed(ways, names),
            numbers: RefCell::default(),
            chains: RefCell::default(),
            leaving: RefCell::default(),
        }
    }

    fn named(&self, rule: usize) -> Option<&'a NameRule> {
        let found = self.names.binary_search_by_key(&rule, |named| named.rule);
        found.ok().map(|place| &self.names[place])
    }

    fn steps(&self, rule: usize) -> Vec<Step> {
        steps::read_whole(self.ways, rule, self.named(rule), &self.changed)
    }

    /// Returns the match of packets whose mark equals `mark` in the bits that the split policy uses.
    fn is_marked(&self, mark: u32) -> String {
        format!("meta mark & {:#010x} == {mark:#010x}", self.layout.mask())
    }

    fn set(&self, mark: u32) -> String {
        let kept = format!("meta mark set meta mark & {:#010x}", !self.layout.mask());
        match mark {
            0 => kept,
            _ => format!("{kept} | {mark:#010x}"),
        }
    }

    /// Returns true if a base chain accepts at its end. None: it is no base chain.
    fn policy(&self, chain: usize) -> Option<bool> {
        let chain = &self.ways.tree.chains[chain];
        chain.base.as_ref().map(|_| !chain.drops)
    }

    /// Returns true if a chain's rules, and the rules to which they lead, may accept a packet.
    fn accepts(&self, chain: usize, seen: &mut BTreeSet<usize>) -> bool {
        if !seen.insert(chain) {
            return false;
        }
        let rules = self.ways.tree.rules.iter().enumerate();
        let mut own = rules.filter(|(_, rule)| rule.chain == chain);
        own.any(|(number, _)| {
            let steps = self.steps(number);
            let mut ways = steps.iter().flat_map(|step| &step.ways);
            ways.any(|way| match way.lead {
                Lead::Accept => true,
                Lead::Jump(to) | Lead::Goto(to) => self.accepts(to, seen),
                Lead::Drop | Lead::Return => false,
            })
        })
    }

    /// Returns the name of a trial's chain (for packets with unknown names). Creates the chain if it does not exist.
    fn name(&self, trial: Trial) -> String {
        let known = self.numbers.borrow().get(&trial).copied();
        let number = known.unwrap_or_else(|| self.make(trial));
        format!("stage-trial-{}", number + 1)
    }

    fn make(&self, trial: Trial) -> usize {
        let (chain, number) = match &trial {
            Trial::Rule(rule, _) => (self.ways.tree.rules[*rule].chain, 0),
            Trial::Rules(chain, first)
            | Trial::Returns(chain, first)
            | Trial::Leaves(chain, first) => (*chain, *first),
        };
        let place = self.chains.borrow().len();
        let table = self.ways.tree.chains[chain].table;
        self.chains.borrow_mut().push((table, Vec::new()));
        self.numbers.borrow_mut().insert(trial.clone(), place);
        let rules = |trial| format!("jump {}", self.name(trial));
        let lines = match trial {
            Trial::Rules(..) => self.rules(chain, number),
            Trial::Rule(_, text) => text.lines().map(str::to_owned).collect(),
            Trial::Returns(..) => vec![rules(Trial::Rules(chain, number)), self.set(0)],
            Trial::Leaves(..) => vec![
                rules(Trial::Rules(chain, number)),
                self.set(self.layout.left()),
            ],
        };
        self.chains.borrow_mut()[place].1 = lines;
        place
    }

    /// Returns the rules of a copy of a chain, from an index in `Tree::rules` on.
    fn rules(&self, chain: usize, first: usize) -> Vec<String> {
        let mut lines = Vec::new();
        let own = self.ways.tree.rules.iter().enumerate().skip(first);
        for (number, _) in own.filter(|(_, rule)| rule.chain == chain) {
            for step in self.steps(number) {
                lines.extend(self.copied(chain, number, &step));
            }
        }
        lines
    }

    /// Returns the rules that stand for a step (the possible results of a rule) in a trial's copy of a chain.
    fn copied(&self, chain: usize, number: usize, step: &Step) -> Vec<String> {
        let ended = self.is_marked(self.layout.ended());
        let mut lines = Vec::new();
        let rest = || format!("goto {}", self.name(Trial::Returns(chain, number + 1)));
        for Way { matches, lead } in &step.ways {
            match (*lead, step.may) {
                (Lead::Accept, _) => lines.push(format!("{matches}accept")),
                (Lead::Drop, true) => {}
                (Lead::Drop, false) => lines.push(format!("{matches}goto {ENDED}")),
                (Lead::Return, true) => lines.push(format!("{matches}{}", rest())),
                (Lead::Return, false) => lines.push(format!("{matches}return")),
                (Lead::Jump(to), false) => lines.extend([
                    format!("{matches}jump {}", self.name(Trial::Rules(to, 0))),
                    format!("{ended} return"),
                ]),
                (Lead::Jump(to), true) if !self.accepts(to, &mut BTreeSet::new()) => {}
                (Lead::Jump(to), true) => lines.extend([
                    format!("{matches}jump {}", self.name(Trial::Rules(to, 0))),
                    format!("{ended} {}", self.set(0)),
                ]),
                (Lead::Goto(to), false) => {
                    lines.push(format!("{matches}goto {}", self.name(Trial::Rules(to, 0))));
                }
                (Lead::Goto(to), true) => lines.extend([
                    format!("{matches}jump {}", self.name(Trial::Rules(to, 0))),
                    format!("{matches}{} {}", self.is_marked(0), rest()),
                    format!("{ended} {}", self.set(0)),
                ]),
            }
        }
        lines
    }

    /// Returns the rules that try a step (the possible results of a rule) before the packet skips the rule.
    /// - number: index of the rule in `Tree::rules`.
    fn begun(&self, chain: usize, number: usize, step: &Step) -> Vec<String> {
        let clear = format!("{} {}", self.is_marked(self.layout.ended()), self.set(0));
        let (mut lines, mut last) = (Vec::new(), Vec::new());
        let leaves = || match self.policy(chain) {
            Some(true) => Some("accept".to_owned()),
            // The chain's policy drops on this way, so the packet continues on the other way.
            Some(false) => None,
            None => {
                self.leaving.borrow_mut().insert(number);
                Some(format!(
                    "goto {}",
                    self.name(Trial::Leaves(chain, number + 1))
                ))
            }
        };
        for Way { matches, lead } in &step.ways {
            match *lead {
                Lead::Accept => lines.push(format!("{matches}accept")),
                Lead::Drop => {}
                Lead::Return => {
                    last.extend(leaves().map(|leaves| format!("{matches}{leaves}")));
                }
                Lead::Jump(to) if !self.accepts(to, &mut BTreeSet::new()) => {}
                Lead::Jump(to) => lines.extend([
                    format!("{matches}jump {}", self.name(Trial::Rules(to, 0))),
                    clear.clone(),
                ]),
                Lead::Goto(to) => {
                    last.push(format!("{matches}jump {}", self.name(Trial::Rules(to, 0))));
                    last.extend(
                        leaves().map(|leaves| format!("{matches}{} {leaves}", self.is_marked(0))),
                    );
                    last.push(clear.clone());
                }
            }
        }
        lines.extend(last);
        lines
    }

    /// Returns the verdict of a rule for packets with unknown names that have reached a token of the rule: each match
    /// before the token holds or is unknown. None: the packet skips the rule.
    /// - number: index of the rule in `Tree::rules`.
    /// - from: the token.
    /// - leads: verdicts of a lookup's elements, which replace the rule's tokens from `from` on.
    pub fn verdict(&self, number: usize, from: usize, leads: &[&str]) -> Option<String> {
        let chain = self.ways.tree.rules[number].chain;
        let step = match leads {
            [] => steps::read(self.ways, number, from, self.named(number), &self.changed),
            leads => steps::of_leads(self.ways, number, leads),
        };
        let accepts = |way: &Way| way.lead == Lead::Accept && way.matches.is_empty();
        if step.ways.iter().any(accepts) {
            return Some("accept".to_owned());
        }
        let lines = self.begun(chain, number, &step);
        match lines.as_slice() {
            [] => None,
            [line] if line == "accept" => Some(line.clone()),
            lines => {
                let name = self.name(Trial::Rule(number, lines.join("\n")));
                Some(format!("jump {name}"))
            }
        }
    }

    /// Returns the rule (index in `Tree::rules`) that begins a trial in a trial chain. None: no trial begins there.
    /// - number: number of the trial chain, from 1.
    pub fn rule(&self, number: usize) -> Option<usize> {
        let numbers = self.numbers.borrow();
        let of_number = |(trial, place): (&Trial, &usize)| match trial {
            Trial::Rule(rule, _) if place + 1 == number => Some(*rule),
            _ => None,
        };
        numbers.iter().find_map(of_number)
    }

    /// Returns the edit that inserts another rule after a rule. The inserted rule sends packets out of the chain if a
    /// trial has marked them so. None: no packet leaves the chain there.
    pub fn behind(&self, rule: usize) -> Option<Edit> {
        let (tokens, tree) = (self.ways.tokens, self.ways.tree);
        if !self.leaving.borrow().contains(&rule) {
            return None;
        }
        let rule = &tree.rules[rule];
        let end = match tokens.get(rule.tokens.end) {
            "{" => tokens.behind_braces(rule.tokens.end),
            _ => rule.tokens.end,
        };
        let at = tokens.end_before(end);
        let chain = &tree.chains[rule.chain];
        let table = &tree.tables[chain.table];
        // The rule is a command of its own, or stands between the braces of its chain.
        let command = match tokens.get(outermost(tokens, rule.tokens.start).start) {
            "table" | "chain" => String::new(),
            _ => format!("add rule {} {} {} ", table.family, table.name, chain.name),
        };
        let left = self.is_marked(self.layout.left());
        Some((at..at, format!("\n\t\t{command}{left} goto {LEFT}")))
    }

    /// Returns the indexes of the tables that have copied chains for trials of unknown names.
    pub fn tables(&self) -> BTreeSet<usize> {
        let chains = self.chains.borrow();
        chains.iter().map(|(table, _)| *table).collect()
    }

    /// Returns name and rules of each chain by which a table tries packets with unknown names.
    pub fn of_table(&self, table: usize) -> Vec<(String, Vec<String>)> {
        let chains = self.chains.borrow();
        let own = chains
            .iter()
            .enumerate()
            .filter(|(_, (of, _))| *of == table);
        let mut all: Vec<(String, Vec<String>)> = own
            .map(|(place, (_, lines))| (format!("stage-trial-{}", place + 1), lines.clone()))
            .collect();
        if !all.is_empty() {
            all.push((ENDED.to_owned(), vec![self.set(self.layout.ended())]));
            all.push((LEFT.to_owned(), vec![self.set(0)]));
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use crate::{split, text, Options};

    /// Returns name and rules of each chain in the kernel's text of a policy whose chain `in` has `rules`.
    fn chains(rules: &str) -> Vec<(String, Vec<String>)> {
        let policy = format!(
            "table inet f {{\n set s {{ type ipv4_addr; }}\n chain yes {{ tcp dport 80 counter accept; counter drop; }}\n chain no {{ ip daddr 10.0.0.1 drop; }}\n \
             chain in {{\n {rules}\n }}\n chain base {{\n type filter hook input priority 0; policy drop;\n jump in\n }}\n}}\n"
        );
        let made = split(&text("p.nft", &policy).unwrap(), &Options::default()).unwrap();
        let mut found: Vec<(String, Vec<String>)> = Vec::new();
        for line in made.kernel.lines().map(str::trim) {
            match line
                .strip_prefix("chain ")
                .and_then(|rest| rest.split_once(' '))
            {
                Some((name, _)) => found.push((name.to_owned(), Vec::new())),
                None => found
                    .last_mut()
                    .into_iter()
                    .for_each(|(_, lines)| lines.push(line.to_owned())),
            }
        }
        found
    }

    /// Splits a policy with these rules. Returns the rules of all chains of trials (`stage-trial-N`) in the result.
    fn trials(rules: &str) -> Vec<String> {
        let own = |(name, _): &(String, Vec<String>)| name.starts_with("stage-trial");
        let all = chains(rules).into_iter().filter(own);
        let lines = all
            .flat_map(|(_, lines)| lines)
            .filter(|line| line != "}" && !line.is_empty());
        lines.collect()
    }

    fn of(rules: &str) -> String {
        let own = chains(rules).into_iter().find(|(name, _)| name == "in");
        own.unwrap().1.join("\n")
    }

    const NAME: &str = "tls sni \"a.example\"";

    #[test]
    fn what_accepts_accepts_and_what_drops_is_passed_over() {
        for verdict in [
            "accept",
            "counter accept",
            "log prefix \"a\" meta mark set 1 accept",
        ] {
            let made = of(&format!("{NAME} {verdict}"));
            assert!(made.contains("{ 0x00000000 : accept"), "{made}");
        }
        for verdict in [
            "drop",
            "jump no",
            "counter",
            "reject",
            "tcp dport vmap { 80 : drop }",
        ] {
            let made = of(&format!("{NAME} {verdict}"));
            assert!(!made.contains("0x00000000 :"), "{made}");
        }
    }

    #[test]
    fn a_key_with_a_name_is_tried_by_its_other_fields() {
        let rules = |found: &str| {
            format!("{NAME} jump keyed\n}}\nchain keyed {{\ntcp dport . tls sni {found}")
        };
        let tried = trials(&rules(
            "{ 80 . \"a.example\", 1-90 . \"b.example\" } accept",
        ));
        let want = "tcp dport == 1-90 accept";
        assert!(tried.contains(&want.to_owned()), "{tried:?}");
        let tried = trials(&rules(
            "vmap { 80 . \"a.example\" : accept, 90 . \"b.example\" : drop }",
        ));
        assert!(
            tried.contains(&"tcp dport == 80 accept".to_owned()),
            "{tried:?}"
        );
        assert!(!tried.concat().contains("90"), "{tried:?}");
    }

    #[test]
    fn a_map_of_values_is_tried_by_what_excludes_packets() {
        let rules = |value: &str| {
            format!("{NAME} jump marks\n}}\nchain marks {{\nmeta mark set {value} accept\ndrop")
        };
        for (value, want) in [
            ("dns name map { \"a.example\" : 1 }", "th dport"),
            (
                "ip daddr . tls sni map { 10.0.0.1 . \"a.example\" : 1 }",
                "ip daddr == 10.0.0.1 accept",
            ),
            (
                "tcp flags . tls sni map { syn . \"a.example\" : 1 }",
                "tcp flags == syn accept",
            ),
        ] {
            let tried = trials(&rules(value));
            assert!(tried[0].contains(want), "{tried:?}");
            assert!(!tried.contains(&"accept".to_owned()), "{tried:?}");
        }
    }

    #[test]
    fn a_chain_is_tried_without_its_effects() {
        let tried = trials(&format!("{NAME} jump yes"));
        assert!(
            tried.contains(&"tcp dport 80 accept".to_owned()),
            "{tried:?}"
        );
        assert!(tried.contains(&"goto stage-ended".to_owned()), "{tried:?}");
        assert!(!tried.concat().contains("counter"), "{tried:?}");
        assert!(of(&format!("{NAME} jump yes")).contains("0x00000000 : jump stage-trial-"));
    }

    #[test]
    fn a_map_without_an_element_ends_the_rule() {
        let rule = format!("{NAME} meta mark set tcp dport map {{ 443 : 1, 80 : 2 }} accept");
        assert_eq!(trials(&rule), ["tcp dport { 443, 80 } accept"]);
        let map = "meta l4proto map { 1 : 1, dccp : 2 }";
        let rule = format!("{NAME} meta mark set {map} tcp dport . th dport {{ 5 . 5 }} accept");
        let want = "meta l4proto & 0xff { 1, dccp } tcp dport . th dport { 5 . 5 } accept";
        assert_eq!(trials(&rule), [want]);
    }

    #[test]
    fn what_stands_behind_a_name_is_asked() {
        let rule = format!("{NAME} tcp dport vmap {{ 80 : accept, 443 : drop, 22 : jump yes }}");
        assert!(
            of(&rule).contains("0x00000000 : jump stage-trial-"),
            "{}",
            of(&rule)
        );
        let tried = trials(&rule);
        assert!(
            tried.contains(&"tcp dport == 80 accept".to_owned()),
            "{tried:?}"
        );
        assert!(!tried.concat().contains("443"), "{tried:?}");
        let rule = format!("{NAME} meta l4proto vmap {{ 1 : accept }}");
        assert_eq!(trials(&rule), ["meta l4proto & 0xff == 1 accept"]);
        let tried = trials(&format!("{NAME} counter ip daddr 10.0.0.2 accept"));
        assert_eq!(tried, ["ip daddr 10.0.0.2 accept"]);
    }

    #[test]
    fn a_chain_that_may_be_left_is_tried_to_its_end_first() {
        let made = of(&format!(
            "{NAME} return\n ip daddr 10.0.0.2 limit rate 1/hour accept\n drop"
        ));
        let lines: Vec<&str> = made.lines().collect();
        assert!(lines[1].ends_with("goto stage-left"), "{made}");
        let tried = trials(&format!("{NAME} return\n ip daddr 10.0.0.2 accept\n drop"));
        assert!(
            tried.contains(&"ip daddr 10.0.0.2 accept".to_owned()),
            "{tried:?}"
        );
    }

    #[test]
    fn a_table_that_no_packet_comes_to_has_its_trials() {
        let policy = "table inet f {\n chain in {\n tls sni \"a.example\" ip ttl 3 counter ip daddr 10.0.0.1 return\n }\n}\n\
            table inet g {\n chain base {\n type filter hook input priority 0\n tls sni \"a.example\" drop\n }\n}\n";
        let made = split(&text("p.nft", policy).unwrap(), &Options::default()).unwrap();
        let places: Vec<usize> = [
            "chain stage-trial-1 ",
            "jump stage-trial-",
            "chain stage-trial-1 ",
        ]
        .iter()
        .scan(0, |from, words| {
            *from += made.kernel[*from..].find(words)? + 1;
            Some(*from)
        })
        .collect();
        assert_eq!(places.len(), 3, "{}", made.kernel);
    }

    /// For ports other than 53 it is certain that there is no DNS query.
    #[test]
    fn no_question_at_other_ports() {
        let others = "udp . 0-52 . 0-65535";
        let made = of("dns name missing accept");
        assert!(
            made.contains(&format!("{{ 0x00000000 . {others} : continue")),
            "{made}"
        );
        assert!(
            made.contains("0x00000000 . udp . 53 . 0-65535 : accept"),
            "{made}"
        );
        let tried = trials(&format!(
            "{NAME} jump other\n }}\n chain other {{\n dns name missing drop\n accept"
        ));
        let line = tried.iter().find(|line| line.ends_with("goto stage-ended"));
        assert!(line.is_some_and(|line| line.contains(others)), "{tried:?}");
        assert!(tried.contains(&"accept".to_owned()), "{tried:?}");
    }

    /// A rule with names of two protocols, one after the other, holds for no packet. But the first name may be
    /// unreadable.
    #[test]
    fn only_a_first_test_of_dns_is_for_port_53() {
        let made = of("tls alpn \"h2\" counter dns type a accept");
        let first = made.find("ct mark").unwrap();
        assert!(!made[..first].contains("th dport"), "{made}");
        assert!(made[first..].contains("udp . 53 . 0-65535"), "{made}");
        let tried = trials("tls alpn \"h2\" counter dns type a accept");
        assert!(
            tried.iter().all(|line| line.contains("udp . 53 . 0-65535")),
            "{tried:?}"
        );
        assert!(!tried.is_empty());
    }

    #[test]
    fn what_a_left_out_effect_changes_is_not_compared() {
        for (effect, read) in [
            ("meta mark set 0x1", "meta mark != 0x1"),
            ("mark set 0x1", "meta mark & 0xff != 0x1"),
            ("ct mark set ct mark | 0x1", "ct mark & 0x1 == 0"),
            ("add @s { ip saddr }", "ip saddr != @s"),
        ] {
            for rules in [
                format!("{NAME} jump other\n }}\n chain other {{\n {effect}\n {read} accept"),
                format!("{NAME} {effect} jump other\n }}\n chain other {{\n {read} accept"),
                format!("{NAME} return\n {effect}\n {read} accept"),
            ] {
                let tried = trials(&rules);
                assert!(
                    tried.iter().all(|line| line != &format!("{read} accept")),
                    "{tried:?}"
                );
            }
            let before =
                format!("{effect}\n {NAME} jump other\n }}\n chain other {{\n {read} accept");
            let tried = trials(&before);
            assert!(tried.contains(&format!("{read} accept")), "{tried:?}");
        }
    }

    #[test]
    fn what_is_not_understood_accepts_nothing() {
        let rules = format!(
            "{NAME} jump other\n }}\n chain other {{\n synthetic ; tcp dport vmap @gone\n accept"
        );
        let tried = trials(&rules);
        let at = |line: &str| tried.iter().position(|one| one == line);
        assert!(at("goto stage-ended") < at("accept"), "{tried:?}");
    }
}
