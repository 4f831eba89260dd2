// SPDX-License-Identifier: GPL-2.0-or-later
//! Replaces a rule's names with tests of the connection's class, alone or with the other fields of a lookup.

use std::collections::BTreeSet;
use std::ops::Range;

use crate::boxes::{self, ELEMENTS_MAX};
use crate::class::Classes;
use crate::kernel::{of_ports, NOT_OF_DNS, OF_DNS, PORTS};
use crate::key::Use;
use crate::lookup::{Element, Lookup};
use crate::marks::Layout;
use crate::names::{Ask, NameRule};
use crate::others::Others;
use crate::reach::Ways;
use crate::token::{Kind, Tokens};
use crate::trial::Trials;
use crate::{Options, Refusal, Undecided};

/// Match of packets that may have names (TCP, UDP, AH), to be written before other matches. After a match with `==`,
/// nft would refuse matches of other protocols.
const GATE: &str = "meta l4proto != { 0-5, 7-16, 18-50, 52-255 }";

/// Edit: bytes of the policy's text, and the text that replaces them.
pub type Edit = (Range<usize>, String);

/// Element in the kernel: class bits of the mark, ranges of the other fields, verdict or value.
struct Row {
    mark: u32,
    others: Others,
    leads: String,
}

/// Returns the byte range of tokens in the policy's text.
pub fn bytes(tokens: &Tokens, range: &Range<usize>) -> Range<usize> {
    tokens.start(range.start)..tokens.end_before(range.end)
}

/// Joins the mark and the other fields to a key (`ct mark & 0xff . ip daddr`), or to an element's key. The mark must be
/// the first field: nft accepts a mask only in the first field of a statement's key.
fn joined(mark: &str, others: &[String]) -> String {
    let others = others.iter().map(String::as_str);
    let words: Vec<&str> = [mark].into_iter().chain(others).collect();
    words.join(" . ")
}

/// Data from which the edits of rules are made.
pub struct Replacer<'a> {
    pub ways: &'a Ways<'a>,
    pub classes: &'a Classes,
    pub layout: Layout,
    pub options: &'a Options,
    pub trials: &'a Trials<'a>,
}

impl Replacer<'_> {
    /// Returns the match that limits a test of the class to packets that may have its names; empty if the rule's other
    /// matches require TCP or UDP, and its names are not of DNS.
    /// - place: token index of the test.
    fn gate(&self, rule: &NameRule, place: usize) -> String {
        let own = self.ways.before_test(rule);
        let is_transport = self.ways.own(&own).iter().any(|found| found.is_transport());
        match (rule.is_of_dns_at(place), is_transport) {
            (true, _) => of_ports(&OF_DNS),
            (false, true) => String::new(),
            (false, false) => format!("{GATE} "),
        }
    }

    fn mark(&self) -> String {
        format!("ct mark & {:#010x}", self.layout.class_mask())
    }

    /// Returns two marks, each with its verdict: first for names that are not known yet, then for unreadable names. No
    /// verdict: these packets skip the rule.
    /// - place: token index of the test.
    /// - leads: verdicts of the lookup's elements.
    fn uncertain(
        &self,
        rule: &NameRule,
        place: usize,
        leads: &[&str],
    ) -> [(u32, Option<String>); 2] {
        let verdict = |is_open: bool| match is_open {
            true => self.trials.verdict(rule.rule, place, leads),
            false => Some("drop".to_owned()),
        };
        let undecided = verdict(self.options.undecided == Undecided::Accept);
        let unreadable = verdict(self.options.unknown_open);
        [(0, undecided), (self.layout.unreadable(), unreadable)]
    }

    /// Returns a test of the class: the match of `gate`, then `KEY vmap { ELEMENTS }`. Without elements, a test that
    /// never holds replaces the vmap. A packet without an element skips the rule.
    /// - place: token index of the test.
    fn vmap(&self, rule: &NameRule, place: usize, key: &str, elements: &[String]) -> String {
        let (gate, mark) = (self.gate(rule, place), self.mark());
        match elements {
            // nft refuses an empty map. Two matches that exclude each other replace it.
            [] => format!(
                "{gate}{mark} == {:#010x} {mark} == 0",
                self.layout.unreadable()
            ),
            _ => format!("{gate}{key} vmap {{ {} }}", elements.join(", ")),
        }
    }

    /// Returns the test that replaces `dns name missing` or `dns type missing`, which holds for all packets of ports
    /// other than 53.
    /// - uncertain: as `uncertain` returns it.
    /// - known: marks of the classes for which the rule holds.
    fn test_of_no_dns(
        &self,
        rule: &NameRule,
        place: usize,
        uncertain: [(u32, Option<String>); 2],
        known: impl Iterator<Item = (u32, Option<String>)>,
    ) -> String {
        let mut elements = Vec::new();
        let mut add = |mark: u32, ports: &[&str], verdict: &str| {
            let element = |ports: &&str| format!("{mark:#010x} . {ports} : {verdict}");
            elements.extend(ports.iter().map(element));
        };
        for (mark, verdict) in uncertain {
            add(mark, &NOT_OF_DNS, "continue");
            if let Some(verdict) = verdict {
                add(mark, &OF_DNS, &verdict);
            }
        }
        for (mark, _) in known {
            add(mark, &NOT_OF_DNS, "continue");
            add(mark, &OF_DNS, "continue");
        }
        let key = format!("{} . {PORTS}", self.mark());
        self.vmap(rule, place, &key, &elements)
    }

    /// Returns the test of the class that replaces matches of names.
    /// - place: token index of the test.
    fn test(&self, rule: &NameRule, asks: &[&Ask], place: usize) -> String {
        let [undecided, unreadable] = self.uncertain(rule, place, &[]);
        let known = self.classes.of(asks).into_iter();
        let known = known.map(|number| (self.layout.class(number), Some("continue".to_owned())));
        if asks.iter().all(|ask| ask.is_of_no_dns()) {
            return self.test_of_no_dns(rule, place, [undecided, unreadable], known);
        }
        let all = [undecided].into_iter().chain(known).chain([unreadable]);
        let elements: Vec<String> = all
            .filter_map(|(mark, verdict)| Some(format!("{mark:#010x} : {}", verdict?)))
            .collect();
        self.vmap(rule, place, &self.mark(), &elements)
    }

    /// Returns elements for the kernel, of which no two hold for one packet. None: there are too many.
    fn rows(mark: u32, elements: Vec<(Others, String)>) -> Option<Vec<Row>> {
        let rows = boxes::first_counts(elements)?.into_iter();
        let row = |(others, leads)| Row {
            mark,
            others,
            leads,
        };
        Some(rows.map(row).collect())
    }

    /// Returns the elements for the classes for which all matches of `asks` hold. None: there are too many.
    /// - asks: the matches.
    /// - leads: replaces the verdict or value of each element.
    fn known(&self, lookup: &Lookup, asks: &[&Ask], leads: Option<&str>) -> Option<Vec<Row>> {
        let mut all = Vec::new();
        for number in self.classes.of(asks) {
            let elements = self.classes.elements(lookup, number);
            let elements = elements.map(|element| {
                let own = leads.unwrap_or(&element.leads);
                (element.others.clone(), own.to_owned())
            });
            all.extend(Self::rows(self.layout.class(number), elements.collect())?);
            if all.len() > ELEMENTS_MAX {
                return None;
            }
        }
        Some(all)
    }

    /// Returns the elements for names that are not known yet and for unreadable names. None: there are too many.
    fn unknown(&self, rule: &NameRule, lookup: &Lookup) -> Option<Vec<Row>> {
        let all: Vec<&str> = lookup
            .elements
            .iter()
            .map(|one| one.leads.as_str())
            .collect();
        let verdicts = |element: &Element| match (lookup.of, lookup.fields.texts.is_empty()) {
            (Use::Verdict, true) => self.uncertain(rule, lookup.place, &all),
            (Use::Verdict, false) => self.uncertain(rule, lookup.place, &[element.leads.as_str()]),
            _ => self.uncertain(rule, lookup.place, &[]),
        };
        let verdicts: Vec<_> = lookup.elements.iter().map(verdicts).collect();
        let mut all = Vec::new();
        for at in 0..2 {
            let pairs = lookup.elements.iter().zip(&verdicts);
            let mut elements: Vec<(Others, String)> = pairs
                .filter_map(|(element, both)| Some((element.others.clone(), both[at].1.clone()?)))
                .collect();
            // An element that accepts must come before an element that overlaps it.
            elements.sort_by_key(|(_, verdict)| verdict != "accept");
            let mark = verdicts.first().map_or(0, |both| both[at].0);
            all.extend(Self::rows(mark, elements)?);
        }
        Some(all)
    }

    fn key(&self, lookup: &Lookup) -> String {
        joined(&self.mark(), &lookup.fields.texts)
    }

    /// Returns the nft text of each element in a lookup's set or map.
    fn elements(lookup: &Lookup, rows: &[Row]) -> Vec<String> {
        let text = |row: &Row| {
            let others = lookup.fields.print(&row.others);
            let key = joined(&format!("{:#010x}", row.mark), &others);
            match row.leads.as_str() {
                "" => key,
                leads => format!("{key} : {leads}"),
            }
        };
        rows.iter().map(text).collect()
    }

    /// Returns a verdict map that tests a lookup and the matches of names at the same place. None: the map has too many
    /// elements.
    /// - leads: verdict of all elements for known names; None: each element keeps its own verdict.
    fn looked_up(
        &self,
        rule: &NameRule,
        lookup: &Lookup,
        asks: &[&Ask],
        leads: Option<&str>,
    ) -> Option<String> {
        let mut rows = self.unknown(rule, lookup)?;
        rows.extend(self.known(lookup, asks, leads)?);
        let elements = Self::elements(lookup, &rows);
        Some(self.vmap(rule, lookup.place, &self.key(lookup), &elements))
    }

    /// Returns the text that replaces the lookup itself. None: it has too many elements.
    fn in_place(&self, rule: &NameRule, lookup: &Lookup, asks: &[&Ask]) -> Option<String> {
        let key = self.key(lookup);
        Some(match lookup.of {
            Use::Member => String::new(),
            Use::Verdict => self.looked_up(rule, lookup, asks, None)?,
            Use::NotMember => {
                let rows = self.known(lookup, &[], Some(""))?;
                match rows.as_slice() {
                    [] => String::new(),
                    rows => {
                        format!("{key} != {{ {} }}", Self::elements(lookup, rows).join(", "))
                    }
                }
            }
            Use::Value => {
                let mut rows = self.known(lookup, asks, None)?;
                if rows.is_empty() {
                    // No packet reaches this statement, but nft refuses an empty map.
                    let first = lookup.elements.first()?;
                    let (others, leads) = (first.others.clone(), first.leads.clone());
                    rows = Self::rows(self.layout.unreadable(), vec![(others, leads)])?;
                }
                format!(
                    "{key} map {{ {} }}",
                    Self::elements(lookup, &rows).join(", ")
                )
            }
        })
    }

    /// Returns the edits of a rule. None: its lookup has too many elements.
    fn edits(&self, rule: &NameRule) -> Option<Vec<Edit>> {
        let tokens = self.ways.tokens;
        let lookup = rule.lookup.as_ref();
        let at = |place: usize| rule.asks.iter().filter(move |ask| ask.place == place);
        // The test of a verdict replaces the lookup. The test of a value is written before the statement.
        let tested = lookup.filter(|lookup| matches!(lookup.of, Use::Member | Use::Value));
        let mut places: BTreeSet<usize> = rule.asks.iter().map(|ask| ask.place).collect();
        places.extend(tested.map(|lookup| lookup.place));
        let mut removed: Vec<Range<usize>> =
            rule.asks.iter().map(|ask| ask.tokens.clone()).collect();
        let mut edits = Vec::new();
        if let Some(lookup) = lookup {
            let beside: Vec<&Ask> = at(lookup.place).collect();
            let text = self.in_place(rule, lookup, &beside)?;
            match lookup.of {
                Use::Member => removed.push(lookup.tokens.clone()),
                _ => edits.push((bytes(tokens, &lookup.tokens), text)),
            }
            if lookup.of == Use::Verdict {
                places.remove(&lookup.place);
            }
        }
        removed.retain(|range| !range.is_empty());
        for place in places {
            let asks: Vec<&Ask> = at(place).collect();
            let test = match tested.filter(|lookup| lookup.place == place) {
                Some(lookup) => self.looked_up(rule, lookup, &asks, Some("continue"))?,
                None => self.test(rule, &asks, place),
            };
            // If a match of a name ends at the place of the test, the test replaces this match.
            let before = removed.iter().position(|range| range.end == place);
            edits.push(match before {
                Some(found) => (bytes(tokens, &removed.swap_remove(found)), test),
                // The token is a line end, directly after the last word.
                None if tokens.kind(place) == Kind::End => {
                    (tokens.start(place)..tokens.start(place), format!(" {test}"))
                }
                None => (tokens.start(place)..tokens.start(place), format!("{test} ")),
            });
        }
        edits.extend(
            removed
                .iter()
                .map(|range| (bytes(tokens, range), String::new())),
        );
        edits.extend(self.trials.behind(rule.rule));
        Some(edits)
    }
}

/// Returns each rule's edits, which replace its matches of names. Refuses a lookup with too many elements.
pub fn edits(replacer: &Replacer, rules: &[NameRule]) -> Result<Vec<Vec<Edit>>, Refusal> {
    let edits = |rule: &NameRule| {
        let made = replacer.edits(rule);
        made.ok_or_else(|| {
            let reason =
                format!("its elements overlap so that they become more than {ELEMENTS_MAX}");
            let cure = "write elements that don't overlap in the fields beside names";
            Refusal::at(replacer.ways.tokens, rule.start(), reason, cure)
        })
    };
    rules.iter().map(edits).collect()
}

#[cfg(test)]
mod tests {
    use crate::{split, text, Options, Refusal};

    /// Returns the tests of a rule in the hook input, without `GATE`.
    fn tests_of(rules: &str) -> Result<Vec<String>, Refusal> {
        let policy = format!(
            "table inet f {{\n\tset s {{\n\t\ttype ipv4_addr . hostname; flags interval\n\t\telements = {{ 10.0.0.0/8 . \"a.example\", 10.0.0.1 . \"*.example\" }}\n\t}}\n\t\
             chain c {{\n\t\ttype filter hook input priority 0\n{rules}\n\t}}\n}}\n"
        );
        let made = split(&text("p.nft", &policy).unwrap(), &Options::default())?;
        assert!(!made.kernel.contains("hostname"), "{}", made.kernel);
        let gate = format!("{} ", super::GATE);
        let tests = made.rules[0].tests.iter();
        Ok(tests.map(|test| test.replace(&gate, "")).collect())
    }

    #[test]
    fn a_set_has_elements_for_each_class() {
        // Classes: other names; a name below example; a.example, for which both elements hold.
        let tests = tests_of("ip daddr . tls sni @s counter drop").unwrap();
        let want = "ct mark & 0x00070000 . ip daddr vmap { 0x00070000 . 10.0.0.0/8 : drop, \
                    0x00020000 . 10.0.0.1 : continue, 0x00030000 . 10.0.0.0/8 : continue }";
        assert_eq!(tests, [want]);
        // While the name is not known, only addresses of the set are accepted.
        let tests = tests_of("ip daddr . tls sni @s accept").unwrap();
        assert!(
            tests[0].contains("{ 0x00000000 . 10.0.0.0/8 : accept, "),
            "{tests:?}"
        );
        let tests = tests_of("ip daddr . tls sni != @s accept").unwrap();
        let want = [
            "ct mark & 0x00070000 . ip daddr != { 0x00030000 . 10.0.0.1, 0x00040000 . 10.0.0.0/8 }",
            "ct mark & 0x00070000 vmap { 0x00000000 : accept, 0x00020000 : continue, 0x00030000 : continue, 0x00040000 : continue, 0x00070000 : drop }",
        ];
        assert_eq!(tests, want);
    }

    #[test]
    fn in_a_map_the_innermost_name_counts() {
        let map = "{ \"*.example\" . 1-9 : drop, \"a.example\" . 5 : accept, \"*.example\" . 11 : jump d }\n\t}\n\tchain d {\n\t\tdrop";
        let tests = tests_of(&format!("tls sni . tcp dport vmap {map}")).unwrap();
        let test = &tests[0];
        for part in [
            "ct mark & 0x00070000 . tcp dport vmap",
            "0x00000000 . 5 : accept",
            "0x00030000 . 1-4 : drop",
        ] {
            assert!(test.contains(part), "{part}: {test}");
        }
        // While the name is undecided, only the port is accepted that some name accepts.
        assert_eq!(test.matches("0x00000000 . ").count(), 1, "{test}");
    }

    #[test]
    fn values_have_a_test_in_front_of_their_statement() {
        let rule = "tls alpn \"h2\" counter meta mark set tls sni map { \"a.example\" : 0x1, \"b.example\" : 0x2 } accept";
        let tests = tests_of(rule).unwrap();
        assert_eq!(tests.len(), 3, "{tests:?}");
        assert!(tests[1].contains("0x00000000 : accept"), "{tests:?}");
        assert!(tests[2].starts_with("ct mark & "), "{tests:?}");
        assert!(tests[2].contains(" map { "), "{tests:?}");
    }
}
