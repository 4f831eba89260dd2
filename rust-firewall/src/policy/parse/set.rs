// SPDX-License-Identifier: GPL-2.0-or-later
//! Parser of named sets and maps, and of elements that are added to them.

use crate::base::log::Failure;
use crate::policy::parse::elements::{self, Shape};
use crate::policy::parse::lexer::Lexer;
use crate::policy::parse::listed;
use crate::policy::parse::matches;
use crate::policy::parse::refuse::{unexpected, Where};
use crate::policy::parse::state::{tested, Parser};
use crate::policy::token::{Sign, Token, TokenKind};
use crate::policy::value;
use crate::policy::{
    field_facts, set_learns, Elements, Family, Key, Listed, MapsTo, Place, Set, Type,
    KEY_FIELDS_MAX, LEARNING_MAX,
};

const TYPE_FIRST: &str = "type or typeof";
/// Error text for elements, flags or auto-merge of a set that learns.
const LEARNS: &str = "a set that learns has no elements, flags or auto-merge";

/// Name and items of the block `{ … }` of a set or map, as parsed so far.
#[derive(Debug)]
struct Block {
    is_map: bool,
    name: String,
    place: Place,
    comment: Option<String>,
    /// Set, map to verdicts or map to marks; None until type or typeof was parsed.
    maps_to: Option<MapsTo>,
    key: Option<Key>,
    types: Vec<Type>,
    flags: bool,
    interval: bool,
    constant: bool,
    auto_merge: bool,
    elements: Option<Elements>,
    listed: Listed,
    learned: Elements,
    /// Place of the first element with a range, a prefix or a `*`; None if there is none.
    ranged: Option<Place>,
}

/// Returns the required properties of a set's elements.
fn shape_of(key: Option<&Key>, types: &[Type], maps_to: MapsTo) -> Shape {
    match key {
        Some(key) => elements::shape(key, maps_to, false),
        None => Shape {
            fields: types
                .iter()
                .map(|kind| (*kind, value::bits(*kind)))
                .collect(),
            maps_to,
            exact: false,
        },
    }
}

/// Returns the required properties of a declared set's elements.
pub fn shape(set: &Set) -> Shape {
    shape_of(set.key.as_ref(), &set.types, set.maps_to)
}

/// Parses a set's types, after the word `type`.
fn parse_types(parser: &mut Parser, block: &mut Block) -> Result<(), Failure> {
    loop {
        let token = parser.lexer.consume();
        let found = value::find_type(token.kind, parser.lexer.text(&token));
        let Some(kind) = found else {
            let expected = "a type such as ipv4_addr or inet_service";
            return Err(unexpected(&parser.lexer, Where::SetType, &token, expected));
        };
        if block.types.len() == KEY_FIELDS_MAX {
            let cause = format!("more than {KEY_FIELDS_MAX} fields in a key");
            return Err(parser.lexer.wrong(&token, cause));
        }
        block.types.push(kind);
        if !parser.lexer.consume_sign(Sign::Dot) {
            return Ok(());
        }
    }
}

/// Parses a set's fields, after the word `typeof`.
fn parse_fields(parser: &mut Parser, block: &mut Block) -> Result<(), Failure> {
    let first = parser.lexer.peek(0);
    parser.tested = tested(Family::Inet);
    parser.tested.is_typeof = true;
    let key = matches::key(parser)?;
    for field in &key.fields {
        let facts = field_facts(*field);
        let cause = match facts.kind {
            Type::Boolean => "a set does not hold what exists or is missing",
            Type::Alpn => matches::ALPN_ALONE,
            _ => "",
        };
        if !cause.is_empty() {
            return Err(parser.lexer.wrong(&first, cause));
        }
        block.types.push(facts.kind);
    }
    block.key = Some(key);
    Ok(())
}

/// Parses `: verdict` or `: mark` of a map. After typeof, the latter may be `: meta mark`.
fn parse_maps_to(parser: &mut Parser, is_typeof: bool) -> Result<MapsTo, Failure> {
    let expected = "\":\" and verdict or mark";
    parser.sign(Sign::Colon, expected)?;
    if parser.lexer.consume_word("verdict") {
        return Ok(MapsTo::VerdictMap);
    }
    if is_typeof {
        parser.lexer.consume_word("meta");
    }
    parser.word("mark", "verdict or mark")?;
    Ok(MapsTo::MarkMap)
}

/// Parses the part after `type` or `typeof` in a set's block.
fn parse_type(parser: &mut Parser, block: &mut Block, word: &Token) -> Result<(), Failure> {
    let is_typeof = parser.lexer.is(word, "typeof");
    if block.maps_to.is_some() {
        return Err(parser.lexer.wrong(word, "given twice"));
    }
    if is_typeof {
        parse_fields(parser, block)?;
    } else {
        parse_types(parser, block)?;
    }
    let bytes: usize = block
        .types
        .iter()
        .map(|kind| usize::from(value::bits(*kind)).div_ceil(32) * 4)
        .sum();
    if block.types.len() > 1 && bytes > matches::KEY_BYTES_MAX {
        let cause = format!("a key of more than {} bytes", matches::KEY_BYTES_MAX);
        return Err(parser.lexer.wrong(word, cause));
    }
    block.maps_to = Some(if block.is_map {
        parse_maps_to(parser, is_typeof)?
    } else {
        MapsTo::Set
    });
    parser.lexer.consume_end()
}

/// Parses the part after `flags` in a set's block.
fn parse_flags(parser: &mut Parser, block: &mut Block, word: &Token) -> Result<(), Failure> {
    if block.flags {
        return Err(parser.lexer.wrong(word, "given twice"));
    }
    block.flags = true;
    loop {
        let token = parser.lexer.consume();
        if parser.lexer.is(&token, "interval") {
            block.interval = true;
        } else if parser.lexer.is(&token, "constant") {
            block.constant = true;
        } else {
            let expected = "interval or constant";
            return Err(unexpected(&parser.lexer, Where::SetFlag, &token, expected));
        }
        if !parser.lexer.consume_sign(Sign::Comma) {
            return parser.lexer.consume_end();
        }
    }
}

/// Parses the part after `auto-merge` in a set's block.
fn parse_auto_merge(parser: &mut Parser, block: &mut Block, word: &Token) -> Result<(), Failure> {
    if block.auto_merge {
        return Err(parser.lexer.wrong(word, "given twice"));
    }
    if block.is_map || block.types.len() > 1 {
        return Err(parser.lexer.wrong(word, "for sets of one field only"));
    }
    block.auto_merge = true;
    parser.lexer.consume_end()
}

/// Parses the part after `elements` in a set's block.
fn parse_elements(parser: &mut Parser, block: &mut Block, word: &Token) -> Result<(), Failure> {
    if block.elements.is_some() {
        return Err(parser.lexer.wrong(word, "given twice"));
    }
    let maps_to = block.maps_to.unwrap_or(MapsTo::Set);
    let shape = shape_of(block.key.as_ref(), &block.types, maps_to);
    let mut elements = Elements::default();
    parser.sign(Sign::Assign, "\"=\"")?;
    block.ranged = elements::read(parser, &shape, &mut elements)?;
    block.elements = Some(elements);
    if parser.lexer.peek(0).kind == TokenKind::Sign(Sign::BraceClose) {
        return Ok(()); // like nft: `elements = { … } }` needs no END
    }
    parser.lexer.consume_end()
}

/// Parses the part after `file` in a set's block.
fn parse_file(parser: &mut Parser, block: &mut Block, word: &Token) -> Result<(), Failure> {
    if block.is_map || block.types != [Type::Hostname] {
        let cause = "for sets of type hostname only";
        return Err(parser.lexer.wrong(word, cause));
    }
    listed::read(parser, &mut block.listed)
}

/// Parses the part after `learn` in a set's block.
fn parse_learned(parser: &mut Parser, block: &mut Block, word: &Token) -> Result<(), Failure> {
    if block.learned.count() > 0 {
        return Err(parser.lexer.wrong(word, "given twice"));
    }
    let is_of_addresses = matches!(block.types[..], [Type::Ipv4Addr | Type::Ipv6Addr]);
    if block.is_map || !is_of_addresses {
        let cause = "for sets of type ipv4_addr or ipv6_addr only";
        return Err(parser.lexer.wrong(word, cause));
    }
    parser.word("dns", "dns")?;
    let shape = Shape {
        fields: vec![(Type::Hostname, value::bits(Type::Hostname))],
        maps_to: MapsTo::Set,
        exact: false,
    };
    if parser.lexer.peek(0).kind == TokenKind::Sign(Sign::BraceOpen) {
        elements::read(parser, &shape, &mut block.learned)?;
    } else {
        elements::single(parser, &shape, &mut block.learned)?;
    }
    parser.lexer.consume_end()
}

/// Parses an item of a set's block, after the item's first word.
fn parse_item(parser: &mut Parser, block: &mut Block, word: &Token) -> Result<(), Failure> {
    if parser.lexer.is(word, "comment") {
        if block.comment.is_some() {
            return Err(parser.lexer.wrong(word, "given twice"));
        }
        block.comment = Some(parser.string()?);
        return parser.lexer.consume_end();
    }
    if parser.lexer.is(word, "type") || parser.lexer.is(word, "typeof") {
        return parse_type(parser, block, word);
    }
    let known = ["flags", "auto-merge", "file", "learn", "elements"];
    if !known.iter().any(|known| parser.lexer.is(word, known)) {
        let expected = "type, typeof, flags, auto-merge, file, learn, elements, comment or \"}\"";
        return Err(unexpected(&parser.lexer, Where::Set, word, expected));
    }
    if block.maps_to.is_none() {
        return Err(parser.lexer.unexpected(word, TYPE_FIRST));
    }
    if parser.lexer.is(word, "flags") {
        parse_flags(parser, block, word)
    } else if parser.lexer.is(word, "auto-merge") {
        parse_auto_merge(parser, block, word)
    } else if parser.lexer.is(word, "file") {
        parse_file(parser, block, word)
    } else if parser.lexer.is(word, "learn") {
        parse_learned(parser, block, word)
    } else {
        parse_elements(parser, block, word)
    }
}

/// Returns the failure for an element that needs `flags interval`.
fn fail_ranged(parser: &Parser, name: &str, place: Place) -> Failure {
    let text = format!("\"{name}\": ranges and prefixes need flags interval");
    parser.lexer.fail(place, text)
}

/// Checks a complete block by itself, without earlier declarations of the set.
fn check(parser: &Parser, block: &Block, end: &Token) -> Result<(), Failure> {
    if block.maps_to.is_none() {
        return Err(parser.lexer.unexpected(end, TYPE_FIRST));
    }
    if block.auto_merge && !block.interval {
        let text = format!("\"{}\": auto-merge needs flags interval", block.name);
        return Err(parser.lexer.fail(block.place, text));
    }
    if let Some(place) = block.ranged.filter(|_| !block.interval) {
        return Err(fail_ranged(parser, &block.name, place));
    }
    let has_more = block.elements.is_some() || block.flags || block.auto_merge;
    if block.learned.count() > 0 && has_more {
        let text = format!("\"{}\": {LEARNS}", block.name);
        return Err(parser.lexer.fail(block.place, text));
    }
    Ok(())
}

/// Appends elements to a set.
fn append(set: &mut Set, more: Elements) {
    let elements = &mut set.elements;
    elements.fields = set.types.len();
    elements.ranges.extend(more.ranges);
    elements.targets.extend(more.targets);
    elements.marks.extend(more.marks);
    elements.places.extend(more.places);
}

/// Returns true if a block declares a set in the same way as earlier blocks.
fn is_same(set: &Set, block: &Block) -> bool {
    set.maps_to == block.maps_to.unwrap_or(MapsTo::Set)
        && set.key == block.key
        && set.types == block.types
        && set.interval == block.interval
        && set.constant == block.constant
        && set.auto_merge == block.auto_merge
        && set.learned.ranges == block.learned.ranges
}

/// Adds a block's elements and files to the existing set with its name, and replaces the set's comment if the block has
/// one. Fails if the declarations differ, or if the set is constant and the block has elements or files.
fn go_on(lexer: &Lexer, set: &mut Set, block: Block) -> Result<(), Failure> {
    let same = is_same(set, &block);
    let more = block.elements.unwrap_or_default();
    let has_more = more.count() > 0 || !block.listed.files.is_empty();
    if !same || set.constant && has_more {
        let at = lexer.place_name(set.place);
        let cause = if same {
            "constant since"
        } else {
            "declared otherwise at"
        };
        let text = format!("\"{}\": {cause} {at}", block.name);
        return Err(lexer.fail(block.place, text));
    }
    if let Some(comment) = block.comment {
        set.comment = comment;
    }
    append(set, more);
    set.listed.files.extend(block.listed.files);
    set.listed.ids.extend(block.listed.ids);
    Ok(())
}

/// Fails if a block declares a set that learns, and the policy already has LEARNING_MAX sets that learn.
fn check_learning(parser: &Parser, block: &Block) -> Result<(), Failure> {
    if block.learned.count() == 0 {
        return Ok(());
    }
    let sets = parser.policy.tables.iter().flat_map(|table| &table.sets);
    if sets.filter(|set| set_learns(set)).count() == LEARNING_MAX {
        let cause = format!("more than {LEARNING_MAX} sets that learn");
        let text = format!("\"{}\": {cause}", block.name);
        return Err(parser.lexer.fail(block.place, text));
    }
    Ok(())
}

/// Declares the set of a block, or adds the block to the existing set with its name.
fn declare(parser: &mut Parser, table: usize, block: Block) -> Result<(), Failure> {
    let known = parser.scopes[table].sets.get(&block.name).copied();
    if let Some(index) = known {
        let set = &mut parser.policy.tables[table].sets[index as usize];
        return go_on(&parser.lexer, set, block);
    }
    check_learning(parser, &block)?;
    let index = parser.policy.tables[table].sets.len() as u32;
    parser.scopes[table].sets.insert(block.name.clone(), index);
    let mut set = Set {
        name: block.name,
        comment: block.comment.unwrap_or_default(),
        place: block.place,
        maps_to: block.maps_to.unwrap_or(MapsTo::Set),
        key: block.key,
        types: block.types,
        interval: block.interval,
        constant: block.constant,
        auto_merge: block.auto_merge,
        elements: Elements::default(),
        listed: block.listed,
        learned: block.learned,
    };
    append(&mut set, block.elements.unwrap_or_default());
    parser.policy.tables[table].sets.push(set);
    Ok(())
}

/// Parses the items of a block and its `}`, after the `{`.
fn parse_block(parser: &mut Parser, table: usize, mut block: Block) -> Result<(), Failure> {
    loop {
        let token = parser.lexer.consume();
        match token.kind {
            TokenKind::LineEnd | TokenKind::Semicolon => {}
            TokenKind::Sign(Sign::BraceClose) => {
                check(parser, &block, &token)?;
                return declare(parser, table, block);
            }
            _ => parse_item(parser, &mut block, &token)?,
        }
    }
}

/// Parses NAME `{` items `}` of a set or map, after its keyword.
pub fn block(parser: &mut Parser, table: usize, is_map: bool) -> Result<(), Failure> {
    let name = parser.name(if is_map {
        "the name of a map"
    } else {
        "the name of a set"
    })?;
    let block = Block {
        is_map,
        name: parser.lexer.text(&name).to_owned(),
        place: name.place,
        comment: None,
        maps_to: None,
        key: None,
        types: Vec::new(),
        flags: false,
        interval: false,
        constant: false,
        auto_merge: false,
        elements: None,
        listed: Listed::default(),
        learned: Elements::default(),
        ranged: None,
    };
    parser.sign(Sign::BraceOpen, "\"{\"")?;
    parse_block(parser, table, block)
}

/// Parses NAME `{` elements `}` after `add element` and its table.
pub fn add(parser: &mut Parser, table: usize) -> Result<(), Failure> {
    let token = parser.name("the name of a set or map")?;
    let name = parser.lexer.text(&token).to_owned();
    let Some(index) = parser.scopes[table].sets.get(&name).copied() else {
        let cause = "no set or map of this name before this";
        return Err(parser.lexer.wrong(&token, cause));
    };
    let set = &parser.policy.tables[table].sets[index as usize];
    let (shape, interval) = (shape(set), set.interval);
    if set.constant {
        let at = parser.lexer.place_name(set.place);
        return Err(parser
            .lexer
            .wrong(&token, format_args!("constant since {at}")));
    }
    if set_learns(set) {
        return Err(parser.lexer.wrong(&token, LEARNS));
    }
    let mut more = Elements::default();
    let ranged = elements::read(parser, &shape, &mut more)?;
    if let Some(place) = ranged.filter(|_| !interval) {
        return Err(fail_ranged(parser, &name, place));
    }
    append(&mut parser.policy.tables[table].sets[index as usize], more);
    Ok(())
}
