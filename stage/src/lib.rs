// SPDX-License-Identifier: GPL-2.0-or-later
//! Splits a policy with names: the kernel decides, the firewall names (docs/STAGE.md).
//!
//! The policy stays in the kernel as it is written. Each match of a name becomes a test of the connection's mark, in which
//! the firewall notes the class of the connection's names; chains in front of the policy send it the packets that may still
//! change a name.

mod boxes;
mod class;
mod daemon;
mod hooks;
mod kernel;
mod key;
mod learn;
mod lists;
mod lookup;
mod marks;
mod matches;
mod names;
mod nat;
mod others;
mod probe;
mod reach;
mod reject;
mod replace;
mod source;
mod steps;
mod token;
mod tree;
mod trial;
mod warning;

use std::fmt;

use class::Classes;
use daemon::Daemon;
use kernel::Kernel;
use learn::Learns;
pub use learn::SIZE as LEARNED_MAX;
use marks::Layout;
pub use nat::without_nat;
use reach::Ways;
use replace::{Edit, Replacer};
pub use source::{checked_file, file, text, Check, Place, Source};
use token::Tokens;
use trial::Trials;

/// Kind of queue rules.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Queue {
    /// nft's statement `queue`.
    #[default]
    Nft,
    /// A rule of iptables in the table mangle, for kernels without nft's.
    Iptables,
}

/// --undecided: what happens while a connection has not shown its name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Undecided {
    /// A rule that may accept the connection accepts the packet; others are passed over.
    #[default]
    Accept,
    /// A rule that asks for the name drops the packet.
    Drop,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    pub queue: Queue,
    /// The first and the last.
    pub queues: (u16, u16),
    /// Packets pass without an answer if no firewall has the queue: --fail crash=open.
    pub bypass: bool,
    pub undecided: Undecided,
    /// --fail unknown=open.
    pub unknown_open: bool,
    /// Bits of marks that may be used.
    pub marks: u32,
    /// Counts up with each policy that takes the place of another, so that each connection is asked about again.
    pub generation: u32,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            queue: Queue::Nft,
            queues: (0, 0),
            bypass: false,
            undecided: Undecided::Accept,
            unknown_open: false,
            marks: u32::MAX,
            generation: 0,
        }
    }
}

/// Why a policy is not split.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// A byte of the text.
    at: usize,
    pub place: Place,
    pub reason: String,
    pub cure: String,
}

impl Refusal {
    /// At a token. `placed` fills the place in.
    fn at(
        tokens: &Tokens,
        at: usize,
        reason: impl Into<String>,
        cure: impl Into<String>,
    ) -> Refusal {
        Refusal {
            at: tokens.start(at),
            place: Place::default(),
            reason: reason.into(),
            cure: cure.into(),
        }
    }

    /// With its place in a source.
    fn placed(mut self, source: &Source) -> Refusal {
        self.place = source.place(self.at);
        self
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{}: {}: {}", self.place, self.reason, self.cure)
    }
}

/// A class of names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Class {
    pub number: u32,
    /// Its bits in the marks of connections.
    pub mark: u32,
    /// The matches of the policy that hold for it.
    pub holds: Vec<String>,
}

/// A rule that asks for names, and what became of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SplitRule {
    pub place: Place,
    pub text: String,
    /// The tests in place of its names.
    pub tests: Vec<String>,
    /// The classes for which it holds, if its other matches do.
    pub classes: Vec<u32>,
}

/// A set that learns addresses from DNS, which the firewall fills in the kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LearnedSet {
    pub family: String,
    pub table: String,
    pub name: String,
    pub is_ipv6: bool,
    /// `learn dns { "a.example" }`
    pub learns: String,
}

/// Something to know of a policy that splits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    pub place: Place,
    pub text: String,
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.text)
    }
}

/// A policy that is split.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Split {
    /// For `nft -f`: one transaction, which replaces the policy's tables.
    pub kernel: String,
    /// With `Queue::Iptables`: for `iptables-restore --noflush` and `ip6tables-restore --noflush`.
    pub iptables: Option<String>,
    /// The firewall's --policy.
    pub daemon: String,
    /// The firewall's --stage.
    pub stage: String,
    pub classes: Vec<Class>,
    pub rules: Vec<SplitRule>,
    pub learned: Vec<LearnedSet>,
    pub warnings: Vec<Warning>,
    /// Bits of marks that are used.
    pub mask: u32,
    /// Marks of connections that are not queued any more: a mask, and its value.
    pub settled: (u32, u32),
    /// So many policies later the bits of a generation come again: connections that were not seen since then keep their class.
    pub generations: u32,
}

/// Writes what becomes of rules.
fn explain(source: &Source, kernel: &Kernel) -> Vec<SplitRule> {
    let tokens = kernel.ways.tokens;
    let rule = |(found, edits): (&names::NameRule, &Vec<Edit>)| {
        let range = &kernel.ways.tree.rules[found.rule].tokens;
        let mut edits: Vec<&Edit> = edits.iter().filter(|(_, text)| !text.is_empty()).collect();
        edits.sort_by_key(|(bytes, _)| bytes.start);
        SplitRule {
            place: source.place(tokens.start(range.start)),
            text: tokens.text_of(range).to_owned(),
            tests: edits
                .iter()
                .map(|(_, text)| text.trim().to_owned())
                .collect(),
            classes: kernel.classes.of_rule(found),
        }
    };
    kernel
        .names
        .rules
        .iter()
        .zip(kernel.replaced)
        .map(rule)
        .collect()
}

fn class_list(classes: &Classes, layout: &Layout) -> Vec<Class> {
    let class = |number| Class {
        number,
        mark: layout.class(number),
        holds: classes
            .holding(number)
            .iter()
            .map(|text| text.to_string())
            .collect(),
    };
    classes.numbers().map(class).collect()
}

/// Bits of marks for the classes, or the rules that occupy them.
fn find_layout(
    tokens: &Tokens,
    tree: &tree::Tree,
    classes: &Classes,
    options: &Options,
) -> Result<Layout, Refusal> {
    let uses = marks::uses(tokens, tree)?;
    marks::layout(classes.vectors.len(), options.marks, &uses).map_err(|needed| {
        let count = classes.vectors.len();
        let widest = uses.iter().max_by_key(|mark| mark.bits.count_ones());
        let at = widest.map_or(0, |mark| mark.at);
        let reason = format!("{count} classes of names need {needed} bits of marks in a row, and there are not so many");
        Refusal::at(tokens, at, reason, "use fewer bits of marks, or ask for fewer sets of names")
    })
}

fn split_tokens(source: &Source, tokens: &Tokens, options: &Options) -> Result<Split, Refusal> {
    let tree = tree::read(tokens);
    let names = names::find(tokens, &tree)?;
    if names.rules.is_empty() && names.learns.is_empty() {
        return Err(Refusal::at(
            tokens,
            0,
            "no rule asks for a name, and no set learns",
            "load it with nft -f",
        ));
    }
    warning::refuse(tokens, &tree)?;
    let sets = class::declarations(source, tokens, &tree, &names);
    let classes = class::find(tokens, &names, &sets)?;
    let layout = find_layout(tokens, &tree, &classes, options)?;
    let ways = Ways {
        tokens,
        tree: &tree,
    };
    let mut tables = hooks::find(&ways, &names, options)?;
    hooks::add_resets(&mut tables, |table| reject::rejects(&ways, table));
    let learns: Learns = learn::find(&ways, &names.learns, options)?;
    let trials = Trials::new(&ways, &names.rules, layout);
    let replacer = Replacer {
        ways: &ways,
        classes: &classes,
        layout,
        options,
        trials: &trials,
    };
    let replaced = replace::edits(&replacer, &names.rules)?;
    let kernel = Kernel {
        ways: &ways,
        tables: &tables,
        names: &names,
        classes: &classes,
        learns: &learns,
        layout,
        options,
        replaced: &replaced,
        trials: &trials,
    };
    let queued = hooks::queued(&tables);
    Ok(Split {
        kernel: kernel.text(),
        iptables: (options.queue == Queue::Iptables).then(|| kernel.iptables()),
        daemon: daemon::policy(&Daemon {
            classes: &classes,
            sets: &sets,
            hooks: &queued,
            layout,
            generation: options.generation,
            rejects: kernel.has_rejects(),
        }) + &learns.daemon(tokens, &tree),
        stage: format!("{:#010x}", layout.mask()),
        classes: class_list(&classes, &layout),
        rules: explain(source, &kernel),
        learned: learns.list(tokens, &tree),
        warnings: warning::find(source, &ways, &names),
        mask: layout.mask(),
        settled: layout.final_in(options.generation),
        generations: layout.generations(),
    })
}

/// Whether a policy asks for names, or learns addresses from DNS. Refuses one that asks for names where it can't be split.
pub fn asks_for_names(source: &Source) -> Result<bool, Refusal> {
    let tokens = token::tokens(&source.text);
    let names = names::find(&tokens, &tree::read(&tokens));
    names
        .map(|names| !names.rules.is_empty() || !names.learns.is_empty())
        .map_err(|refusal| refusal.placed(source))
}

/// Splits a policy.
pub fn split(source: &Source, options: &Options) -> Result<Split, Refusal> {
    let tokens = token::tokens(&source.text);
    split_tokens(source, &tokens, options).map_err(|refusal| refusal.placed(source))
}

#[cfg(test)]
mod tests;
