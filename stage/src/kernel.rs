// SPDX-License-Identifier: GPL-2.0-or-later
//! Policy text for the kernel: the policy with tests of classes in place of names, and the chains that send packets to
//! the firewall.

use std::collections::BTreeSet;
use std::fmt::Write;

use crate::class::Classes;
use crate::hooks::{self, Hook, Tables, AUTHENTICATED, DNS, TRANSPORT};
use crate::learn::Learns;
use crate::marks::Layout;
use crate::names::{NameRule, Names};
use crate::reach::Ways;
use crate::reject::{outermost, resets_of, REFUSE};
use crate::replace::{bytes, Edit};
use crate::tree::Rule;
use crate::trial::Trials;
use crate::{Options, Queue};

/// Match of packets that never have names, whatever a rule matches. One kind is neighbour discovery, which conntrack
/// does not track.
const NOT_TRANSPORT: &str = "meta l4proto != { tcp, udp, ah }";

/// Elements for packets that may belong to a DNS query or to the connection of a query: protocol, destination port,
/// source port. An answer over UDP does not change names.
pub const OF_DNS: [&str; 5] = [
    "ah . 0-65535 . 0-65535",
    "tcp . 53 . 0-65535",
    "udp . 53 . 0-65535",
    "tcp . 0-52 . 53",
    "tcp . 54-65535 . 53",
];
/// Elements for the TCP and UDP packets that no element of OF_DNS contains. These packets contain no DNS query, whether
/// the names of their connection are known or not.
pub const NOT_OF_DNS: [&str; 6] = [
    "udp . 0-52 . 0-65535",
    "udp . 54-65535 . 0-65535",
    "tcp . 0-52 . 0-52",
    "tcp . 0-52 . 54-65535",
    "tcp . 54-65535 . 0-52",
    "tcp . 54-65535 . 54-65535",
];
/// Key of the elements in OF_DNS and NOT_OF_DNS.
pub const PORTS: &str = "meta l4proto . th dport . th sport";

/// Returns a match of packets by elements of OF_DNS or NOT_OF_DNS.
pub fn of_ports(ports: &[&str]) -> String {
    format!("{PORTS} {{ {} }} ", ports.join(", "))
}

/// Match of all packets from and to other ports than 53, to be written before other matches. nft accepts these raw
/// fields beside any match of protocols and ports.
const NO_DNS: &str = "@th,0,16 != 53 @th,16,16 != 53 ";
/// Match of all packets except UDP datagrams, to be written before other matches.
const NO_DATAGRAM: &str = "meta l4proto != udp";
/// Match of the datagrams from the first sender of a connection, which is the client of QUIC. A class is never final
/// for them: a packet with several datagrams (UDP_SEGMENT) may hide a long header after the first datagram. If
/// conntrack has the server as the first sender, no class becomes final.
const CLIENTS_DATAGRAM: &str = "meta l4proto udp ct direction original";

/// Match of the first packet of a connection that another connection has announced to conntrack (`ct helper`, `ct
/// expectation`). The new connection begins with the mark of the announcing connection, and so with its class
/// (init_conntrack). The new connection has no second packet until it is confirmed.
const FIRST_EXPECTED: &str = "ct status & (expected | confirmed) == expected";

/// Data from which the kernel's part of a split policy is made.
pub struct Kernel<'a> {
    pub ways: &'a Ways<'a>,
    pub tables: &'a Tables,
    pub names: &'a Names,
    pub classes: &'a Classes,
    pub learns: &'a Learns,
    pub layout: Layout,
    pub options: &'a Options,
    /// Edits of each rule with names, in the order of `names.rules`.
    pub replaced: &'a [Vec<Edit>],
    pub trials: &'a Trials<'a>,
}

impl Kernel<'_> {
    /// Returns the verdict of the chain `stage-lost`, such as for packets without a connection: accept with --fail
    /// unknown=open, otherwise drop.
    fn lost(&self) -> &'static str {
        match self.options.unknown_open {
            true => "accept",
            false => "drop",
        }
    }

    /// Returns true if a rule matches fields of DNS queries.
    fn asks_questions(&self) -> bool {
        let mut asks = self.names.rules.iter().flat_map(NameRule::all);
        asks.any(|ask| ask.field.starts_with("dns"))
    }

    /// Writes the chain that stores the firewall's answer in the connection mark, for packets of a hook.
    fn keep(&self, text: &mut String, hook: &str, priority: i32, generation: u32) {
        let (mask, layout) = (self.layout.mask(), &self.layout);
        let unanswered = match self.options.bypass {
            true => "stage-undecided",
            false => "stage-lost",
        };
        let mut elements = vec![
            format!("{:#010x} : goto {unanswered}", layout.asked()),
            format!("{:#010x} : goto stage-undecided", layout.said_undecided()),
            format!("{:#010x} : goto stage-unreadable", layout.said_unreadable()),
        ];
        for number in self.classes.numbers() {
            let class = generation | layout.class(number);
            elements.push(format!("{class:#010x} : goto stage-class-{number}"));
            elements.push(format!(
                "{:#010x} : goto stage-settled-{number}",
                class | layout.settled()
            ));
        }
        // The RST of a rejected packet still has this mark if no firewall has read the queue.
        if hook == "output" && self.has_rejects() {
            elements.push(format!("{:#010x} : goto stage-passed", layout.refused()));
        }
        // Behind an authentication header the kernel can't see whether a packet may belong to a DNS query.
        let hidden = match self.asks_questions() {
            true => format!(
                "meta mark & {mask:#010x} == {:#010x} {AUTHENTICATED} goto stage-unreadable\n\t\t",
                layout.said_undecided()
            ),
            false => String::new(),
        };
        let _ = writeln!(
            text,
            "\n\tchain stage-keep-{hook} {{\n\t\ttype filter hook {hook} priority {priority}; policy accept;\n\t\t\
             meta mark & {mask:#010x} == 0 accept\n\t\tct state {{ invalid, untracked }} goto stage-lost\n\t\t{hidden}\
             meta mark & {mask:#010x} vmap {{ {} }}\n\t\tgoto stage-unreadable\n\t}}",
            elements.join(", ")
        );
    }

    /// Writes the chain that selects the packets of a hook to be queued.
    fn names(&self, text: &mut String, family: &str, (name, hook): (&str, &Hook), priority: i32) {
        let mask = self.layout.mask();
        let _ = writeln!(
            text,
            "\n\tchain stage-names-{name} {{\n\t\ttype filter hook {name} priority {priority}; policy accept;\n\t\t\
             meta mark & {mask:#010x} != 0 meta mark set meta mark & {:#010x}\n\t\t\
             {FIRST_EXPECTED} ct mark set ct mark & {:#010x}",
            !mask, !mask
        );
        let _ = writeln!(text, "\t\t{} accept", self.settled_segment());
        if self.asks_questions() {
            text.push_str("\t\tmeta l4proto { tcp, udp } jump stage-ports\n");
        }
        if name == "output" && self.has_rejects() {
            let _ = writeln!(text, "\t\t{}", self.resets(family));
        }
        // The kernel's RST for a rejected packet has no name. A queue would drop it if the packet's connection is not
        // confirmed.
        if name == "output" {
            let _ = writeln!(text, "\t\t{} ct state related accept", resets_of(family));
        }
        let lines = hook.lines.iter().map(|line| hook.written(line));
        let lines: BTreeSet<&str> = lines.collect();
        for line in &lines {
            let _ = writeln!(text, "\t\t{line} goto stage-ask");
        }
        // A later fragment whose header names an extension header has no `meta l4proto`, but may belong to TCP or UDP,
        // and to DNS. Conntrack joins fragments, so only malformed ones arrive. Packets that end before their ports may
        // be of DNS, too.
        let is_any = |line: &&str| line.contains(TRANSPORT) || line.contains(AUTHENTICATED);
        if self.asks_questions() || lines.iter().any(is_any) {
            text.push_str("\t\tmeta l4proto >= 0 accept\n\t\tgoto stage-lost\n");
        }
        text.push_str("\t}\n");
    }

    /// Returns the match of most packets of TCP connections whose class is final. `stage-ask` accepts them, too; here
    /// they pass after a few instructions. The match excludes SYNs, which may begin another connection, RSTs, which may
    /// be the kernel's, for a rejected packet, and packets of DNS if a rule matches fields of DNS.
    fn settled_segment(&self) -> String {
        let (is_settled, now) = self.layout.final_in(self.options.generation);
        let no_dns = match self.asks_questions() {
            true => " tcp dport != 53 tcp sport != 53",
            false => "",
        };
        format!("ct mark & {is_settled:#010x} == {now:#010x} meta l4proto tcp tcp flags & (syn | rst) == 0{no_dns}")
    }

    /// Returns the rules of the chain `stage-ports` that send later fragments to `stage-lost`, since a query in a
    /// fragment can't be read. They come before the rule that reads ports: kernels up to 6.18 read other bytes as a
    /// later fragment's ports (nft_payload_fast_eval). That rule does not hold for a packet that ends before its ports,
    /// which goes to `stage-lost`, too.
    fn fragments(family: &str) -> String {
        let all = [
            ("ip6", "ip frag-off & 0x1fff != 0"),
            ("ip", "frag frag-off != 0"),
        ];
        let own = all.iter().filter(|(other, _)| *other != family);
        own.map(|(_, found)| format!("\t\t{found} goto stage-lost\n"))
            .collect()
    }

    /// Writes the chains that all hooks of a table share.
    fn shared(&self, text: &mut String, family: &str, generation: u32) {
        let (mask, layout) = (self.layout.mask(), &self.layout);
        let dns = match self.asks_questions() {
            true => format!("\t\t{DNS} goto stage-queue\n\t\ttcp sport 53 goto stage-queue\n"),
            false => String::new(),
        };
        let (is_settled, now) = layout.final_in(self.options.generation);
        let queue = self.queue(layout.asked(), self.options.bypass);
        let clear = format!("meta mark set meta mark & {:#010x}", !mask);
        let _ = write!(
            text,
            "\n\t# What may begin another connection between the same ends is always asked about; else what is not settled.\n\
             \tchain stage-ask {{\n\t\t{NOT_TRANSPORT} accept\n{dns}\t\t{AUTHENTICATED} goto stage-queue\n\t\ttcp flags & syn == syn goto stage-queue\n\t\tmeta l4proto udp @th,64,1 1 goto stage-queue\n\
             \t\t{CLIENTS_DATAGRAM} goto stage-queue\n\
             \t\tct mark & {is_settled:#010x} == {now:#010x} accept\n\t\tgoto stage-queue\n\t}}\n\n\
             \tchain stage-queue {{\n\t\t{queue}\n\t}}\n\n\
             \tchain stage-lost {{\n\t\t{clear}\n\t\t{} comment \"--fail unknown\"\n\t}}\n",
            self.lost()
        );
        if self.has_rejects() {
            // Without a firewall the RST passes, so that it still reaches the packet's sender.
            let refuse = self.queue(layout.refused(), true);
            let _ = write!(
                text,
                "\n\tchain {REFUSE} {{\n\t\t{refuse}\n\t}}\n\n\tchain stage-passed {{\n\t\t{clear}\n\t}}\n"
            );
        }
        if self.asks_questions() {
            let _ = write!(
                text,
                "\n\tchain stage-ports {{\n{}\t\tth dport >= 0 return\n\t\tgoto stage-lost\n\t}}\n",
                Self::fragments(family)
            );
        }
        let mut keep = |name: String, first: &str, mark: u32| {
            let set = match mark {
                0 => format!("ct mark set ct mark & {:#010x}", !mask),
                _ => format!("ct mark set ct mark & {:#010x} | {mark:#010x}", !mask),
            };
            let _ = writeln!(
                text,
                "\n\tchain stage-{name} {{\n{first}\t\t{set}\n\t\t{clear}\n\t}}"
            );
        };
        keep("undecided".to_owned(), "", 0);
        keep("unreadable".to_owned(), "", layout.unreadable());
        for number in self.classes.numbers() {
            let class = generation | layout.class(number);
            let settled = class | layout.settled();
            let stays = format!(
                "\t\tmeta l4proto udp ct mark & {mask:#010x} == {settled:#010x} {clear} accept\n"
            );
            keep(format!("class-{number}"), &stays, class);
            let is_clients = format!("\t\t{CLIENTS_DATAGRAM} goto stage-class-{number}\n");
            keep(format!("settled-{number}"), &is_clients, settled);
        }
    }

    /// Returns the statements that send a packet to the queue with a mark. With `Queue::Iptables` they set the mark and
    /// accept the packet; a rule of iptables then queues it by its mark.
    /// - bypass: true if packets pass while no firewall reads the queue; without effect with `Queue::Iptables`.
    fn queue(&self, mark: u32, bypass: bool) -> String {
        let mark = format!(
            "meta mark set meta mark & {:#010x} | {mark:#010x}",
            !self.layout.mask()
        );
        let (first, last) = self.options.queues;
        let numbers = match first == last {
            true => first.to_string(),
            false => format!("{first}-{last}"),
        };
        let bypass = if bypass { " bypass" } else { "" };
        match self.options.queue {
            Queue::Nft => format!("{mark} queue num {numbers}{bypass}"),
            Queue::Iptables => format!("{mark} accept"),
        }
    }

    /// Returns the tables that have trial chains (see trial.rs), but no hook in which packets are queued, because no
    /// packet reaches their rules with names.
    fn unasked(&self) -> impl Iterator<Item = usize> + '_ {
        let all = self.trials.tables().into_iter();
        all.filter(|table| !self.tables.contains_key(table))
    }

    /// Returns a table's trial chains (see trial.rs) with their rules. `early_edits` declares these chains before the
    /// policy's rules.
    fn trial_rules(&self, table: usize) -> String {
        let chains = self.trials.of_table(table).into_iter();
        let text = |(name, lines): (String, Vec<String>)| {
            let lines: String = lines.iter().map(|line| format!("\t\t{line}\n")).collect();
            format!("\n\tchain {name} {{\n{lines}\t}}\n")
        };
        chains.map(text).collect()
    }

    /// Returns the edits that declare chains before the first rule that may jump to them.
    fn early_edits(&self) -> Vec<Edit> {
        let (tokens, tree) = (self.ways.tokens, self.ways.tree);
        let mut edits = Vec::new();
        let asked = self.tables.keys().copied();
        for table in asked.chain(self.unasked()) {
            let trials = self.trials.of_table(table).into_iter();
            let declared = trials.map(|(name, _)| format!("\n\tchain {name} {{\n\t}}\n"));
            let chains = declared.collect::<String>() + &self.reject_chains(table);
            let is_own = |rule: &&Rule| tree.chains[rule.chain].table == table;
            let Some(first) = tree
                .rules
                .iter()
                .find(is_own)
                .filter(|_| !chains.is_empty())
            else {
                continue;
            };
            let statement = outermost(tokens, first.tokens.start);
            let open = statement.clone().find(|at| tokens.get(*at) == "{");
            let (at, text) = match (tokens.get(statement.start), open) {
                ("table", Some(open)) => (tokens.end_before(open + 1), chains),
                _ => {
                    let table = &tree.tables[table];
                    let text = format!("table {} {} {{{chains}}}\n", table.family, table.name);
                    (tokens.start(statement.start), text)
                }
            };
            edits.push((at..at, text));
        }
        edits
    }

    /// Returns the text after the policy: the chains of all tables with names, and the chains that queue DNS packets
    /// for sets that learn.
    fn chains(&self) -> String {
        let generation = self.layout.generation(self.options.generation);
        let mut text = String::new();
        for (&number, hooks) in self.tables {
            let table = &self.ways.tree.tables[number];
            let _ = write!(text, "\ntable {} {} {{", table.family, table.name);
            let mut chains = self.trial_rules(number);
            for (name, hook) in hooks {
                let priority = hook.priority.unwrap_or_default();
                let (names, keep) = hooks::priorities(priority, self.options.queue);
                self.names(&mut chains, &table.family, (name, hook), names);
                self.keep(&mut chains, name, keep, generation);
            }
            self.shared(&mut chains, &table.family, generation);
            text += &chains;
            text += "}\n";
        }
        for number in self.unasked() {
            let table = &self.ways.tree.tables[number];
            let trials = self.trial_rules(number);
            let _ = write!(
                text,
                "\ntable {} {} {{{trials}}}\n",
                table.family, table.name
            );
        }
        let queue = self.queue(self.layout.learns(), self.options.bypass);
        text + &self
            .learns
            .chains(self.ways.tree, &self.layout, self.options.queue, &queue)
    }

    /// Returns the marks of connections that a flowtable may take over: their class is final in both directions, and no
    /// rule with names holds for it, so that their packets need not pass the tests. If there is no such class, returns
    /// a mark that no connection has.
    fn free_marks(&self) -> Vec<u32> {
        let (layout, generation) = (
            &self.layout,
            self.layout.generation(self.options.generation),
        );
        let asks = |rule: &NameRule| self.classes.of_rule(rule);
        let meant: BTreeSet<u32> = self.names.rules.iter().flat_map(asks).collect();
        let numbers = self.classes.numbers();
        let free: Vec<u32> = numbers.filter(|number| !meant.contains(number)).collect();
        let classes = if free.is_empty() { vec![0] } else { free };
        let mark = |number: &u32| generation | layout.class(*number) | layout.settled();
        classes.iter().map(mark).collect()
    }

    /// Returns the match of connections that a flowtable may take over; empty if it may take over all. It excludes
    /// connections for which a rule with names may hold, UDP, and DNS that the firewall learns from.
    fn flow_test(&self) -> String {
        let mut test = String::new();
        let forwards = |hook: &&str| ["forward", "prerouting"].contains(hook);
        if hooks::queued(self.tables).iter().any(forwards) {
            let marks = self.free_marks();
            let marks: Vec<String> = marks.iter().map(|mark| format!("{mark:#010x}")).collect();
            let (mask, marks) = (self.layout.mask(), marks.join(", "));
            let _ = write!(test, "{NO_DATAGRAM} ct mark & {mask:#010x} {{ {marks} }} ");
        }
        if self.learns.hooks().any(|hook| hook == "forward") {
            test.push_str(NO_DNS);
        }
        test
    }

    /// Returns the edits that keep connections out of flowtables (see `flow_test`).
    pub fn flow_edits(&self) -> Vec<Edit> {
        let (tokens, tree) = (self.ways.tokens, self.ways.tree);
        let test = self.flow_test();
        if test.is_empty() {
            return Vec::new();
        }
        let is_flow = |at: &usize| {
            tokens.get(*at) == "flow" && ["add", "offload"].contains(&tokens.get(at + 1))
        };
        let flows = tree
            .rules
            .iter()
            .flat_map(|rule| rule.tokens.clone())
            .filter(is_flow);
        flows
            .map(|at| (tokens.start(at)..tokens.start(at), test.clone()))
            .collect()
    }

    /// Returns all edits of the policy, sorted by position: those of names and their sets, flowtables, rejections, sets
    /// that learn, and chains that are declared before the rules.
    fn edits(&self) -> Vec<Edit> {
        let (tokens, tree) = (self.ways.tokens, self.ways.tree);
        let parts = self.names.sets.iter().flat_map(|set| &set.parts);
        let sets = parts
            .chain(&self.names.keyed)
            .map(|part| (bytes(tokens, &tree.sets[*part].tokens), String::new()));
        let rules = self.replaced.iter().flatten().cloned();
        let mut edits: Vec<Edit> = sets.chain(rules).chain(self.flow_edits()).collect();
        edits.extend(self.reject_edits());
        edits.extend(self.early_edits());
        edits.extend(self.learns.edits(tokens));
        edits.sort_by_key(|(range, _)| (range.start, range.end));
        edits
    }

    /// Returns the whole text for the kernel: the policy with tests of classes in place of names, and the added chains.
    pub fn text(&self) -> String {
        let chains = self.chains();
        let (tree, policy) = (self.ways.tree, &self.ways.tokens.text);
        let mut text = String::from("# Made by fwctl split. The policy as it was written, with tests of classes in place of names.\n");
        for table in tree.tables.iter().filter(|_| !tree.flushes) {
            let name = format!("table {} {}", table.family, table.name);
            let _ = writeln!(text, "{name}\ndelete {name}");
        }
        let mut at = 0;
        for (range, instead) in self.edits() {
            text += &policy[at..range.start];
            text += &instead;
            at = range.end;
        }
        text += &policy[at..];
        text + &chains
    }

    /// Returns the rules of iptables and ip6tables that send marked packets to the queue, for `iptables-restore
    /// --noflush`.
    pub fn iptables(&self) -> String {
        let (first, last) = self.options.queues;
        let queue = match first == last {
            true => format!("--queue-num {first}"),
            false => format!("--queue-balance {first}:{last}"),
        };
        let bypass = if self.options.bypass {
            " --queue-bypass"
        } else {
            ""
        };
        let rule = |hook: &str, mark: u32, bypass: &str| {
            let chain = hook.to_uppercase();
            let mark = format!("{mark:#010x}/{:#010x}", self.layout.mask());
            format!("-A {chain} -m mark --mark {mark} -j NFQUEUE {queue}{bypass}\n")
        };
        let table = |name: &str, rules: String| match rules.is_empty() {
            true => rules,
            false => format!("*{name}\n{rules}COMMIT\n"),
        };
        let rules = |hooks: &[&str], mark: u32| -> String {
            hooks.iter().map(|hook| rule(hook, mark, bypass)).collect()
        };
        let mut named = rules(&hooks::queued(self.tables), self.layout.asked());
        if self.has_rejects() {
            named += &rule("output", self.layout.refused(), " --queue-bypass");
        }
        let learned: Vec<&str> = self.learns.hooks().collect();
        table("mangle", named) + &table("security", rules(&learned, self.layout.learns()))
    }
}
