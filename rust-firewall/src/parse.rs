// SPDX-License-Identifier: GPL-2.0-or-later
//! Policy text to policy: recursive descent over the tokens of `lexer`. rules/policy/GRAMMAR.md is
//! what it takes; the first thing that is not in it ends with an error that tells the place.
//!
//! Theory of operation: `parse` (files, tables, chains), `parse_set`, `parse_rule`, `parse_match` and
//! `parse_elements` read the text once and build the policy. What is known then is checked then:
//! values, ranges, protocols that exclude each other, literal sets. What needs the whole text (names
//! of sets and chains, ways through chains, elements of named sets) is left to `resolve`.

use crate::lexer::Lexer;
use crate::log::Failure;
use crate::parse_refuse::{unexpected, Where};
use crate::parse_rule;
use crate::parse_set;
use crate::parse_state::{Parser, Scope};
use crate::policy::{
    family_name, Base, Chain, Family, Hook, Policy, Table, Verdict, FAMILIES, HOOKS,
};
use crate::resolve;
use crate::token::{Sign, Token, TokenKind};

/// Reads a policy file with its includes, resolves its names and checks it. Fails with
/// `LogExit::Usage` and the text "FILE:LINE:COLUMN: …" or "FILE: …".
pub fn file(path: &str) -> Result<Policy, Failure> {
    policy(Lexer::open_file(path)?)
}

/// The same for a text from memory, which `name` stands for in messages; includes are relative to its
/// directory.
pub fn text(name: &str, text: &[u8]) -> Result<Policy, Failure> {
    policy(Lexer::open_text(name, text)?)
}

/// Reads the whole text.
fn policy(lexer: Lexer) -> Result<Policy, Failure> {
    let mut parser = Parser::new(lexer);
    loop {
        let token = parser.lexer.take();
        match token.kind {
            TokenKind::EndOfText => break,
            TokenKind::LineEnd | TokenKind::Semicolon => {}
            _ => file_item(&mut parser, &token)?,
        }
    }
    resolve::policy(&mut parser)?;
    parser.policy.files = parser.lexer.take_names();
    Ok(parser.policy)
}

/// Takes what a file has outside tables; its first token was taken.
fn file_item(parser: &mut Parser, token: &Token) -> Result<(), Failure> {
    if parser.lexer.is(token, "table") {
        table(parser)
    } else if parser.lexer.is(token, "add") {
        add(parser)
    } else if parser.lexer.is(token, "flush") {
        flush(parser, token)
    } else if !definition(parser, token)? {
        let expected = "table, define, include, flush or add";
        Err(unexpected(&parser.lexer, Where::File, token, expected))
    } else {
        Ok(())
    }
}

/// Takes a define or include whose word was taken. Whether it was one.
fn definition(parser: &mut Parser, word: &Token) -> Result<bool, Failure> {
    if parser.lexer.is(word, "define") {
        parser.lexer.define()?;
        parser.lexer.take_end()?;
    } else if parser.lexer.is(word, "include") {
        parser.lexer.include()?;
    } else {
        return Ok(false);
    }
    Ok(true)
}

/// Takes what stands behind `flush`.
fn flush(parser: &mut Parser, word: &Token) -> Result<(), Failure> {
    parser.word("ruleset", "ruleset")?;
    if !parser.policy.tables.is_empty() {
        return Err(parser.lexer.wrong(word, "only before the first table"));
    }
    parser.policy.flush = true;
    parser.lexer.take_end()
}

/// Takes a family if one stands there.
fn family(parser: &mut Parser) -> Result<Family, Failure> {
    let token = parser.lexer.peek(0);
    let found = FAMILIES
        .iter()
        .find(|(_, name)| parser.lexer.is(&token, name));
    if let Some((family, _)) = found {
        parser.lexer.take();
        return Ok(*family);
    }
    if ["bridge", "arp", "netdev"]
        .iter()
        .any(|name| parser.lexer.is(&token, name))
    {
        return Err(unexpected(&parser.lexer, Where::Family, &token, ""));
    }
    Ok(Family::Ip)
}

/// Takes the name of a table, and declares it if it is new.
fn declare_table(parser: &mut Parser) -> Result<usize, Failure> {
    let family = family(parser)?;
    let token = parser.name("the name of a table")?;
    let name = parser.lexer.text(&token).to_owned();
    let key = (family_name(family), name.clone());
    if let Some(index) = parser.tables.get(&key) {
        return Ok(*index as usize);
    }
    let index = parser.policy.tables.len();
    parser.tables.insert(key, index as u32);
    parser.scopes.push(Scope::default());
    parser.policy.tables.push(Table {
        family,
        name,
        comment: String::new(),
        sets: Vec::new(),
        chains: Vec::new(),
    });
    Ok(index)
}

/// Takes the name of a table that was declared before.
fn find_table(parser: &mut Parser) -> Result<usize, Failure> {
    let family = family(parser)?;
    let token = parser.name("the name of a table")?;
    let key = (family_name(family), parser.lexer.text(&token).to_owned());
    match parser.tables.get(&key) {
        Some(index) => Ok(*index as usize),
        None => {
            let cause = format!("no table {} of this name before this", key.0);
            Err(parser.lexer.wrong(&token, cause))
        }
    }
}

/// Takes what stands behind `table`.
fn table(parser: &mut Parser) -> Result<(), Failure> {
    let table = declare_table(parser)?;
    let mut commented = false;
    if parser.lexer.take_sign(Sign::BraceOpen) {
        loop {
            let token = parser.lexer.take();
            match token.kind {
                TokenKind::Sign(Sign::BraceClose) => break,
                TokenKind::LineEnd | TokenKind::Semicolon => {}
                _ => table_item(parser, table, &token, &mut commented)?,
            }
        }
    }
    parser.lexer.take_end()
}

/// Takes an item of a table's block; its first token was taken.
fn table_item(
    parser: &mut Parser,
    table: usize,
    token: &Token,
    commented: &mut bool,
) -> Result<(), Failure> {
    if parser.lexer.is(token, "chain") {
        let chain = declare_chain(parser, table)?;
        parser.sign(Sign::BraceOpen, "\"{\"")?;
        chain_block(parser, table, chain, true)?;
    } else if parser.lexer.is(token, "set") {
        parse_set::block(parser, table, false)?;
    } else if parser.lexer.is(token, "map") {
        parse_set::block(parser, table, true)?;
    } else if parser.lexer.is(token, "comment") {
        if *commented {
            return Err(parser.lexer.wrong(token, "given twice"));
        }
        *commented = true;
        parser.policy.tables[table].comment = parser.string()?;
    } else if definition(parser, token)? {
        return Ok(());
    } else {
        let expected = "chain, set, map, comment, define, include or \"}\"";
        return Err(unexpected(&parser.lexer, Where::Table, token, expected));
    }
    parser.lexer.take_end()
}

/// A chain that a block goes on with.
#[derive(Clone, Copy)]
struct Declared {
    index: usize,
    /// Not by this block.
    before: bool,
}

/// Takes the name of a chain, and declares it if it is new.
fn declare_chain(parser: &mut Parser, table: usize) -> Result<Declared, Failure> {
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

/// What a chain's block has said so far.
#[derive(Default)]
struct ChainBlock {
    head: bool,
    policy: bool,
    comment: bool,
}

/// Takes the items of a chain and the `}`, after the `{`.
/// with_rules: rules may stand there, and not only what a chain is.
fn chain_block(
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
                parser.lexer.take();
                return Ok(());
            }
            TokenKind::LineEnd | TokenKind::Semicolon => {
                parser.lexer.take();
            }
            _ => chain_item(parser, table, chain, with_rules, &mut block)?,
        }
    }
}

/// Takes an item of a chain's block.
fn chain_item(
    parser: &mut Parser,
    table: usize,
    chain: Declared,
    with_rules: bool,
    block: &mut ChainBlock,
) -> Result<(), Failure> {
    let token = parser.lexer.peek(0);
    if parser.lexer.take_word("type") {
        chain_head(parser, table, chain, &token)?;
        block.head = true;
        return Ok(());
    }
    if parser.lexer.take_word("policy") {
        if block.policy || !block.head {
            let cause = "once, behind type, hook and priority";
            return Err(parser.lexer.wrong(&token, cause));
        }
        block.policy = true;
        return chain_policy(parser, table, chain, &token);
    }
    if parser.lexer.take_word("comment") {
        if block.comment {
            return Err(parser.lexer.wrong(&token, "given twice"));
        }
        block.comment = true;
        parser.policy.tables[table].chains[chain.index].comment = parser.string()?;
        return parser.lexer.take_end();
    }
    if !with_rules {
        let expected = "type, policy, comment or \"}\"";
        return Err(parser.lexer.unexpected(&token, expected));
    }
    if parser.lexer.is(&token, "define") || parser.lexer.is(&token, "include") {
        parser.lexer.take();
        definition(parser, &token)?;
        return Ok(());
    }
    let expected = "a rule, type, policy, comment, define, include or \"}\"";
    parse_rule::read(parser, table, chain.index, expected)
}

/// Takes the hook behind `hook`.
fn hook(parser: &mut Parser) -> Result<Hook, Failure> {
    let token = parser.lexer.take();
    let found = HOOKS.iter().find(|(_, name)| parser.lexer.is(&token, name));
    found.map(|(hook, _)| *hook).ok_or_else(|| {
        let expected = "prerouting, input, forward, output or postrouting";
        unexpected(&parser.lexer, Where::Hook, &token, expected)
    })
}

/// A word for a priority, its number, and the only hook that has it.
#[rustfmt::skip]
const PRIORITIES: [(&str, i64, Option<Hook>); 6] = [
    ("raw", -300, None),
    ("mangle", -150, None),
    ("dstnat", -100, Some(Hook::Prerouting)),
    ("filter", 0, None),
    ("security", 50, None),
    ("srcnat", 100, Some(Hook::Postrouting)),
];

/// Takes the number behind `+` or `-`.
fn offset(parser: &mut Parser, from: i64, sign: i64) -> Result<i32, Failure> {
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

/// Takes the priority behind `priority`.
fn priority(parser: &mut Parser, hook: Hook) -> Result<i32, Failure> {
    const EXPECTED: &str = "a number, raw, mangle, dstnat, filter, security or srcnat";
    let token = parser.lexer.peek(0);
    if matches!(token.kind, TokenKind::Number(_)) {
        return offset(parser, 0, 1);
    }
    parser.lexer.take();
    if token.kind == TokenKind::Sign(Sign::Minus) {
        return offset(parser, 0, -1);
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
    if parser.lexer.take_sign(Sign::Plus) {
        offset(parser, *number, 1)
    } else if parser.lexer.take_sign(Sign::Minus) {
        offset(parser, *number, -1)
    } else {
        Ok(*number as i32)
    }
}

/// Takes what stands behind `type` in a chain.
fn chain_head(
    parser: &mut Parser,
    table: usize,
    chain: Declared,
    word: &Token,
) -> Result<(), Failure> {
    let token = parser.lexer.take();
    if !parser.lexer.is(&token, "filter") {
        return Err(unexpected(
            &parser.lexer,
            Where::ChainType,
            &token,
            "filter",
        ));
    }
    parser.word("hook", "hook")?;
    let hook = hook(parser)?;
    parser.word("priority", "priority")?;
    let priority = priority(parser, hook)?;
    parser.lexer.take_end()?;
    let known = &mut parser.policy.tables[table].chains[chain.index];
    let same = match known.base {
        Some(base) => base.hook == hook && base.priority == priority,
        None => !chain.before,
    };
    if !same {
        let at = parser.lexer.place_name(known.place);
        let cause = format!("this chain is declared otherwise at {at}");
        return Err(parser.lexer.wrong(word, cause));
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

/// Takes what stands behind `policy` in a chain.
fn chain_policy(
    parser: &mut Parser,
    table: usize,
    chain: Declared,
    word: &Token,
) -> Result<(), Failure> {
    let policy = if parser.lexer.take_word("accept") {
        Verdict::Accept
    } else if parser.lexer.take_word("drop") {
        Verdict::Drop
    } else {
        let token = parser.lexer.peek(0);
        return Err(parser.lexer.unexpected(&token, "accept or drop"));
    };
    parser.lexer.take_end()?;
    let known = &mut parser.policy.tables[table].chains[chain.index];
    if let Some(base) = &mut known.base {
        if chain.before && base.policy != policy {
            let at = parser.lexer.place_name(known.place);
            let cause = format!("this chain is declared otherwise at {at}");
            return Err(parser.lexer.wrong(word, cause));
        }
        base.policy = policy;
    }
    Ok(())
}

/// Takes what stands behind `add`.
fn add(parser: &mut Parser) -> Result<(), Failure> {
    let token = parser.lexer.take();
    if parser.lexer.is(&token, "table") {
        declare_table(parser)?;
    } else if parser.lexer.is(&token, "chain") {
        let table = find_table(parser)?;
        let chain = declare_chain(parser, table)?;
        if parser.lexer.take_sign(Sign::BraceOpen) {
            chain_block(parser, table, chain, false)?;
        }
    } else if parser.lexer.is(&token, "rule") {
        return add_rule(parser);
    } else if parser.lexer.is(&token, "set") {
        let table = find_table(parser)?;
        parse_set::block(parser, table, false)?;
    } else if parser.lexer.is(&token, "map") {
        let table = find_table(parser)?;
        parse_set::block(parser, table, true)?;
    } else if parser.lexer.is(&token, "element") {
        let table = find_table(parser)?;
        parse_set::add(parser, table)?;
    } else {
        let expected = "table, chain, rule, set, map or element";
        return Err(unexpected(&parser.lexer, Where::Add, &token, expected));
    }
    parser.lexer.take_end()
}

/// Takes what stands behind `add rule`.
fn add_rule(parser: &mut Parser) -> Result<(), Failure> {
    let table = find_table(parser)?;
    let token = parser.name("the name of a chain")?;
    let name = parser.lexer.text(&token);
    let Some(chain) = parser.scopes[table].chains.get(name).copied() else {
        let cause = "no chain of this name before this";
        return Err(parser.lexer.wrong(&token, cause));
    };
    parse_rule::read(parser, table, chain as usize, "a statement")
}
