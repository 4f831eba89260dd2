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
pub use source::{file, text, Place, Source};
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
mod tests {
    use super::*;

    fn split_text(rules: &str, options: &Options) -> Result<Split, Refusal> {
        let policy = format!(
            "table inet f {{\n\tset b {{\n\t\ttype hostname\n\t\telements = {{ \"x.example\", \"*.x.example\" }}\n\t}}\n{rules}\n}}\n"
        );
        split(&text("p.nft", &policy).unwrap(), options)
    }

    fn in_forward(rules: &str) -> Result<Split, Refusal> {
        let rules =
            format!("\tchain c {{\n\t\ttype filter hook forward priority 0\n\t\t{rules}\n\t}}");
        split_text(&rules, &Options::default())
    }

    /// The line of the kernel's text with some words.
    fn line(split: &Split, words: &str) -> String {
        let found = split.kernel.lines().find(|line| line.contains(words));
        found
            .unwrap_or_else(|| panic!("{words}: {}", split.kernel))
            .trim()
            .to_owned()
    }

    #[test]
    fn a_test_takes_the_place_of_a_name() {
        let split =
            in_forward("counter tcp dport 443 tls sni @b ip saddr 10.0.0.1 log prefix \"n\" drop")
                .unwrap();
        let want = "counter tcp dport 443  ip saddr 10.0.0.1 ct mark & 0x00060000 vmap { 0x00040000 : continue, 0x00060000 : drop } log prefix \"n\" drop";
        assert_eq!(line(&split, "log prefix"), want);
        assert!(!split.kernel.contains("hostname"));
        assert!(split.daemon.contains("tls sni @t0_b meta mark set"));
        assert_eq!(split.classes.len(), 2);
    }

    #[test]
    fn names_that_hold_together() {
        let split = in_forward("tls sni @b tls alpn \"h2\" drop\ntls alpn \"h2\" accept").unwrap();
        assert_eq!(split.classes.len(), 4);
        assert_eq!(split.rules[0].classes.len(), 1);
        assert_eq!(split.rules[1].classes.len(), 2);
        // A packet that may be accepted once the name is known is accepted before.
        assert!(!split.rules[0].tests[0].contains("0x00000000 : "));
        assert!(split.rules[1].tests[0].contains("0x00000000 : accept"));
    }

    #[test]
    fn a_map_of_names_becomes_one_of_classes() {
        let map = "tls sni vmap { \"x.example\" : accept, \"*.example\" : jump d }";
        let chain = "\n\t}\n\tchain d {\n\t\tdrop";
        let split = in_forward(&format!("tcp dport 443 {map}{chain}")).unwrap();
        // None, x.example, which both keys stand for, and the others below example.
        assert_eq!(split.classes.len(), 3);
        let line = line(&split, "tcp dport 443 ct mark");
        assert_eq!(line.matches(": jump d").count(), 1, "{line}");
        assert!(line.contains("0x00000000 : accept"), "{line}");
        let exact = split
            .classes
            .iter()
            .find(|class| class.holds.len() == 2)
            .unwrap();
        assert!(
            line.contains(&format!("{:#010x} : accept", exact.mark)),
            "{line}"
        );
        let rules = "\tmap m {\n\t\ttype hostname : verdict\n\t\telements = { \"x.example\" : drop }\n\t}\n\tchain c {\n\t\t\
            type filter hook input priority 0\n\t\thttp host vmap @m\n\t}";
        let split = split_text(rules, &Options::default()).unwrap();
        assert!(!split.kernel.contains("map m {"), "{}", split.kernel);
        assert!(
            split
                .kernel
                .contains(" { 0x00060000 : drop, 0x00040000 : drop }"),
            "{}",
            split.kernel
        );
    }

    #[test]
    fn names_in_a_chain_between_braces() {
        let split = in_forward("tcp dport 443 jump {\n tls sni @b drop\n}\naccept").unwrap();
        assert!(
            split
                .kernel
                .contains("jump {\n meta l4proto != { 0-5, 7-16, 18-50, 52-255 } ct mark &"),
            "{}",
            split.kernel
        );
        line(&split, "tcp dport 443 goto stage-ask");
        line(&split, "tcp sport 443 goto stage-ask");
    }

    #[test]
    fn both_directions_are_asked_about() {
        let split = in_forward("meta l4proto { tcp, udp } jump d\n\t}\n\tchain d {\n\t\tip daddr 10.0.0.0/8 tcp dport 443 tls sni @b drop").unwrap();
        line(&split, "ip daddr 10.0.0.0/8 tcp dport 443 goto stage-ask");
        line(&split, "ip saddr 10.0.0.0/8 tcp sport 443 goto stage-ask");
        let rules = "\tchain c {\n\t\ttype filter hook output priority 10\n\t\toifname \"e\" dns name @b drop\n\t}";
        let split = split_text(rules, &Options::default()).unwrap();
        line(
            &split,
            "oifname \"e\" meta l4proto { tcp, udp } th dport 53 goto stage-ask",
        );
        // Rules see the server's packets, too, and each hook those of both ends.
        line(&split, "oifname \"e\" tcp sport 53 goto stage-ask");
        line(&split, "iifname \"e\" tcp sport 53 goto stage-ask");
        line(
            &split,
            "iifname \"e\" meta l4proto { tcp, udp } th dport 53 goto stage-ask",
        );
        line(&split, "oifname \"e\" meta l4proto ah goto stage-ask");
        line(&split, "hook input priority 7;");
        line(&split, "hook output priority 8;");
    }

    #[test]
    fn a_test_at_the_end_of_a_rule_is_a_word_of_its_own() {
        let split = in_forward("tls sni @b tcp option mptcp exists").unwrap();
        let line = line(&split, "mptcp");
        assert!(line.contains(" exists "), "{line}");
    }

    /// Conntrack leaves out the packets that find neighbours, and what is asked about without a connection is dropped.
    #[test]
    fn packets_without_ports_are_not_asked_about() {
        let split = in_forward("meta l4proto { icmp, ipv6-icmp } jump d\n\t}\n\tchain d {\n\t\ttls sni @b icmpv6 type echo-reply accept").unwrap();
        let lines: Vec<&str> = split.kernel.lines().map(str::trim).collect();
        let at = |words: &str| lines.iter().position(|line| line.contains(words)).unwrap();
        assert!(at("meta l4proto != { tcp, udp, ah } accept") < at("goto stage-ask"));
    }

    #[test]
    fn a_connection_that_stands_is_rejected_by_a_reset() {
        let rules = "tls sni @b counter reject with icmp type host-unreachable\ntls alpn \"h2\" reject with tcp reset\njump reject\n\
            reject comment \"r\"\n\t}\n\tchain reject {";
        let split = in_forward(rules).unwrap();
        let jumps: Vec<&str> = split
            .kernel
            .lines()
            .filter(|line| line.contains("jump stage-reject"))
            .collect();
        assert_eq!(jumps.len(), 3, "{}", split.kernel);
        assert!(jumps[1].trim().starts_with("meta l4proto != "), "{jumps:?}");
        assert!(jumps[2].ends_with(" comment \"r\""), "{jumps:?}");
        // The match that the error implies stands in front of the counter, as nft has it.
        let family = jumps[0].trim().starts_with("meta nfproto ipv4 ");
        assert!(family && !jumps[0].contains("type"), "{jumps:?}");
        let mut lines = split.kernel.lines().map(str::trim);
        let reset = lines.find(|line| line.starts_with("meta l4proto tcp ct mark"));
        assert!(reset.unwrap().ends_with("goto stage-refused"), "{reset:?}");
        assert_eq!(lines.next(), Some("reject with icmp type host-unreachable"));
        line(&split, "jump reject");
        // The kernel's RST goes to the queue, where the firewall resets the other end.
        assert!(line(&split, "ct state related").starts_with("tcp flags & rst == rst"));
        line(&split, "hook output priority -3;");
        assert!(line(&split, "queue num 0 bypass").contains("| 0x80020000"));
        let refused = "meta mark & 0xffff0000 == 0x80020000 reject with tcp reset";
        assert!(split.daemon.contains(refused), "{}", split.daemon);
        let at = |words: &str| split.kernel.find(words).unwrap();
        assert!(at("chain stage-reject-1") < at("jump stage-reject-1"));
    }

    #[test]
    fn the_chain_of_a_rejection_is_there_before_its_rule() {
        let policy = "add table inet f\nadd chain inet f c { type filter hook input priority 0; }\nadd rule inet f c tls sni \"a.example\" reject\n";
        let split = split(&text("p.nft", policy).unwrap(), &Options::default()).unwrap();
        let at = |words: &str| split.kernel.find(words).unwrap();
        assert!(at("add table inet f") < at("table inet f {\n\tchain stage-refused"));
        assert!(at("chain stage-refused") < at("chain stage-reject-1"));
        assert!(at("chain stage-reject-1") < at("jump stage-reject-1"));
    }

    #[test]
    fn a_generation_is_in_what_the_firewall_says_and_in_what_is_kept() {
        let options = Options {
            generation: 1,
            ..Options::default()
        };
        let split = split_text(
            "\tchain c {\n\t\ttype filter hook input priority 0\n\t\ttls sni @b drop\n\t}",
            &options,
        )
        .unwrap();
        line(&split, "ct mark & 0xfff80000 == 0x80100000 accept");
        assert!(
            split.daemon.contains("meta mark set 0x00140000 accept"),
            "{}",
            split.daemon
        );
    }

    #[test]
    fn what_is_refused_has_place_and_cure() {
        let refused = |rules: &str| in_forward(rules).unwrap_err();
        let refusal = refused("synproxy\ntls sni @b drop");
        assert_eq!(refusal.place.line, 8, "{refusal}");
        assert!(!refusal.cure.is_empty());
        refused("ct mark set 0x1\ntls sni @b drop");
        refused("tls sni \"a..b\" drop");
        refused("counter");
        for head in [
            "nat hook output priority 0",
            "filter hook postrouting priority 0",
            "filter hook prerouting priority -200",
        ] {
            let rules = format!("\tchain c {{\n\t\ttype {head}\n\t\ttls sni @b drop\n\t}}");
            assert!(split_text(&rules, &Options::default()).is_err(), "{head}");
        }
        let rules = "\tchain c {\n\t\ttype filter hook input priority 0\n\t\ttls sni @b drop\n\t}";
        assert!(split_text(
            rules,
            &Options {
                marks: 0xf,
                ..Options::default()
            }
        )
        .is_err());
    }

    /// A connection that no rule with names can mean may leave the chains, once it is final.
    #[test]
    fn a_flowtable_takes_what_no_name_means() {
        let rules = "ct state established flow add @t\ntls sni @b drop\ntls alpn \"h2\" accept";
        let split = in_forward(rules).unwrap();
        let own = split.rules.iter().flat_map(|rule| &rule.classes);
        let meant: Vec<u32> = own.copied().collect();
        let free = split
            .classes
            .iter()
            .find(|class| !meant.contains(&class.number));
        let mark = format!("{:#010x}", free.unwrap().mark | 0x8008_0000);
        let flow = line(&split, "flow add");
        let want = format!(
            "ct state established meta l4proto != udp ct mark & {:#010x} {{ {mark} }} flow add @t",
            split.mask
        );
        assert_eq!(flow, want);
        // If every class is meant, none leaves.
        let split =
            in_forward("flow add @t\ntls sni @b drop\ntls sni != @b accept\ntls sni missing drop")
                .unwrap();
        assert!(line(&split, "flow add").contains("{ 0x"));
        let rules =
            "\tchain c {\n\t\ttype filter hook input priority 0\n\t\ttls sni @b drop\n\t}\n\t\
            chain d {\n\t\ttype filter hook forward priority 0\n\t\tflow add @t\n\t}";
        let split = split_text(rules, &Options::default()).unwrap();
        assert_eq!(line(&split, "flow add"), "flow add @t");
    }

    #[test]
    fn packets_that_are_not_tracked_are_told() {
        let rules = "\tchain r {\n\t\ttype filter hook prerouting priority raw\n\t\ttcp dport 80 notrack\n\t}\n\t\
            chain c {\n\t\ttype filter hook input priority 0\n\t\ttls sni @b drop\n\t}";
        let split = split_text(rules, &Options::default()).unwrap();
        assert_eq!((split.warnings.len(), split.warnings[0].place.line), (1, 8));
    }

    #[test]
    fn an_accept_of_what_is_established_is_told() {
        let split = in_forward("ct state established,related accept\ntls sni @b drop").unwrap();
        assert_eq!(split.warnings.len(), 1);
        assert!(in_forward("tls sni @b drop\nct state established accept")
            .unwrap()
            .warnings
            .is_empty());
    }
}
