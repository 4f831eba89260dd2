// SPDX-License-Identifier: GPL-2.0-or-later
//! The machine's packet rules, as far as they queue packets or prevent it.

/// First and last queue of a rule that computes the queue.
pub const ANY_QUEUE: (u16, u16) = (0, u16::MAX);

/// Target of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    Accept,
    Queue {
        first: u16,
        last: u16,
        bypass: bool,
    },
    /// Jumps to a chain and returns.
    Jump(String),
    Goto(String),
    /// Ends the chain for matching packets, by drop, reject or return.
    End,
    /// Adds the connection to a flowtable.
    Flow,
    Other,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    pub text: String,
    /// True if the rule matches only some packets.
    pub conditional: bool,
    pub target: Target,
    /// Number of packets that matched the rule; None without a counter.
    pub packets: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chain {
    pub name: String,
    /// True if packets enter here from a hook.
    pub base: bool,
    /// Hook, such as "input"; None if the tool does not report it.
    pub hook: Option<String>,
    pub rules: Vec<Rule>,
}

/// A table of one tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    /// Tool: "iptables", "ip6tables-legacy", "nft", …
    pub tool: &'static str,
    /// Name: "filter", "inet filter".
    pub name: String,
    pub chains: Vec<Chain>,
}

/// A rule that queues packets, and the rules before it that accept packets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueRule {
    pub tool: &'static str,
    /// Hook of its packets, such as "input".
    pub hook: String,
    /// Text: "iptables: -A OUTPUT -j NFQUEUE …".
    pub text: String,
    /// Number of the rule in its chain, from 1.
    pub number: usize,
    pub first: u16,
    pub last: u16,
    pub bypass: bool,
    /// Number of packets that matched the rule; None without a counter.
    pub packets: Option<u64>,
    /// Text of the first rule before it that accepts all packets, so that none reaches it; None if there is no such
    /// rule.
    pub blocked: Option<String>,
    /// Texts of the rules before it that accept some packets, which do not reach it.
    pub skipped: Vec<String>,
}

const DEPTH_MAX: usize = 16;

/// Evaluation of a table for the packets of one base chain.
struct Walk<'a> {
    table: &'a Table,
    hook: String,
    queue_rules: Vec<QueueRule>,
    blocked: Option<String>,
    skipped: Vec<String>,
}

impl Walk<'_> {
    fn shown(&self, text: &str) -> String {
        format!("{}: {text}", self.table.tool)
    }

    fn accept(&mut self, rule: &Rule, conditional: bool) {
        let text = self.shown(&rule.text);
        if conditional || rule.conditional {
            self.skipped.push(text);
        } else if self.blocked.is_none() {
            self.blocked = Some(text);
        }
    }

    /// Evaluates a chain, with the chains that its rules jump to, and adds its queue rules.
    /// - conditional: true if only some packets enter the chain.
    /// - depth: number of jumps on the way to the chain.
    fn chain(&mut self, name: &str, conditional: bool, depth: usize) {
        let table = self.table;
        let Some(chain) = table.chains.iter().find(|chain| chain.name == name) else {
            return;
        };
        // A rule that accepts everything earlier in this chain does so only for packets that reach it.
        for (number, rule) in (1..).zip(&chain.rules) {
            match &rule.target {
                Target::Accept => self.accept(rule, conditional),
                Target::Queue {
                    first,
                    last,
                    bypass,
                } => self.queue_rules.push(QueueRule {
                    tool: table.tool,
                    hook: self.hook.clone(),
                    text: self.shown(&rule.text),
                    number,
                    first: *first,
                    last: *last,
                    bypass: *bypass,
                    packets: rule.packets,
                    blocked: self.blocked.clone(),
                    skipped: self.skipped.clone(),
                }),
                Target::Jump(next) | Target::Goto(next) if depth < DEPTH_MAX => {
                    self.chain(next, conditional || rule.conditional, depth + 1);
                }
                Target::Jump(_) | Target::Goto(_) | Target::Flow | Target::Other | Target::End => {}
            }
            if matches!(rule.target, Target::Goto(_) | Target::End) && !rule.conditional {
                return;
            }
        }
    }
}

/// Returns the queue rules of a table.
pub fn queue_rules(table: &Table) -> Vec<QueueRule> {
    let mut queue_rules = Vec::new();
    for chain in table.chains.iter().filter(|chain| chain.base) {
        let mut walk = Walk {
            table,
            // The built-in chains of iptables are named after their hooks.
            hook: chain
                .hook
                .clone()
                .unwrap_or_else(|| chain.name.to_lowercase()),
            queue_rules: Vec::new(),
            blocked: None,
            skipped: Vec::new(),
        };
        walk.chain(&chain.name, false, 0);
        queue_rules.append(&mut walk.queue_rules);
    }
    queue_rules
}

/// Returns true if a table has a rule.
pub fn has_rules(table: &Table) -> bool {
    table.chains.iter().any(|chain| !chain.rules.is_empty())
}
