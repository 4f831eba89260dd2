// SPDX-License-Identifier: GPL-2.0-or-later
//! Parser of chains: their declarations and rules.

use crate::base::log::Failure;
use crate::policy::parse::lexer::Lexer;
use crate::policy::parse::refuse::{unexpected, Where};
use crate::policy::parse::rule;
use crate::policy::parse::state::Parser;
use crate::policy::token::{Sign, Token, TokenKind};
use crate::policy::{Base, Chain, Hook, Place, Verdict, HOOKS};

/// Chain that a block describes.
#[derive(Clone, Copy)]
pub struct Declared {
    pub index: usize,
    /// True if the chain was declared before the block.
    pub before: bool,
}

/// Parses the name of a chain, and declares the chain if the name is new.
pub fn declare(parser: &mut Parser, table: usize) -> Result<Declared, Failure> {
    let token = parser.name("the name of a chain")?;
    let name = parser.lexer.text(&token).to_owned();
    if let Some(index) = parser.scopes[table].chains.get(&name) {
        return Ok(Declared {
            index: *index as usize,
            before: true,
        });
    }
    let index = parser.policy.tables[table].chains.len();
    parser.scopes[table]
        .chains
        .insert(name.clone(), index as u32);
    parser.policy.tables[table].chains.push(Chain {
        name,
        comment: String::new(),
        place: token.place,
        base: None,
        rules: Vec::new(),
    });
    Ok(Declared {
        index,
        before: false,
    })
}

/// Parts that a chain's block has had so far: `type`, `policy` and `comment`.
#[derive(Default)]
struct ChainBlock {
    head: bool,
    policy: bool,
    comment: bool,
}

/// Parses the name of a chain's hook, after the word `hook`.
fn parse_hook(parser: &mut Parser) -> Result<Hook, Failure> {
    let token = parser.lexer.consume();
    let found = HOOKS.iter().find(|(_, name)| parser.lexer.is(&token, name));
    found.map(|(hook, _)| *hook).ok_or_else(|| {
        let expected = "prerouting, input, forward, output or postrouting";
        unexpected(&parser.lexer, Where::Hook, &token, expected)
    })
}

/// Words for priorities: the word, its number, and the only hook that has the word (None = all hooks).
#[rustfmt::skip]
const PRIORITIES: [(&str, i64, Option<Hook>); 6] = [
    ("raw", -300, None),
    ("mangle", -150, None),
    ("dstnat", -100, Some(Hook::Prerouting)),
    ("filter", 0, None),
    ("security", 50, None),
    ("srcnat", 100, Some(Hook::Postrouting)),
];

/// Parses a number. Returns the priority from + sign * number. Fails if the priority does not fit 32 bits.
fn parse_offset(parser: &mut Parser, from: i64, sign: i64) -> Result<i32, Failure> {
    let (token, number) = parser.number()?;
    let offset = i64::try_from(number)
        .unwrap_or(i64::MAX / 2)
        .min(i64::MAX / 2);
    i32::try_from(from + sign * offset).map_err(|_| {
        parser
            .lexer
            .wrong(&token, "a priority has 32 bits with its sign")
    })
}

/// Parses a chain's priority, after the word `priority`.
fn parse_priority(parser: &mut Parser, hook: Hook) -> Result<i32, Failure> {
    const EXPECTED: &str = "a number, raw, mangle, dstnat, filter, security or srcnat";
    let token = parser.lexer.peek(0);
    if matches!(token.kind, TokenKind::Number(_)) {
        return parse_offset(parser, 0, 1);
    }
    parser.lexer.consume();
    if token.kind == TokenKind::Sign(Sign::Minus) {
        return parse_offset(parser, 0, -1);
    }
    let found = PRIORITIES
        .iter()
        .find(|(word, ..)| parser.lexer.is(&token, word));
    let Some((_, number, only)) = found else {
        return Err(parser.lexer.unexpected(&token, EXPECTED));
    };
    if only.is_some_and(|only| only != hook) {
        let cause = "dstnat is of prerouting only, srcnat of postrouting";
        return Err(parser.lexer.wrong(&token, cause));
    }
    if parser.lexer.consume_sign(Sign::Plus) {
        parse_offset(parser, *number, 1)
    } else if parser.lexer.consume_sign(Sign::Minus) {
        parse_offset(parser, *number, -1)
    } else {
        Ok(*number as i32)
    }
}

/// Returns the failure of a block that declares a chain differently from an earlier block.
fn fail_otherwise(lexer: &Lexer, place: Place, word: &Token) -> Failure {
    let at = lexer.place_name(place);
    lexer.wrong(
        word,
        format_args!("this chain is declared otherwise at {at}"),
    )
}

/// Parses the part after `type` in a chain.
fn parse_head(
    parser: &mut Parser,
    table: usize,
    chain: Declared,
    word: &Token,
) -> Result<(), Failure> {
    let token = parser.lexer.consume();
    if !parser.lexer.is(&token, "filter") {
        return Err(unexpected(
            &parser.lexer,
            Where::ChainType,
            &token,
            "filter",
        ));
    }
    parser.word("hook", "hook")?;
    let hook = parse_hook(parser)?;
    parser.word("priority", "priority")?;
    let priority = parse_priority(parser, hook)?;
    parser.lexer.consume_end()?;
    let known = &mut parser.policy.tables[table].chains[chain.index];
    let same = match known.base {
        Some(base) => base.hook == hook && base.priority == priority,
        None => !chain.before,
    };
    if !same {
        return Err(fail_otherwise(&parser.lexer, known.place, word));
    }
    if known.base.is_none() {
        known.base = Some(Base {
            hook,
            priority,
            policy: Verdict::Accept,
            declared: parser.base_chains,
        });
        parser.base_chains += 1;
    }
    Ok(())
}

/// Parses the part after `policy` in a chain.
fn parse_policy(
    parser: &mut Parser,
    table: usize,
    chain: Declared,
    word: &Token,
) -> Result<(), Failure> {
    let policy = if parser.lexer.consume_word("accept") {
        Verdict::Accept
    } else if parser.lexer.consume_word("drop") {
        Verdict::Drop
    } else {
        let token = parser.lexer.peek(0);
        return Err(parser.lexer.unexpected(&token, "accept or drop"));
    };
    parser.lexer.consume_end()?;
    let known = &mut parser.policy.tables[table].chains[chain.index];
    if let Some(base) = &mut known.base {
        if chain.before && base.policy != policy {
            return Err(fail_otherwise(&parser.lexer, known.place, word));
        }
        base.policy = policy;
    }
    Ok(())
}

/// Parses an item of a chain's block.
/// - with_rules: true if rules, `define` and `include` are allowed, too; false after `add chain`.
fn parse_item(
    parser: &mut Parser,
    table: usize,
    chain: Declared,
    with_rules: bool,
    block: &mut ChainBlock,
) -> Result<(), Failure> {
    let token = parser.lexer.peek(0);
    if parser.lexer.consume_word("type") {
        parse_head(parser, table, chain, &token)?;
        block.head = true;
        return Ok(());
    }
    if parser.lexer.consume_word("policy") {
        if block.policy || !block.head {
            let cause = "once, after type, hook and priority";
            return Err(parser.lexer.wrong(&token, cause));
        }
        block.policy = true;
        return parse_policy(parser, table, chain, &token);
    }
    if parser.lexer.consume_word("comment") {
        if block.comment {
            return Err(parser.lexer.wrong(&token, "given twice"));
        }
        block.comment = true;
        parser.policy.tables[table].chains[chain.index].comment = parser.string()?;
        return parser.lexer.consume_end();
    }
    if !with_rules {
        let expected = "type, policy, comment or \"}\"";
        return Err(parser.lexer.unexpected(&token, expected));
    }
    if parser.lexer.is(&token, "define") || parser.lexer.is(&token, "include") {
        parser.lexer.consume();
        parser.definition(&token)?;
        return Ok(());
    }
    let expected = "a rule, type, policy, comment, define, include or \"}\"";
    rule::read(parser, table, chain.index, expected)
}

/// Parses the items of a chain's block and the `}`, after the `{`.
/// - with_rules: true if rules, `define` and `include` are allowed, too; false after `add chain`.
pub fn block(
    parser: &mut Parser,
    table: usize,
    chain: Declared,
    with_rules: bool,
) -> Result<(), Failure> {
    let mut block = ChainBlock::default();
    loop {
        let token = parser.lexer.peek(0);
        match token.kind {
            TokenKind::Sign(Sign::BraceClose) => {
                parser.lexer.consume();
                return Ok(());
            }
            TokenKind::LineEnd | TokenKind::Semicolon => {
                parser.lexer.consume();
            }
            _ => parse_item(parser, table, chain, with_rules, &mut block)?,
        }
    }
}
