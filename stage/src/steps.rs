// SPDX-License-Identifier: GPL-2.0-or-later
//! Steps: for each rule, the ways on (matches and the target to which they lead) for a packet whose names are unknown.
//! The rule's effects are left out.

use std::collections::BTreeSet;
use std::iter;
use std::ops::Range;

use crate::boxes;
use crate::kernel::{of_ports, NOT_OF_DNS, OF_DNS};
use crate::key::Use;
use crate::lookup::{self, Lookup};
use crate::matches;
use crate::names::{Ask, NameRule};
use crate::others::Others;
use crate::reach::Ways;
use crate::reject;
use crate::token::Kind;
use crate::tree::{self, Rule};

/// Target of a rule: a verdict or a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lead {
    Accept,
    /// Drop or reject.
    Drop,
    Return,
    /// Index in `Tree::chains`.
    Jump(usize),
    Goto(usize),
}

/// Way on from a rule (one of its possible results): its matches as text, each with a blank after it, and its target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Way {
    pub matches: String,
    pub lead: Lead,
}

/// Ways on from a rule (its possible results). A packet takes at most one of them, unless the rule is uncertain.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Step {
    pub ways: Vec<Way>,
    /// True if the rule is uncertain: it depends on a name, a limit or a quota, so that the packet may also skip it.
    pub may: bool,
}

/// Statements that have an effect but don't end the rule: the next statement follows. Steps leave them out.
const EFFECTS: [&str; 10] = [
    "counter", "log", "last", "notrack", "flow", "add", "update", "delete", "dup", "reset",
];
/// Statements that hold for some packets only, whatever the packets contain.
const BOUNDS: [&str; 2] = ["limit", "quota"];
/// Statements within `add @s { … }` that hold for some packets only.
const OF_SETS: [&str; 3] = ["limit", "quota", "count"];
/// Words in an element of a set or map that don't belong to its key.
pub const OF_ELEMENTS: [&str; 6] = ["timeout", "expires", "comment", "counter", "limit", "quota"];

/// Fields whose value is a protocol, by the mask that has all their bits set (see `one_of`).
const OF_PROTOCOLS: [(&str, &[&str]); 2] = [
    (
        "0xff",
        &[
            "meta l4proto",
            "ip protocol",
            "ip6 nexthdr",
            "ct protocol",
            "ct original protocol",
            "ct reply protocol",
            "meta nfproto",
            "ct l3proto",
            "ct original l3proto",
            "ct reply l3proto",
        ],
    ),
    (
        "0xffff",
        &[
            "meta protocol",
            "ether type",
            "vlan type",
            "meta iiftype",
            "iiftype",
        ],
    ),
];

/// Returns the match, as text, of packets whose key has one of the values. A single value of one field is compared by
/// `==`: nft compares a set of a single value bit by bit, so that `tcp flags { syn }` also holds for a packet with SYN
/// and ACK. Fields in OF_PROTOCOLS are compared with their mask: after a match of protocols without a mask, nft refuses
/// matches of another protocol, or leaves out its own test of the protocol for later matches: `meta nfproto { ipv4,
/// ipv6 } ip6 hoplimit 64` reads a byte of IPv4, too.
fn one_of(key: &str, values: &[&str]) -> String {
    let mask = OF_PROTOCOLS
        .iter()
        .find(|(_, fields)| fields.contains(&key));
    let key = match mask {
        Some((mask, _)) => format!("{key} & {mask}"),
        None => key.to_owned(),
    };
    match values {
        [value] if !key.contains(" . ") => format!("{key} == {value} "),
        _ => format!("{key} {{ {} }} ", values.join(", ")),
    }
}

/// Key and value of each element of a map.
type Elements = Vec<(String, Vec<String>)>;

/// Parser of one rule.
struct Reader<'a> {
    ways: &'a Ways<'a>,
    named: Option<&'a NameRule>,
    /// Words of the fields and sets (`mark`, `@s`) changed by statements that a step leaves out.
    changed: &'a BTreeSet<String>,
    /// True if the rule's matches of names certainly hold for the packets for which the rule is parsed.
    is_certain: bool,
    table: usize,
    end: usize,
    matches: String,
    step: Step,
}

impl Reader<'_> {
    fn word(&self, at: usize) -> &str {
        self.ways.tokens.get(at)
    }

    fn say(&mut self, range: &Range<usize>) {
        let text = tree::expand(self.ways.tokens, self.ways.tree, range);
        self.matches += &format!("{text} ");
    }

    /// Returns true if tokens read a field or set in `changed`: a statement that was left out may have changed it.
    fn is_changed(&self, range: &Range<usize>) -> bool {
        let text = tree::expand(self.ways.tokens, self.ways.tree, range);
        let mut words = text.split(' ');
        words.any(|word| self.changed.contains(word))
    }

    fn lead(&mut self, matches: &str, lead: Lead) {
        let matches = format!("{}{matches}", self.matches);
        self.step.ways.push(Way { matches, lead });
    }

    /// Ends the rule at a statement that is not understood. The rule does not accept packets that may reach the
    /// statement: it drops them, or, if it is uncertain, they skip it.
    fn give_up(&mut self) {
        if !self.step.may {
            self.step.ways.clear();
            self.lead("", Lead::Drop);
        }
    }

    /// Returns the target of a verdict. Some(None): `continue` (the next rule follows). None: not understood.
    fn target(&self, words: &[&str]) -> Option<Option<Lead>> {
        let chain = |name: &str| {
            let mut chains = self.ways.tree.chains.iter();
            chains.position(|chain| chain.table == self.table && chain.name == name)
        };
        Some(match words {
            ["accept", ..] => Some(Lead::Accept),
            ["drop" | "reject", ..] => Some(Lead::Drop),
            ["return"] => Some(Lead::Return),
            ["continue"] => None,
            ["jump", name] => Some(Lead::Jump(chain(name)?)),
            ["goto", name] => Some(Lead::Goto(chain(name)?)),
            _ => return None,
        })
    }

    /// Returns the token after a statement with an effect.
    fn behind(&self, start: usize) -> usize {
        let mut at = start + 1;
        while at < self.end {
            let is_operand = ["set", "flags"].contains(&self.word(at - 1));
            if !is_operand && matches::begins_next(self.ways.tokens, at) {
                break;
            }
            at = match self.word(at) {
                "{" => self.ways.tokens.behind_braces(at),
                _ => at + 1,
            };
        }
        at.min(self.end)
    }

    /// Returns key and value of each element of a map. None: an element is not understood.
    fn elements(&self, ranges: Vec<Range<usize>>) -> Option<Elements> {
        let (tokens, tree) = (self.ways.tokens, self.ways.tree);
        let mut all = Vec::new();
        for range in ranges {
            let flat = tree::flat(tokens, tree, &range);
            let is_part = |at: &&usize| {
                !["{", "}"].contains(&tokens.get(**at)) && tokens.kind(**at) != Kind::End
            };
            let parts = flat.iter().filter(is_part);
            let own: Vec<&str> = parts.map(|at| tokens.get(*at)).collect();
            for element in own.split(|word| *word == ",").filter(|one| !one.is_empty()) {
                let colon = element.iter().position(|word| *word == ":")?;
                let (key, value) = (&element[..colon], &element[colon + 1..]);
                if key
                    .iter()
                    .any(|word| *word == "*" || OF_ELEMENTS.contains(word))
                {
                    return None;
                }
                let value = value.iter().map(|word| (*word).to_owned()).collect();
                all.push((key.join(" "), value));
            }
        }
        Some(all)
    }

    /// Returns the key of a lookup in a map, and the map's elements. None: an element is not understood, a statement
    /// that was left out may change the key, or the map may change at run time.
    /// - range: tokens from the key's first word to `map` or `vmap`.
    fn looked_up_in(&self, range: &Range<usize>) -> Option<(String, Elements)> {
        let tokens = self.ways.tokens;
        let map = tokens.get(range.end + 1);
        let ranges = match map.strip_prefix('@') {
            _ if self.is_changed(range) => return None,
            Some(_) if self.ways.changes(map) => return None,
            Some(name) => lookup::named(tokens, self.ways.tree, self.table, name),
            None => iter::once(range.end + 1..tokens.behind_braces(range.end + 1)).collect(),
        };
        let key = tree::expand(tokens, self.ways.tree, range);
        Some((key, self.elements(ranges)?))
    }

    /// Parses `KEY map …`. Adds the match of packets whose key has an element: for other packets the rule ends there.
    /// Returns None if the map is not understood or has no elements.
    /// - range: tokens from the key's first word to `map`.
    fn value_map(&mut self, range: &Range<usize>) -> Option<()> {
        let (key, elements) = self.looked_up_in(range)?;
        let keys: Vec<&str> = elements.iter().map(|(key, _)| key.as_str()).collect();
        if keys.is_empty() {
            return None;
        }
        self.matches += &one_of(&key, &keys);
        Some(())
    }

    /// Parses `KEY vmap …` and adds a way for each of its targets. Returns None if it is not understood.
    /// - range: tokens from the key's first word to `vmap`.
    fn verdict_map(&mut self, range: &Range<usize>) -> Option<()> {
        let (key, elements) = self.looked_up_in(range)?;
        let mut targets = Vec::new();
        for (key, verdict) in elements {
            let words: Vec<&str> = verdict.iter().map(String::as_str).collect();
            targets.push((key, self.target(&words)?));
        }
        let elements = targets;
        let mut seen = Vec::new();
        for lead in elements.iter().filter_map(|(_, lead)| *lead) {
            if !seen.contains(&lead) {
                seen.push(lead);
                let own = elements.iter().filter(|(_, own)| *own == Some(lead));
                let keys: Vec<&str> = own.map(|(key, _)| key.as_str()).collect();
                self.lead(&one_of(&key, &keys), lead);
            }
        }
        Some(())
    }

    /// Returns the match of packets that have the values of one of the elements in the key's fields other than names;
    /// empty if the key has names only.
    fn others(lookup: &Lookup, elements: &[&Others]) -> String {
        let fields = &lookup.fields;
        if fields.texts.is_empty() {
            return String::new();
        }
        let values = elements
            .iter()
            .map(|others| fields.print(others).join(" . "));
        let values: Vec<String> = values.collect();
        let values: Vec<&str> = values.iter().map(String::as_str).collect();
        one_of(&fields.texts.join(" . "), &values)
    }

    /// Adds a way for the verdict of each element of a lookup of names.
    fn looked_up(&mut self, lookup: &Lookup) {
        for element in &lookup.elements {
            let words: Vec<&str> = element.leads.split(' ').collect();
            if let Some(Some(lead)) = self.target(&words) {
                self.lead(&Self::others(lookup, &[&element.others]), lead);
            }
        }
    }

    /// Adds the match of a lookup's other fields, without its names. Returns None if the elements are too many.
    fn member(&mut self, lookup: &Lookup) -> Option<()> {
        let elements = lookup.elements.iter();
        let all = elements.map(|element| (element.others.clone(), ()));
        let apart = boxes::first_counts(all.collect())?;
        let apart: Vec<&Others> = apart.iter().map(|(others, ())| others).collect();
        self.matches += &Self::others(lookup, &apart);
        Some(())
    }

    /// Adds the match of ports that a lookup of names of DNS implies. Returns false if a statement may have changed
    /// another field of the lookup's key: the rule then counts as one that does not hold.
    fn begin(&mut self, lookup: &Lookup) -> bool {
        let mut asks = lookup.elements.iter().flat_map(|element| &element.asks);
        if asks.any(Ask::is_of_dns) && lookup.of != Use::NotMember {
            self.matches += &of_ports(&OF_DNS);
        }
        lookup.fields.texts.is_empty() || !self.is_changed(&lookup.tokens)
    }

    /// Skips a match or lookup of names at a token. Returns the token after it; Some(None) if the rule ends there; None
    /// if the token is something else.
    fn names(&mut self, at: usize) -> Option<Option<usize>> {
        let named = self.named?;
        if let Some(ask) = named
            .asks
            .iter()
            .find(|ask| ask.tokens.start == at && !ask.tokens.is_empty())
        {
            self.step.may |= !self.is_certain;
            if ask.is_of_dns() {
                self.matches += &of_ports(&OF_DNS);
            }
            return Some(Some(ask.tokens.end));
        }
        let lookup = named.lookup.as_ref();
        let lookup = lookup.filter(|lookup| lookup.tokens.start == at)?;
        self.step.may = true;
        if !self.begin(lookup) {
            return Some(None);
        }
        match lookup.of {
            Use::Verdict => {
                self.looked_up(lookup);
                Some(None)
            }
            Use::Member => Some(self.member(lookup).map(|()| lookup.tokens.end)),
            _ => Some(Some(lookup.tokens.end)),
        }
    }

    /// Parses the statement at a token. Returns the index of the token after the statement, or None if the rule ends
    /// there.
    fn statement(&mut self, at: usize) -> Option<usize> {
        if let Some(behind) = self.names(at) {
            return behind;
        }
        let tokens = self.ways.tokens;
        if let Some(next) = matches::behind(tokens, at, self.end) {
            if self.is_changed(&(at..next)) {
                self.give_up();
                return None;
            }
            self.say(&(at..next));
            return Some(next);
        }
        let word = tokens.get(at);
        if word == "comment" {
            return None;
        }
        let is_call = ["jump", "goto"].contains(&word);
        let is_inner = is_call && at + 1 >= self.end;
        let name = match is_inner {
            true => tree::unnamed(at + 1),
            false => tree::expand(tokens, self.ways.tree, &(at + 1..at + 2)).replace('"', ""),
        };
        let words = match is_call {
            true => vec![word, name.as_str()],
            false => vec![word],
        };
        if word == "reject" {
            let family = self.ways.tree.tables[self.table].family.as_str();
            self.matches += reject::implied(family, tokens, at);
        }
        if let Some(lead) = self.target(&words) {
            if let Some(lead) = lead {
                self.lead("", lead);
            }
            return None;
        }
        if BOUNDS.contains(&word) {
            self.step.may = true;
            return Some(self.behind(at));
        }
        let open = at + 2;
        if ["add", "update"].contains(&word) && tokens.get(open) == "{" {
            let mut inner = open..tokens.behind_braces(open);
            self.step.may |= inner.any(|at| OF_SETS.contains(&tokens.get(at)));
        }
        let is_kind = |word: &str| ["set", "vmap"].contains(&word);
        let kind = (at..self.end).find(|at| is_kind(tokens.get(*at)));
        match kind.map(|kind| (kind, tokens.get(kind))) {
            _ if EFFECTS.contains(&word) => Some(self.effect(at)),
            Some((kind, "set")) if word != "tproxy" => self.set(at, kind),
            Some((kind, _)) if self.verdict_map(&(at..kind)).is_some() => None,
            _ => {
                self.give_up();
                None
            }
        }
    }

    /// Skips a statement that sets a field. Returns the token after it; None if the rule ends there.
    /// - set: the token `set`.
    fn set(&mut self, at: usize, set: usize) -> Option<usize> {
        let lookup = self.named.and_then(|named| named.lookup.as_ref());
        let is_named = lookup.is_some_and(|lookup| lookup.place == at && lookup.of == Use::Value);
        let end = self.effect(at);
        let map = (set..end).find(|at| self.word(*at) == "map");
        if let Some(map) = map.filter(|_| !is_named) {
            if self.value_map(&(set + 1..map)).is_none() {
                self.give_up();
                return None;
            }
        }
        Some(end)
    }

    /// Parses the rule from a token on.
    fn read(mut self, from: usize) -> Step {
        let mut at = from;
        while at < self.end {
            match self.statement(at) {
                Some(next) => at = next,
                None => break,
            }
        }
        self.step
    }

    /// Skips a statement with an effect, e.g. `counter` or `meta mark set 1`. If the value comes from a map whose key
    /// has a name (`meta mark set tls sni map @m`), marks the step as uncertain, and adds the matches that the map
    /// implies whatever the name is. Returns the token after the statement; the end of the rule if it counts as one
    /// that does not hold.
    fn effect(&mut self, at: usize) -> usize {
        let behind = self.behind(at);
        let lookup = self.named.and_then(|named| named.lookup.as_ref());
        match lookup.filter(|lookup| lookup.place == at && lookup.of == Use::Value) {
            Some(lookup) => {
                self.step.may = true;
                match self.begin(lookup) && self.member(lookup).is_some() {
                    true => lookup.tokens.end,
                    false => self.end,
                }
            }
            None => behind,
        }
    }
}

/// Returns the words of the fields and sets that a rule changes: `mark`, `@s`.
pub fn changes(ways: &Ways, rule: &Rule) -> BTreeSet<String> {
    let tokens = ways.tokens;
    let changed = |at: usize| match tokens.get(at) {
        "set" if at > rule.tokens.start => Some(tokens.get(at - 1).to_owned()),
        "add" | "update" | "delete" => Some(tokens.get(at + 1).to_owned()),
        _ => None,
    };
    let words = rule.tokens.clone();
    words
        .filter(|at| tokens.kind(*at) == Kind::Word)
        .filter_map(changed)
        .collect()
}

/// Returns the ways on from a rule with a lookup, one for each verdict in `leads` but `continue`. The packet may also
/// skip the rule.
/// - leads: verdicts of the lookup's elements as text (`jump c`).
pub fn of_leads(ways: &Ways, number: usize, leads: &[&str]) -> Step {
    let none = BTreeSet::new();
    let mut reader = reader(ways, number, None, &none);
    reader.step.may = true;
    for lead in leads {
        let words: Vec<&str> = lead.split(' ').collect();
        if let Some(Some(lead)) = reader.target(&words) {
            reader.lead("", lead);
        }
    }
    reader.step
}

fn reader<'a>(
    ways: &'a Ways<'a>,
    number: usize,
    named: Option<&'a NameRule>,
    changed: &'a BTreeSet<String>,
) -> Reader<'a> {
    let rule = &ways.tree.rules[number];
    Reader {
        ways,
        named,
        changed,
        is_certain: false,
        table: ways.tree.chains[rule.chain].table,
        end: rule.tokens.end,
        matches: String::new(),
        step: Step::default(),
    }
}

/// Parses a rule from a token on.
/// - number: index in `Tree::rules`.
/// - named: matches of names in the rule, if any.
/// - changed: words of the fields and sets changed by statements that a step leaves out.
pub fn read(
    ways: &Ways,
    number: usize,
    from: usize,
    named: Option<&NameRule>,
    changed: &BTreeSet<String>,
) -> Step {
    let version = version_before(ways, number, from);
    let mut step = reader(ways, number, named, changed).read(from);
    for way in step.ways.iter_mut().filter(|way| !way.matches.is_empty()) {
        way.matches.insert_str(0, &version);
    }
    step
}

/// Returns the match of the IP version that stands in a rule before a token; empty if there is none. With it, nft
/// implies no other version for a field of the rest: `meta nfproto ipv6 icmp type 8 exthdr frag exists`.
fn version_before(ways: &Ways, number: usize, from: usize) -> String {
    let mut places = ways.tree.rules[number].tokens.start..from;
    let found = places.find_map(|at| {
        let found = matches::read(ways.tokens, at, from)?;
        (found.field == "meta nfproto").then(|| found.text(ways.tokens, ways.tree, false))
    });
    found.map_or_else(String::new, |text| text + " ")
}

/// Parses a whole rule. A rule whose only condition on names is that there is no DNS query has two steps: one for
/// packets of other ports, for which this is certain, and one for the remaining packets.
pub fn read_whole(
    ways: &Ways,
    number: usize,
    named: Option<&NameRule>,
    changed: &BTreeSet<String>,
) -> Vec<Step> {
    let start = ways.tree.rules[number].tokens.start;
    let read = |is_certain: bool, ports: &[&str]| {
        let mut reader = reader(ways, number, named, changed);
        reader.is_certain = is_certain;
        if !ports.is_empty() {
            reader.matches = of_ports(ports);
        }
        reader.read(start)
    };
    match named {
        Some(named) if named.is_of_no_dns() => vec![read(true, &NOT_OF_DNS), read(false, &OF_DNS)],
        _ => vec![read(false, &[])],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{token, tree};

    fn steps_of(rule: &str) -> Vec<Step> {
        let map = "map m { type ipv4_addr : verdict; }";
        let text = format!("table inet f {{\n {map}\n chain c {{\n {rule}\n }}\n}}\n");
        let tokens = token::tokens(&text);
        let tree = tree::read(&tokens);
        let ways = Ways {
            tokens: &tokens,
            tree: &tree,
        };
        read_whole(&ways, 0, None, &BTreeSet::new())
    }

    #[test]
    fn a_limit_in_an_element_may_hold() {
        for (rule, may) in [
            ("add @s { ip saddr ct count over 10 } drop", true),
            ("update @s { ip saddr limit rate over 1/second } drop", true),
            ("add @s { ip saddr timeout 1m } drop", false),
        ] {
            let steps = steps_of(rule);
            assert_eq!(steps[0].may, may, "{rule}");
        }
    }
}
