// SPDX-License-Identifier: GPL-2.0-or-later
//! Addresses that sets have learned from DNS. A transaction that creates the same set again also adds its addresses.
//! For a revert, the addresses are stored apart from the rules: addresses expire and new addresses are learned
//! meanwhile, and a revert must not fail because of addresses.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use crate::failure::Result;
use crate::nft;
use crate::present::Present;
use crate::source::Table;
use crate::store::{Store, KEPT};
use crate::{clock, swap};

/// Units of nft's times, in milliseconds.
const UNITS_MS: [(&str, u64); 5] = [
    ("d", 86_400_000),
    ("h", 3_600_000),
    ("m", 60_000),
    ("s", 1000),
    ("ms", 1),
];

/// Set that learns addresses from DNS. A new set gets the addresses of a former set only if all fields are equal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Learned {
    pub table: Table,
    pub set: String,
    /// True if its addresses are IPv6 addresses. None: the state was written by a version without this field.
    #[serde(default)]
    pub is_ipv6: Option<bool>,
    /// Text of the set's statement `learn dns …`, with the names.
    pub learns: String,
}

impl From<stage::LearnedSet> for Learned {
    fn from(set: stage::LearnedSet) -> Learned {
        Learned {
            table: Table {
                family: set.family,
                name: set.table,
            },
            set: set.name,
            is_ipv6: Some(set.is_ipv6),
            learns: set.learns,
        }
    }
}

/// Address in a set that learns, with the time that is left.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Element {
    address: IpAddr,
    /// Lifetime of the address, and the time that is left, in milliseconds; None: the address does not expire.
    time_ms: Option<(u64, u64)>,
}

impl Element {
    /// Parses an element of nft's list of a set: `ADDRESS`, or `ADDRESS timeout 5m expires 4m59s996ms`. Returns None if
    /// it is no address, has expired, or its `expires` can't be parsed.
    fn parse(text: &str) -> Option<Element> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let address = words.first()?.parse().ok()?;
        let behind = |name| {
            let at = words.iter().position(|word| *word == name)?;
            time_ms(words.get(at + 1)?)
        };
        let time_ms = match words.contains(&"expires") {
            true => {
                let left = behind("expires").filter(|left| *left > 0)?;
                Some((behind("timeout").unwrap_or(left), left))
            }
            false => None,
        };
        Some(Element { address, time_ms })
    }

    /// Returns the element as it is `passed_ms` later; None if it has expired by then.
    fn later(&self, passed_ms: u64) -> Option<Element> {
        let mut later = self.clone();
        if let Some((_, left)) = &mut later.time_ms {
            *left = left.checked_sub(passed_ms).filter(|left| *left > 0)?;
        }
        Some(later)
    }

    /// Returns the element in nft's syntax.
    fn text(&self) -> String {
        let time = |ms: u64| format!("{}s{}ms", ms / 1000, ms % 1000);
        let address = self.address;
        match self.time_ms {
            Some((all, left)) => {
                format!("{address} timeout {} expires {}", time(all), time(left))
            }
            None => address.to_string(),
        }
    }
}

/// Parses a time of nft, such as `4m59s996ms`. Returns milliseconds; None if it is malformed.
fn time_ms(text: &str) -> Option<u64> {
    let (mut rest, mut sum) = (text, 0_u64);
    while !rest.is_empty() {
        let (number, behind) = rest.split_at(rest.find(|letter: char| !letter.is_ascii_digit())?);
        let (unit, after) = behind.split_at(
            behind
                .find(|letter: char| letter.is_ascii_digit())
                .unwrap_or(behind.len()),
        );
        let (_, unit_ms) = UNITS_MS.iter().find(|(name, _)| *name == unit)?;
        sum = sum.checked_add(number.parse::<u64>().ok()?.checked_mul(*unit_ms)?)?;
        rest = after;
    }
    Some(sum)
}

/// Returns the unexpired elements in nft's list of a set.
fn elements(listed: &str) -> Vec<Element> {
    // A comment may contain `,` and `}`, but no quotation mark.
    let bare: String = listed.split('"').step_by(2).collect();
    let inner = bare
        .split_once("elements = {")
        .and_then(|(_, rest)| rest.split_once('}'));
    let all = inner.map_or("", |(inner, _)| inner).split(',');
    all.filter_map(Element::parse).collect()
}

/// Removes the elements of sets from nft's list of a table. Returns the list without them, and the removed text of each
/// set.
fn without_elements(listed: &str, sets: &[&str]) -> (String, Vec<String>) {
    let (mut kept, mut removed) = (String::new(), vec![String::new(); sets.len()]);
    let (mut set, mut is_element) = (None, false);
    for line in listed.split_inclusive('\n') {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            ["set", name, "{"] if line.starts_with("\tset ") => {
                set = sets.iter().position(|one| *one == name);
            }
            ["}"] if line.starts_with("\t}") => (set, is_element) = (None, false),
            // Elements are the last statement of a set.
            ["elements", "=", ..] if line.starts_with("\t\telements ") => {
                is_element = set.is_some();
            }
            _ => {}
        }
        match set.filter(|_| is_element) {
            Some(set) => removed[set] += line,
            None => kept += line,
        }
    }
    (kept, removed)
}

/// Addresses that sets had learned at a point in time, for a revert.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Saved {
    /// Time at which the addresses were taken from the tables, in milliseconds since the boot.
    at_ms: u64,
    sets: Vec<(Learned, Vec<Element>)>,
}

impl Saved {
    /// Removes the addresses of sets from the texts of tables, and returns the addresses.
    /// - present: in/out: the tables.
    pub fn take(present: &mut Present, sets: &[Learned]) -> Saved {
        let mut saved = Saved {
            at_ms: clock::boot_ms(),
            sets: Vec::new(),
        };
        for (table, text) in present.texts() {
            let own: Vec<&Learned> = sets.iter().filter(|set| set.table == *table).collect();
            let names: Vec<&str> = own.iter().map(|set| set.set.as_str()).collect();
            let (kept, removed) = without_elements(text, &names);
            *text = kept;
            let found = removed.iter().map(|removed| elements(removed));
            saved.sets.extend(own.into_iter().cloned().zip(found));
        }
        saved
    }

    /// Returns the saved addresses of a set that have not expired at a time (ms since the boot). Addresses with the
    /// most time left come first.
    fn of(&self, set: &Learned, now_ms: u64) -> Vec<Element> {
        let passed_ms = now_ms.saturating_sub(self.at_ms);
        let sets = self.sets.iter().filter(|(one, _)| one == set);
        let mut found: Vec<Element> = sets
            .flat_map(|(_, elements)| elements.iter())
            .filter_map(|element| element.later(passed_ms))
            .collect();
        let left = |element: &Element| element.time_ms.map_or(u64::MAX, |(_, left)| left);
        found.sort_by_key(|element| std::cmp::Reverse(left(element)));
        found
    }
}

/// Returns the addresses that a set has in the kernel, followed by the saved addresses that the set lacks; at most
/// LEARNED_MAX addresses.
fn joined(mut present: Vec<Element>, saved: Vec<Element>) -> Vec<Element> {
    let known: std::collections::HashSet<IpAddr> =
        present.iter().map(|element| element.address).collect();
    let others = saved.into_iter();
    present.extend(others.filter(|element| !known.contains(&element.address)));
    present.truncate(stage::LEARNED_MAX as usize);
    present
}

/// Sets that learn addresses, before and after a transaction.
pub struct Sets<'a> {
    /// Sets of the generation in the kernel.
    pub before: &'a [Learned],
    /// Sets of the generation to load.
    pub after: &'a [Learned],
    /// Saved addresses of the sets in `after`.
    pub saved: &'a Saved,
}

/// Returns the commands that add addresses to the sets in `after`: the addresses in the kernel if the set is also in
/// `before`, and the saved addresses.
fn kept(sets: &Sets) -> Result<String> {
    let (mut text, now_ms) = (String::new(), clock::boot_ms());
    for set in sets.after {
        let listed = match sets.before.contains(set) {
            true => nft::set(&set.table, &set.set)?.unwrap_or_default(),
            false => String::new(),
        };
        let is_typed =
            |element: &Element| set.is_ipv6.is_none_or(|it| it == element.address.is_ipv6());
        let elements = joined(elements(&listed), sets.saved.of(set, now_ms));
        let elements = elements.iter().filter(|element| is_typed(element));
        let elements: Vec<String> = elements.map(Element::text).collect();
        if !elements.is_empty() {
            let elements = elements.join(", ");
            text += &format!("add element {} {} {{ {elements} }}\n", set.table, set.set);
        }
    }
    Ok(text)
}

/// Loads a transaction of a generation with the addresses of its sets. If there are no addresses, loads nothing and
/// returns false.
fn load_kept(
    store: &Store,
    number: u64,
    name: &str,
    sets: &Sets,
    present: &Present,
) -> Result<bool> {
    let kept = kept(sets)?;
    if kept.is_empty() {
        return Ok(false);
    }
    let text = format!("{}\n{kept}", store.text(number, name)?);
    store.write(number, KEPT, &text)?;
    swap::load(store, number, KEPT, present)?;
    Ok(true)
}

/// Loads a transaction of a generation with the addresses that its sets have learned; without addresses if that fails.
/// - present: the tables that the transaction removes, as for [`swap::load`].
pub fn load(store: &Store, number: u64, name: &str, sets: &Sets, present: &Present) -> Result<()> {
    match load_kept(store, number, name, sets, present) {
        Ok(true) => Ok(()),
        Ok(false) | Err(_) => swap::load(store, number, name, present),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LISTED: &str = "table inet f {\n\tset s {\n\t\ttype ipv4_addr\n\t\tsize 65536\n\t\tflags timeout\n\t\telements = { 10.0.0.1 timeout 5m expires 4m59s996ms,\n\t\t\t     10.0.0.2 timeout 1m expires 0s, 10.0.0.3 timeout 1m expires 2s,\n\t\t\t     10.0.0.4 comment \"a } b, 10.0.0.8 c\", 10.0.0.5 }\n\t}\n\n\tset t {\n\t\ttype ipv4_addr\n\t\telements = { 10.0.0.9 }\n\t}\n}\n";

    fn set(is_ipv6: bool) -> Learned {
        Learned {
            table: Table {
                family: "inet".to_owned(),
                name: "f".to_owned(),
            },
            set: "s".to_owned(),
            is_ipv6: Some(is_ipv6),
            learns: "learn dns \"a.example\"".to_owned(),
        }
    }

    fn texts(elements: &[Element]) -> Vec<String> {
        elements.iter().map(Element::text).collect()
    }

    #[test]
    fn elements_of_a_list() {
        let expected = [
            "10.0.0.1 timeout 300s0ms expires 299s996ms",
            "10.0.0.3 timeout 60s0ms expires 2s0ms",
            "10.0.0.4",
            "10.0.0.5",
        ];
        assert_eq!(texts(&elements(LISTED)), expected);
        assert!(elements("table inet f {\n\tset s {\n\t\ttype ipv4_addr\n\t}\n}\n").is_empty());
        assert_eq!(time_ms("1d2h3m4s5ms"), Some(93_784_005));
        assert_eq!(time_ms("never"), None);
    }

    #[test]
    fn a_table_loses_the_elements_of_sets_that_learn() {
        let (kept, removed) = without_elements(LISTED, &["s"]);
        assert_eq!(elements(&removed[0]).len(), 4);
        assert!(kept.contains("flags timeout\n\t}\n"), "{kept}");
        assert!(kept.contains("elements = { 10.0.0.9 }"), "{kept}");
        assert!(!kept.contains("10.0.0.1"), "{kept}");
        assert_eq!(without_elements(LISTED, &[]).0, LISTED);
    }

    #[test]
    fn time_passes_for_saved_addresses() {
        let saved = Saved {
            at_ms: 1000,
            sets: vec![(set(false), elements(LISTED))],
        };
        let left = saved.of(&set(false), 3000);
        let expected = [
            "10.0.0.4",
            "10.0.0.5",
            "10.0.0.1 timeout 300s0ms expires 297s996ms",
        ];
        assert_eq!(texts(&left), expected);
        assert!(saved.of(&set(true), 3000).is_empty());
    }

    #[test]
    fn a_set_gets_no_more_than_it_holds() {
        let element = |number: u32| Element {
            address: IpAddr::from(number.to_be_bytes()),
            time_ms: None,
        };
        let all = |range: std::ops::Range<u32>| range.map(element).collect::<Vec<_>>();
        let joined = joined(all(30_000..70_000), all(0..40_000));
        assert_eq!(joined.len(), stage::LEARNED_MAX as usize);
        assert_eq!(joined[0], element(30_000));
        assert_eq!(joined[40_000], element(0));
    }
}
