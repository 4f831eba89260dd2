// SPDX-License-Identifier: GPL-2.0-or-later
//! Generates matches: fields, comparison values and sets.

use super::super::field::{flag_names, interface_name, interface_value, mask, write};
use super::super::field::{Facts, Field, Kind, Range, FIELDS};
use super::super::tree::{Element, Statement};
use super::pool::pool_value;
use super::{Context, Generator, Making, Maps};

/// Returns true if two elements with the same fields overlap.
fn overlap(a: &[Range], b: &[Range]) -> bool {
    a.iter()
        .zip(b)
        .all(|(a, b)| a.low <= b.high && b.low <= a.high)
}

impl Generator<'_> {
    /// Returns true if a rule with a context (see `Context`) can test a field.
    pub(super) fn usable(&self, context: Context, facts: &Facts) -> bool {
        let by_kind = match facts.field {
            Field::CtState => self.profile.ct_state,
            Field::CtMark => self.profile.ct_mark,
            Field::MetaNfproto => context.version == 0,
            // Rules for a certain protocol don't also test the protocol.
            Field::IpProtocol | Field::Ip6Nexthdr | Field::MetaL4proto => context.protocol == 0,
            _ => true,
        };
        by_kind
            && (facts.version == 0 || facts.version == context.version || facts.is_icmp())
            && (facts.protocol == 0 || facts.protocol == context.protocol)
    }

    pub(super) fn field(&mut self, context: Context) -> Field {
        loop {
            let facts = self.random.pick(&FIELDS);
            // Prefers the few fields of layer 4.
            let rare = facts.protocol == 0 && context.protocol != 0 && self.random.percent(40);
            let seldom = matches!(
                facts.kind,
                Kind::Boolean | Kind::Ifname | Kind::IfaceIndex | Kind::Uid | Kind::Gid
            );
            if self.usable(context, facts) && !rare && !(seldom && self.random.percent(60)) {
                return facts.field;
            }
        }
    }

    pub(super) fn value(&mut self, field: Field) -> u128 {
        let bits = match field.kind() {
            Kind::Mark => u128::from(self.profile.mark_bits),
            _ => u128::MAX,
        };
        self.any_value(field) & bits
    }

    fn any_value(&mut self, field: Field) -> u128 {
        let interfaces = self.profile.interfaces;
        if self.random.percent(92)
            || matches!(
                field.kind(),
                Kind::Ifname | Kind::IfaceIndex | Kind::CtState | Kind::NfProto
            )
        {
            return pool_value(self.random, field, interfaces);
        }
        self.random.next_u128() & field.max()
    }

    pub(super) fn written(&mut self, kind: Kind, value: u128) -> String {
        write(kind, value, Some(self.random))
    }

    /// Returns a value, range or prefix: its text, and its values.
    /// - wide: allows ranges and prefixes, not only single values.
    pub(super) fn component(&mut self, field: Field, wide: bool) -> (String, Range) {
        let kind = field.kind();
        let value = self.value(field);
        let ordered = !matches!(
            kind,
            Kind::TcpFlag
                | Kind::Ifname
                | Kind::IfaceIndex
                | Kind::CtState
                | Kind::NfProto
                | Kind::Boolean
        );
        let address = matches!(kind, Kind::Ipv4Addr | Kind::Ipv6Addr);
        if wide && address && self.random.percent(45) {
            let bits = field.facts().bits;
            let usual: &[u32] = if bits == 32 {
                &[8, 16, 24, 31, 13]
            } else {
                &[32, 48, 64, 127, 33]
            };
            let length = match self.random.percent(85) {
                true => *self.random.pick(usual),
                false => self.random.between(1, bits.into()) as u32,
            };
            let host = mask(bits - length);
            let range = Range {
                field,
                low: value & !host,
                high: value | host,
            };
            // Host bits count as 0, as in nft.
            return (
                format!("{}/{length}", self.written(kind, value & !host)),
                range,
            );
        }
        if wide && ordered && self.random.percent(40) {
            let other = self.value(field);
            let (low, high) = (value.min(other), value.max(other));
            if low < high {
                // nft parses a name before or after the `-` as part of one longer name.
                let text = format!("{}-{}", write(kind, low, None), write(kind, high, None));
                return (text, Range { field, low, high });
            }
        }
        (
            self.written(kind, value),
            Range {
                field,
                low: value,
                high: value,
            },
        )
    }

    pub(super) fn field_text(&mut self, field: Field) -> &'static str {
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

    pub(super) fn equality(&mut self, negated: bool) -> &'static str {
        match (negated, self.random.percent(15)) {
            (true, true) => " ne ",
            (true, false) => " != ",
            (false, true) => self.random.pick::<&str>(&[" == ", " eq "]),
            (false, false) => " ",
        }
    }

    /// Returns a match of one field, or of several fields in a concatenation.
    pub(super) fn matching(&mut self, making: &Making, context: Context) -> Statement {
        let field = self.field(context);
        let kind = field.kind();
        if kind == Kind::Boolean {
            let value = self.value(field);
            return Statement {
                head: format!("{} {}", field.text(), write(kind, value, None)),
                ranges: vec![Range {
                    field,
                    low: value,
                    high: value,
                }],
                ..Statement::default()
            };
        }
        let masks = matches!(
            kind,
            Kind::TcpFlag
                | Kind::Integer
                | Kind::Mark
                | Kind::Ipv4Addr
                | Kind::Ipv6Addr
                | Kind::InetService
        );
        let negated = self.random.percent(25);
        match self.random.weighted(&[6, 2, 3, 2, 2, 2]) {
            _ if kind == Kind::TcpFlag && self.random.percent(60) => self.flags(field),
            _ if kind == Kind::CtState && self.random.percent(80) => self.flags(field),
            1 if !matches!(
                kind,
                Kind::TcpFlag | Kind::CtState | Kind::Ifname | Kind::IfaceIndex | Kind::NfProto
            ) =>
            {
                self.order(field)
            }
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

    pub(super) fn single(&mut self, field: Field, negated: bool) -> Statement {
        let (mut text, mut range) = self.component(field, true);
        if field.kind() == Kind::Ifname && self.random.percent(30) {
            let name = interface_name(range.low);
            let length = 1 + self.random.below(name.len());
            let prefix = &name[..length];
            let low = interface_value(prefix);
            range = Range {
                field,
                low,
                high: low | mask(128 - 8 * length as u32),
            };
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

    pub(super) fn order(&mut self, field: Field) -> Statement {
        // nft refuses a comparison with the first or last value.
        let value = self.value(field).clamp(1, field.max() - 1);
        let op = *self
            .random
            .pick(&["<", ">", "<=", ">=", "lt", "gt", "le", "ge"]);
        let text = self.written(field.kind(), value);
        Statement {
            head: format!("{} {op} {text}", self.field_text(field)),
            ranges: vec![Range {
                field,
                low: value,
                high: value,
            }],
            ..Statement::default()
        }
    }

    /// Returns a match in one of the forms that only TCP flags and connection states have.
    pub(super) fn flags(&mut self, field: Field) -> Statement {
        let kind = field.kind();
        let value = match kind {
            Kind::TcpFlag => self.value(field).max(1),
            _ => self.value(field) | self.value(field),
        };
        let listed = flag_names(kind, value);
        let text = field.text();
        let head = match self.random.weighted(&[3, 2, 2, 2]) {
            0 => format!("{text} {}", listed.join(",")),
            // One flag after `!=` is an exact comparison, several mean none of them.
            1 => format!("{text} != {}", listed.join(",")),
            _ if kind == Kind::CtState => format!("{text} {}", listed.join(",")),
            2 => {
                let bits = (value | self.value(field)).max(1);
                let mask = flag_names(kind, bits).join(" | ");
                let right = write(kind, value & bits, None);
                format!(
                    "{text} & ({mask}) {} {right}",
                    self.random.pick(&["==", "!="])
                )
            }
            _ => {
                // nft 1.0.6 requires at least two flags after the `/`.
                let bits = value | self.value(field) | 0x05;
                format!(
                    "{text} {} / {}",
                    flag_names(kind, value).join(","),
                    flag_names(kind, bits).join(",")
                )
            }
        };
        Statement {
            head,
            ranges: vec![Range {
                field,
                low: value,
                high: value,
            }],
            ..Statement::default()
        }
    }

    pub(super) fn masked(&mut self, field: Field) -> Statement {
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
            head: format!(
                "{} {word} {} {op} {}",
                self.field_text(field),
                number(mask),
                number(value)
            ),
            ranges: vec![Range {
                field,
                low: value,
                high: value,
            }],
            ..Statement::default()
        }
    }

    /// Returns a key of fields that nft can also concatenate. It has one field or none if no more fit.
    pub(super) fn key(&mut self, context: Context) -> Vec<Field> {
        let able = |field: Field| {
            matches!(
                field.kind(),
                Kind::Ipv4Addr
                    | Kind::Ipv6Addr
                    | Kind::InetService
                    | Kind::InetProto
                    | Kind::Mark
                    | Kind::Ifname
                    | Kind::IcmpType
                    | Kind::Icmpv6Type
            ) && field != Field::CtMark
        };
        // Capacity of the kernel's registers: 64 bytes, of which a field uses whole words.
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

    pub(super) fn key_text(&mut self, key: &[Field]) -> String {
        let texts: Vec<&str> = key.iter().map(|field| self.field_text(*field)).collect();
        texts.join(" . ")
    }

    /// Returns elements of a set.
    /// - key: fields of each element.
    /// - wide: allows ranges and prefixes.
    /// - disjoint: the elements do not overlap.
    pub(super) fn elements(&mut self, key: &[Field], wide: bool, disjoint: bool) -> Vec<Element> {
        let wanted = 1 + self.random.weighted(&[2, 4, 3, 2, 1, 1]);
        let mut elements: Vec<Element> = Vec::new();
        for _ in 0..wanted {
            let parts: Vec<(String, Range)> = key
                .iter()
                .map(|field| self.component(*field, wide))
                .collect();
            let (texts, ranges): (Vec<String>, Vec<Range>) = parts.into_iter().unzip();
            if !disjoint || !elements.iter().any(|other| overlap(&other.ranges, &ranges)) {
                elements.push(Element {
                    text: texts.join(" . "),
                    ranges,
                });
            }
        }
        elements
    }

    pub(super) fn anonymous(&mut self, key: Vec<Field>, negated: bool) -> Statement {
        let elements = self.elements(&key, true, key.len() > 1);
        let op = self.equality(negated);
        Statement {
            head: format!("{}{op}", self.key_text(&key)),
            elements,
            ..Statement::default()
        }
    }

    /// Returns a named set or map that a rule with a context can look up: its index in `making.sets`, and its key
    /// fields. None if there is none.
    /// - maps: kind of the map; [`Maps::None`]: a set.
    pub(super) fn named(
        &mut self,
        making: &Making,
        context: Context,
        maps: Maps,
    ) -> Option<(usize, Vec<Field>)> {
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

    pub(super) fn in_named(
        &mut self,
        making: &Making,
        index: usize,
        key: &[Field],
        negated: bool,
    ) -> Statement {
        let name = making.sets[index].name.clone();
        let op = self.equality(negated);
        Statement {
            head: format!("{}{op}@{name}", self.key_text(key)),
            set: Some(name),
            ..Statement::default()
        }
    }

    pub(super) fn single_boolean(&mut self, field: Field) -> Statement {
        let value = self.value(field);
        Statement {
            head: format!("{} {}", field.text(), write(Kind::Boolean, value, None)),
            ranges: vec![Range {
                field,
                low: value,
                high: value,
            }],
            ..Statement::default()
        }
    }
}
