// SPDX-License-Identifier: GPL-2.0-or-later
//! Matches of a rule that the splitter knows: their end, and their form for the opposite direction.

use std::ops::Range;

use crate::names;
use crate::token::{Kind, Tokens};
use crate::tree::{self, Tree};

/// Form of a match for the opposite direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mirror {
    /// A match of another field; the words of that field.
    Is(&'static str),
    /// The same match.
    Same,
    /// No match: nothing is known about the opposite direction.
    None,
}

/// Protocol of a field, to find matches that exclude each other, and matches that require TCP or UDP. Other: a field of
/// another protocol, or a field that selects no packets to be queued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layer {
    Ip,
    Ip6,
    Tcp,
    Udp,
    Other,
}

/// Field: its words, its form for the opposite direction, its protocol.
type Field = (&'static str, Mirror, Layer);

/// Fields that are compared with values, sets or ranges in the usual form.
const FIELDS: [Field; 33] = [
    ("ip saddr", Mirror::Is("ip daddr"), Layer::Ip),
    ("ip daddr", Mirror::Is("ip saddr"), Layer::Ip),
    ("ip protocol", Mirror::Same, Layer::Ip),
    ("ip6 saddr", Mirror::Is("ip6 daddr"), Layer::Ip6),
    ("ip6 daddr", Mirror::Is("ip6 saddr"), Layer::Ip6),
    ("tcp sport", Mirror::Is("tcp dport"), Layer::Tcp),
    ("tcp dport", Mirror::Is("tcp sport"), Layer::Tcp),
    ("udp sport", Mirror::Is("udp dport"), Layer::Udp),
    ("udp dport", Mirror::Is("udp sport"), Layer::Udp),
    ("th sport", Mirror::Is("th dport"), Layer::Other),
    ("th dport", Mirror::Is("th sport"), Layer::Other),
    ("meta l4proto", Mirror::Same, Layer::Other),
    ("meta nfproto", Mirror::Same, Layer::Other),
    ("meta protocol", Mirror::Same, Layer::Other),
    ("meta iif", Mirror::Is("meta oif"), Layer::Other),
    ("meta oif", Mirror::Is("meta iif"), Layer::Other),
    ("meta iifname", Mirror::Is("meta oifname"), Layer::Other),
    ("meta oifname", Mirror::Is("meta iifname"), Layer::Other),
    ("meta mark", Mirror::None, Layer::Other),
    ("meta skuid", Mirror::None, Layer::Other),
    ("meta skgid", Mirror::None, Layer::Other),
    ("meta length", Mirror::None, Layer::Other),
    ("meta pkttype", Mirror::None, Layer::Other),
    ("ct state", Mirror::None, Layer::Other),
    ("ct mark", Mirror::None, Layer::Other),
    ("ct direction", Mirror::None, Layer::Other),
    ("ip ttl", Mirror::None, Layer::Other),
    ("ip dscp", Mirror::None, Layer::Other),
    ("iif", Mirror::Is("oif"), Layer::Other),
    ("oif", Mirror::Is("iif"), Layer::Other),
    ("iifname", Mirror::Is("oifname"), Layer::Other),
    ("oifname", Mirror::Is("iifname"), Layer::Other),
    ("skuid", Mirror::None, Layer::Other),
];

/// Match of a known field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Match {
    pub tokens: Range<usize>,
    /// Words of the field.
    pub field: &'static str,
    pub layer: Layer,
    mirror: Mirror,
    /// Tokens of the match after the field's words: operator and values.
    rest: Range<usize>,
}

/// Words that can follow a field and are no values.
const NO_VALUES: [&str; 10] = [
    "set", "map", "vmap", "and", "or", "xor", "lshift", "rshift", "exists", "missing",
];
const OPERATORS: [&str; 12] = [
    "==", "!=", "<", ">", "<=", ">=", "eq", "ne", "lt", "gt", "le", "ge",
];

/// Returns true if a token continues the value or list before it.
fn is_joined(tokens: &Tokens, at: usize) -> bool {
    let is_sign = tokens.kind(at) == Kind::Sign;
    let signs = [".", "&", "|", "^", "/", "<<", ">>"];
    is_sign && signs.contains(&tokens.get(at)) || NO_VALUES.contains(&tokens.get(at))
}

fn is_value(tokens: &Tokens, at: usize) -> bool {
    let is_kind = matches!(tokens.kind(at), Kind::Word | Kind::String);
    is_kind && !NO_VALUES.contains(&tokens.get(at))
}

/// Returns the end of the right side of a comparison: `[OP] VALUE[-VALUE][,VALUE]...`, `[OP] @SET`, `[OP] {…}`. None
/// if it has another form.
pub fn right_end(tokens: &Tokens, start: usize, end: usize) -> Option<usize> {
    let mut at = start + usize::from(is_operator(tokens.get(start)));
    if at >= end {
        return None;
    }
    if tokens.get(at) == "{" {
        at = tokens.behind_braces(at);
        return (at <= end && !is_joined(tokens, at)).then_some(at);
    }
    loop {
        if at >= end || !is_value(tokens, at) {
            return None;
        }
        at += 1;
        let goes_on = at < end && [",", "-"].contains(&tokens.get(at));
        if !goes_on {
            break;
        }
        at += 1;
    }
    let is_whole = at >= end || !is_joined(tokens, at);
    is_whole.then_some(at)
}

/// Parses the match that begins at a token. Returns None if it is not a known match.
pub fn read(tokens: &Tokens, at: usize, end: usize) -> Option<Match> {
    let is_there = |words: &str| {
        let mut places = at..end;
        let mut words = words.split(' ');
        words.all(|word| places.next().is_some_and(|at| tokens.get(at) == word))
    };
    let (field, mirror, layer) = FIELDS.into_iter().find(|field| is_there(field.0))?;
    let start = at + field.split(' ').count();
    let end = right_end(tokens, start, end)?;
    Some(Match {
        tokens: at..end,
        field,
        layer,
        mirror,
        rest: start..end,
    })
}

/// Words that begin a statement with an effect or a verdict.
const EFFECTS: [&str; 30] = [
    "accept",
    "drop",
    "reject",
    "return",
    "continue",
    "jump",
    "goto",
    "queue",
    "counter",
    "log",
    "limit",
    "quota",
    "last",
    "notrack",
    "flow",
    "add",
    "update",
    "delete",
    "meter",
    "dup",
    "fwd",
    "snat",
    "dnat",
    "masquerade",
    "redirect",
    "tproxy",
    "synproxy",
    "reset",
    "comment",
    "set",
];
/// Words inside a statement with an effect or a verdict, which begins with another word.
const INSIDE_EFFECTS: [&str; 2] = ["set", "vmap"];
/// Tokens before a value, besides operators. The value may be a word that elsewhere begins a statement: `ct status
/// dnat`, `icmp type redirect`.
const BEFORE_VALUES: [&str; 6] = [".", ",", "&", "|", "status", "type"];
/// Words before the rest of a field. The rest may elsewhere be a field: `meta iifname`, `ct original ip saddr`.
const BEFORE_FIELDS: [&str; 6] = ["meta", "ct", "socket", "fib", "original", "reply"];
/// Words that begin a match.
const BEGINNINGS: [&str; 21] = [
    "meta", "ct", "ip", "ip6", "tcp", "udp", "udplite", "th", "icmp", "icmpv6", "igmp", "sctp",
    "dccp", "ah", "esp", "comp", "ether", "vlan", "fib", "socket", "exthdr",
];
/// Words that are a complete field.
const ALONE: [&str; 16] = [
    "iif",
    "oif",
    "iifname",
    "oifname",
    "skuid",
    "skgid",
    "mark",
    "nftrace",
    "rtclassid",
    "pkttype",
    "cpu",
    "cgroup",
    "iiftype",
    "oiftype",
    "iifgroup",
    "oifgroup",
];

/// Returns true if a word is a complete field.
pub fn is_alone(word: &str) -> bool {
    ALONE.contains(&word)
}

/// Returns true if a word begins a field.
pub fn begins(word: &str) -> bool {
    BEGINNINGS.contains(&word) || is_alone(word)
}

/// Returns true if a word compares a field with a value.
pub fn is_operator(word: &str) -> bool {
    OPERATORS.contains(&word)
}

/// Returns true if a match or a statement with an effect begins at a token, which must not be the first token.
pub fn begins_next(tokens: &Tokens, at: usize) -> bool {
    let word = tokens.get(at);
    let is_first =
        EFFECTS.contains(&word) || begins(word) || names::is_field(word, tokens.get(at + 1));
    let before = tokens.get(at - 1);
    let is_value = BEFORE_VALUES.contains(&before) || is_operator(before);
    is_first && !is_value && !BEFORE_FIELDS.contains(&before)
}

/// Returns the token after the match that begins at a token, even if the match is unknown. Returns None at `end`, and
/// if a statement with an effect or a verdict begins there.
pub fn behind(tokens: &Tokens, start: usize, end: usize) -> Option<usize> {
    if let Some(found) = read(tokens, start, end) {
        return Some(found.tokens.end);
    }
    if start >= end || EFFECTS.contains(&tokens.get(start)) {
        return None;
    }
    let mut at = start;
    while at < end && (at == start || !begins_next(tokens, at)) {
        at = match tokens.get(at) {
            "{" => tokens.behind_braces(at),
            word if INSIDE_EFFECTS.contains(&word) => return None,
            _ => at + 1,
        };
    }
    // `meta mark set` is a statement: the loop has stopped at its verb.
    let has_verb = at < end && INSIDE_EFFECTS.contains(&tokens.get(at));
    (!has_verb).then_some(at.min(end))
}

impl Match {
    /// Returns true if the field is a port or an address.
    pub fn is_of_end(&self) -> bool {
        self.field.ends_with("addr") || self.field.ends_with("port")
    }

    /// Returns true if the field is an interface.
    pub fn is_interface(&self) -> bool {
        self.field.contains("if")
    }

    /// Returns true if the match compares the transport protocol (`meta l4proto`, `ip protocol`).
    pub fn is_protocol(&self) -> bool {
        ["meta l4proto", "ip protocol"].contains(&self.field)
    }

    /// Returns true if the match compares the transport protocol or a port.
    pub fn is_of_transport(&self) -> bool {
        self.is_protocol() || self.field.ends_with("port")
    }

    /// Returns true if the match implies TCP or UDP.
    pub fn is_transport(&self) -> bool {
        matches!(self.layer, Layer::Tcp | Layer::Udp)
    }

    /// Returns true if the match can select packets to be queued: it has the same result before the policy as in the
    /// policy, and a form for the opposite direction.
    pub fn is_lasting(&self) -> bool {
        self.mirror != Mirror::None
    }

    /// Returns the text of the match.
    /// - mirrored: true for the opposite direction.
    pub fn text(&self, tokens: &Tokens, tree: &Tree, mirrored: bool) -> String {
        let field = match self.mirror {
            Mirror::Is(other) if mirrored => other,
            _ => self.field,
        };
        let rest = tree::expand(tokens, tree, &self.rest);
        format!("{field} {rest}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::token;

    fn ends(text: &str) -> Option<(String, String)> {
        let tokens = token::tokens(text);
        let found = read(&tokens, 0, tokens.list.len())?;
        Some((
            found.text(&tokens, &Tree::default(), false),
            found.text(&tokens, &Tree::default(), true),
        ))
    }

    #[test]
    fn what_is_known() {
        let same = |text: &str, mirrored: &str| Some((text.to_owned(), mirrored.to_owned()));
        assert_eq!(
            ends("tcp dport { 1, 2 } drop"),
            same("tcp dport { 1 , 2 }", "tcp sport { 1 , 2 }")
        );
        assert_eq!(
            ends("ip saddr != 10.0.0.0/8 x"),
            same("ip saddr != 10.0.0.0/8", "ip daddr != 10.0.0.0/8")
        );
        assert_eq!(
            ends("iifname \"a\" x"),
            same("iifname \"a\"", "oifname \"a\"")
        );
        assert_eq!(
            ends("ct state new,established drop").unwrap().0,
            "ct state new , established"
        );
        assert_eq!(ends("th dport 80 - 90 drop").unwrap().0, "th dport 80 - 90");
    }

    #[test]
    fn where_matches_end() {
        let length = |text: &str| {
            let tokens = token::tokens(text);
            let end = tokens.list.len();
            let mut at = 0;
            while let Some(next) = behind(&tokens, at, end) {
                at = next;
            }
            at
        };
        for (text, count) in [
            (
                "tcp dport 1 icmpv6 type { 1, 2 } limit rate 1/second accept",
                3 + 7,
            ),
            ("ip saddr . tcp dport @x counter", 6),
            ("fib saddr . iif oif missing drop", 6),
            ("tcp flags & (fin | syn) == syn accept", 10),
            ("tcp dport 1 ip saddr . tcp dport vmap @x", 3),
            ("tcp dport 1 meta iifname . tcp dport vmap @x", 3),
            ("tcp dport 1 ct original ip saddr 10.0.0.1 accept", 3 + 5),
            ("tcp dport 1 tcp option maxseg size set rt mtu accept", 3),
            ("tcp dport 1 meta mark set ip saddr map @x accept", 3),
            ("tcp dport 1 mark set 1", 3),
            ("socket cgroupv2 level 2 \"a\" accept", 5),
            ("ct state new add @x { ip saddr }", 3),
            ("icmp type redirect counter accept", 3),
            ("icmp type <= redirect accept", 4),
            ("ct status dnat accept", 3),
            ("ct status snat,dnat snat to 1.2.3.4", 5),
        ] {
            assert_eq!(length(text), count, "{text}");
        }
    }

    #[test]
    fn what_is_not() {
        for text in [
            "ip saddr . tcp dport @x",
            "tcp dport vmap @x",
            "meta mark set 1",
            "meta mark & 0xff == 1",
            "meta mark",
            "tcp dport 1 lshift 8",
            "tcp flags syn",
        ] {
            assert_eq!(ends(text), None, "{text}");
        }
    }
}
