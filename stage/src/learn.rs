// SPDX-License-Identifier: GPL-2.0-or-later
//! Sets that learn addresses from DNS (`learn dns`). In the kernel they are sets with timeouts, and the firewall adds
//! the learned addresses. It may learn only from packets that the policy accepts, so DNS packets are queued after the
//! policy's last chain.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::ops::Range;

use rust_firewall::policy::parse;

use crate::hooks::{MANGLE, NAMES_BEFORE};
use crate::marks::Layout;
use crate::probe;
use crate::reach::Ways;
use crate::replace::Edit;
use crate::token::Tokens;
use crate::tree::{self, Set, Tree};
use crate::{LearnedSet, Options, Queue, Refusal};

/// Maximum number of addresses in a kernel's set that learns from DNS: the default of --learned.
pub const SIZE: u32 = 65_536;
/// Priorities of the chains before and after iptables' table security, whose priority is 50, or 150 with iptables-nft
/// 1.8.9.
const BEFORE_SECURITY: i32 = 49;
const BEHIND_SECURITY: i32 = 151;
/// Highest priority of a chain after which two more chains can come.
const PRIORITY_MAX: i32 = i32::MAX - 2;
/// Matches of DNS messages: conntrack direction and port, for queries and for answers. Without the direction, a local
/// server's reply to a packet from port 53 would count as a query.
const DNS: [(&str, &str); 2] = [("original", "dport 53"), ("reply", "sport 53")];

/// Set that learns addresses from DNS.
#[derive(Clone, Debug)]
struct Learning {
    /// Index in `Tree::sets`.
    set: usize,
    /// Tokens of the set's statement `learn dns …`.
    statement: Range<usize>,
    is_ipv6: bool,
}

/// Sets of a policy that learn, and the tables and hooks in which DNS packets are queued for them.
#[derive(Clone, Debug, Default)]
pub struct Learns {
    sets: Vec<Learning>,
    /// Tables that get the chains for DNS packets: one table of family inet, or one for each of ip and ip6. Indexes in
    /// `Tree::tables`.
    tables: Vec<usize>,
    /// Hooks in which DNS packets are queued. The value is the highest priority of the policy's chains in the hook, at
    /// least 0. Chains of type nat don't count.
    hooks: BTreeMap<&'static str, i32>,
}

/// Returns the hooks that packets of a hook, and packets of the opposite direction, pass last.
fn last_hooks(hook: &str) -> &'static [&'static str] {
    match hook {
        "forward" => &["forward"],
        "input" | "output" => &["input", "output"],
        "prerouting" => &["input", "forward", "output"],
        _ => &[],
    }
}

/// Returns the tokens of the statement of a set that begins with one of these words.
fn statement(tokens: &Tokens, set: &Set, words: &[&str]) -> Option<Range<usize>> {
    let mut at = set.inner.start;
    while at < set.inner.end {
        let end = tokens.statement_end(at).min(set.inner.end);
        if words.contains(&tokens.get(at)) {
            return Some(at..end);
        }
        at = end + 1;
    }
    None
}

/// Returns the declaration of a set for the firewall, and a rule per hook that uses the set. Without such a rule the
/// firewall would not learn.
fn table_text(tokens: &Tokens, tree: &Tree, learning: &Learning, hooks: &[&str]) -> String {
    let set = &tree.sets[learning.set];
    let table = &tree.tables[set.table];
    let inner = tree::expand(tokens, tree, &set.inner);
    let protocol = if learning.is_ipv6 { "ip6" } else { "ip" };
    let mut text = format!(
        "table {} {} {{\n\tset {} {{\n{inner}\n\t}}\n",
        table.family, table.name, set.name
    );
    for hook in hooks {
        let _ = writeln!(
            text,
            "\tchain learns-{hook} {{\n\t\ttype filter hook {hook} priority 1; policy accept;\n\t\t{protocol} daddr @{} accept\n\t}}",
            set.name
        );
    }
    text + "}\n"
}

/// Parses a set that learns. Refuses a set with a second declaration or with added elements, and sets that the
/// firewalls refuse.
/// - number: index in `Tree::sets`.
fn read(tokens: &Tokens, tree: &Tree, number: usize) -> Result<Learning, Refusal> {
    let set = &tree.sets[number];
    let refuse = |reason: &str, cure| Err(Refusal::at(tokens, set.tokens.start, reason, cure));
    let same = |other: &&Set| other.table == set.table && other.name == set.name;
    if tree.sets.iter().filter(same).count() > 1 {
        let reason = "a set that learns from DNS is declared once, and has no elements";
        return refuse(reason, "use another set for addresses that you know");
    }
    let learns = statement(tokens, set, &["learn"]);
    let kind = statement(tokens, set, &["type", "typeof"]).unwrap_or_default();
    let learning = Learning {
        set: number,
        statement: learns.unwrap_or_default(),
        is_ipv6: kind
            .into_iter()
            .any(|at| ["ipv6_addr", "ip6"].contains(&tokens.get(at))),
    };
    let text = table_text(tokens, tree, &learning, &["input"]);
    match parse::text(probe::NAME, text.as_bytes()) {
        Ok(_) => Ok(learning),
        Err(failure) => refuse(
            &probe::split_message(&failure.text).1,
            "see the chapter on names of GRAMMAR.md",
        ),
    }
}

/// Returns the tables for the chains that queue DNS packets, as indexes in `Tree::tables`.
fn choose_tables(tree: &Tree, sets: &[Learning]) -> Vec<usize> {
    let of_family = |family: &str| {
        let mut tables = sets.iter().map(|learning| tree.sets[learning.set].table);
        tables.find(|table| tree.tables[*table].family == family)
    };
    match of_family("inet") {
        Some(table) => vec![table],
        None => ["ip", "ip6"].into_iter().filter_map(of_family).collect(),
    }
}

/// Finds the last hooks of the packets that the policy decides, in both directions, with the highest priority of the
/// policy's chains in each hook, at least 0. Refuses chains that may drop a packet after the firewall has learned from
/// it, chains with an unknown or too high priority, and a policy without chains that decide.
/// - at: token at which refusals are reported.
fn find_hooks(
    tokens: &Tokens,
    tree: &Tree,
    at: usize,
    queue: Queue,
) -> Result<BTreeMap<&'static str, i32>, Refusal> {
    let refuse = |reason: String, cure| Err(Refusal::at(tokens, at, reason, cure));
    let mut hooks = BTreeMap::new();
    let decides = |base: &&tree::Base| base.kind != "nat";
    let chains = tree.chains.iter().filter_map(|chain| chain.base.as_ref());
    for base in chains.filter(decides) {
        if ["postrouting", "egress"].contains(&base.hook.as_str()) {
            let reason = format!(
                "a set that learns from DNS, and a chain in {}, which may drop a packet after the firewall has learned from it",
                base.hook
            );
            return refuse(reason, "filter in forward and output");
        }
        let Some(priority) = base.priority else {
            let reason =
                "a set that learns from DNS, and a priority that is no decimal number".to_owned();
            return refuse(reason, "write the number");
        };
        if queue == Queue::Iptables && priority >= BEFORE_SECURITY {
            let reason = format!(
                "a set that learns from DNS, and a chain of priority {priority}, after iptables' table security (50)"
            );
            return refuse(reason, "use chains of a priority below 49");
        }
        if priority > PRIORITY_MAX {
            let reason = format!(
                "a set that learns from DNS, and a chain of priority {priority}, after which no chain can read DNS"
            );
            return refuse(reason, "use chains of a lower priority");
        }
        for hook in last_hooks(&base.hook) {
            let highest = hooks.entry(*hook).or_insert(0);
            if *hook == base.hook {
                *highest = priority.max(*highest);
            }
        }
    }
    match hooks.is_empty() {
        true => refuse(
            "a set that learns from DNS, and no chain that decides packets".to_owned(),
            "add a chain of type filter in input, forward or output",
        ),
        false => Ok(hooks),
    }
}

/// Parses the sets that learn, and finds the tables and hooks for their chains.
/// - sets: indexes in `Tree::sets`.
pub fn find(ways: &Ways, sets: &[usize], options: &Options) -> Result<Learns, Refusal> {
    let (tokens, tree) = (ways.tokens, ways.tree);
    let Some(first) = sets.first() else {
        return Ok(Learns::default());
    };
    let all = sets.iter().map(|number| read(tokens, tree, *number));
    let sets: Vec<Learning> = all.collect::<Result<_, Refusal>>()?;
    let at = tree.sets[*first].tokens.start;
    Ok(Learns {
        tables: choose_tables(tree, &sets),
        hooks: find_hooks(tokens, tree, at, options.queue)?,
        sets,
    })
}

impl Learns {
    pub fn is_empty(&self) -> bool {
        self.sets.is_empty()
    }

    /// Returns the edits that make the sets valid in the kernel: the flag `timeout` and a size replace `learn dns …`.
    pub fn edits(&self, tokens: &Tokens) -> Vec<Edit> {
        let edit = |learning: &Learning| {
            let range = &learning.statement;
            let bytes = tokens.start(range.start)..tokens.end_before(range.end);
            (bytes, format!("flags timeout; size {SIZE}"))
        };
        self.sets.iter().map(edit).collect()
    }

    /// Returns the declarations of the sets for the firewall, with a rule for each hook that uses the first set.
    pub fn daemon(&self, tokens: &Tokens, tree: &Tree) -> String {
        let hooks: Vec<&str> = self.hooks.keys().copied().collect();
        let mut text = String::new();
        for (place, learning) in self.sets.iter().enumerate() {
            // Rules for the first set suffice: a firewall that learns for one set learns for all sets.
            let hooks: &[&str] = if place == 0 { &hooks } else { &[] };
            text += &table_text(tokens, tree, learning, hooks);
        }
        match self.is_empty() {
            true => text,
            false => format!("# The sets that learn; the rules of the kernel use them.\n{text}"),
        }
    }

    /// Returns the priorities of two chains: the first queues DNS packets, and the second clears their mark.
    /// - highest: highest priority of the policy's chains in the hook.
    fn priorities(highest: i32, queue: Queue) -> (i32, i32) {
        match queue {
            Queue::Nft => (highest + 1, highest + 2),
            Queue::Iptables => (BEFORE_SECURITY, BEHIND_SECURITY),
        }
    }

    /// Returns the nft text of the chains that queue DNS packets after the policy.
    /// - queue: statements that queue a packet with a mark.
    pub fn chains(&self, tree: &Tree, layout: &Layout, kind: Queue, queue: &str) -> String {
        let (mask, mark) = (layout.mask(), layout.learns());
        let mut text = String::new();
        for table in &self.tables {
            let table = &tree.tables[*table];
            let _ = writeln!(
                text,
                "\n# DNS that the policy has accepted goes to the firewall, which adds addresses to the sets.\ntable {} {} {{\n\tchain stage-teach {{\n\t\t{queue}\n\t}}",
                table.family, table.name
            );
            for (hook, highest) in &self.hooks {
                let (before, behind) = Learns::priorities(*highest, kind);
                let lines = DNS.map(|(direction, port)| {
                    format!("\t\tct direction {direction} meta l4proto {{ tcp, udp }} th {port} goto stage-teach\n")
                });
                let _ = writeln!(
                    text,
                    "\n\tchain stage-learn-{hook} {{\n\t\ttype filter hook {hook} priority {before}; policy accept;\n{}\t}}\n\n\
                     \tchain stage-learned-{hook} {{\n\t\ttype filter hook {hook} priority {behind}; policy accept;\n\
                     \t\tmeta mark & {mask:#010x} == {mark:#010x} meta mark set meta mark & {:#010x}\n\t}}",
                    lines.concat(),
                    !mask
                );
            }
            text += "}\n";
        }
        text
    }

    /// Returns the hooks in which DNS packets are queued.
    pub fn hooks(&self) -> impl Iterator<Item = &'static str> + '_ {
        self.hooks.keys().copied()
    }

    /// Returns the sets that learn, for the result of the split (`Split::learned`).
    pub fn list(&self, tokens: &Tokens, tree: &Tree) -> Vec<LearnedSet> {
        let item = |learning: &Learning| {
            let set = &tree.sets[learning.set];
            let table = &tree.tables[set.table];
            LearnedSet {
                family: table.family.clone(),
                table: table.name.clone(),
                name: set.name.clone(),
                is_ipv6: learning.is_ipv6,
                learns: tree::expand(tokens, tree, &learning.statement),
            }
        };
        self.sets.iter().map(item).collect()
    }
}

const _: () = assert!(
    MANGLE + NAMES_BEFORE < BEFORE_SECURITY,
    "names are asked for first"
);

#[cfg(test)]
mod tests {
    use crate::{split, text, Options, Queue, Refusal, Split};

    const SETS: &str = "define n = \"*.cdn.example\"\ntable inet f {\n\tset cdn { type ipv4_addr; learn dns { \"a.example\", $n }; }\n\tset cdn6 {\n\t\ttypeof ip6 daddr\n\t\tlearn dns \"a.example\"\n\t}\n";
    const RULES: &str = "tcp dport 80 ip daddr @cdn counter accept\n\t\tip6 daddr @cdn6 accept";

    fn split_with(sets: &str, head: &str, more: &str, queue: Queue) -> Result<Split, Refusal> {
        let policy = format!(
            "{sets}\tchain c {{\n\t\ttype filter hook {head}; policy drop\n\t\t{RULES}\n\t}}\n{more}}}\n"
        );
        let options = Options {
            queue,
            ..Options::default()
        };
        split(&text("p.nft", &policy).unwrap(), &options)
    }

    /// Returns the mark of queued DNS packets: the highest and the lowest bit of the mask.
    fn mark(split: &Split) -> String {
        let mask = split.mask;
        format!("{:#010x}", mask & !(mask >> 1) | mask & mask.wrapping_neg())
    }

    #[test]
    fn a_set_is_the_kernels_and_the_firewall_has_its_names() {
        let split = split_with(SETS, "forward priority 5", "", Queue::Nft).unwrap();
        for words in [
            "set cdn { type ipv4_addr; flags timeout; size 65536; }",
            "typeof ip6 daddr\n\t\tflags timeout; size 65536\n",
            RULES,
            "chain stage-learn-forward {\n\t\ttype filter hook forward priority 6;",
            "chain stage-learned-forward {\n\t\ttype filter hook forward priority 7;",
            "\t\tct direction original meta l4proto { tcp, udp } th dport 53 goto stage-teach\n",
            "\t\tct direction reply meta l4proto { tcp, udp } th sport 53 goto stage-teach\n",
            &format!("| {} queue num 0", mark(&split)),
        ] {
            assert!(split.kernel.contains(words), "{words}: {}", split.kernel);
        }
        assert!(!split.kernel.contains("learn dns"), "{}", split.kernel);
        // No rule matches a name, so no packet is queued before the policy.
        assert!(!split.kernel.contains("stage-names"), "{}", split.kernel);
        for words in [
            "table inet f {\n\tset cdn {",
            "learn dns { \"a.example\" , \"*.cdn.example\" }",
            "hook forward priority 1; policy accept;\n\t\tip daddr @cdn accept",
        ] {
            assert!(split.daemon.contains(words), "{words}: {}", split.daemon);
        }
        assert_eq!(split.daemon.matches("chain learns-").count(), 1);
        let names: Vec<&str> = split.learned.iter().map(|set| set.name.as_str()).collect();
        assert_eq!(names, ["cdn", "cdn6"]);
        let text = split.daemon.as_bytes();
        assert!(rust_firewall::policy::parse::text("names", text).is_ok());
    }

    #[test]
    fn dns_is_read_behind_every_chain() {
        let more = "\tchain d {\n\t\ttype filter hook input priority 9\n\t\ttls sni \"a.example\" drop\n\t}\n\
            \tchain e {\n\t\ttype nat hook output priority 100\n\t}\n";
        let split = split_with(SETS, "input priority 0", more, Queue::Nft).unwrap();
        for words in [
            "chain stage-learn-input {\n\t\ttype filter hook input priority 10;",
            "chain stage-learn-output {\n\t\ttype filter hook output priority 1;",
            "chain stage-names-input {",
        ] {
            assert!(split.kernel.contains(words), "{words}: {}", split.kernel);
        }
        assert!(!split.kernel.contains("stage-learn-forward"));
        assert!(split.daemon.contains("table inet names"));
        let split = split_with(SETS, "prerouting priority -150", "", Queue::Nft).unwrap();
        assert_eq!(split.kernel.matches("chain stage-learn-").count(), 3);
    }

    #[test]
    fn iptables_queues_it_in_the_table_security() {
        let split = split_with(SETS, "forward priority 0", "", Queue::Iptables).unwrap();
        let rules = split.iptables.as_deref().unwrap();
        let mask = format!("{:#010x}", split.mask);
        assert_eq!(
            rules,
            format!(
                "*security\n-A FORWARD -m mark --mark {}/{mask} -j NFQUEUE --queue-num 0\nCOMMIT\n",
                mark(&split)
            )
        );
        assert!(split.kernel.contains("hook forward priority 49;"));
        assert_eq!(split.kernel.matches("goto stage-teach").count(), 2);
        assert_eq!(split.kernel.matches("\t\tct direction ").count(), 2);
        assert!(split.kernel.contains("hook forward priority 151;"));
        assert!(split_with(SETS, "forward priority 49", "", Queue::Iptables).is_err());
    }

    #[test]
    fn what_is_refused() {
        let refused = |sets: &str, head: &str| split_with(sets, head, "", Queue::Nft).unwrap_err();
        let head = "forward priority 0";
        for (from, to) in [
            ("\"a.example\"\n", "\"a..example\"\n"),
            (
                "learn dns \"a.example\"\n",
                "learn dns \"a.example\"\n\t\telements = { ::1 }\n",
            ),
            (
                "\tset cdn6 {",
                "\tset cdn { type ipv4_addr; }\n\tset cdn6 {",
            ),
            (
                "\tset cdn6 {",
                "\tset l { type ipv4_addr; file \"l.txt\"; }\n\tset cdn6 {",
            ),
        ] {
            let refusal = refused(&SETS.replace(from, to), head);
            assert!(
                refusal.place.line > 1 && !refusal.cure.is_empty(),
                "{refusal}"
            );
        }
        refused(SETS, "postrouting priority 0");
        refused(SETS, "forward priority 2147483646");
        let none = "table inet f {\n\tset cdn { type ipv4_addr; learn dns \"a.example\"; }\n}\n";
        assert!(split(&text("p.nft", none).unwrap(), &Options::default()).is_err());
    }

    /// The set changes at run time, so it can't select the packets to be queued.
    #[test]
    fn a_set_that_learns_finds_no_packets() {
        let more = "\tchain d {\n\t\ttype filter hook input priority 9\n\t\tip saddr 10.0.0.1 ip daddr @cdn tls sni \"a.example\" drop\n\t}\n";
        let split = split_with(SETS, "input priority 0", more, Queue::Nft).unwrap();
        let mut lines = split.kernel.lines();
        let line = lines.find(|line| line.contains("goto stage-ask")).unwrap();
        assert!(
            line.contains("10.0.0.1") && !line.contains("@cdn"),
            "{line}"
        );
    }
}
