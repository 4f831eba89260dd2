// SPDX-License-Identifier: GPL-2.0-or-later
//! Parser of values, ranges and prefixes, and of the elements of sets and maps within braces.

use std::sync::Arc;

use crate::base::log::Failure;
use crate::policy::hostname;
use crate::policy::parse::lexer::Lexer;
use crate::policy::parse::refuse::{self, unexpected, Where};
use crate::policy::parse::state::Parser;
use crate::policy::token::{is_reserved, Sign, Token, TokenKind};
use crate::policy::value;
use crate::policy::{
    field_facts, Elements, Key, MapsTo, Place, Range, Target, Type, Verdict, BRACE_DEPTH_MAX,
};

/// Properties that all elements of a set or map must have.
#[derive(Clone, Debug)]
pub struct Shape {
    /// Type and bits of each field.
    pub fields: Vec<(Type, u8)>,
    pub maps_to: MapsTo,
    /// True if ranges and prefixes are not allowed, because the set is compared with a masked field.
    pub exact: bool,
}

/// Returns the required properties of the elements with which a key is compared.
pub fn shape(key: &Key, maps_to: MapsTo, exact: bool) -> Shape {
    let facts = key.fields.iter().map(|field| field_facts(*field));
    Shape {
        fields: facts.map(|facts| (facts.kind, facts.bits)).collect(),
        maps_to,
        exact,
    }
}

/// Component of a set element, or operand of a match: a range of values, and whether the policy text wrote it as a
/// range.
#[derive(Clone, Copy, Debug, Default)]
pub struct Component {
    pub range: Range,
    /// True if the text has a range, a prefix or a `*`, so that the range can have more than one value.
    pub ranged: bool,
}

/// Returns true if the values of a type have an order, so that ranges and `<` have a meaning.
pub fn is_ordered(kind: Type) -> bool {
    !value::is_flags(kind)
        && !matches!(
            kind,
            Type::Ifname
                | Type::IfaceIndex
                | Type::NfProto
                | Type::Boolean
                | Type::Hostname
                | Type::Alpn
                | Type::HttpMethod
        )
}

/// Parses a host name in quotes, and adds it to the policy's host names. Both ends of the range are the name's number.
fn hostname(parser: &mut Parser, token: &Token) -> Result<Range, Failure> {
    let text = parser.lexer.text(token);
    let read = match token.kind {
        TokenKind::String => hostname::parse(text),
        _ => Err("write the name of a host in quotes"),
    };
    let name = read.map_err(|cause| parser.lexer.wrong(token, cause))?;
    let hostnames = Arc::make_mut(&mut parser.policy.hostnames);
    let id = hostname::add(hostnames, &name.bytes[..name.length], name.wildcard).into();
    Ok(Range { low: id, high: id })
}

/// Parses one value. Both ends of the range are equal, except for an interface name with a `*`.
pub fn value(parser: &mut Parser, kind: Type, bits: u8) -> Result<Range, Failure> {
    let token = parser.lexer.consume();
    let lexer = &parser.lexer;
    if !value::begins(token.kind) {
        return Err(unexpected(lexer, Where::Element, &token, "a value"));
    }
    if kind == Type::Hostname {
        return hostname(parser, &token);
    }
    let text = lexer.text(&token);
    if matches!(kind, Type::Ifname | Type::IfaceIndex) {
        if token.kind == TokenKind::Word && is_reserved(text) {
            return Err(lexer.wrong(&token, "a word of the language: write it in quotes"));
        }
        if text == "*" {
            return Err(lexer.wrong(&token, "this matches every interface"));
        }
        if text.len() >= value::INTERFACE_BYTES {
            let cause = "longer than the 15 bytes of an interface's name";
            return Err(lexer.wrong(&token, cause));
        }
    }
    value::parse(kind, bits, token.kind, text).map_err(|cause| lexer.wrong(&token, cause))
}

/// Parses flags joined by `|`, in parentheses or not.
fn flags(parser: &mut Parser, kind: Type, bits: u8) -> Result<Range, Failure> {
    let round = parser.lexer.consume_sign(Sign::RoundOpen);
    let mut range = value(parser, kind, bits)?;
    while parser.lexer.consume_sign(Sign::Or) {
        range.low |= value(parser, kind, bits)?.low;
    }
    range.high = range.low;
    if round {
        parser.sign(Sign::RoundClose, "\"|\" or \")\"")?;
    }
    Ok(range)
}

/// Parses a value, a range or a prefix.
pub fn component(parser: &mut Parser, kind: Type, bits: u8) -> Result<Component, Failure> {
    if value::is_flags(kind) {
        let range = flags(parser, kind, bits)?;
        return Ok(Component {
            range,
            ranged: false,
        });
    }
    let first = parser.lexer.peek(0);
    let range = value(parser, kind, bits)?;
    let mut component = Component {
        range,
        ranged: range.low != range.high,
    };
    if parser.lexer.peek(0).kind == TokenKind::Sign(Sign::Minus) && is_ordered(kind) {
        parser.lexer.consume();
        component.range.high = value(parser, kind, bits)?.high;
        component.ranged = true;
        if component.range.high < component.range.low {
            let cause = "a range that runs backwards";
            return Err(parser.lexer.wrong(&first, cause));
        }
    } else if matches!(kind, Type::Ipv4Addr | Type::Ipv6Addr)
        && parser.lexer.consume_sign(Sign::Slash)
    {
        let (token, length) = parser.number()?;
        component.range = value::prefix(kind, range.low, length)
            .map_err(|cause| parser.lexer.wrong(&token, cause))?;
        component.ranged = true;
    }
    Ok(component)
}

/// Parses the name of a chain after jump or goto, or nothing after other verdicts.
/// - word: the verdict's token, which was already consumed.
pub fn target(parser: &mut Parser, word: &Token, verdict: Verdict) -> Result<Target, Failure> {
    let mut target = Target {
        verdict,
        chain: String::new(),
        chain_index: 0,
        place: word.place,
    };
    if matches!(verdict, Verdict::Jump | Verdict::Goto) {
        let next = parser.lexer.peek(0);
        refuse::check(&parser.lexer, Where::Target, &next)?;
        let name = parser.name("the name of a chain")?;
        target.chain = parser.lexer.text(&name).to_owned();
        target.place = name.place;
    }
    Ok(target)
}

/// Returns the verdict that a token names: accept, drop, continue, return, jump or goto. None for other tokens.
pub fn find_verdict(lexer: &Lexer, token: &Token) -> Option<Verdict> {
    const VERDICTS: [(&str, Verdict); 6] = [
        ("accept", Verdict::Accept),
        ("drop", Verdict::Drop),
        ("continue", Verdict::Continue),
        ("return", Verdict::Return),
        ("jump", Verdict::Jump),
        ("goto", Verdict::Goto),
    ];
    let found = VERDICTS.iter().find(|(word, _)| lexer.is(token, word));
    found.map(|(_, verdict)| *verdict)
}

/// Parses a `:` and the value of a map's element. Appends the value to `elements`. Does nothing for a set, because its
/// elements have no value.
fn mapped(parser: &mut Parser, maps_to: MapsTo, elements: &mut Elements) -> Result<(), Failure> {
    if maps_to == MapsTo::Set {
        return Ok(());
    }
    parser.sign(Sign::Colon, "\":\" and the element's value")?;
    if maps_to == MapsTo::MarkMap {
        let mark = value(parser, Type::Mark, 32)?;
        elements.marks.push(mark.low as u32);
        return Ok(());
    }
    let token = parser.lexer.consume();
    let Some(verdict) = find_verdict(&parser.lexer, &token) else {
        let expected = "accept, drop, continue, return, jump or goto";
        return Err(parser.lexer.unexpected(&token, expected));
    };
    let target = target(parser, &token, verdict)?;
    elements.targets.push(target);
    Ok(())
}

/// Parses one element. Returns true if a field of it was written with a range, a prefix or `*`.
fn element(parser: &mut Parser, shape: &Shape, elements: &mut Elements) -> Result<bool, Failure> {
    let first = parser.lexer.peek(0);
    let mut ranged = false;
    parser.count_element(&first)?;
    for (index, (kind, bits)) in shape.fields.iter().enumerate() {
        if index > 0 {
            let expected = "\".\" and the element's next field";
            parser.sign(Sign::Dot, expected)?;
        }
        let component = component(parser, *kind, *bits)?;
        if component.ranged && shape.exact {
            let cause = "single values only, as the field is masked";
            return Err(parser.lexer.wrong(&first, cause));
        }
        ranged |= component.ranged;
        elements.ranges.push(component.range);
    }
    mapped(parser, shape.maps_to, elements)?;
    elements.places.push(first.place);
    Ok(ranged)
}

/// Parses a single element without braces, and appends it to `elements`.
pub fn single(parser: &mut Parser, shape: &Shape, elements: &mut Elements) -> Result<(), Failure> {
    elements.fields = shape.fields.len();
    element(parser, shape, elements)?;
    Ok(())
}

/// Parses the opening braces before an element. Braces within braces may only come from a $NAME; nft refuses inner
/// braces that are written in the same text.
/// - open: places of the open braces.
fn opened(parser: &mut Parser, open: &mut Vec<Place>) -> Result<(), Failure> {
    loop {
        let token = parser.lexer.peek(0);
        if token.kind != TokenKind::Sign(Sign::BraceOpen) {
            return Ok(());
        }
        let outer = open[open.len() - 1];
        let behind = (token.place.line, token.place.column) > (outer.line, outer.column);
        if token.place.file == outer.file && behind {
            let cause = "braces in braces come from a $NAME only";
            return Err(parser.lexer.wrong(&token, cause));
        }
        if open.len() == BRACE_DEPTH_MAX {
            let cause = format!("more than {BRACE_DEPTH_MAX} braces in one another");
            return Err(parser.lexer.wrong(&token, cause));
        }
        parser.lexer.consume();
        open.push(token.place);
    }
}

/// Parses the closing braces after an element, except for the outermost brace. Returns true if the outermost brace is
/// next.
fn closed(parser: &mut Parser, open: &mut Vec<Place>) -> bool {
    while parser.lexer.peek(0).kind == TokenKind::Sign(Sign::BraceClose) {
        if open.len() == 1 {
            return true;
        }
        parser.lexer.consume();
        open.pop();
    }
    false
}

/// Parses `{` elements `}` and appends them. Line ends are allowed next to the braces and the commas. Returns the place
/// of the first element that was written with a range, prefix or `*`; None if no element was written so.
pub fn read(
    parser: &mut Parser,
    shape: &Shape,
    elements: &mut Elements,
) -> Result<Option<Place>, Failure> {
    let mut ranged = None;
    let mut open = vec![parser.sign(Sign::BraceOpen, "\"{\"")?.place];
    elements.fields = shape.fields.len();
    loop {
        parser.lexer.braces(true);
        opened(parser, &mut open)?;
        let place = parser.lexer.peek(0).place;
        parser.lexer.braces(false);
        if element(parser, shape, elements)? && ranged.is_none() {
            ranged = Some(place);
        }
        parser.lexer.braces(true);
        let mut last = closed(parser, &mut open);
        if !last {
            let comma = parser.lexer.consume();
            if comma.kind != TokenKind::Sign(Sign::Comma) {
                let expected = "\",\" or \"}\"";
                return Err(unexpected(&parser.lexer, Where::Element, &comma, expected));
            }
            while parser.lexer.consume_sign(Sign::Comma) {}
            last = closed(parser, &mut open);
        }
        if last {
            parser.lexer.consume();
        }
        parser.lexer.braces(false);
        if last {
            return Ok(ranged);
        }
    }
}
