// SPDX-License-Identifier: GPL-2.0-or-later
//! Report on each rule of a split policy: its form in the kernel, its classes, and its queued packets.

use std::collections::BTreeSet;

use crate::hooks;
use crate::kernel::Kernel;
use crate::names::NameRule;
use crate::replace::Edit;
use crate::source::{Place, Source};
use crate::tree::Rule;

/// Kind of the decision on a rule. The kernel evaluates each rule; some rules need data of the firewall.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decided {
    /// The kernel decides the rule as it is written.
    AsWritten,
    /// The kernel decides by a set that the firewall fills. Name of the set, with `@`.
    ByLearnedSet(String),
    /// The kernel decides by the class of the connection's names, which the firewall finds. Fields that the rule
    /// matches, e.g. `tls sni`.
    ByClass(BTreeSet<String>),
    /// A test of the class, or of DNS that the firewall learns from, precedes `flow add`, since packets of a flowtable
    /// skip the chains.
    BeforeFlowtable,
    /// `reject` is replaced by a jump to a chain that resets both ends of TCP connections whose names are known.
    WithReset,
}

/// Rule of the policy, and its form in the kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SplitRule {
    pub place: Place,
    pub text: String,
    /// Chain of the rule, as FAMILY TABLE CHAIN; CHAIN is `{}` for a chain between braces.
    pub chain: String,
    /// Hooks and priorities of the base chains that lead to the rule. Empty: no packet reaches the rule.
    pub hooks: Vec<String>,
    pub decided: Decided,
    /// Texts that replace parts of the rule in the kernel, such as the test of the class in the connection mark.
    pub tests: Vec<String>,
    /// Numbers of the classes for which all name matches of the rule hold. For a lookup, the name matches of at least
    /// one element must hold; a negated lookup excludes no class. Matches of other fields are ignored.
    pub classes: Vec<u32>,
    /// Hooks and lines of `stage-names-HOOK` that send the packets of the rule to the queue.
    pub queued: BTreeSet<(&'static str, String)>,
}

struct Report<'a> {
    kernel: &'a Kernel<'a>,
    /// Edits that keep connections out of flowtables.
    flows: Vec<Edit>,
    /// Edits that replace `reject`, and that insert the matches that it implies.
    rejects: Vec<Edit>,
    /// Names of the sets that learn, with `@`.
    learned: Vec<String>,
    /// Hook and priority of the base chains that lead to each chain, by the chain's index.
    hooks: Vec<Vec<String>>,
}

/// Returns the texts that edits insert, in the order of their positions. Leaves out empty texts.
fn texts(mut edits: Vec<Edit>) -> Vec<String> {
    edits.retain(|(_, text)| !text.is_empty());
    edits.sort_by_key(|(bytes, _)| bytes.start);
    let text = |(_, text): &Edit| text.trim().to_owned();
    edits.iter().map(text).collect()
}

/// Returns hook and priority of each base chain that leads to a chain, as text (`input priority 0`).
fn hooks_of(kernel: &Kernel, chain: usize) -> Vec<String> {
    let nothing = Rule {
        chain,
        tokens: 0..0,
    };
    let ways = kernel.ways.to(&nothing);
    let bases: BTreeSet<usize> = ways.iter().map(|way| way.base).collect();
    let text = |base: &usize| {
        let base = kernel.ways.base(*base);
        let priority = base.priority.map(|number| format!(" priority {number}"));
        format!("{}{}", base.hook, priority.unwrap_or_default())
    };
    let mut all: Vec<String> = bases.iter().map(text).collect();
    all.dedup();
    all
}

impl<'a> Report<'a> {
    fn new(kernel: &'a Kernel) -> Report<'a> {
        let tree = kernel.ways.tree;
        let learned = kernel.names.learns.iter();
        Report {
            kernel,
            flows: kernel.flow_edits(),
            rejects: kernel.reject_edits(),
            learned: learned
                .map(|set| format!("@{}", tree.sets[*set].name))
                .collect(),
            hooks: (0..tree.chains.len())
                .map(|chain| hooks_of(kernel, chain))
                .collect(),
        }
    }

    /// Returns the edits that begin within a rule.
    fn within(&self, rule: &Rule, edits: &[Edit]) -> Vec<Edit> {
        let tokens = self.kernel.ways.tokens;
        let start = tokens.start(rule.tokens.start);
        let span = start..tokens.end_before(rule.tokens.end);
        let is_within = |edit: &&Edit| span.contains(&edit.0.start);
        edits.iter().filter(is_within).cloned().collect()
    }

    /// Returns the kind of the decision on a rule without names, and the texts that replace parts of the rule.
    fn without_names(&self, rule: &Rule) -> (Decided, Vec<String>) {
        for (edits, decided) in [
            (&self.flows, Decided::BeforeFlowtable),
            (&self.rejects, Decided::WithReset),
        ] {
            let own = self.within(rule, edits);
            if !own.is_empty() {
                return (decided, texts(own));
            }
        }
        let tokens = self.kernel.ways.tokens;
        let mut words = rule.tokens.clone().map(|at| tokens.get(at));
        let learned = words.find(|word| self.learned.iter().any(|set| set == word));
        let by_set = |set: &str| Decided::ByLearnedSet(set.to_owned());
        (learned.map_or(Decided::AsWritten, by_set), Vec::new())
    }

    fn rule(&self, number: usize, rule: &Rule, place: Place) -> SplitRule {
        let (kernel, tree) = (self.kernel, self.kernel.ways.tree);
        let chain = &tree.chains[rule.chain];
        let table = &tree.tables[chain.table];
        let name = match chain.name.starts_with('{') {
            true => "{}",
            false => &chain.name,
        };
        let (decided, tests) = self.without_names(rule);
        let mut report = SplitRule {
            place,
            text: kernel.ways.tokens.text_of(&rule.tokens).to_owned(),
            chain: format!("{} {} {name}", table.family, table.name),
            hooks: self.hooks[rule.chain].clone(),
            decided,
            tests,
            classes: Vec::new(),
            queued: BTreeSet::new(),
        };
        let named = kernel.names.rules.iter().zip(kernel.replaced);
        let mut own = named.filter(|(found, _)| found.rule == number);
        if let Some((found, edits)) = own.next() {
            report.decided = Decided::ByClass(fields(found));
            report.tests = texts([edits.clone(), self.within(rule, &self.rejects)].concat());
            report.classes = kernel.classes.of_rule(found);
            report.queued = hooks::of_rule(kernel.ways, kernel.tables, found, kernel.options);
        }
        report
    }
}

/// Returns the fields of names that a rule matches.
fn fields(rule: &NameRule) -> BTreeSet<String> {
    rule.all().map(|ask| ask.field.clone()).collect()
}

/// Returns the report on each rule.
pub fn rules(source: &Source, kernel: &Kernel) -> Vec<SplitRule> {
    let (report, tokens) = (Report::new(kernel), kernel.ways.tokens);
    let rules = kernel.ways.tree.rules.iter().enumerate();
    let (mut line, mut counted) = (1, 0);
    let rule = |(number, rule): (usize, &Rule)| {
        let start = tokens.start(rule.tokens.start);
        // Rules are in the order of the text: those of a chain between braces come after the rule that contains the
        // braces.
        let lines = |part: &str| part.matches('\n').count();
        match start >= counted {
            true => line += lines(&tokens.text[counted..start]),
            false => line -= lines(&tokens.text[start..counted]),
        }
        counted = start;
        report.rule(number, rule, source.place_of_line(line))
    };
    rules.map(rule).collect()
}
