// SPDX-License-Identifier: GPL-2.0-or-later
//! Parser from policy text to policy: recursive descent over the tokens of `lexer`. rules/policy/GRAMMAR.md specifies
//! the language; the first violation ends parsing with an error at its place.
//!
//! Theory of operation: `parse` (files, tables), `chain`, `set`, `rule`, `matches` and `elements` read the text once
//! and build the policy. They check everything that is known at that point: values, ranges, protocols that exclude each
//! other, literal sets. Checks that need the complete text (names of sets and chains, paths through chains, elements of
//! named sets) are left to `resolve`.

use std::sync::Arc;

use crate::base::log::Failure;
use crate::policy::forest;
use crate::policy::parse::chain;
use crate::policy::parse::lexer::Lexer;
use crate::policy::parse::refuse::{self, unexpected, Where};
use crate::policy::parse::resolve;
use crate::policy::parse::rule;
use crate::policy::parse::set;
use crate::policy::parse::state::{Parser, Scope};
use crate::policy::token::{Sign, Token, TokenKind};
use crate::policy::{family_name, Family, Policy, Table, FAMILIES};

/// Parses the part after `flush`.
fn parse_flush(parser: &mut Parser, word: &Token) -> Result<(), Failure> {
    let next = parser.lexer.peek(0);
    refuse::check(&parser.lexer, Where::Flush, &next)?;
    parser.word("ruleset", "ruleset")?;
    if !parser.policy.tables.is_empty() {
        return Err(parser.lexer.wrong(word, "only before the first table"));
    }
    parser.policy.flush = true;
    parser.lexer.consume_end()
}

/// Parses an optional family. If there is none, the family is ip.
fn parse_family(parser: &mut Parser) -> Result<Family, Failure> {
    let token = parser.lexer.peek(0);
    let found = FAMILIES
        .iter()
        .find(|(_, name)| parser.lexer.is(&token, name));
    if let Some((family, _)) = found {
        parser.lexer.consume();
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

/// Parses the family and name of a table, and declares the table if it is new. Returns the table's index.
fn declare_table(parser: &mut Parser) -> Result<usize, Failure> {
    let family = parse_family(parser)?;
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

/// Parses the family and name of a table that was declared before. Returns the table's index.
fn find_table(parser: &mut Parser) -> Result<usize, Failure> {
    let family = parse_family(parser)?;
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

/// Parses an item of a table's block, after the item's first token.
/// - commented: in/out: true if the block has had a comment.
fn parse_table_item(
    parser: &mut Parser,
    table: usize,
    token: &Token,
    commented: &mut bool,
) -> Result<(), Failure> {
    if parser.lexer.is(token, "chain") {
        let chain = chain::declare(parser, table)?;
        parser.sign(Sign::BraceOpen, "\"{\"")?;
        chain::block(parser, table, chain, true)?;
    } else if parser.lexer.is(token, "set") {
        set::block(parser, table, false)?;
    } else if parser.lexer.is(token, "map") {
        set::block(parser, table, true)?;
    } else if parser.lexer.is(token, "comment") {
        if *commented {
            return Err(parser.lexer.wrong(token, "given twice"));
        }
        *commented = true;
        parser.policy.tables[table].comment = parser.string()?;
    } else if parser.definition(token)? {
        return Ok(());
    } else {
        let expected = "chain, set, map, comment, define, include or \"}\"";
        return Err(unexpected(&parser.lexer, Where::Table, token, expected));
    }
    parser.lexer.consume_end()
}

/// Parses the part after `table`.
fn parse_table(parser: &mut Parser) -> Result<(), Failure> {
    let table = declare_table(parser)?;
    let mut commented = false;
    if parser.lexer.consume_sign(Sign::BraceOpen) {
        loop {
            let token = parser.lexer.consume();
            match token.kind {
                TokenKind::Sign(Sign::BraceClose) => break,
                TokenKind::LineEnd | TokenKind::Semicolon => {}
                _ => parse_table_item(parser, table, &token, &mut commented)?,
            }
        }
    }
    parser.lexer.consume_end()
}

/// Parses the part after `add rule`.
fn add_rule(parser: &mut Parser) -> Result<(), Failure> {
    let table = find_table(parser)?;
    let token = parser.name("the name of a chain")?;
    let name = parser.lexer.text(&token);
    let Some(chain) = parser.scopes[table].chains.get(name).copied() else {
        let cause = "no chain of this name before this";
        return Err(parser.lexer.wrong(&token, cause));
    };
    rule::read(parser, table, chain as usize, "a statement")
}

/// Parses the part after `add chain`, except the line end or `;` that ends it.
fn add_chain(parser: &mut Parser) -> Result<(), Failure> {
    let table = find_table(parser)?;
    let chain = chain::declare(parser, table)?;
    if parser.lexer.consume_sign(Sign::BraceOpen) {
        chain::block(parser, table, chain, false)?;
    }
    Ok(())
}

/// Parses the part after `add`.
fn parse_add(parser: &mut Parser) -> Result<(), Failure> {
    let token = parser.lexer.consume();
    if parser.lexer.is(&token, "table") {
        declare_table(parser)?;
    } else if parser.lexer.is(&token, "chain") {
        add_chain(parser)?;
    } else if parser.lexer.is(&token, "rule") {
        return add_rule(parser);
    } else if parser.lexer.is(&token, "set") {
        let table = find_table(parser)?;
        set::block(parser, table, false)?;
    } else if parser.lexer.is(&token, "map") {
        let table = find_table(parser)?;
        set::block(parser, table, true)?;
    } else if parser.lexer.is(&token, "element") {
        let table = find_table(parser)?;
        set::add(parser, table)?;
    } else {
        let expected = "table, chain, rule, set, map or element";
        return Err(unexpected(&parser.lexer, Where::Add, &token, expected));
    }
    parser.lexer.consume_end()
}

/// Parses an item of a file outside tables, after its first token.
fn parse_file_item(parser: &mut Parser, token: &Token) -> Result<(), Failure> {
    if parser.lexer.is(token, "table") {
        parse_table(parser)
    } else if parser.lexer.is(token, "add") {
        parse_add(parser)
    } else if parser.lexer.is(token, "flush") {
        parse_flush(parser, token)
    } else if !parser.definition(token)? {
        let expected = "table, define, include, flush or add";
        Err(unexpected(&parser.lexer, Where::File, token, expected))
    } else {
        Ok(())
    }
}

/// Parses the complete text of a lexer, and makes the checks that need the complete text.
fn read_policy(lexer: Lexer) -> Result<Policy, Failure> {
    let mut parser = Parser::new(lexer);
    loop {
        let token = parser.lexer.consume();
        match token.kind {
            TokenKind::EndOfText => break,
            TokenKind::LineEnd | TokenKind::Semicolon => {}
            _ => parse_file_item(&mut parser, &token)?,
        }
    }
    resolve::policy(&mut parser)?;
    forest::make(Arc::make_mut(&mut parser.policy.hostnames));
    parser.policy.files = parser.lexer.take_names();
    Ok(parser.policy)
}

/// Parses a policy file with its includes, resolves its names and checks it. Fails with `LogExit::Usage` and the text
/// "FILE:LINE:COLUMN: …" or "FILE: …".
pub fn file(path: &str) -> Result<Policy, Failure> {
    read_policy(Lexer::open_file(path)?)
}

/// Parses a policy text in memory, like `file`. Messages show `name` as its file name. Included files are relative to
/// the folder of `name`.
pub fn text(name: &str, text: &[u8]) -> Result<Policy, Failure> {
    read_policy(Lexer::open_text(name, text)?)
}
