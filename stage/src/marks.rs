// SPDX-License-Identifier: GPL-2.0-or-later
//! Mark bits that a policy uses itself, and free mark bits for classes.

use std::ops::Range;

use crate::token::{Kind, Tokens};
use crate::tree::{self, Tree};
use crate::Refusal;

/// Use of a mark in the policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Use {
    /// Index of the token `mark`.
    pub at: usize,
    pub bits: u32,
}

/// Fields of a mark, from its lowest bit on: class, generation, one bit for settled. The firewall needs to know only
/// the mask of all fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    shift: u32,
    class_bits: u32,
    generation_bits: u32,
}

/// Least number of bits in a mask: two for the class, two for the generation, and the highest bit.
const MASK_BITS_MIN: u32 = 5;

/// Returns true if a mark is that of the RST to the sender of a rejected packet (`Layout::refused`).
/// - mark: bits of the mark within `mask`.
/// - mask: mask of all fields.
pub fn is_of_reset(mark: u32, mask: u32) -> bool {
    let (highest, lowest) = (mask & !(mask >> 1), mask & mask.wrapping_neg());
    mask.count_ones() >= MASK_BITS_MIN && mark == highest | lowest << 1
}

/// Numbers of generation bits, in the order in which they are tried.
const GENERATION_BITS: [u32; 11] = [12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2];

fn ones(count: u32) -> u32 {
    u32::MAX.checked_shr(u32::BITS - count).unwrap_or(0)
}

impl Layout {
    /// Returns the mask of all fields: class, generation, settled.
    pub fn mask(&self) -> u32 {
        ones(self.class_bits + 1 + self.generation_bits) << self.shift
    }

    pub fn class_mask(&self) -> u32 {
        ones(self.class_bits) << self.shift
    }

    pub fn class(&self, number: u32) -> u32 {
        number << self.shift
    }

    /// Returns the class bits that stand for unreadable names: all of them.
    pub fn unreadable(&self) -> u32 {
        self.class_mask()
    }

    /// Returns the firewall's mark for unreadable names: all bits of the mask but the highest.
    pub fn said_unreadable(&self) -> u32 {
        self.mask() & !self.settled()
    }

    /// Returns the firewall's mark for names that are not known yet: all bits of the mask.
    pub fn said_undecided(&self) -> u32 {
        self.mask()
    }

    /// Returns the mark of packets that wait for the firewall's answer.
    pub fn asked(&self) -> u32 {
        self.settled()
    }

    /// Returns the mark of DNS packets that the policy has accepted and that the firewall learns from.
    pub fn learns(&self) -> u32 {
        self.settled() | self.class(1)
    }

    /// Returns the mark of the RST to the sender of a rejected packet: the highest bit and class 2, without a
    /// generation.
    pub fn refused(&self) -> u32 {
        self.settled() | self.class(2)
    }

    /// Returns the mark by which a trial (see trial.rs) records that its rules would drop the packet.
    pub fn ended(&self) -> u32 {
        self.class(1)
    }

    /// Returns the mark by which a trial (see trial.rs) makes a packet leave the chain of the rule that began it.
    pub fn left(&self) -> u32 {
        self.class(2)
    }

    /// Returns the bit of settled connections, whose class is final: the highest bit.
    pub fn settled(&self) -> u32 {
        1 << (self.class_bits + self.generation_bits + self.shift)
    }

    pub fn generation_mask(&self) -> u32 {
        ones(self.generation_bits) << (self.class_bits + self.shift)
    }

    /// Returns the bits of a generation, which are never all 0 and never all 1.
    pub fn generation(&self, number: u32) -> u32 {
        (number % self.generations() + 1) << (self.class_bits + self.shift)
    }

    /// Returns mask and value of the marks of connections whose class is final in a generation.
    pub fn final_in(&self, generation: u32) -> (u32, u32) {
        let mask = self.generation_mask() | self.settled();
        (mask, self.generation(generation) | self.settled())
    }

    /// Returns the number of generations after which their bits are reused.
    pub fn generations(&self) -> u32 {
        ones(self.generation_bits) - 1
    }
}

/// Parses a number as nft does: hexadecimal after `0x`, octal after another leading zero, otherwise decimal; also in
/// quotes.
fn number(text: &str) -> Option<u32> {
    let text = text.trim_matches('"');
    let (digits, radix) = match text.as_bytes() {
        [b'0', b'x' | b'X', ..] => (&text[2..], 16),
        [b'0', _, ..] => (text, 8),
        _ => (text, 10),
    };
    u32::from_str_radix(digits, radix).ok()
}

/// Returns all bits up to the highest bit of a number.
fn up_to(highest: u32) -> u32 {
    ones(u32::BITS - highest.leading_zeros())
}

/// Returns true if a value of a map from which a mark is set is a name (/etc/iproute2/rt_marks) or a field, not a
/// number.
/// - text: the use of the mark with the map's elements, or the map's declaration.
fn has_name(text: &str) -> bool {
    let elements = match (text.split_once("elements"), text.split_once(" map {")) {
        (Some((_, elements)), _) => elements,
        (None, Some((_, elements))) => elements.split('}').next().unwrap_or_default(),
        _ => "",
    };
    let is_name = |value: &str| {
        let word = value.trim_start_matches('"');
        let word = word.split([' ', '"']).next().unwrap_or_default();
        let is_word = word.starts_with(|letter: char| letter.is_ascii_alphabetic());
        is_word && !ENDS.contains(&word)
    };
    elements.split(" : ").skip(1).any(is_name)
}

/// Returns the bits that are set in any number in a text. A prefix or range (`0x10/16`, `1-3`) sets all bits up to its
/// highest bit, and so does a remainder (`numgen inc mod 3 offset 8`). A shift sets all bits.
fn bits_of(text: &str) -> u32 {
    let text = text.replace('"', "");
    let text = text.replace(" - ", "-").replace(" / ", "/");
    let words: Vec<&str> = text.split([' ', ',', '{', '}', '(', ')']).collect();
    if shifts(&words) {
        return u32::MAX;
    }
    let mut bits = 0;
    for word in &words {
        // `22:0x40` in a map is one token.
        let value = word.split_once(':').map_or(*word, |(_, value)| value);
        match (number(value), value.split_once(['-', '/'])) {
            (Some(number), _) => bits |= number,
            (None, Some((low, high))) if number(low).is_some() => {
                bits |= up_to(number(low).unwrap_or(0) | number(high).unwrap_or(u32::MAX));
            }
            _ => {}
        }
    }
    let pairs = words.windows(2);
    let terms = pairs.filter(|pair| ["mod", "offset"].contains(&pair[0]));
    let highest = terms.filter_map(|pair| number(pair[1]));
    bits | up_to(highest.fold(0, u32::saturating_add))
}

/// Returns true if a statement sets a packet's mark to a value of unknown bits: neither a number, nor a mark, nor a
/// result of a map of numbers or of `mod`.
/// - text: use of the mark, as text.
fn sets_unknown(text: &str) -> bool {
    let words: Vec<&str> = text.split(' ').collect();
    match words.as_slice() {
        ["set", "mark", ops @ ..] | ["set", "ct" | "meta", "mark", ops @ ..] => {
            let pairs = ops.chunks_exact(2);
            let mut changes = pairs.take_while(|pair| CHANGES.contains(&pair[0]));
            changes.any(|pair| number(pair[1]).is_none()) || has_name(text)
        }
        ["set", value, ..] => {
            let known = words.iter().any(|word| ["map", "mod"].contains(word));
            number(value).is_none() && !known || has_name(text)
        }
        _ => false,
    }
}

/// Operators that change a mark by a value.
const CHANGES: [&str; 6] = ["&", "|", "^", "and", "or", "xor"];
/// Operators whose result has other bits than their operands.
const SHIFTS: [&str; 4] = ["<<", ">>", "lshift", "rshift"];

fn shifts(words: &[&str]) -> bool {
    words.iter().any(|word| SHIFTS.contains(word))
}

/// Words that end the use of a mark, because they begin another match or statement.
const ENDS: [&str; 15] = [
    "accept", "drop", "jump", "goto", "return", "continue", "counter", "comment", "log", "limit",
    "reject", "queue", "meta", "ct", "tcp",
];

/// Returns the tokens that describe the use of a mark, from the token after `mark` to the next match or statement.
fn said(tokens: &Tokens, start: usize, end: usize) -> Range<usize> {
    let mut at = start;
    let is_end =
        |at: usize| ENDS.contains(&tokens.get(at)) && at > start + 1 && tokens.get(at - 1) != ".";
    while at < end && !is_end(at) {
        at = match tokens.get(at) {
            "{" => tokens.behind_braces(at),
            _ => at + 1,
        };
    }
    start..at.min(end)
}

/// Returns the bits of all numbers in the sets or maps `@NAME` that a mark is compared with or set from. Returns all
/// bits if a rule changes such a set, or if a mark is set from a name in a map.
/// - said: tokens of the use.
fn named_bits(tokens: &Tokens, tree: &Tree, said: &Range<usize>) -> u32 {
    let words = tree::flat(tokens, tree, said);
    let names = tree::named_sets(tokens, &words);
    let of_name = |name: &str| {
        let is_changed = |rule: &tree::Rule| {
            let mut places = rule.tokens.clone();
            places
                .any(|at| tokens.get(at) == name && ["add", "update"].contains(&tokens.get(at - 1)))
        };
        if tree.rules.iter().any(is_changed) {
            return u32::MAX;
        }
        let sets = tree.sets.iter().filter(|set| set.name == name[1..]);
        let is_set = tokens.get(said.start) == "set";
        let bits = |text: String| match is_set && has_name(&text) {
            true => u32::MAX,
            false => bits_of(&text),
        };
        let texts = sets.map(|set| {
            let start = if set.is_element { "elements " } else { "" };
            bits(start.to_owned() + &tree::expand(tokens, tree, &set.inner))
        });
        texts.fold(0, |all, bits| all | bits)
    };
    names.map(of_name).fold(0, |all, bits| all | bits)
}

/// Returns the bits of a connection mark that a rule uses. Refuses a rule that compares or replaces the whole mark,
/// because it would read or replace the bits of classes.
/// - text: use of the mark, as text.
fn taken_of_connection(tokens: &Tokens, text: &str, at: usize) -> Result<u32, Refusal> {
    let own =
        "keep to some bits: `ct mark set ct mark & 0xffffff00 | 0x1`, `ct mark & 0xff == 0x1`";
    let words: Vec<&str> = text.split(' ').collect();
    let whole = |what| Err(Refusal::at(tokens, at, what, own));
    let replaces = || whole("a rule that replaces the whole mark of connections");
    match words.as_slice() {
        ["set", "ct", "mark", ops @ ..] => changed(ops).map_or_else(replaces, Ok),
        ["set", ..] => replaces(),
        ["&" | "and", ..] if shifts(&words) => Ok(u32::MAX),
        ["&" | "and", mask, ..] => Ok(number(mask).unwrap_or(u32::MAX)),
        _ => whole("a rule that compares the whole mark of connections"),
    }
}

/// Returns the bits that operations change: `& N` changes the bits not in N, `| N` and `^ N` those in N. None: a shift,
/// a map, a concatenation, or a value that is no number.
fn changed(ops: &[&str]) -> Option<u32> {
    let mut bits = 0;
    for pair in ops.chunks(2) {
        let value = pair.get(1).and_then(|word| number(word));
        bits |= match pair[0] {
            "&" | "and" => !value?,
            "|" | "^" | "or" | "xor" => value?,
            word if SHIFTS.contains(&word) || ["map", "."].contains(&word) => return None,
            _ => break,
        };
    }
    Some(bits)
}

/// Returns the use of a mark at a token; None if the token is not the word `mark` or was counted with another use.
/// Refuses a use of the whole connection mark.
fn read(tokens: &Tokens, tree: &Tree, at: usize, end: usize) -> Result<Option<Use>, Refusal> {
    if tokens.get(at) != "mark" || tokens.kind(at) != Kind::Word {
        return Ok(None);
    }
    let before = at.checked_sub(1).map_or("", |at| tokens.get(at));
    let said = said(tokens, at + 1, end);
    let text = tree::expand(tokens, tree, &said);
    if before != "ct" {
        // When the policy's rules run, a packet's mark contains no bits of classes, but a connection mark does.
        let rest = text.strip_prefix("set ct mark").map(str::trim_start);
        let is_masked = |rest: &str| rest.starts_with('&') || rest.starts_with("and ");
        if rest.is_some_and(|rest| !is_masked(rest)) {
            let cure = "restore some bits: `meta mark set ct mark & 0xff`";
            let reason = "a rule that copies the whole mark of connections";
            return Err(Refusal::at(tokens, at, reason, cure));
        }
        let bits = match sets_unknown(&text) {
            true => u32::MAX,
            false => bits_of(&text) | named_bits(tokens, tree, &said),
        };
        return Ok(Some(Use { at, bits }));
    }
    if tokens.get(at.saturating_sub(2)) == "set" {
        if tokens.get(at.saturating_sub(4)) == "ct" {
            return Ok(None);
        }
        let words: Vec<&str> = text.split(' ').collect();
        let masked = text
            .strip_prefix("& ")
            .or_else(|| text.strip_prefix("and "));
        let masked = masked.filter(|_| !shifts(&words));
        let mask = masked.and_then(|rest| number(rest.split(' ').next()?));
        return Ok(Some(Use {
            at,
            bits: mask.unwrap_or(u32::MAX),
        }));
    }
    let bits = taken_of_connection(tokens, &text, at)?;
    Ok(Some(Use { at, bits }))
}

/// Returns all uses of marks. Refuses a policy that uses the whole connection mark.
pub fn uses(tokens: &Tokens, tree: &Tree) -> Result<Vec<Use>, Refusal> {
    let mut uses = Vec::new();
    for rule in &tree.rules {
        for at in rule.tokens.clone() {
            uses.extend(read(tokens, tree, at, rule.tokens.end)?);
        }
    }
    Ok(uses)
}

/// Finds the mark bits for classes: the highest free bits, with as many bits for the generation as possible.
/// - classes: number of classes.
/// - allowed: bits that may be used.
/// - uses: uses of marks in the policy.
///
/// Fails with the number of bits that are needed.
pub fn layout(classes: usize, allowed: u32, uses: &[Use]) -> Result<Layout, u32> {
    let taken = uses.iter().fold(!allowed, |all, mark| all | mark.bits);
    // Two more numbers are needed, for undecided and unreadable names.
    let class_bits = usize::BITS - (classes + 1).leading_zeros();
    for generation_bits in GENERATION_BITS {
        let count = class_bits + 1 + generation_bits;
        let Some(highest) = u32::BITS.checked_sub(count) else {
            continue;
        };
        let is_free = |shift: &u32| taken & (ones(count) << shift) == 0;
        if let Some(shift) = (0..=highest).rev().find(is_free) {
            return Ok(Layout {
                shift,
                class_bits,
                generation_bits,
            });
        }
    }
    Err(class_bits + 3)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{token, tree};

    fn uses_of(rule: &str) -> Result<u32, Refusal> {
        let text = format!(
            "define m = 0x400\ndefine s = @a\ntable inet f {{\n \
             map a {{ type ipv4_addr : mark; elements = {{ 10.0.0.1 : 0x7000 }}; }}\n \
             map d {{ type inet_service : mark; }}\n \
             map b {{ typeof tcp dport : meta mark; elements = {{ 22 : vip }}; }}\n \
             chain c {{\n {rule}\n }}\n}}\nadd element inet f d {{ 22 : vip }}\n"
        );
        let tokens = token::tokens(&text);
        let uses = uses(&tokens, &tree::read(&tokens))?;
        Ok(uses.iter().fold(0, |all, mark| all | mark.bits))
    }

    #[test]
    fn bits_of_rules() {
        let cases = [
            ("meta mark set 0x1 accept", 0x1),
            ("meta mark set $m", 0x400),
            ("mark 0x30 drop", 0x30),
            ("meta mark & 0xff == 0x1 tcp dport 22 accept", 0xff),
            ("meta mark { 0x1, 0x20 } drop", 0x21),
            ("meta mark set ip saddr map @a", 0x7000),
            ("meta mark set ip saddr map $s", 0x7000),
            ("ct mark & 0xf0 == 0x10 drop", 0xf0),
            ("ct mark set ct mark | 0x8", 0x8),
            ("ct mark set ct mark & 0xffffff00 | 0x8", 0xff),
            ("meta mark set ct mark & 0xf000", 0xf000),
            ("tcp dport 99 drop", 0),
            // A leading zero begins an octal number.
            ("meta mark set 020000000000", 0x8000_0000),
            ("meta mark 01-0100 accept", 0x7f),
            ("ct mark & 010 == 010 drop", 0x8),
            ("ct mark set ct mark & 037777777400 | 010", 0xff),
            ("meta mark set \"0x40000000\"", 0x4000_0000),
            ("meta mark set meta mark | 0X10", 0x10),
            ("meta mark 1 - 0x100 accept", 0x1ff),
            ("meta mark set tcp dport map { 22:0x40, 80: 0x80 }", 0xd0),
            ("meta mark set ip6 saddr map { 2001:db8::1 : 0x40 }", 0x40),
            ("meta mark set numgen inc mod 3 offset 0xff", 0x1ff),
            ("meta mark set meta mark << 8", u32::MAX),
            ("meta mark set meta cpu", u32::MAX),
            ("meta priority set ct mark map { 1 : 1 }", u32::MAX),
            (
                "meta mark . ip daddr . tcp dport { 0x80000000 . 10.0.0.1 . 22 } drop",
                0x8000_0016,
            ),
            (
                "add @a { ip saddr : 0x1 } meta mark set ip saddr map @a",
                u32::MAX,
            ),
            ("meta mark set socket mark", u32::MAX),
            ("meta mark set vip accept", u32::MAX),
            ("meta mark set meta mark | vip accept", u32::MAX),
            ("meta mark set tcp dport map { 22 : vip }", u32::MAX),
            ("meta mark set tcp dport map @b", u32::MAX),
            ("meta mark set tcp dport map @d", u32::MAX),
            ("meta mark set tcp dport map { 22 : \"vip\" }", u32::MAX),
            ("meta mark set meta mark map { 1 : vip }", u32::MAX),
            (
                "meta mark set 0x10 ip dscp set tcp dport map { 22 : cs4 }",
                0x10,
            ),
            ("meta mark set ct mark and 0xff", 0xff),
            ("counter name meta mark map { 0x10 : ssh }", 0x10),
            ("ct mark & 0x1 << 31 == 0x80000000 accept", u32::MAX),
            ("meta mark set ct mark & 0x1 lshift 31", u32::MAX),
            ("meta mark set meta mark | 0x1", 0x1),
            ("meta mark set mark and 0xf or 0x10", 0x1f),
            ("meta mark set jhash ip saddr mod 4", 0x7),
            ("ct mark set ct mark & 0xffff00ff & 0xffffff0f", 0xfff0),
        ];
        for (rule, bits) in cases {
            assert_eq!(
                uses_of(rule).map(|bits| format!("{bits:#x}")),
                Ok(format!("{bits:#x}")),
                "{rule}"
            );
        }
    }

    #[test]
    fn whole_marks_are_refused() {
        for rule in [
            "ct mark set 0x1",
            "ct mark set meta mark",
            "meta mark set (ct mark) | 0x1",
            "ct mark set ct mark << 8",
            "ct mark set ct mark map { 0 : 0x5 }",
            "ct mark set ct mark & 0xff map { 1 : 0x5 }",
            "ct mark set ct mark & 0xff rshift 8",
            "ct mark set ct mark & (0xff)",
            "ct mark set ct mark | meta mark",
            "ct mark 0x1 accept",
            "ct mark { 1, 2 } drop",
            "ct mark != 0 accept",
            "meta mark set ct mark",
            "ct mark vmap { 1 : drop }",
        ] {
            assert!(uses_of(rule).is_err(), "{rule}");
        }
    }

    #[test]
    fn room() {
        let found = layout(5, u32::MAX, &[]).unwrap();
        assert_eq!(found.mask(), 0xffff_0000);
        assert_eq!(found.class_mask(), 0x0007_0000);
        assert_eq!(found.generation(0), 0x0008_0000);
        assert_ne!(found.generation(found.generations()), 0);
        let smallest = layout(1, 0x1f, &[]).unwrap();
        for found in [found, smallest] {
            let mask = found.mask();
            assert!(is_of_reset(found.refused(), mask), "{mask:#x}");
            for other in [found.asked(), found.learns(), found.said_undecided()] {
                assert!(!is_of_reset(other, mask), "{mask:#x} {other:#x}");
            }
        }
        let uses = [Use {
            at: 0,
            bits: 0xf000_0000,
        }];
        assert_eq!(layout(1, u32::MAX, &uses).unwrap().mask(), 0x0fff_e000);
        assert_eq!(layout(1, 0xff, &[]).unwrap().generations(), 30);
        assert_eq!(layout(100, 0xff, &[]), Err(10));
    }
}
