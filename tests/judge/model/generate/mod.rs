// SPDX-License-Identifier: GPL-2.0-or-later
//! Random policies that follow the grammar and that nft loads: valid by construction, and reproducible from a seed.
//!
//! Values come from small pools, so that rules, sets and packets match each other. The matches of a rule never exclude each
//! other: a rule has a *context*, the IP version and the protocol on which its matches agree.

use super::field::{write, Field, Kind, Range, ICMP, ICMPV6, TCP, UDP};
use super::random::Random;
use super::tree::{Base, Chain, Family, Hook, Policy, Rule, Set, Statement, Table, HOOKS};
use statements::plain;

mod matches;
pub mod pool;
mod statements;

/// Features that the policies of a run may use.
#[derive(Clone, Debug)]
pub struct Profile {
    pub hooks: Vec<Hook>,
    pub ct_state: bool,
    pub ct_mark: bool,
    pub limits: bool,
    pub reject: bool,
    /// Percentage of rules that begin, and that end, with a counter.
    pub counters: u32,
    pub interfaces: &'static [&'static str],
    /// Mask of the bits that the values of marks may have.
    pub mark_bits: u32,
}

impl Profile {
    /// Returns a profile with all features of the language.
    pub fn full() -> Profile {
        Profile {
            hooks: HOOKS.to_vec(),
            ct_state: true,
            ct_mark: true,
            limits: true,
            reject: true,
            counters: 50,
            interfaces: &["in0", "fwd0", "out0", "eth0", "lo", "wlan10"],
            mark_bits: u32::MAX,
        }
    }
}

/// IP version and protocol to which the matches of a rule are limited, so that they do not exclude each other. 0: no
/// limit; 255: a match tests the version or protocol itself.
#[derive(Clone, Copy)]
struct Context {
    version: u8,
    protocol: u8,
}

pub struct Generator<'a> {
    random: &'a mut Random,
    profile: &'a Profile,
}

/// A table under construction.
struct Making {
    family: Family,
    sets: Vec<Set>,
    /// Key fields of each set or map, and the kind of a map's values.
    keys: Vec<(Vec<Field>, Maps)>,
    /// Chains that the current chain may jump to.
    targets: Vec<String>,
    reject: bool,
}

#[derive(Clone, Copy, PartialEq)]
enum Maps {
    None,
    Verdict,
    Mark,
}

/// Returns a random policy with the features of a profile.
pub fn policy(random: &mut Random, profile: &Profile) -> Policy {
    let mut generator = Generator { random, profile };
    generator.policy()
}

impl Generator<'_> {
    fn policy(&mut self) -> Policy {
        let count = 1 + self.random.weighted(&[6, 2, 1]);
        let mut tables: Vec<Table> = Vec::new();
        for number in 0..count {
            let family = [Family::Inet, Family::Ip, Family::Ip6][self.random.weighted(&[6, 2, 2])];
            let name = self.random.pick(&["filter", "t", "fw_1", "a.b", "edge-x"]);
            tables.push(self.table(family, format!("{name}{number}")));
        }
        Policy {
            flush: self.random.percent(20),
            tables,
        }
    }

    fn table(&mut self, family: Family, name: String) -> Table {
        let mut making = Making {
            family,
            sets: Vec::new(),
            keys: Vec::new(),
            targets: Vec::new(),
            reject: self.profile.reject,
        };
        let bases = 1 + self.random.weighted(&[5, 3, 1, 1]);
        let base_heads: Vec<Base> = (0..bases).map(|_| self.base()).collect();
        making.reject &= base_heads.iter().all(|base| base.hook != Hook::Postrouting);
        let regular = self.random.weighted(&[3, 3, 2, 2, 1]);
        let word = *self.random.pick(&["c", "sub_", "web-", "in.", "K"]);
        making.targets = (0..regular)
            .map(|number| format!("{word}{number}"))
            .collect();
        for number in 0..self.random.weighted(&[4, 3, 2, 1]) {
            self.set(&mut making, number);
        }
        let all = making.targets.clone();
        let mut chains = Vec::new();
        for (number, base) in base_heads.into_iter().enumerate() {
            chains.push(Chain {
                name: format!("base{number}"),
                base: Some(base),
                rules: self.rules(&making),
            });
        }
        // A regular chain jumps only to later chains, so there are no loops.
        for number in 0..regular {
            making.targets = all[number + 1..].to_vec();
            // A map of the table can lead to any chain: maps that lead to this chain or an earlier one are not used
            // here.
            let usable: Vec<bool> = making
                .sets
                .iter()
                .map(|set| {
                    let later = |text: &str| match text
                        .split_once(": jump ")
                        .or(text.split_once(": goto "))
                    {
                        Some((_, target)) => making.targets.iter().any(|one| one == target),
                        None => true,
                    };
                    set.elements.iter().all(|element| later(&element.text))
                })
                .collect();
            let (sets, keys) = (making.sets.clone(), making.keys.clone());
            let kept = |index: &usize| usable[*index];
            making.sets = (0..sets.len())
                .filter(kept)
                .map(|index| sets[index].clone())
                .collect();
            making.keys = (0..sets.len())
                .filter(kept)
                .map(|index| keys[index].clone())
                .collect();
            chains.push(Chain {
                name: all[number].clone(),
                base: None,
                rules: self.rules(&making),
            });
            (making.sets, making.keys) = (sets, keys);
        }
        Table {
            family,
            name,
            sets: making.sets,
            chains,
        }
    }

    fn base(&mut self) -> Base {
        let hook = *self.random.pick(&self.profile.hooks);
        let word = match hook {
            Hook::Prerouting => *self
                .random
                .pick(&["raw", "mangle", "dstnat", "filter", "security"]),
            Hook::Postrouting => *self
                .random
                .pick(&["raw", "mangle", "srcnat", "filter", "security"]),
            _ => *self
                .random
                .pick(&["raw", "mangle", "filter", "filter", "filter", "security"]),
        };
        let number = *self.random.pick(&["-10", "0", "1", "100", "-200"]);
        let priority = match self.random.weighted(&[4, 1, 1, 3]) {
            0 => word.to_string(),
            1 => format!("{word} - 5"),
            2 => format!("{word} + 7"),
            _ => number.to_string(),
        };
        let policy = [Some("accept"), Some("drop"), None][self.random.weighted(&[3, 3, 1])];
        Base {
            hook,
            priority,
            policy,
        }
    }

    fn context(&mut self, family: Family) -> Context {
        let version = match family {
            Family::Ip => 4,
            Family::Ip6 => 6,
            Family::Inet => [0, 4, 6][self.random.weighted(&[3, 3, 2])],
        };
        let protocol = match self.random.weighted(&[3, 4, 2, 1]) {
            0 => 0,
            1 => TCP,
            2 => UDP,
            _ if version == 0 || self.random.percent(30) => *self.random.pick(&[ICMP, ICMPV6]),
            _ if version == 6 => ICMPV6,
            _ => ICMP,
        };
        Context { version, protocol }
    }

    fn set(&mut self, making: &mut Making, number: usize) {
        let context = self.context(making.family);
        let key = match self.random.percent(60) {
            true => vec![self.field(context)],
            false => self.key(context),
        };
        // Fields whose type has a name. The others need `typeof`.
        let nameable = |field: &Field| {
            matches!(
                field.kind(),
                Kind::Ipv4Addr
                    | Kind::Ipv6Addr
                    | Kind::InetProto
                    | Kind::InetService
                    | Kind::IcmpType
                    | Kind::Icmpv6Type
                    | Kind::Mark
                    | Kind::Ifname
                    | Kind::Uid
                    | Kind::Gid
            )
        };
        let odd = |field: &Field| {
            matches!(
                field.kind(),
                Kind::Boolean | Kind::IfaceIndex | Kind::CtState | Kind::TcpFlag
            )
        };
        if key.is_empty() || key.iter().any(odd) {
            return;
        }
        let maps = [Maps::None, Maps::Verdict, Maps::Mark][self.random.weighted(&[4, 2, 1])];
        let interval =
            self.random.percent(50) && !key.iter().any(|field| field.kind() == Kind::Ifname);
        let merge = interval && maps == Maps::None && key.len() == 1 && self.random.percent(40);
        let by_type = key.iter().all(nameable) && self.random.percent(70);
        let of: Vec<&str> = match by_type {
            true => key.iter().map(|field| type_name(field.kind())).collect(),
            false => key.iter().map(|field| field.text()).collect(),
        };
        let to = match (maps, by_type) {
            (Maps::None, _) => "",
            (Maps::Verdict, _) => " : verdict",
            (Maps::Mark, true) => " : mark",
            (Maps::Mark, false) => " : meta mark",
        };
        let mut lines = vec![format!(
            "{} {}{to}",
            if by_type { "type" } else { "typeof" },
            of.join(" . ")
        )];
        let constant = self.random.percent(10);
        let flags: Vec<&str> = [("interval", interval), ("constant", constant)]
            .iter()
            .filter_map(|(word, is)| is.then_some(*word))
            .collect();
        if !flags.is_empty() {
            lines.push(format!("flags {}", flags.join(",")));
        }
        if merge {
            lines.push("auto-merge".to_string());
        }
        let mut elements = match self.random.percent(95) || constant {
            true => self.elements(&key, interval, !merge),
            false => Vec::new(),
        };
        self.map_elements(making, maps, &mut elements);
        let word = if maps == Maps::None { "set" } else { "map" };
        making.sets.push(Set {
            word,
            name: format!("s{number}"),
            lines,
            elements,
        });
        making.keys.push((key, maps));
    }

    fn rules(&mut self, making: &Making) -> Vec<Rule> {
        let count = self.random.weighted(&[1, 3, 4, 4, 3, 2, 1, 1]);
        if self.random.percent(6) {
            return self.run_of_rules(making);
        }
        (0..count).map(|_| self.rule(making)).collect()
    }

    /// Returns adjacent rules that compare one field with constants: an engine may merge them into one lookup.
    fn run_of_rules(&mut self, making: &Making) -> Vec<Rule> {
        let context = self.context(making.family);
        let field = self.field(context);
        let count = 5 + self.random.below(40);
        let counted = self.random.percent(50);
        let mut rules = Vec::new();
        for _ in 0..count {
            if self.random.percent(3) {
                rules.push(self.rule(making));
                continue;
            }
            let mut statements = vec![match field.kind() {
                Kind::Boolean => self.single_boolean(field),
                _ => self.single(field, false),
            }];
            if counted {
                statements.push(plain("counter".to_string()));
            }
            let verdict = self.verdict(making);
            statements.push(plain(verdict));
            rules.push(Rule {
                statements,
                comment: None,
            });
        }
        rules
    }

    /// Returns the first match of a rule in a table inet, if the rule's context is ICMP or ICMPv6 and does not have its
    /// IP version: without this match, nft adds a test of the version. Empty for all other rules.
    fn family_first(&mut self, family: Family, context: Context) -> Vec<Statement> {
        let own = match context.protocol {
            ICMP => 4,
            ICMPV6 => 6,
            _ => return Vec::new(),
        };
        if family != Family::Inet || context.version == own {
            return Vec::new();
        }
        let (field, value) = match context.version {
            0 => (Field::MetaL4proto, u128::from(context.protocol)),
            4 => (Field::MetaNfproto, 2),
            _ => (Field::MetaNfproto, 10),
        };
        vec![Statement {
            head: format!("{} {}", field.text(), write(field.kind(), value, None)),
            ranges: vec![Range {
                field,
                low: value,
                high: value,
            }],
            ..Statement::default()
        }]
    }

    fn rule(&mut self, making: &Making) -> Rule {
        let mut context = self.context(making.family);
        let mut statements = self.family_first(making.family, context);
        if self.random.percent(self.profile.counters) {
            statements.push(self.counter());
        }
        let mut names_protocol = false;
        for _ in 0..self.random.weighted(&[1, 6, 4, 2]) {
            let statement = self.matching(making, context);
            let words = ["ip protocol", "ip6 nexthdr", "meta l4proto"];
            let key = statement.set.as_ref().and_then(|name| {
                let index = making.sets.iter().position(|set| set.name == *name)?;
                Some(&making.keys[index].0)
            });
            if statement.head.contains("nfproto") {
                context.version = 255;
            }
            names_protocol |= words.iter().any(|word| statement.head.contains(word));
            names_protocol |=
                key.is_some_and(|key| key.iter().any(|field| field.kind() == Kind::InetProto));
            statements.push(statement);
            if self.random.percent(25) {
                statements.push(self.effect());
            }
        }
        if self.random.percent(self.profile.counters) {
            statements.push(self.counter());
        }
        if names_protocol {
            // 255 prevents `reject with tcp reset`, which is only for TCP.
            context.protocol = 255;
        }
        match self.random.weighted(&[7, 2, 2, 1]) {
            1 if making.reject => statements.push(plain(self.reject(making.family, context))),
            2 => statements.push(self.vmap(making, context)),
            3 if !statements.is_empty() => {}
            _ => statements.push(plain(self.verdict(making))),
        }
        let comment = self.random.percent(10).then(|| {
            let words = ["ssh", "a b c", "x-1 {;} #", "ä ö", "$not = a define"];
            self.random.pick(&words).to_string()
        });
        Rule {
            statements,
            comment,
        }
    }
}

/// Returns the name of a field's type in the `type` statement of a set.
fn type_name(kind: Kind) -> &'static str {
    match kind {
        Kind::Ipv4Addr => "ipv4_addr",
        Kind::Ipv6Addr => "ipv6_addr",
        Kind::InetProto => "inet_proto",
        Kind::InetService => "inet_service",
        Kind::IcmpType => "icmp_type",
        Kind::Icmpv6Type => "icmpv6_type",
        Kind::Mark => "mark",
        Kind::Ifname => "ifname",
        Kind::Uid => "uid",
        Kind::Gid => "gid",
        _ => unreachable!("a type that has no name"),
    }
}
