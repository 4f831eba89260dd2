// SPDX-License-Identifier: GPL-2.0-or-later
//! Fields of a key that are not names, and the ranges of their values.

use rust_firewall::policy::hostname::Hostnames;
use rust_firewall::policy::parse::elements::is_ordered;
use rust_firewall::policy::{parse, print, Policy, Range, Right, StatementKind, Type, FIELDS};

use crate::probe::{self, Wrong};

/// An element's ranges for the fields of a key that are not names, in the order of the key.
pub type Others = Vec<Range>;

/// Field of every packet. It is added to each key, so that no key has a single field: the firewalls compare flags in a
/// key of one field bit by bit.
const BESIDE: &str = "meta length";
/// Number of lines before the first rule in the text that `read` writes for the parser.
const LINES_BEFORE: usize = 1;

/// Fields of a key that are not names.
#[derive(Clone, Debug, Default)]
pub struct Fields {
    pub texts: Vec<String>,
    /// Types of the fields. None: the firewalls don't know the field, and its values are compared as text.
    kinds: Vec<Option<Type>>,
    /// Values of unknown fields. The range of such a value is its index here.
    words: Vec<String>,
}

/// Returns the type of a field, if the firewalls know the field.
fn kind_of(text: &str) -> Option<Type> {
    let of_meta = format!("meta {text}");
    let found = FIELDS
        .iter()
        .find(|facts| facts.text == text || facts.text == of_meta);
    found.map(|facts| facts.kind)
}

/// Returns the ranges of the only element in a rule's set, without the range of `BESIDE`.
fn ranges_of(policy: &Policy, rule: usize) -> Option<Others> {
    let rule = policy.tables.first()?.chains.first()?.rules.get(rule)?;
    let StatementKind::Match(found) = &rule.statements.first()?.kind else {
        return None;
    };
    let Right::Literal(elements) = &found.right else {
        return None;
    };
    Some(elements.ranges.get(1..)?.to_vec())
}

impl Fields {
    pub fn new(texts: Vec<String>) -> Fields {
        let kinds = texts.iter().map(|text| kind_of(text)).collect();
        Fields {
            texts,
            kinds,
            words: Vec::new(),
        }
    }

    /// Returns a range that stands for the value of an unknown field: the value's index in `words`, to which a new
    /// value is added. Fails if the value is a range, prefix or mask, or contains `*`.
    fn word(&mut self, text: &str) -> Result<Range, &'static str> {
        let ranged: &[char] = match text.starts_with('"') {
            true => &['*'],
            false => &['-', '/', '*', '|'],
        };
        if text.contains(ranged) {
            return Err("a range, prefix or mask of a field that the firewalls don't know");
        }
        let found = self.words.iter().position(|word| word == text);
        let number = found.unwrap_or_else(|| {
            self.words.push(text.to_owned());
            self.words.len() - 1
        }) as u128;
        Ok(Range {
            low: number,
            high: number,
        })
    }

    /// Returns a rule from which the firewalls' parser can parse an element's values of known fields.
    fn rule(&self, element: &[String]) -> String {
        let known = |texts: &[String]| -> String {
            let pairs = texts.iter().zip(&self.kinds);
            let known = pairs.filter(|(_, kind)| kind.is_some());
            known.map(|(text, _)| format!(" . {text}")).collect()
        };
        format!(
            "{BESIDE}{} {{ 1{} }} continue\n",
            known(&self.texts),
            known(element)
        )
    }

    /// Parses elements to ranges. An element has the text of a value for each field. Fails with the index of an element
    /// and the cause.
    pub fn read(&mut self, elements: &[Vec<String>]) -> Result<Vec<Others>, Wrong> {
        let rules: String = elements.iter().map(|element| self.rule(element)).collect();
        let text = format!(
            "table inet names {{ chain c {{ type filter hook input priority 0\n{rules}}}\n}}\n"
        );
        let policy = parse::text(probe::NAME, text.as_bytes()).map_err(|failure| {
            let (line, cause) = probe::split_message(&failure.text);
            (line.saturating_sub(LINES_BEFORE + 1), cause)
        })?;
        let mut all = Vec::new();
        for (number, element) in elements.iter().enumerate() {
            let mut known = ranges_of(&policy, number).unwrap_or_default().into_iter();
            let mut ranges = Vec::new();
            for (kind, text) in self.kinds.clone().into_iter().zip(element) {
                let range = match kind {
                    Some(_) => known.next().ok_or("an element that is not understood"),
                    None => self.word(text),
                };
                let range = range.map_err(|cause| (number, cause.to_owned()))?;
                if range.low != range.high && !kind.is_some_and(is_ordered) {
                    let cause = "a name with `*` for several interfaces, beside names of hosts";
                    return Err((number, cause.to_owned()));
                }
                ranges.push(range);
            }
            all.push(ranges);
        }
        Ok(all)
    }

    /// Returns the text of the range of each field.
    pub fn print(&self, ranges: &[Range]) -> Vec<String> {
        let hostnames = Hostnames::default();
        let text = |(kind, range): (&Option<Type>, &Range)| match kind {
            Some(kind) => {
                let mut out = String::new();
                print::range(&mut out, &hostnames, *kind, range);
                out
            }
            None => self.words[range.low as usize].clone(),
        };
        self.kinds.iter().zip(ranges).map(text).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(fields: &[&str], elements: &[&[&str]]) -> Result<Vec<String>, Wrong> {
        let owned = |texts: &[&str]| texts.iter().map(|text| text.to_string()).collect();
        let mut fields = Fields::new(owned(fields));
        let elements: Vec<Vec<String>> = elements.iter().map(|texts| owned(texts)).collect();
        let ranges = fields.read(&elements)?;
        Ok(ranges
            .iter()
            .map(|one| fields.print(one).join(" . "))
            .collect())
    }

    #[test]
    fn values_of_all_kinds() {
        let fields = ["ip daddr", "tcp dport", "ether saddr"];
        let elements: [&[&str]; 2] = [
            &["10.1.2.3/8", "https", "aa:bb:cc:dd:ee:ff"],
            &["10.0.0.2-10.0.0.9", "80-90", "aa:bb:cc:dd:ee:00"],
        ];
        let want = [
            "10.0.0.0/8 . 443 . aa:bb:cc:dd:ee:ff",
            "10.0.0.2-10.0.0.9 . 80-90 . aa:bb:cc:dd:ee:00",
        ];
        assert_eq!(read(&fields, &elements).unwrap(), want);
        assert_eq!(
            read(&["tcp flags", "iifname"], &[&["syn|ack", "\"a\""]]).unwrap(),
            ["syn | ack . \"a\""]
        );
    }

    #[test]
    fn what_is_not_understood_has_its_number() {
        let refused = |field: &str, values: &[&str]| {
            let elements: Vec<&[&str]> = values.iter().map(std::slice::from_ref).collect();
            read(&[field], &elements).unwrap_err()
        };
        assert_eq!(refused("tcp dport", &["1", "70000"]).0, 1);
        assert_eq!(refused("ether saddr", &["a", "b", "a-b"]).0, 2);
        assert_eq!(refused("iifname", &["\"a\"", "\"b*\""]).0, 1);
    }
}
