// SPDX-License-Identifier: GPL-2.0-or-later
//! Splits a policy with names between the kernel, which decides, and the firewall, which finds the names
//! (docs/STAGE.md).
//!
//! The policy stays in the kernel as it is written. Each match of a name becomes a test of the connection mark, in
//! which the firewall stores the class of the connection's names. Chains before the policy send packets that may still
//! change a name to the firewall.

mod boxes;
mod changes;
mod class;
mod daemon;
mod depth;
mod explain;
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
mod strict;
mod token;
mod tree;
mod trial;
mod warning;

use std::fmt;

use class::Classes;
use daemon::Daemon;
pub use explain::{Decided, SplitRule};
use kernel::Kernel;
use learn::Learns;
pub use learn::SIZE as LEARNED_MAX;
pub use marks::is_of_reset;
use marks::Layout;
pub use nat::without_nat;
use reach::Ways;
pub use reject::REFUSE;
use replace::Replacer;
pub use source::{checked_file, file, text, Check, Place, Source};
use token::Tokens;
use trial::Trials;

/// Kind of the rules that send packets to the queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Queue {
    /// nft's statement `queue`.
    #[default]
    Nft,
    /// Rules of iptables in the tables mangle (for names) and security (for DNS that sets learn from), for kernels
    /// without nft's statement `queue`.
    Iptables,
}

/// --undecided: treatment of packets of a connection whose name is not known yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Undecided {
    /// A rule with names accepts the packet if it may accept the connection; otherwise the packet skips this rule.
    #[default]
    Accept,
    /// A rule that matches a name drops the packet.
    Drop,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    pub queue: Queue,
    /// Numbers of the first and the last queue.
    pub queues: (u16, u16),
    /// --fail crash=open: if no firewall reads the queue, packets skip it, and their names count as not known yet.
    pub bypass: bool,
    pub undecided: Undecided,
    /// --fail unknown=open: packets without a connection are accepted. Unreadable names are handled as
    /// Undecided::Accept handles names that are not known yet.
    pub unknown_open: bool,
    /// Mark bits that the splitter may use (--marks).
    pub marks: u32,
    /// Generation of the policy. A policy that replaces another policy has the next number, so that packets of all
    /// connections are queued again.
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

/// Reason why a policy can't be split.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Byte offset of the cause in the policy's text.
    at: usize,
    pub place: Place,
    pub reason: String,
    pub cure: String,
}

impl Refusal {
    /// Creates a refusal at a token. `placed` adds the file and line.
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

    /// Adds the file and line of the refusal.
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

/// Class: a set of matches of names that hold for the same connections.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Class {
    pub number: u32,
    /// Value of the class in connection marks: `number`, shifted to the class's bits.
    pub mark: u32,
    /// Texts of the policy's matches that hold for the class.
    pub holds: Vec<String>,
}

/// Set of addresses in the kernel that the firewall fills from DNS answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LearnedSet {
    pub family: String,
    pub table: String,
    pub name: String,
    pub is_ipv6: bool,
    /// Text of the set's learn statement, e.g. `learn dns { "a.example" }`.
    pub learns: String,
}

/// Warning about a rule with an effect that its author may not expect. The policy is split in spite of it.
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

/// Result of splitting a policy between the kernel and the firewall.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Split {
    /// Input of `nft -f`: one transaction that replaces the policy's tables.
    pub kernel: String,
    /// Input of `iptables-restore --noflush` and `ip6tables-restore --noflush`; only with `Queue::Iptables`.
    pub iptables: Option<String>,
    /// Text of the firewall's policy, for --policy.
    pub daemon: String,
    /// Value of the firewall's --stage: the mask of the mark bits for classes.
    pub stage: String,
    pub classes: Vec<Class>,
    /// All rules of the policy, in the order of the text.
    pub rules: Vec<SplitRule>,
    pub learned: Vec<LearnedSet>,
    pub warnings: Vec<Warning>,
    /// True if packets are queued in prerouting or forward: packets of a flowtable skip these hooks.
    pub is_forwarding: bool,
    /// Mask of the mark bits for classes: class, generation, and one bit for settled.
    pub mask: u32,
    /// Mask and value of the marks of connections whose class is final in this generation. Most of their packets are no
    /// longer queued.
    pub settled: (u32, u32),
    /// Number of generations that a mark can distinguish; later generations have the same bits again. A connection that
    /// sends no packet during this number of generations keeps its old class, unless its mark is cleared, as `fwctl
    /// apply` does.
    pub generations: u32,
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

/// Returns the limits of mark bits: --marks, and each line of the policy that uses bits, with its bits.
fn taken(source: &Source, tokens: &Tokens, marks: &[marks::Use], options: &Options) -> String {
    let mut lines: Vec<(Place, u32)> = Vec::new();
    for mark in marks.iter().filter(|mark| mark.bits != 0) {
        let place = source.place(tokens.start(mark.at));
        match lines.iter_mut().find(|(known, _)| *known == place) {
            Some((_, bits)) => *bits |= mark.bits,
            None => lines.push((place, mark.bits)),
        }
    }
    let allowed = (options.marks != u32::MAX).then(|| format!("--marks is {:#x}", options.marks));
    let line = |(place, bits): &(Place, u32)| format!("{place} uses {bits:#x}");
    let all: Vec<String> = allowed.into_iter().chain(lines.iter().map(line)).collect();
    all.join(", ")
}

/// Returns the mark bits for the classes. Refuses the policy if not enough bits are free, or if it uses the whole
/// connection mark.
fn find_layout(
    source: &Source,
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
        let taken = taken(source, tokens, &uses, options);
        let reason =
            format!("{count} classes of names need {needed} free bits of marks in a row: {taken}");
        let cure = match options.marks {
            u32::MAX => "use fewer bits of marks, or ask for fewer sets of names",
            _ => "allow more bits (--marks, MARKS= of twinwall.conf), use fewer, or ask for fewer sets of names",
        };
        Refusal::at(tokens, at, reason, cure)
    })
}

/// Hooks that packets of a flowtable skip.
const FORWARDING: [&str; 2] = ["prerouting", "forward"];

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
    strict::refuse(tokens, &tree)?;
    warning::refuse(tokens, &tree, &names)?;
    let sets = class::declarations(source, tokens, &tree, &names);
    let classes = class::find(tokens, &names, &sets)?;
    let layout = find_layout(source, tokens, &tree, &classes, options)?;
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
    let mut hooks = queued.iter().copied().chain(learns.hooks());
    let is_forwarding = hooks.any(|hook| FORWARDING.contains(&hook));
    drop(hooks);
    let text = kernel.text();
    depth::check(&kernel, &text)?;
    Ok(Split {
        kernel: text,
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
        rules: explain::rules(source, &kernel),
        learned: learns.list(tokens, &tree),
        warnings: warning::find(source, &ways, &names),
        is_forwarding,
        mask: layout.mask(),
        settled: layout.final_in(options.generation),
        generations: layout.generations(),
    })
}

/// Returns true if a policy matches names or learns addresses from DNS. Refuses matches and sets of names that the
/// splitter can't parse.
pub fn asks_for_names(source: &Source) -> Result<bool, Refusal> {
    let tokens = token::tokens(&source.text);
    let names = names::find(&tokens, &tree::read(&tokens));
    names
        .map(|names| !names.rules.is_empty() || !names.learns.is_empty())
        .map_err(|refusal| refusal.placed(source))
}

/// Splits a policy between the kernel and the firewall. Fails with the reason if that is impossible.
pub fn split(source: &Source, options: &Options) -> Result<Split, Refusal> {
    let tokens = token::tokens(&source.text);
    split_tokens(source, &tokens, options).map_err(|refusal| refusal.placed(source))
}

#[cfg(test)]
mod tests;
