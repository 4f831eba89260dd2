// SPDX-License-Identifier: GPL-2.0-or-later
//! The machine's packet rules, as far as they queue packets or prevent it.

/// First and last queue of a rule that computes the queue.
pub const ANY_QUEUE: (u16, u16) = (0, u16::MAX);

/// Target of a rule: its effect on the packets that match.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    Accept,
    Queue {
        first: u16,
        last: u16,
        bypass: bool,
    },
    /// Jump to the chain of this name, from which packets may return.
    Jump(String),
    Goto(String),
    /// Ends the chain for matching packets, which continue in the calling chain. In a base chain its policy decides
    /// them.
    Return,
    /// Drop or rejection of the packet.
    Drop,
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
    /// Number of packets that matched the rule; None without a counter that counts only these.
    pub packets: Option<u64>,
}

impl Rule {
    /// Returns true if the rule queues only RSTs by which the name stage rejects connections. If no firewall runs,
    /// these RSTs pass, whatever --fail crash says.
    /// - chain: name of the rule's chain.
    pub fn is_of_resets(&self, chain: &str) -> bool {
        let marked = self.text.split_once(" --mark ").and_then(|(_, rest)| {
            let (mark, mask) = rest.split(' ').next()?.split_once('/')?;
            let number = |word: &str| u32::from_str_radix(word.strip_prefix("0x")?, 16).ok();
            Some(stage::is_of_reset(number(mark)?, number(mask)?))
        });
        chain == stage::REFUSE || marked == Some(true)
    }
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

/// Table of packet rules, as one tool prints it.
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
    /// Hook of the packets that the rule queues, such as "input".
    pub hook: String,
    /// Tool and rule: "iptables: -A OUTPUT -j NFQUEUE …", "nft: inet filter input handle 4".
    pub text: String,
    /// Number of the rule in its chain, from 1.
    pub number: usize,
    pub first: u16,
    pub last: u16,
    pub bypass: bool,
    /// True if the rule queues only RSTs by which the name stage rejects connections.
    pub is_of_resets: bool,
    /// Number of packets that matched the rule; None without a counter that counts only these.
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
    fn chain(&mut self, name: &str, mut conditional: bool, depth: usize) {
        let table = self.table;
        let Some(chain) = table.chains.iter().find(|chain| chain.name == name) else {
            return;
        };
        // An unconditional rule of this chain decides only the packets that reach it.
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
                    is_of_resets: rule.is_of_resets(name),
                    packets: rule.packets,
                    blocked: self.blocked.clone(),
                    skipped: self.skipped.clone(),
                }),
                Target::Jump(next) | Target::Goto(next) if depth < DEPTH_MAX => {
                    self.chain(next, conditional || rule.conditional, depth + 1);
                }
                _ => {}
            }
            let leaves = matches!(rule.target, Target::Goto(_) | Target::Return);
            if !rule.conditional && (leaves || rule.target == Target::Drop) {
                return;
            }
            // The packets that leave a called chain continue in its caller.
            conditional |= leaves && depth > 0;
        }
    }
}

/// Returns the queue rules of a table that packets can reach from a base chain, once for each way to the rule.
pub fn queue_rules(table: &Table) -> Vec<QueueRule> {
    let mut queue_rules = Vec::new();
    // Tables of other programs may have many thousand chains.
    let mut rules = table.chains.iter().flat_map(|chain| &chain.rules);
    if !rules.any(|rule| matches!(rule.target, Target::Queue { .. })) {
        return queue_rules;
    }
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
