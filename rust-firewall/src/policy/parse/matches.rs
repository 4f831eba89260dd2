// SPDX-License-Identifier: GPL-2.0-or-later
//! Parser of fields and keys, and of the values or sets that they are compared with.

use crate::base::log::Failure;
use crate::policy::parse::elements::{self, Component, Shape};
use crate::policy::parse::lexer::Lexer;
use crate::policy::parse::overlap;
use crate::policy::parse::refuse::{unexpected, Where};
use crate::policy::parse::state::{learn, Parser, TESTED_SEVERAL};
use crate::policy::token::{Sign, Token, TokenKind};
use crate::policy::value;
use crate::policy::{
    field_facts, Elements, Field, Key, MapsTo, Match, Op, Range, Right, Type, FIELDS,
    KEY_FIELDS_MAX,
};
use crate::spec::group::{Group, ALONE, GROUPS, META};

/// Maximum size of a key in bytes, with each field padded to a multiple of 4 bytes: the size of nf_tables' registers
/// (NFT_REG32_COUNT).
pub const KEY_BYTES_MAX: usize = 64;

/// Error text for unsupported uses of tls alpn, of which a client offers several values.
pub const ALPN_ALONE: &str = "tls alpn takes ==, != and values in place";

/// Returns the field with a group's words and the word after them; None if no field has these words. (A group is the
/// first word or words of several fields: `ip` in `ip saddr`. Fields of one word, such as iifname, belong to the group
/// meta.)
fn find_field(group: &str, word: &str) -> Option<Field> {
    let found = FIELDS
        .iter()
        .find(|facts| match facts.text.rsplit_once(' ') {
            Some((first, second)) => first == group && second == word,
            None => group == "meta" && facts.text == word,
        });
    found.map(|facts| facts.field)
}

/// Returns the group of fields (`ip` for `ip saddr` and `ip daddr`) that has this token as its only word; None if there
/// is none.
fn find_group(lexer: &Lexer, token: &Token) -> Option<&'static Group> {
    GROUPS.iter().find(|group| lexer.is(token, group.word))
}

/// Returns the group of two words (`tcp option` for `tcp option mptcp`) that consists of a group's word and the token
/// after it; None if there is none.
fn find_longer(lexer: &Lexer, group: &Group, token: &Token) -> Option<&'static Group> {
    GROUPS.iter().find(|longer| {
        let words = longer.word.split_once(' ');
        words.is_some_and(|(first, second)| first == group.word && lexer.is(token, second))
    })
}

/// Returns true if a token can begin a field.
pub fn begins(lexer: &Lexer, token: &Token) -> bool {
    find_group(lexer, token).is_some() || ALONE.iter().any(|word| lexer.is(token, word))
}

/// Returns the boolean field with the same text as a field, if `exists` or `missing` comes next; does not consume the
/// word. Returns None if neither comes next, or if no boolean field has this text.
fn existence(parser: &mut Parser, field: Field) -> Option<Field> {
    let next = parser.lexer.peek(0);
    let asks = parser.lexer.is(&next, "exists") || parser.lexer.is(&next, "missing");
    let text = field_facts(field).text;
    let mut booleans = FIELDS.iter().filter(|facts| facts.kind == Type::Boolean);
    let found = booleans.find(|facts| asks && facts.text == text);
    found.map(|facts| facts.field)
}

/// Parses a field, such as `tcp dport` or `iifname`. If `exists` or `missing` comes next, the result is the boolean
/// field with the same text, if there is one (existence).
fn parse_field(parser: &mut Parser) -> Result<Field, Failure> {
    let first = parser.lexer.consume();
    if !begins(&parser.lexer, &first) {
        return Err(unexpected(
            &parser.lexer,
            Where::Statement,
            &first,
            "a field",
        ));
    }
    let (mut group, mut second) = match find_group(&parser.lexer, &first) {
        Some(group) => (group, parser.lexer.consume()),
        None => (META, first),
    };
    if let Some(longer) = find_longer(&parser.lexer, group, &second) {
        (group, second) = (longer, parser.lexer.consume());
    }
    let found = match second.kind {
        TokenKind::Word => find_field(group.word, parser.lexer.text(&second)),
        _ => None,
    };
    let Some(field) = found else {
        return Err(unexpected(&parser.lexer, group.at, &second, group.expected));
    };
    Ok(existence(parser, field).unwrap_or(field))
}

/// Parses a key: fields joined by `.`. Counts the fields for the rule, and checks that the rule's table and earlier
/// matches allow them.
pub fn key(parser: &mut Parser) -> Result<Key, Failure> {
    let first = parser.lexer.peek(0);
    let mut key = Key::default();
    let mut bytes = 0;
    loop {
        let token = parser.lexer.peek(0);
        let read = parse_field(parser)?;
        let field = parser.family_field(read);
        parser.test_field(&token, field)?;
        if key.fields.len() == KEY_FIELDS_MAX {
            let cause = format!("more than {KEY_FIELDS_MAX} fields in a key");
            return Err(parser.lexer.wrong(&token, cause));
        }
        bytes += usize::from(field_facts(field).bits).div_ceil(32) * 4;
        key.fields.push(field);
        if !parser.lexer.consume_sign(Sign::Dot) {
            break;
        }
    }
    let has_alpn = key.fields.contains(&Field::TlsAlpn);
    if has_alpn && key.fields.len() > 1 {
        return Err(parser.lexer.wrong(&first, ALPN_ALONE));
    }
    if key.fields.len() > 1 && bytes > KEY_BYTES_MAX {
        let cause = format!("a key of more than {KEY_BYTES_MAX} bytes");
        return Err(parser.lexer.wrong(&first, cause));
    }
    Ok(key)
}

/// Returns the comparison that a token names.
fn find_op(lexer: &Lexer, token: &Token) -> Option<Op> {
    const OPS: [(Sign, &str, Op); 6] = [
        (Sign::Eq, "eq", Op::Eq),
        (Sign::Ne, "ne", Op::Ne),
        (Sign::Lt, "lt", Op::Lt),
        (Sign::Gt, "gt", Op::Gt),
        (Sign::Le, "le", Op::Le),
        (Sign::Ge, "ge", Op::Ge),
    ];
    let found = OPS
        .iter()
        .find(|(sign, word, _)| token.kind == TokenKind::Sign(*sign) || lexer.is(token, word));
    found.map(|(_, _, op)| *op)
}

/// Parses the elements `{ … }` of a literal set or map, and merges equal elements. Other elements may overlap in a set,
/// but not in a map (overlap).
pub fn literal(parser: &mut Parser, shape: &Shape) -> Result<Right, Failure> {
    let mut elements = Elements::default();
    elements::read(parser, shape, &mut elements)?;
    let hostnames = &parser.policy.hostnames;
    overlap::check(&parser.lexer, hostnames, shape, &mut elements, true)?;
    Ok(Right::Literal(elements))
}

/// Parses `@NAME`. The set of this name is found later (resolve).
fn named(parser: &mut Parser) -> Result<Right, Failure> {
    parser.lexer.consume();
    let token = parser.name("the name of a set or map")?;
    let set = parser.set_places.len() as u32;
    parser.set_places.push(token.place);
    Ok(Right::Named {
        set,
        name: parser.lexer.text(&token).to_owned(),
    })
}

/// Parses the map of a lookup (`@NAME` or `{ … }`), after `map` or `vmap`.
/// - maps_to: required values of the map: marks for `map`, verdicts for `vmap`.
pub fn lookup(parser: &mut Parser, key: Key, maps_to: MapsTo) -> Result<Match, Failure> {
    let token = parser.lexer.peek(0);
    if key.fields == [Field::TlsAlpn] {
        return Err(parser.lexer.wrong(&token, ALPN_ALONE));
    }
    let right = match token.kind {
        TokenKind::Sign(Sign::At) => named(parser)?,
        TokenKind::Sign(Sign::BraceOpen) => {
            let shape = elements::shape(&key, maps_to, false);
            literal(parser, &shape)?
        }
        _ => {
            let expected = "\"{\" or \"@\" and the name of a map";
            return Err(parser.lexer.unexpected(&token, expected));
        }
    };
    Ok(Match {
        key,
        mask: None,
        op: Op::Eq,
        right,
    })
}

/// Parses further flags, each after a `,`. Returns all flags, with `first`.
fn more_flags(parser: &mut Parser, kind: Type, bits: u8, first: u128) -> Result<u128, Failure> {
    let mut all = first;
    while parser.lexer.consume_sign(Sign::Comma) {
        all |= elements::value(parser, kind, bits)?.low;
    }
    Ok(all)
}

/// Parses flags that are joined by `,` or by `|`. Flags joined by `|` may be in parentheses. Both ends of the range are
/// the combined flags.
fn flag_list(parser: &mut Parser, kind: Type, bits: u8) -> Result<Range, Failure> {
    let joined = parser.lexer.peek(1).kind == TokenKind::Sign(Sign::Or);
    let round = parser.lexer.peek(0).kind == TokenKind::Sign(Sign::RoundOpen);
    let mut range = elements::component(parser, kind, bits)?.range;
    if !joined && !round {
        range.low = more_flags(parser, kind, bits, range.low)?;
    }
    range.high = range.low;
    Ok(range)
}

/// Parses `& MASK` after a field. The mask is one value, or flags in parentheses.
fn parse_mask(parser: &mut Parser, kind: Type, bits: u8) -> Result<u128, Failure> {
    let maskable = matches!(
        kind,
        Type::TcpFlag
            | Type::Integer
            | Type::Mark
            | Type::Ipv4Addr
            | Type::Ipv6Addr
            | Type::InetService
    );
    let sign = parser.lexer.consume();
    if !maskable {
        let cause = "a mask is for tcp flags, marks, addresses, ports, lengths and the like";
        return Err(parser.lexer.wrong(&sign, cause));
    }
    let round = parser.lexer.peek(0).kind == TokenKind::Sign(Sign::RoundOpen);
    let range = if round && value::is_flags(kind) {
        elements::component(parser, kind, bits)?.range
    } else {
        elements::value(parser, kind, bits)?
    };
    Ok(range.low)
}

/// Parses `& MASK` after a field, the comparison, and its operand.
fn masked(parser: &mut Parser, key: Key) -> Result<Match, Failure> {
    let facts = field_facts(key.fields[0]);
    let mask = parse_mask(parser, facts.kind, facts.bits)?;
    let sign = parser.lexer.consume();
    let op = match find_op(&parser.lexer, &sign) {
        Some(op @ (Op::Eq | Op::Ne)) => op,
        _ => {
            let expected = "\"==\" or \"!=\"";
            return Err(unexpected(&parser.lexer, Where::Masked, &sign, expected));
        }
    };
    let right = if parser.lexer.peek(0).kind == TokenKind::Sign(Sign::BraceOpen) {
        literal(parser, &elements::shape(&key, MapsTo::Set, true))?
    } else if value::is_flags(facts.kind) {
        Right::Range(flag_list(parser, facts.kind, facts.bits)?)
    } else {
        Right::Range(elements::value(parser, facts.kind, facts.bits)?)
    };
    Ok(Match {
        key,
        mask: Some(mask),
        op,
        right,
    })
}

/// Parses flags after a field and an optional comparison, and the optional `/ MASK` after TCP flags. Without comparison
/// and mask, the match holds if at least one of the flags is set.
/// - op: comparison before the flags; None if there was none.
fn flags(parser: &mut Parser, key: Key, op: Option<Op>) -> Result<Match, Failure> {
    let facts = field_facts(key.fields[0]);
    let range = flag_list(parser, facts.kind, facts.bits)?;
    if facts.kind == Type::TcpFlag && parser.lexer.consume_sign(Sign::Slash) {
        let first = elements::value(parser, facts.kind, facts.bits)?.low;
        let mask = more_flags(parser, facts.kind, facts.bits, first)?;
        return Ok(Match {
            key,
            mask: Some(mask),
            op: op.unwrap_or(Op::Eq),
            right: Right::Range(range),
        });
    }
    Ok(Match {
        key,
        mask: None,
        op: op.unwrap_or(Op::BitsAny),
        right: Right::Range(range),
    })
}

/// Parses the operand of `<`, `>`, `<=` or `>=`.
/// - sign: the comparison's token.
fn ordered(parser: &mut Parser, key: Key, op: Op, sign: &Token) -> Result<Match, Failure> {
    let facts = field_facts(key.fields[0]);
    let next = parser.lexer.peek(0).kind;
    if key.fields.len() > 1
        || next == TokenKind::Sign(Sign::At)
        || next == TokenKind::Sign(Sign::BraceOpen)
    {
        return Err(parser.lexer.wrong(sign, "sets take == and != only"));
    }
    if !elements::is_ordered(facts.kind) {
        let cause = "for numbers and addresses only";
        return Err(parser.lexer.wrong(sign, cause));
    }
    let Component { range, ranged } = elements::component(parser, facts.kind, facts.bits)?;
    if ranged {
        let cause = "takes one value, not a range";
        return Err(parser.lexer.wrong(sign, cause));
    }
    Ok(Match {
        key,
        mask: None,
        op,
        right: Right::Range(range),
    })
}

/// Returns the protocol that a match of one protocol number implies. Returns TESTED_SEVERAL for the number 0, because
/// the value 0 (TESTED_ANY) means that no protocol is implied.
fn told(range: &Range) -> u16 {
    match range.low as u16 {
        0 => TESTED_SEVERAL,
        number => number,
    }
}

/// Records the protocol that a match of a protocol's number implies, like nft. Only single numbers after `==` or no
/// comparison count, not ranges or named sets. After a match of several numbers, no field of a single protocol may be
/// used.
fn learn_match(parser: &mut Parser, found: &Match) {
    let known = match found.key.fields[..] {
        [Field::MetaL4proto | Field::IpProtocol | Field::Ip6Nexthdr] => &mut parser.tested.protocol,
        [Field::MetaNfproto] => &mut parser.tested.layer3,
        _ => return,
    };
    let ranges = match &found.right {
        Right::Range(range) => std::slice::from_ref(range),
        Right::Literal(elements) => &elements.ranges[..],
        Right::Named { .. } => return,
    };
    if found.op == Op::Eq {
        for range in ranges.iter().filter(|range| range.low == range.high) {
            learn(known, told(range));
        }
    }
}

/// Replaces a set with a single flags value by that value, like nft.
/// - any: true if the match holds for any of these flags; false if it holds for exactly these flags.
fn unbrace_flags(found: &mut Match, any: bool) {
    let facts = field_facts(found.key.fields[0]);
    if found.op != Op::Eq || found.key.fields.len() > 1 || !value::is_flags(facts.kind) {
        return;
    }
    if let Right::Literal(Elements { ranges, .. }) = &found.right {
        if let [range] = ranges[..] {
            found.right = Right::Range(range);
            if any {
                found.op = Op::BitsAny;
            }
        }
    }
}

/// Parses the operand after a key and `==`, `!=` or nothing (None).
fn equal(parser: &mut Parser, key: Key, op: Option<Op>) -> Result<Match, Failure> {
    let facts = field_facts(key.fields[0]);
    let single = key.fields.len() == 1;
    let elements = parser.elements;
    let next = parser.lexer.peek(0);
    let right = match next.kind {
        TokenKind::Sign(Sign::At) => named(parser)?,
        TokenKind::Sign(Sign::BraceOpen) => {
            literal(parser, &elements::shape(&key, MapsTo::Set, false))?
        }
        _ if !single => {
            let expected = "\"{\" or \"@\" and the name of a set";
            return Err(parser.lexer.unexpected(&next, expected));
        }
        _ if value::is_flags(facts.kind) => return flags(parser, key, op),
        _ if !value::begins(next.kind) => {
            let expected = "a value, \"{\" or \"@\" and the name of a set";
            return Err(parser.lexer.unexpected(&next, expected));
        }
        _ => Right::Range(elements::component(parser, facts.kind, facts.bits)?.range),
    };
    let mut found = Match {
        key,
        mask: None,
        op: op.unwrap_or(Op::Eq),
        right,
    };
    let written = parser.elements - elements;
    unbrace_flags(&mut found, op.is_none() && written == 1);
    Ok(found)
}

/// Parses the rest of a match after its key: an optional mask, an optional comparison, and the operand.
pub fn compared(parser: &mut Parser, key: Key) -> Result<Match, Failure> {
    let single = key.fields.len() == 1;
    let first = parser.lexer.peek(0);
    if single && (first.kind == TokenKind::Sign(Sign::And) || parser.lexer.is(&first, "and")) {
        return masked(parser, key);
    }
    let op = find_op(&parser.lexer, &first);
    if op.is_some() {
        parser.lexer.consume();
    }
    if let Some(op @ (Op::Lt | Op::Gt | Op::Le | Op::Ge)) = op {
        return ordered(parser, key, op, &first);
    }
    let found = equal(parser, key, op)?;
    learn_match(parser, &found);
    Ok(found)
}
