// SPDX-License-Identifier: GPL-2.0-or-later
//! Statements other than matches: verdicts, counters, limits, marks, rejects.

use super::super::field::{Field, Kind, TCP};
use super::super::tree::{Element, Family, Statement};
use super::{Context, Generator, Making, Maps};

impl Generator<'_> {
    pub(super) fn map_elements(&mut self, making: &Making, maps: Maps, elements: &mut [Element]) {
        for element in elements {
            let to = match maps {
                Maps::None => continue,
                Maps::Verdict => self.verdict(making),
                Maps::Mark => self.mark_text(),
            };
            element.text = format!("{} : {to}", element.text);
        }
    }

    pub(super) fn mark_text(&mut self) -> String {
        let value = self.value(Field::MetaMark);
        if self.random.percent(50) {
            format!("{value:#x}")
        } else {
            value.to_string()
        }
    }

    pub(super) fn verdict(&mut self, making: &Making) -> String {
        let word = ["accept", "drop", "continue", "return", "jump", "goto"]
            [self.random.weighted(&[5, 5, 1, 1, 4, 2])];
        match word {
            "jump" | "goto" if making.targets.is_empty() => "drop".to_string(),
            "jump" | "goto" => format!("{word} {}", self.random.pick(&making.targets)),
            _ => word.to_string(),
        }
    }

    pub(super) fn counter(&mut self) -> Statement {
        plain(match self.random.percent(90) {
            true => "counter".to_string(),
            false => format!(
                "counter packets {} bytes {}",
                self.random.below(100),
                self.random.below(10000)
            ),
        })
    }

    /// Returns a counter, limit, quota, log, or a statement that sets a mark. The rule usually continues after it.
    pub(super) fn effect(&mut self) -> Statement {
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

    pub(super) fn limit(&mut self) -> String {
        let over = *self.random.pick(&["", "", "over "]);
        // Limits with these units don't refill while a test runs.
        let unit = *self.random.pick(&["hour", "day", "week"]);
        let count = 1 + self.random.below(4);
        if self.random.percent(70) {
            let burst = match self.random.below(3) {
                0 => String::new(),
                _ => format!(" burst {} packets", 1 + self.random.below(12)),
            };
            return format!("limit rate {over}{count}/{unit}{burst}");
        }
        let (size, count) = *self
            .random
            .pick(&[("bytes", 200), ("bytes", 40), ("kbytes", 1)]);
        let burst = match self.random.below(2) {
            0 => String::new(),
            _ => format!(" burst {} bytes", 1 + self.random.below(500)),
        };
        format!("limit rate {over}{count} {size}/{unit}{burst}")
    }

    pub(super) fn quota(&mut self) -> String {
        let over = *self.random.pick(&["", "over ", "until "]);
        // The kernel refuses a quota that is already used up.
        let used = match self.random.below(4) {
            0 => format!(" used {} bytes", self.random.below(40)),
            _ => String::new(),
        };
        match self.random.percent(80) {
            true => format!("quota {over}{} bytes{used}", 40 + self.random.below(1000)),
            false => format!("quota {over}1 kbytes{used}"),
        }
    }

    pub(super) fn log(&mut self) -> String {
        let prefix = *self
            .random
            .pick(&["", " prefix \"x: \"", " prefix \"a b\""]);
        let level = *self
            .random
            .pick(&["", " level info", " level debug", " level warn"]);
        format!("log{prefix}{level}")
    }

    pub(super) fn mark_set(&mut self) -> Statement {
        let left = *self.random.pick(&["meta mark set ", "mark set "]);
        if self.random.percent(25) {
            let field = *self.random.pick(&[
                Field::ThDport,
                Field::MetaMark,
                Field::MetaL4proto,
                Field::MetaLength,
            ]);
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

    pub(super) fn reject(&mut self, family: Family, context: Context) -> String {
        let icmp = [
            "net-unreachable",
            "host-unreachable",
            "prot-unreachable",
            "port-unreachable",
            "net-prohibited",
            "host-prohibited",
            "admin-prohibited",
        ];
        let icmpv6 = [
            "no-route",
            "admin-prohibited",
            "addr-unreachable",
            "port-unreachable",
            "policy-fail",
            "reject-route",
        ];
        let icmpx = [
            "port-unreachable",
            "admin-prohibited",
            "no-route",
            "host-unreachable",
        ];
        let word = *self.random.pick(&["", "type "]);
        if context.version == 255 {
            return "reject".to_string();
        }
        match self.random.below(5) {
            0 if context.protocol == 0 || context.protocol == TCP => {
                "reject with tcp reset".to_string()
            }
            1 if family != Family::Ip6 && context.version != 6 => {
                format!("reject with icmp {word}{}", self.random.pick(&icmp))
            }
            2 if family != Family::Ip && context.version != 4 => {
                format!("reject with icmpv6 {word}{}", self.random.pick(&icmpv6))
            }
            3 if family == Family::Inet && context.version == 0 => {
                format!("reject with icmpx {word}{}", self.random.pick(&icmpx))
            }
            _ => "reject".to_string(),
        }
    }

    pub(super) fn vmap(&mut self, making: &Making, mut context: Context) -> Statement {
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

pub(super) fn plain(head: String) -> Statement {
    Statement {
        head,
        ..Statement::default()
    }
}
