// SPDX-License-Identifier: GPL-2.0-or-later
//! Parser of rules and their statements.

use crate::base::log::Failure;
use crate::policy::parse::count;
use crate::policy::parse::elements::{self, find_verdict};
use crate::policy::parse::lexer::Lexer;
use crate::policy::parse::matches;
use crate::policy::parse::refuse::{self, unexpected, Where};
use crate::policy::parse::state::{
    excludes, tested, Parser, NFPROTO_IPV4, NFPROTO_IPV6, PROTOCOL_TCP, STATEMENTS_MAX,
};
use crate::policy::token::{Sign, Token, TokenKind};
use crate::policy::value;
use crate::policy::{
    Family, Field, MapsTo, MarkSet, Reject, RejectKind, Rule, Statement, StatementKind, Type,
    Verdict, ICMPX_PORT_UNREACHABLE, RULES_MAX,
};

/// Error texts: tokens that may follow a verdict or reject (AFTER_TERMINAL), or another statement (AFTER_STATEMENT).
const AFTER_TERMINAL: &str = "comment, the end of the line or \";\"";
const AFTER_STATEMENT: &str = "a statement, comment, the end of the line or \";\"";

/// Value of a mark expression so far: (mark & keep) ^ toggle. A constant keeps no bit of the mark.
#[derive(Clone, Copy)]
struct Bits {
    keep: u32,
    toggle: u32,
}

/// Parses a number in a mark expression.
fn mark_number(parser: &mut Parser) -> Result<Bits, Failure> {
    let range = elements::value(parser, Type::Mark, 32)?;
    Ok(Bits {
        keep: 0,
        toggle: range.low as u32,
    })
}

/// Parses an optional operator of a mark expression, written as a sign or as a word (`&` or `and`). Returns true if
/// there was one.
fn mark_op(parser: &mut Parser, sign: Sign, word: &str) -> bool {
    parser.lexer.consume_sign(sign) || parser.lexer.consume_word(word)
}

fn mark_and(parser: &mut Parser, mut bits: Bits) -> Result<Bits, Failure> {
    while mark_op(parser, Sign::And, "and") {
        let mask = mark_number(parser)?.toggle;
        bits.keep &= mask;
        bits.toggle &= mask;
    }
    Ok(bits)
}

fn mark_xor(parser: &mut Parser, bits: Bits) -> Result<Bits, Failure> {
    let mut bits = mark_and(parser, bits)?;
    while mark_op(parser, Sign::Xor, "xor") {
        let right = mark_number(parser)?;
        bits.toggle ^= mark_and(parser, right)?.toggle;
    }
    Ok(bits)
}

fn mark_or(parser: &mut Parser, bits: Bits) -> Result<Bits, Failure> {
    let mut bits = mark_xor(parser, bits)?;
    while mark_op(parser, Sign::Or, "or") {
        let right = mark_number(parser)?;
        let set = mark_xor(parser, right)?.toggle;
        bits.keep &= !set;
        bits.toggle |= set;
    }
    Ok(bits)
}

/// Returns true if a token is an operator of a mark expression.
fn is_mark_op(parser: &Parser, token: &Token) -> bool {
    match token.kind {
        TokenKind::Sign(sign) => matches!(sign, Sign::And | Sign::Xor | Sign::Or),
        TokenKind::Word => matches!(parser.lexer.text(token), "and" | "xor" | "or"),
        _ => false,
    }
}

/// Parses the part after `meta mark set`.
fn parse_mark_set(parser: &mut Parser) -> Result<MarkSet, Failure> {
    let token = parser.lexer.peek(0);
    if matches!(token.kind, TokenKind::Number(_)) {
        let Bits { keep, toggle } = mark_number(parser)?;
        return Ok(MarkSet::Bits { keep, toggle });
    }
    if !matches::begins(&parser.lexer, &token) || parser.lexer.is(&token, "exthdr") {
        let expected = "a number, or a field";
        return Err(unexpected(
            &parser.lexer,
            Where::Statement,
            &token,
            expected,
        ));
    }
    let key = matches::key(parser)?;
    if parser.lexer.consume_word("map") {
        let map = matches::lookup(parser, key, MapsTo::MarkMap)?;
        return Ok(MarkSet::Map(map));
    }
    let next = parser.lexer.peek(0);
    if key.fields != [Field::MetaMark] {
        return Err(parser.lexer.unexpected(&next, "map"));
    }
    if !is_mark_op(parser, &next) {
        let expected = "\"&\", \"|\", \"^\" or map";
        return Err(parser.lexer.unexpected(&next, expected));
    }
    let mark = Bits {
        keep: u32::MAX,
        toggle: 0,
    };
    let Bits { keep, toggle } = mark_or(parser, mark)?;
    Ok(MarkSet::Bits { keep, toggle })
}

/// Returns the reject that `reject` without `with` means in a table of this family.
fn default_reject(family: Family) -> Reject {
    match family {
        Family::Ip => Reject {
            kind: RejectKind::Icmp,
            code: 3,
        },
        Family::Ip6 => Reject {
            kind: RejectKind::Icmpv6,
            code: 4,
        },
        Family::Inet => Reject {
            kind: RejectKind::Icmpx,
            code: ICMPX_PORT_UNREACHABLE,
        },
    }
}

/// Returns the reason why a rule can't reject with this kind of reply (its matches or its table exclude such packets);
/// None if it can.
fn reject_excluded(parser: &Parser, kind: RejectKind) -> Option<&'static str> {
    let tested = &parser.tested;
    match kind {
        RejectKind::TcpReset if excludes(tested.protocol, PROTOCOL_TCP) => {
            Some("for TCP only, which a match before excludes")
        }
        RejectKind::Icmp if excludes(tested.layer3, NFPROTO_IPV4) => {
            Some("for IPv4 only, which the table or a match before excludes")
        }
        RejectKind::Icmpv6 if excludes(tested.layer3, NFPROTO_IPV6) => {
            Some("for IPv6 only, which the table or a match before excludes")
        }
        RejectKind::Icmpx if tested.family != Family::Inet => Some("for a table inet only"),
        _ => None,
    }
}

/// Returns the kind of reject that a token after `with` names.
fn find_reject(lexer: &Lexer, token: &Token) -> Option<RejectKind> {
    const WORDS: [(&str, RejectKind); 4] = [
        ("tcp", RejectKind::TcpReset),
        ("icmp", RejectKind::Icmp),
        ("icmpv6", RejectKind::Icmpv6),
        ("icmpx", RejectKind::Icmpx),
    ];
    let found = WORDS.iter().find(|(word, _)| lexer.is(token, word));
    found.map(|(_, kind)| *kind)
}

/// Parses the part after `reject`.
fn parse_reject(parser: &mut Parser) -> Result<Reject, Failure> {
    if !parser.lexer.consume_word("with") {
        return Ok(default_reject(parser.tested.family));
    }
    let token = parser.lexer.consume();
    let Some(kind) = find_reject(&parser.lexer, &token) else {
        let expected = "tcp, icmp, icmpv6 or icmpx";
        return Err(parser.lexer.unexpected(&token, expected));
    };
    if let Some(cause) = reject_excluded(parser, kind) {
        return Err(parser.lexer.wrong(&token, cause));
    }
    if kind == RejectKind::TcpReset {
        parser.word("reset", "reset")?;
        return Ok(Reject { kind, code: 0 });
    }
    parser.lexer.consume_word("type");
    let token = parser.lexer.consume();
    if !value::begins(token.kind) {
        return Err(parser.lexer.unexpected(&token, "the name of a code"));
    }
    let text = parser.lexer.text(&token);
    let code = value::parse_reject(kind, token.kind, text)
        .map_err(|cause| parser.lexer.wrong(&token, cause))?;
    Ok(Reject { kind, code })
}

/// Parses a statement that begins with a field: a match, a vmap, or a new mark.
fn parse_field_statement(parser: &mut Parser) -> Result<StatementKind, Failure> {
    let key = matches::key(parser)?;
    let next = parser.lexer.peek(0);
    if key.fields == [Field::MetaMark] && parser.lexer.consume_word("set") {
        let set = parse_mark_set(parser)?;
        return Ok(StatementKind::MarkSet(Box::new(set)));
    }
    refuse::check(&parser.lexer, Where::Assigned, &next)?;
    if parser.lexer.consume_word("vmap") {
        let found = matches::lookup(parser, key, MapsTo::VerdictMap)?;
        return Ok(StatementKind::Vmap(Box::new(found)));
    }
    let found = matches::compared(parser, key)?;
    Ok(StatementKind::Match(Box::new(found)))
}

/// Parses the part of a verdict after its word: the name of the chain after jump and goto.
/// - word: the verdict's token, which was already consumed.
fn parse_verdict(
    parser: &mut Parser,
    word: &Token,
    verdict: Verdict,
) -> Result<StatementKind, Failure> {
    let target = elements::target(parser, word, verdict)?;
    Ok(StatementKind::Verdict(Box::new(target)))
}

/// Parses a statement.
/// - expected: error text if no statement begins here.
fn parse_statement(parser: &mut Parser, expected: &str) -> Result<Statement, Failure> {
    let token = parser.lexer.peek(0);
    let place = token.place;
    if matches::begins(&parser.lexer, &token) {
        let kind = parse_field_statement(parser)?;
        return Ok(Statement { place, kind });
    }
    parser.lexer.consume();
    let kind = if let Some(verdict) = find_verdict(&parser.lexer, &token) {
        parse_verdict(parser, &token, verdict)?
    } else if parser.lexer.is(&token, "counter") {
        StatementKind::Counter(count::counter(parser)?)
    } else if parser.lexer.is(&token, "limit") {
        StatementKind::Limit(count::limit(parser)?)
    } else if parser.lexer.is(&token, "quota") {
        StatementKind::Quota(count::quota(parser)?)
    } else if parser.lexer.is(&token, "log") {
        StatementKind::Log(Box::new(count::log(parser)?))
    } else if parser.lexer.is(&token, "reject") {
        StatementKind::Reject(parse_reject(parser)?)
    } else {
        return Err(unexpected(
            &parser.lexer,
            Where::Statement,
            &token,
            expected,
        ));
    };
    Ok(Statement { place, kind })
}

/// Parses a comment's text. An empty text counts as no comment.
fn parse_comment(parser: &mut Parser) -> Result<Option<String>, Failure> {
    let text = parser.string()?;
    Ok(if text.is_empty() { None } else { Some(text) })
}

/// Returns true if a token ends a rule.
fn ends(token: &Token) -> bool {
    matches!(
        token.kind,
        TokenKind::LineEnd | TokenKind::Semicolon | TokenKind::EndOfText
    )
}

/// Parses the statements of a rule, which include its matches, and its comment.
/// - expected: error text if no statement begins here.
fn parse_statements(parser: &mut Parser, rule: &mut Rule, expected: &str) -> Result<(), Failure> {
    let mut expected = expected;
    loop {
        let token = parser.lexer.peek(0);
        let statement = parse_statement(parser, expected)?;
        if rule.statements.len() == STATEMENTS_MAX {
            let cause = format!("more than {STATEMENTS_MAX} statements in a rule");
            return Err(parser.lexer.wrong(&token, cause));
        }
        let is_terminal = matches!(
            statement.kind,
            StatementKind::Verdict(_) | StatementKind::Reject(_)
        );
        rule.statements.push(statement);
        if parser.lexer.consume_word("comment") {
            rule.comment = parse_comment(parser)?;
            return Ok(());
        }
        let next = parser.lexer.peek(0);
        if ends(&next) {
            return Ok(());
        }
        if is_terminal {
            return Err(parser.lexer.unexpected(&next, AFTER_TERMINAL));
        }
        expected = AFTER_STATEMENT;
    }
}

/// Parses a rule with its end, and adds it to a chain.
/// - expected: error text if no rule begins here.
pub fn read(
    parser: &mut Parser,
    table: usize,
    chain: usize,
    expected: &str,
) -> Result<(), Failure> {
    let first = parser.lexer.peek(0);
    let mut rule = Rule {
        place: first.place,
        comment: None,
        statements: Vec::new(),
    };
    parser.tested = tested(parser.policy.tables[table].family);
    parse_statements(parser, &mut rule, expected)?;
    parser.lexer.consume_end()?;
    if parser.rules >= RULES_MAX {
        let cause = format!("more than {RULES_MAX} rules");
        return Err(parser.lexer.wrong(&first, cause));
    }
    parser.rules += 1;
    parser.policy.tables[table].chains[chain].rules.push(rule);
    Ok(())
}
