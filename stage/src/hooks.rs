// SPDX-License-Identifier: GPL-2.0-or-later
//! Hooks in which packets are queued for their names, and the matches that select these packets. They are the matches
//! of the rules with names, and of the jumps to these rules; for the opposite direction both ends are exchanged.

use std::collections::{BTreeMap, BTreeSet};

use crate::changes::Changes;
use crate::matches::{Layer, Match};
use crate::names::{NameRule, Names};
use crate::reach::{Way, Ways};
use crate::{Options, Queue, Refusal};

/// Priority of connection tracking. Before it, packets have no connection, and so no connection mark.
const CONNTRACK: i32 = -200;
/// Priority of iptables' table mangle.
pub const MANGLE: i32 = -150;
/// Number of priorities by which the chain that queues packets for their names comes before the policy, if nft's
/// statement `queue` queues them.
pub const NAMES_BEFORE: i32 = 3;
/// Number of priorities by which the chain that stores classes comes before the policy, if nft's statement `queue`
/// queues the packets.
const KEEP_BEFORE: i32 = 2;
/// Match of packets that may belong to connections with names. If an IPv6 packet has an authentication header (AH), the
/// kernel's rules see only that header, and the names can't be read.
pub const TRANSPORT: &str = "meta l4proto { tcp, udp, ah }";
/// Match of packets to DNS servers. For rules with names of DNS all of them are queued: each may be a query.
pub const DNS: &str = "meta l4proto { tcp, udp } th dport 53";
/// Match of packets from a DNS server over TCP. Its packets over UDP don't change names.
const DNS_SERVER: &str = "tcp sport 53";
/// Match of packets with an authentication header (AH), whose ports the kernel's rules can't see.
pub const AUTHENTICATED: &str = "meta l4proto ah";
/// Matches of the packets that are queued for rules with names of DNS.
const OF_DNS: [&str; 3] = [DNS, DNS_SERVER, AUTHENTICATED];
/// Match of a connection's first packet, and of all packets of a connection that NAT translates. The first packet's
/// connection is not confirmed, and NAT has not chosen its addresses yet. Packets without a connection have no status,
/// so they don't match; NAT does not translate them.
pub const TRANSLATED: &str = "ct status & (snat | dnat | confirmed) != confirmed";

/// Hook in which a table's packets are queued: lines of matches that select these packets, and the lowest priority of
/// the base chains that lead to the rules of these lines.
#[derive(Clone, Debug, Default)]
pub struct Hook {
    pub lines: BTreeSet<String>,
    pub priority: Option<i32>,
}

impl Hook {
    /// Returns the line that replaces `line` in the kernel's text: TRANSPORT if TRANSPORT is one of the hook's lines,
    /// since TRANSPORT matches all packets of the other lines; otherwise `line` itself.
    pub fn written<'a>(&self, line: &'a str) -> &'a str {
        match self.lines.contains(TRANSPORT) {
            true => TRANSPORT,
            false => line,
        }
    }
}

/// Hooks in which a table's packets are queued, by name.
pub type Hooks = BTreeMap<&'static str, Hook>;

/// Hooks in which packets are queued, for each table with names: by the table's index in `Tree::tables`.
pub type Tables = BTreeMap<usize, Hooks>;

/// Returns the priorities of two chains of a hook: the chain that queues packets, and the chain that stores the
/// firewall's answers.
/// - first: lowest priority of the base chains that lead to rules with names.
pub fn priorities(first: i32, queue: Queue) -> (i32, i32) {
    match queue {
        Queue::Nft => (first - NAMES_BEFORE, first - KEEP_BEFORE),
        Queue::Iptables => (MANGLE - 1, MANGLE + 1),
    }
}

/// Packets of a hook that one rule with names sends to the queue.
struct Share {
    table: usize,
    hook: &'static str,
    /// Priority of the base chain that leads to the rule.
    priority: i32,
    /// True for the packets of the opposite direction.
    is_answer: bool,
    way: Way,
}

/// Joins the texts of matches into a line. Equal matches occur once.
fn joined(mut words: Vec<String>) -> String {
    let mut seen = BTreeSet::new();
    words.retain(|word| seen.insert(word.clone()));
    words.join(" ")
}

/// Search for the hooks in which the packets of a policy are queued.
struct Finder<'a> {
    ways: &'a Ways<'a>,
    options: &'a Options,
}

/// Returns a hook's name, and the hooks that packets of the opposite direction pass. None: names can't be matched in
/// this hook.
fn mirrored(hook: &str) -> Option<(&'static str, &'static [&'static str])> {
    Some(match hook {
        "input" => ("input", &["output"]),
        "output" => ("output", &["input"]),
        "forward" => ("forward", &["forward"]),
        "prerouting" => ("prerouting", &["prerouting", "output"]),
        _ => return None,
    })
}

impl Finder<'_> {
    /// Returns the lines of matches that select the packets of a share (packets of a hook that one rule sends to the
    /// queue).
    /// - hook: the share's hook in the kernel's text.
    fn lines(&self, share: &Share, rule: &NameRule, hook: &Hook) -> BTreeSet<String> {
        let ports: &[&str] = match (rule.is_of_dns(), Self::is_udp(&share.way)) {
            (false, _) => &[""],
            (true, true) if share.is_answer => &[],
            (true, true) => &[DNS],
            (true, false) => &OF_DNS,
        };
        let line = |ports: &&str| self.line(share, rule, ports);
        let mut lines: BTreeSet<String> = ports.iter().map(line).collect();
        let first = hook.priority.unwrap_or(share.priority);
        let (queues, _) = priorities(first, self.options.queue);
        let changes = Changes::between(share.hook, queues..=share.priority);
        let mut matches = share.way.matches.iter();
        if !share.is_answer && matches.any(|found| changes.concern(found)) {
            lines.extend(self.translated(share, rule, &changes));
        }
        lines
    }

    /// Returns the lines that select the packets of a share (packets that one rule sends to the queue) whose addresses
    /// or ports NAT may change before the rule.
    fn translated(&self, share: &Share, rule: &NameRule, changes: &Changes) -> Vec<String> {
        let has = |layer| share.way.matches.iter().any(|found| found.layer == layer);
        let protocols: &[&str] = match rule.is_of_dns() {
            true => &OF_DNS,
            false if has(Layer::Tcp) => &["meta l4proto tcp"],
            false if has(Layer::Udp) => &["meta l4proto udp"],
            false => &[TRANSPORT],
        };
        let is_kept = |found: &&Match| !(found.is_of_transport() || changes.concern(found));
        let kept = share.way.matches.iter().filter(is_kept);
        let words: Vec<String> = kept.map(|found| self.text(found, false)).collect();
        let line = |protocol: &&str| {
            let end = [*protocol, TRANSLATED].map(str::to_owned);
            joined([&words[..], &end].concat())
        };
        protocols.iter().map(line).collect()
    }

    fn text(&self, found: &Match, is_answer: bool) -> String {
        found.text(self.ways.tokens, self.ways.tree, is_answer)
    }

    /// Returns a line of matches that selects the packets of a share (packets that one rule sends to the queue).
    /// - ports: match of ports, for rules of DNS.
    fn line(&self, share: &Share, rule: &NameRule, ports: &str) -> String {
        let (way, is_answer) = (&share.way, share.is_answer);
        let hook = self.ways.base(way.base).hook.as_str();
        // Addresses are translated between this hook and the hook of the answers, and the interfaces of answers are
        // unknown.
        let is_kept = |found: &&Match| {
            hook != "prerouting" || !is_answer || !(found.is_of_end() || found.is_interface())
        };
        let is_dns = rule.is_of_dns();
        let is_transport = !is_dns && way.matches.iter().filter(is_kept).any(Match::is_transport);
        // nft refuses a match of protocols beside a match that implies more, such as a match of ports.
        let is_said = |found: &&Match| {
            !(is_dns && found.is_of_transport() || is_transport && found.is_protocol())
        };
        let kept = way.matches.iter().filter(is_kept).filter(is_said);
        let mut words: Vec<String> = kept
            .clone()
            .map(|found| self.text(found, is_answer))
            .collect();
        let is_protocol = is_transport || kept.into_iter().any(Match::is_protocol);
        match is_dns {
            true => words.push(ports.to_owned()),
            false if !is_protocol => words.push(TRANSPORT.to_owned()),
            false => {}
        }
        joined(words)
    }

    /// Returns true if a way (path of jumps to a rule) matches a field of UDP, so that all its packets are UDP packets.
    fn is_udp(way: &Way) -> bool {
        let is_udp = |found: &Match| found.field.starts_with("udp");
        way.matches.iter().any(is_udp)
    }

    /// Returns the priority of the base chain at which a way (path of jumps to a rule) begins. Refuses base chains in
    /// which names can't be matched.
    fn check(&self, rule: &NameRule, way: &Way) -> Result<i32, Refusal> {
        let tree = self.ways.tree;
        let (base, tokens) = (self.ways.base(way.base), self.ways.tokens);
        let family = &tree.tables[tree.chains[way.base].table].family;
        let at = rule.start();
        let refuse = |reason: String, cure: &str| Err(Refusal::at(tokens, at, reason, cure));
        if !["ip", "ip6", "inet"].contains(&family.as_str()) {
            return refuse(
                format!("names in a table of family {family}"),
                "use a table of family inet",
            );
        }
        if base.kind != "filter" {
            let why = match base.kind.as_str() {
                "nat" => ", which a connection's first packet passes, before it has a name",
                _ => "",
            };
            let reason = format!("names in a chain of type {}{why}", base.kind);
            return refuse(reason, "ask for names in a chain of type filter");
        }
        if mirrored(&base.hook).is_none() {
            let reason = format!("names in the hook {}", base.hook);
            return refuse(
                reason,
                "ask for names in forward, input, output or prerouting",
            );
        }
        let Some(priority) = base.priority else {
            return refuse(
                "a priority that is no decimal number".to_owned(),
                "write the number",
            );
        };
        let (least, what) = match self.options.queue {
            Queue::Nft => (CONNTRACK + NAMES_BEFORE, "connection tracking (-200)"),
            Queue::Iptables => (MANGLE + NAMES_BEFORE, "iptables' table mangle (-150)"),
        };
        if priority <= least {
            let reason = format!("names in a chain of priority {priority}, before {what}");
            return refuse(reason, "ask for names in a chain of a higher priority");
        }
        Ok(priority)
    }

    /// Returns the packets that a rule sends to the queue. Refuses base chains in which names can't be matched. Skips
    /// such a base chain if it leads to the rule only by elements that maps may get at run time, and another base chain
    /// is certain to lead to it or allows names.
    fn shares(&self, rule: &NameRule) -> Result<Vec<Share>, Refusal> {
        let mut shares = Vec::new();
        let ways = self.ways.to(&self.ways.before_test(rule));
        let has_other = |way: &Way| way.is_certain || self.check(rule, way).is_ok();
        let has_other = ways.iter().any(has_other);
        for way in ways {
            let priority = match self.check(rule, &way) {
                // In this hook the packets' names are never known.
                Err(_) if !way.is_certain && has_other => continue,
                checked => checked?,
            };
            let Some((own, others)) = mirrored(&self.ways.base(way.base).hook) else {
                continue;
            };
            let table = self.ways.tree.chains[way.base].table;
            let mut add = |hook, is_answer| {
                shares.push(Share {
                    table,
                    hook,
                    priority,
                    is_answer,
                    way: way.clone(),
                });
            };
            add(own, false);
            for other in others {
                add(other, true);
            }
        }
        Ok(shares)
    }

    /// Finds the hooks in which packets are queued, for each table with names.
    fn hooks(&self, names: &Names) -> Result<Tables, Refusal> {
        let (mut tables, mut all) = (Tables::new(), Vec::new());
        for rule in &names.rules {
            for share in self.shares(rule)? {
                let hooks: &mut Hooks = tables.entry(share.table).or_default();
                let hook: &mut Hook = hooks.entry(share.hook).or_default();
                let first = hook.priority.unwrap_or(share.priority);
                hook.priority = Some(first.min(share.priority));
                all.push((rule, share));
            }
        }
        for (rule, share) in &all {
            let hooks = tables.entry(share.table).or_default();
            let hook = hooks.entry(share.hook).or_default();
            let lines = self.lines(share, rule, hook);
            hook.lines.extend(lines);
        }
        self.check_tables(&tables)?;
        Ok(tables)
    }

    /// Refuses two tables that would queue the same packet.
    fn check_tables(&self, tables: &Tables) -> Result<(), Refusal> {
        let family = |table: &usize| self.ways.tree.tables[*table].family.as_str();
        let all: Vec<&usize> = tables.keys().collect();
        for (number, a) in all.iter().enumerate() {
            for b in &all[number + 1..] {
                if [family(a), family(b)] != ["ip", "ip6"]
                    && [family(a), family(b)] != ["ip6", "ip"]
                {
                    let first = self.ways.tree.tables[**b].commands.first();
                    let at = first.map_or(0, |command| command.start);
                    let reason = "names in two tables that see the same packets";
                    let cure = "ask for names in one table of family inet";
                    return Err(Refusal::at(self.ways.tokens, at, reason, cure));
                }
            }
        }
        Ok(())
    }
}

/// Finds the hooks in which packets are queued, for all tables with names. Refuses hooks in which names can't be
/// matched, and two tables that would queue the same packet.
pub fn find(ways: &Ways, names: &Names, options: &Options) -> Result<Tables, Refusal> {
    Finder { ways, options }.hooks(names)
}

/// Returns the hooks and the lines of `stage-names-HOOK` that send the packets of a rule to the queue. The rule's
/// policy has been split, so no hook of it is refused.
pub fn of_rule(
    ways: &Ways,
    tables: &Tables,
    rule: &NameRule,
    options: &Options,
) -> BTreeSet<(&'static str, String)> {
    let finder = Finder { ways, options };
    let shares = finder.shares(rule).unwrap_or_default();
    let lines = |share: Share| {
        let hook = &tables[&share.table][share.hook];
        let line = move |line: String| (share.hook, hook.written(&line).to_owned());
        finder.lines(&share, rule, hook).into_iter().map(line)
    };
    shares.into_iter().flat_map(lines).collect()
}

/// Adds the hook output to tables that reject: the kernel's own RSTs are queued there.
pub fn add_resets(tables: &mut Tables, rejects: impl Fn(usize) -> bool) {
    for (_, hooks) in tables.iter_mut().filter(|(table, _)| rejects(**table)) {
        let first = hooks.values().filter_map(|hook| hook.priority).min();
        let output = hooks.entry("output").or_default();
        output.priority = output.priority.or(first);
    }
}

/// Returns the names of the hooks in which packets of any table are queued, each once.
pub fn queued(tables: &Tables) -> Vec<&'static str> {
    let all: BTreeSet<&str> = tables.values().flat_map(BTreeMap::keys).copied().collect();
    all.into_iter().collect()
}
