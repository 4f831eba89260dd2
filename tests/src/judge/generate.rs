// SPDX-License-Identifier: GPL-2.0-or-later
//! Random policies that the grammar has and that nft loads: valid by construction, the same for a seed.
//!
//! Values come from small pools, so that rules, sets and packets meet. What one rule tests never excludes itself: a rule
//! has a *context*, the IP version and the protocol that its matches agree on.

use super::field::{flag_names, interface_value, mask, names, write};
use super::field::{Field, Kind, Range, CT_STATES, FIELDS, ICMP, ICMPV6, TCP, UDP};
use super::random::Random;
use super::tree::{Base, Chain, Element, Family, Hook, Policy, Rule, Set, Statement, Table, HOOKS};

/// What the policies of a run may have.
#[derive(Clone, Debug)]
pub struct Profile {
    pub hooks: Vec<Hook>,
    pub ct_state: bool,
    pub ct_mark: bool,
    pub limits: bool,
    pub reject: bool,
    /// Percent of rules that begin, and that end, with a counter.
    pub counters: u32,
    pub interfaces: &'static [&'static str],
}

impl Profile {
    /// All that the language has.
    pub fn full() -> Profile {
        Profile {
            hooks: HOOKS.to_vec(),
            ct_state: true,
            ct_mark: true,
            limits: true,
            reject: true,
            counters: 50,
            interfaces: &["in0", "fwd0", "out0", "eth0", "lo", "wlan10"],
        }
    }
}

/// What the matches of a rule agree on; 0 = nothing said yet, and nothing will be.
#[derive(Clone, Copy)]
struct Context {
    version: u8,
    protocol: u8,
}

pub struct Generator<'a> {
    random: &'a mut Random,
    profile: &'a Profile,
}

/// Of a table while it grows.
struct Making {
    family: Family,
    sets: Vec<Set>,
    /// The key of each set, and what it maps to.
    keys: Vec<(Vec<Field>, Maps)>,
    /// Chains that the one in hand may go to.
    targets: Vec<String>,
    reject: bool,
}

#[derive(Clone, Copy, PartialEq)]
enum Maps {
    None,
    Verdict,
    Mark,
}

/// A policy of a profile.
pub fn policy(random: &mut Random, profile: &Profile) -> Policy {
    let mut generator = Generator { random, profile };
    generator.policy()
}

/// Whether two elements have something in common.
fn overlap(a: &[Range], b: &[Range]) -> bool {
    a.iter().zip(b).all(|(a, b)| a.low <= b.high && b.low <= a.high)
}

/// A value that rules and packets like to have.
pub fn pool_value(random: &mut Random, field: Field, interfaces: &[&'static str]) -> u128 {
    const IPV4: [u32; 16] = [
        0x0a00_0001, 0x0a00_0002, 0x0a00_0000, 0x0a00_00ff, 0x0a00_0100, 0x0aff_ffff, 0x0b00_0000, 0xc000_0201,
        0xc000_0280, 0xc633_6407, 0xcb00_71ff, 0x0102_0304, 0xac10_0001, 0xc0a8_0101, 0xc0a8_01fe, 0x0808_0808,
    ];
    const IPV6: [u128; 10] = [
        0x2001_0db8 << 96 | 1,
        0x2001_0db8 << 96 | 2,
        0x2001_0db8 << 96,
        0x2001_0db8 << 96 | 0xffff_ffff,
        0x2001_0db8_0001 << 80 | 1,
        0x2001_0db8_ffff << 80 | 0xffff_ffff_ffff_ffff,
        0xfd77 << 112 | 1,
        0x2606_4700 << 96 | 0x1111,
        0x2001_0db9 << 96 | 1,
        0x0064_ff9b << 96 | 0x0a00_0001,
    ];
    const PORTS: [u128; 16] =
        [0, 1, 21, 22, 23, 53, 79, 80, 81, 443, 1023, 1024, 8080, 32768, 65534, 65535];
    const SMALL: [u128; 12] = [0, 1, 2, 5, 63, 64, 65, 127, 128, 254, 255, 32];
    const LENGTHS: [u128; 10] = [20, 28, 39, 40, 41, 44, 48, 60, 100, 1500];
    const FRAGMENTS: [u128; 8] = [0, 0x4000, 0x2000, 1, 0x2001, 0x1fff, 0x8000, 0x6000];
    const MARKS: [u128; 8] = [0, 1, 2, 0x100, 0xff, 0x8000_0000, 0xffff_ffff, 7];
    const IDS: [u128; 5] = [0, 33, 1000, 1001, 65534];
    let named = |random: &mut Random, kind| random.pick(names(kind)).1;
    let value = match field.kind() {
        Kind::Ipv4Addr => u128::from(*random.pick(&IPV4)),
        Kind::Ipv6Addr => *random.pick(&IPV6),
        Kind::InetService => *random.pick(&PORTS),
        Kind::InetProto if random.percent(50) => *random.pick(&[1, 6, 17, 58]),
        Kind::InetProto if random.percent(20) => *random.pick(&[0, 43, 44, 51, 59, 60, 135, 253, 255]),
        Kind::TcpFlag => *random.pick(&[2, 0x12, 0x10, 4, 1, 0x11, 0, 0xff, 0xc2, 0x18]),
        Kind::Mark => *random.pick(&MARKS),
        Kind::Uid | Kind::Gid => *random.pick(&IDS),
        Kind::Ifname | Kind::IfaceIndex => interface_value(*random.pick(interfaces)),
        Kind::Boolean => u128::from(random.percent(50)),
        Kind::CtState => random.pick(&CT_STATES).1,
        Kind::Integer if field == Field::IpFragOff => *random.pick(&FRAGMENTS),
        Kind::Integer if matches!(field, Field::IpLength | Field::MetaLength) => *random.pick(&LENGTHS),
        Kind::Integer => *random.pick(&SMALL),
        kind if kind == Kind::NfProto || random.percent(70) => named(random, kind),
        _ => *random.pick(&SMALL),
    };
    match field.kind() {
        // Its value is a name until it is loaded.
        Kind::IfaceIndex => value,
        _ => value & field.max(),
    }
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
        making.targets = (0..regular).map(|number| format!("{word}{number}")).collect();
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
        // A regular chain goes to later ones only, so there are no loops.
        for number in 0..regular {
            making.targets = all[number + 1..].to_vec();
            // Maps of the table lead to any chain: those that lead to this one or back are not used here.
            let usable: Vec<bool> = making
                .sets
                .iter()
                .map(|set| {
                    let later = |text: &str| match text.split_once(": jump ").or(text.split_once(": goto ")) {
                        Some((_, target)) => making.targets.iter().any(|one| one == target),
                        None => true,
                    };
                    set.elements.iter().all(|element| later(&element.text))
                })
                .collect();
            let (sets, keys) = (making.sets.clone(), making.keys.clone());
            let kept = |index: &usize| usable[*index];
            making.sets = (0..sets.len()).filter(kept).map(|index| sets[index].clone()).collect();
            making.keys = (0..sets.len()).filter(kept).map(|index| keys[index].clone()).collect();
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
            Hook::Prerouting => *self.random.pick(&["raw", "mangle", "dstnat", "filter", "security"]),
            Hook::Postrouting => *self.random.pick(&["raw", "mangle", "srcnat", "filter", "security"]),
            _ => *self.random.pick(&["raw", "mangle", "filter", "filter", "filter", "security"]),
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
            _ if version == 6 => ICMPV6,
            _ if version == 4 => ICMP,
            _ => 0,
        };
        Context { version, protocol }
    }

    /// The fields that a rule with a context can test.
    fn usable(&self, context: Context, facts: &super::field::Facts) -> bool {
        let by_kind = match facts.field {
            Field::CtState => self.profile.ct_state,
            Field::CtMark => self.profile.ct_mark,
            Field::MetaNfproto => context.version == 0,
            // What names the protocol stands alone.
            Field::IpProtocol | Field::Ip6Nexthdr | Field::MetaL4proto => context.protocol == 0,
            _ => true,
        };
        by_kind
            && (facts.version == 0 || facts.version == context.version)
            && (facts.protocol == 0 || facts.protocol == context.protocol)
    }

    fn field(&mut self, context: Context) -> Field {
        loop {
            let facts = self.random.pick(&FIELDS);
            // The layer 4 fields are few, and what packets are about.
            let rare = facts.protocol == 0 && context.protocol != 0 && self.random.percent(40);
            let seldom = matches!(facts.kind, Kind::Boolean | Kind::Ifname | Kind::IfaceIndex | Kind::Uid | Kind::Gid);
            if self.usable(context, facts) && !rare && !(seldom && self.random.percent(60)) {
                return facts.field;
            }
        }
    }

    fn value(&mut self, field: Field) -> u128 {
        let interfaces = self.profile.interfaces;
        if self.random.percent(92) || matches!(field.kind(), Kind::Ifname | Kind::IfaceIndex | Kind::CtState | Kind::NfProto) {
            return pool_value(self.random, field, interfaces);
        }
        self.random.next_u128() & field.max()
    }

    fn written(&mut self, kind: Kind, value: u128) -> String {
        write(kind, value, Some(self.random))
    }

    /// A value, range or prefix: its text and what it covers. `wide`: not only a value.
    fn component(&mut self, field: Field, wide: bool) -> (String, Range) {
        let kind = field.kind();
        let value = self.value(field);
        let ordered = !matches!(
            kind,
            Kind::TcpFlag | Kind::Ifname | Kind::IfaceIndex | Kind::CtState | Kind::NfProto | Kind::Boolean
        );
        let address = matches!(kind, Kind::Ipv4Addr | Kind::Ipv6Addr);
        if wide && address && self.random.percent(45) {
            let bits = field.facts().bits;
            let usual: &[u32] = if bits == 32 { &[8, 16, 24, 31, 13] } else { &[32, 48, 64, 127, 33] };
            let length = match self.random.percent(85) {
                true => *self.random.pick(usual),
                false => self.random.between(1, bits.into()) as u32,
            };
            let host = mask(bits - length);
            let range = Range { field, low: value & !host, high: value | host };
            // Host bits are taken as 0; nft does so too.
            return (format!("{}/{length}", self.written(kind, value & !host)), range);
        }
        if wide && ordered && self.random.percent(40) {
            let other = self.value(field);
            let (low, high) = (value.min(other), value.max(other));
            if low < high {
                // nft takes a name before or behind the `-` for a part of one longer name.
                let text = format!("{}-{}", write(kind, low, None), write(kind, high, None));
                return (text, Range { field, low, high });
            }
        }
        (self.written(kind, value), Range { field, low: value, high: value })
    }

    fn field_text(&mut self, field: Field) -> &'static str {
        let short = self.random.percent(30);
        match field {
            Field::MetaMark if short => "mark",
            Field::MetaIif if short => "meta iif",
            Field::MetaOif if short => "meta oif",
            Field::MetaIifname if short => "meta iifname",
            Field::MetaOifname if short => "meta oifname",
            Field::MetaSkuid if short => "skuid",
            Field::MetaSkgid if short => "skgid",
            _ => field.text(),
        }
    }

    fn equality(&mut self, negated: bool) -> &'static str {
        match (negated, self.random.percent(15)) {
            (true, true) => " ne ",
            (true, false) => " != ",
            (false, true) => *self.random.pick(&[" == ", " eq "]),
            (false, false) => " ",
        }
    }

    /// One or more matches that belong together.
    fn matching(&mut self, making: &Making, context: Context) -> Statement {
        let field = self.field(context);
        let kind = field.kind();
        if kind == Kind::Boolean {
            let value = self.value(field);
            return Statement {
                head: format!("{} {}", field.text(), write(kind, value, None)),
                ranges: vec![Range { field, low: value, high: value }],
                ..Statement::default()
            };
        }
        let masks = matches!(
            kind,
            Kind::TcpFlag | Kind::Integer | Kind::Mark | Kind::Ipv4Addr | Kind::Ipv6Addr | Kind::InetService
        );
        let negated = self.random.percent(25);
        match self.random.weighted(&[6, 2, 3, 2, 2, 2]) {
            _ if kind == Kind::TcpFlag && self.random.percent(60) => self.flags(field),
            _ if kind == Kind::CtState && self.random.percent(80) => self.flags(field),
            1 if !matches!(kind, Kind::TcpFlag | Kind::CtState | Kind::Ifname | Kind::IfaceIndex | Kind::NfProto) => self.order(field),
            2 if kind != Kind::CtState => self.anonymous(vec![field], negated),
            3 if masks => self.masked(field),
            4 => {
                let key = self.key(context);
                if key.len() > 1 {
                    return self.anonymous(key, negated);
                }
                self.single(field, negated)
            }
            5 => match self.named(making, context, Maps::None) {
                Some((index, key)) => self.in_named(making, index, &key, negated),
                None => self.single(field, negated),
            },
            _ => self.single(field, negated),
        }
    }

    fn single(&mut self, field: Field, negated: bool) -> Statement {
        let (mut text, mut range) = self.component(field, true);
        if field.kind() == Kind::Ifname && self.random.percent(30) {
            let name = super::field::interface_name(range.low);
            let length = 1 + self.random.below(name.len());
            let prefix = &name[..length];
            let low = interface_value(prefix);
            range = Range { field, low, high: low | mask(128 - 8 * length as u32) };
            text = format!("\"{prefix}*\"");
        }
        let mut op = self.equality(negated);
        if field.kind() == Kind::TcpFlag && op == " " {
            op = " == ";
        }
        Statement {
            head: format!("{}{op}{text}", self.field_text(field)),
            ranges: vec![range],
            ..Statement::default()
        }
    }

    fn order(&mut self, field: Field) -> Statement {
        // An end that nothing is beyond is refused by nft.
        let value = self.value(field).clamp(1, field.max() - 1);
        let op = *self.random.pick(&["<", ">", "<=", ">=", "lt", "gt", "le", "ge"]);
        let text = self.written(field.kind(), value);
        Statement {
            head: format!("{} {op} {text}", self.field_text(field)),
            ranges: vec![Range { field, low: value, high: value }],
            ..Statement::default()
        }
    }

    /// What bit masks have of their own.
    fn flags(&mut self, field: Field) -> Statement {
        let kind = field.kind();
        let value = match kind {
            Kind::TcpFlag => self.value(field).max(1),
            _ => self.value(field) | self.value(field),
        };
        let listed = flag_names(kind, value);
        let text = field.text();
        let head = match self.random.weighted(&[3, 2, 2, 2]) {
            0 => format!("{text} {}", listed.join(",")),
            // One flag behind `!=` is an exact comparison, several are none of them.
            1 => format!("{text} != {}", listed.join(",")),
            _ if kind == Kind::CtState => format!("{text} {}", listed.join(",")),
            2 => {
                let bits = (value | self.value(field)).max(1);
                let mask = flag_names(kind, bits).join(" | ");
                let right = write(kind, value & bits, None);
                format!("{text} & ({mask}) {} {right}", self.random.pick(&["==", "!="]))
            }
            _ => {
                // nft 1.0.6 wants at least two flags behind the `/`.
                let bits = value | self.value(field) | 0x05;
                format!("{text} {} / {}", flag_names(kind, value).join(","), flag_names(kind, bits).join(","))
            }
        };
        Statement {
            head,
            ranges: vec![Range { field, low: value, high: value }],
            ..Statement::default()
        }
    }

    fn masked(&mut self, field: Field) -> Statement {
        let kind = field.kind();
        if kind == Kind::TcpFlag {
            return self.flags(field);
        }
        let mask = match self.random.percent(50) {
            true => self.value(field),
            false => field.max() & !self.value(field),
        }
        .max(1);
        let value = self.value(field) & mask;
        let word = *self.random.pick(&["&", "and"]);
        let number = |value: u128| match kind {
            Kind::Ipv4Addr | Kind::Ipv6Addr => write(kind, value, None),
            _ => format!("{value:#x}"),
        };
        let op = *self.random.pick(&["==", "!="]);
        Statement {
            head: format!("{} {word} {} {op} {}", self.field_text(field), number(mask), number(value)),
            ranges: vec![Range { field, low: value, high: value }],
            ..Statement::default()
        }
    }

    /// Fields that can be put together in nft as well.
    fn key(&mut self, context: Context) -> Vec<Field> {
        let able = |field: Field| {
            matches!(
                field.kind(),
                Kind::Ipv4Addr | Kind::Ipv6Addr | Kind::InetService | Kind::InetProto | Kind::Mark | Kind::Ifname | Kind::IcmpType | Kind::Icmpv6Type
            ) && field != Field::CtMark
        };
        // What the kernel's registers hold: 64 bytes, of which a field takes whole words.
        const KEY_BYTES: u32 = 64;
        let bytes = |field: &Field| field.facts().bits.div_ceil(32) * 4;
        let wanted = 2 + self.random.weighted(&[6, 3, 1, 1]);
        let mut key: Vec<Field> = Vec::new();
        for _ in 0..40 {
            let field = self.field(context);
            let room = KEY_BYTES - key.iter().map(bytes).sum::<u32>();
            if able(field) && !key.contains(&field) && bytes(&field) <= room {
                key.push(field);
            }
            if key.len() == wanted {
                break;
            }
        }
        key
    }

    fn key_text(&mut self, key: &[Field]) -> String {
        let texts: Vec<&str> = key.iter().map(|field| self.field_text(*field)).collect();
        texts.join(" . ")
    }

    /// Elements that have nothing in common.
    fn elements(&mut self, key: &[Field], wide: bool, disjoint: bool) -> Vec<Element> {
        let wanted = 1 + self.random.weighted(&[2, 4, 3, 2, 1, 1]);
        let mut elements: Vec<Element> = Vec::new();
        for _ in 0..wanted {
            let parts: Vec<(String, Range)> = key.iter().map(|field| self.component(*field, wide)).collect();
            let (texts, ranges): (Vec<String>, Vec<Range>) = parts.into_iter().unzip();
            if !disjoint || !elements.iter().any(|other| overlap(&other.ranges, &ranges)) {
                elements.push(Element { text: texts.join(" . "), ranges });
            }
        }
        elements
    }

    fn anonymous(&mut self, key: Vec<Field>, negated: bool) -> Statement {
        let elements = self.elements(&key, true, key.len() > 1);
        let op = self.equality(negated);
        Statement {
            head: format!("{}{op}", self.key_text(&key)),
            elements,
            ..Statement::default()
        }
    }

    /// A named set or map that a rule with a context can look in.
    fn named(&mut self, making: &Making, context: Context, maps: Maps) -> Option<(usize, Vec<Field>)> {
        let fits = |(_, (key, of)): &(usize, &(Vec<Field>, Maps))| {
            *of == maps && key.iter().all(|field| self.usable(context, field.facts()))
        };
        let fitting: Vec<_> = making.keys.iter().enumerate().filter(fits).collect();
        if fitting.is_empty() {
            return None;
        }
        let (index, (key, _)) = self.random.pick(&fitting);
        Some((*index, key.clone()))
    }

    fn in_named(&mut self, making: &Making, index: usize, key: &[Field], negated: bool) -> Statement {
        let name = making.sets[index].name.clone();
        let op = self.equality(negated);
        Statement {
            head: format!("{}{op}@{name}", self.key_text(key)),
            set: Some(name),
            ..Statement::default()
        }
    }

    fn set(&mut self, making: &mut Making, number: usize) {
        let context = self.context(making.family);
        let key = match self.random.percent(60) {
            true => vec![self.field(context)],
            false => self.key(context),
        };
        // Types that can be named; typeof takes the others.
        let nameable = |field: &Field| {
            matches!(
                field.kind(),
                Kind::Ipv4Addr | Kind::Ipv6Addr | Kind::InetProto | Kind::InetService | Kind::IcmpType | Kind::Icmpv6Type | Kind::Mark | Kind::Ifname | Kind::Uid | Kind::Gid
            )
        };
        let odd = |field: &Field| matches!(field.kind(), Kind::Boolean | Kind::IfaceIndex | Kind::CtState | Kind::TcpFlag);
        if key.is_empty() || key.iter().any(odd) {
            return;
        }
        let maps = [Maps::None, Maps::Verdict, Maps::Mark][self.random.weighted(&[4, 2, 1])];
        let interval = self.random.percent(50) && !key.iter().any(|field| field.kind() == Kind::Ifname);
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
        let mut lines = vec![format!("{} {}{to}", if by_type { "type" } else { "typeof" }, of.join(" . "))];
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
        making.sets.push(Set { word, name: format!("s{number}"), lines, elements });
        making.keys.push((key, maps));
    }

    fn map_elements(&mut self, making: &Making, maps: Maps, elements: &mut [Element]) {
        for element in elements {
            let to = match maps {
                Maps::None => continue,
                Maps::Verdict => self.verdict(making),
                Maps::Mark => self.mark_text(),
            };
            element.text = format!("{} : {to}", element.text);
        }
    }

    fn mark_text(&mut self) -> String {
        let value = self.value(Field::MetaMark);
        if self.random.percent(50) {
            format!("{value:#x}")
        } else {
            value.to_string()
        }
    }

    fn verdict(&mut self, making: &Making) -> String {
        let word = ["accept", "drop", "continue", "return", "jump", "goto"][self.random.weighted(&[5, 5, 1, 1, 4, 2])];
        match word {
            "jump" | "goto" if making.targets.is_empty() => "drop".to_string(),
            "jump" | "goto" => format!("{word} {}", self.random.pick(&making.targets)),
            _ => word.to_string(),
        }
    }

    fn rules(&mut self, making: &Making) -> Vec<Rule> {
        let count = self.random.weighted(&[1, 3, 4, 4, 3, 2, 1, 1]);
        if self.random.percent(6) {
            return self.run_of_rules(making);
        }
        (0..count).map(|_| self.rule(making)).collect()
    }

    /// Neighbours that test one field against constants: what an engine may make one lookup of.
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
            rules.push(Rule { statements, comment: None });
        }
        rules
    }

    fn single_boolean(&mut self, field: Field) -> Statement {
        let value = self.value(field);
        Statement {
            head: format!("{} {}", field.text(), write(Kind::Boolean, value, None)),
            ranges: vec![Range { field, low: value, high: value }],
            ..Statement::default()
        }
    }

    fn rule(&mut self, making: &Making) -> Rule {
        let mut context = self.context(making.family);
        let mut statements = Vec::new();
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
            names_protocol |= key.is_some_and(|key| key.iter().any(|field| field.kind() == Kind::InetProto));
            statements.push(statement);
            if self.random.percent(25) {
                statements.push(self.effect());
            }
        }
        if self.random.percent(self.profile.counters) {
            statements.push(self.counter());
        }
        if names_protocol {
            // Only so far as `reject with tcp reset` asks.
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
        Rule { statements, comment }
    }

    fn counter(&mut self) -> Statement {
        plain(match self.random.percent(90) {
            true => "counter".to_string(),
            false => format!("counter packets {} bytes {}", self.random.below(100), self.random.below(10000)),
        })
    }

    /// A statement that is no match and lets the next one follow, mostly.
    fn effect(&mut self) -> Statement {
        let kind = self.random.weighted(&[4, 3, 2, 4]);
        plain(match kind {
            1 | 2 if !self.profile.limits => return self.counter(),
            1 => self.limit(),
            2 => self.quota(),
            3 => return self.mark_set(),
            _ if self.random.percent(40) => self.log(),
            _ => return self.counter(),
        })
    }

    fn limit(&mut self) -> String {
        let over = *self.random.pick(&["", "", "over "]);
        // Nothing refills while a test runs.
        let unit = *self.random.pick(&["hour", "day", "week"]);
        let count = 1 + self.random.below(4);
        if self.random.percent(70) {
            let burst = match self.random.below(3) {
                0 => String::new(),
                _ => format!(" burst {} packets", 1 + self.random.below(12)),
            };
            return format!("limit rate {over}{count}/{unit}{burst}");
        }
        let (size, count) = *self.random.pick(&[("bytes", 200), ("bytes", 40), ("kbytes", 1)]);
        let burst = match self.random.below(2) {
            0 => String::new(),
            _ => format!(" burst {} bytes", 1 + self.random.below(500)),
        };
        format!("limit rate {over}{count} {size}/{unit}{burst}")
    }

    fn quota(&mut self) -> String {
        let over = *self.random.pick(&["", "over ", "until "]);
        // The kernel refuses a quota that is used up beforehand.
        let used = match self.random.below(4) {
            0 => format!(" used {} bytes", self.random.below(40)),
            _ => String::new(),
        };
        match self.random.percent(80) {
            true => format!("quota {over}{} bytes{used}", 40 + self.random.below(1000)),
            false => format!("quota {over}1 kbytes{used}"),
        }
    }

    fn log(&mut self) -> String {
        let prefix = *self.random.pick(&["", " prefix \"x: \"", " prefix \"a b\""]);
        let level = *self.random.pick(&["", " level info", " level debug", " level warn"]);
        format!("log{prefix}{level}")
    }

    fn mark_set(&mut self) -> Statement {
        let left = *self.random.pick(&["meta mark set ", "mark set "]);
        if self.random.percent(25) {
            let field = *self.random.pick(&[Field::ThDport, Field::MetaMark, Field::MetaL4proto, Field::MetaLength]);
            let mut elements = self.elements(&[field], true, true);
            for element in &mut elements {
                element.text = format!("{} : {}", element.text, self.mark_text());
            }
            return Statement {
                head: format!("{left}{} map ", field.text()),
                elements,
                ..Statement::default()
            };
        }
        if self.random.percent(50) {
            return plain(format!("{left}{}", self.mark_text()));
        }
        let mut text = format!("{left}{}", self.random.pick(&["meta mark", "mark"]));
        for _ in 0..1 + self.random.weighted(&[4, 2, 1]) {
            let op = *self.random.pick(&["&", "|", "^", "and", "or", "xor"]);
            text = format!("{text} {op} {}", self.mark_text());
        }
        plain(text)
    }

    fn reject(&mut self, family: Family, context: Context) -> String {
        let icmp = ["net-unreachable", "host-unreachable", "prot-unreachable", "port-unreachable", "net-prohibited", "host-prohibited", "admin-prohibited"];
        let icmpv6 = ["no-route", "admin-prohibited", "addr-unreachable", "port-unreachable", "policy-fail", "reject-route"];
        let icmpx = ["port-unreachable", "admin-prohibited", "no-route", "host-unreachable"];
        let word = *self.random.pick(&["", "type "]);
        if context.version == 255 {
            return "reject".to_string();
        }
        match self.random.below(5) {
            0 if context.protocol == 0 || context.protocol == TCP => "reject with tcp reset".to_string(),
            1 if family != Family::Ip6 && context.version != 6 => format!("reject with icmp {word}{}", self.random.pick(&icmp)),
            2 if family != Family::Ip && context.version != 4 => format!("reject with icmpv6 {word}{}", self.random.pick(&icmpv6)),
            3 if family == Family::Inet && context.version == 0 => format!("reject with icmpx {word}{}", self.random.pick(&icmpx)),
            _ => "reject".to_string(),
        }
    }

    fn vmap(&mut self, making: &Making, mut context: Context) -> Statement {
        if context.protocol == 255 {
            context.protocol = 0;
        }
        if context.version == 255 {
            context.version = 0;
        }
        if self.random.percent(40) {
            if let Some((index, key)) = self.named(making, context, Maps::Verdict) {
                let name = making.sets[index].name.clone();
                return Statement {
                    head: format!("{} vmap @{name}", self.key_text(&key)),
                    set: Some(name),
                    ..Statement::default()
                };
            }
        }
        let key = loop {
            let key = match self.random.percent(65) {
                true => vec![self.field(context)],
                false => self.key(context),
            };
            let odd = |field: &Field| matches!(field.kind(), Kind::Boolean | Kind::TcpFlag);
            if !key.is_empty() && !key.iter().any(odd) {
                break key;
            }
        };
        let mut elements = self.elements(&key, true, true);
        self.map_elements(making, Maps::Verdict, &mut elements);
        Statement {
            head: format!("{} vmap ", self.key_text(&key)),
            elements,
            ..Statement::default()
        }
    }
}

fn plain(head: String) -> Statement {
    Statement { head, ..Statement::default() }
}

/// The name of a type that `type` takes.
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
