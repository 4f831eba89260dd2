// SPDX-License-Identifier: GPL-2.0-or-later
//! Parser of `define` and `include`, which change the lexer's input.

use crate::base::log::Failure;
use crate::policy::parse::lexer::{Define, Lexer, TOO_LARGE, UNDEFINED};
use crate::policy::parse::source::{self, reason, Source};
use crate::policy::token::{is_reserved, Sign, Token, TokenKind};
use crate::policy::INCLUDE_DEPTH_MAX;

/// Stores the token after a define's value as the token that the lexer reads next.
fn leave_end(lexer: &mut Lexer, token: Token) {
    if token.kind != TokenKind::EndOfText {
        lexer.line_ended = token.kind == TokenKind::LineEnd;
        lexer.ahead.push_back(token);
    }
}

/// Skips the value of a define. Returns the offset in the text at which the value ends. The line end or `;` after the
/// value is not consumed.
fn skip_value(lexer: &mut Lexer) -> Result<usize, Failure> {
    let mut depth = 0;
    let mut empty = true;
    loop {
        let token = lexer.scan();
        match token.kind {
            TokenKind::LineEnd if depth > 0 => {}
            TokenKind::LineEnd | TokenKind::Semicolon | TokenKind::EndOfText => {
                if depth > 0 {
                    return Err(lexer.unexpected(&token, "\"}\""));
                }
                if empty {
                    return Err(lexer.unexpected(&token, "a value"));
                }
                leave_end(lexer, token);
                return Ok(token.start as usize);
            }
            TokenKind::Sign(Sign::BraceOpen) => depth += 1,
            TokenKind::Sign(Sign::BraceClose) if depth == 0 => {
                return Err(lexer.unexpected(&token, "a value"));
            }
            TokenKind::Sign(Sign::BraceClose) => depth -= 1,
            TokenKind::Variable if lexer.find_define(&token).is_none() => {
                return Err(lexer.wrong(&token, UNDEFINED));
            }
            TokenKind::Bad => return Err(lexer.unexpected(&token, "")),
            _ => {}
        }
        empty = false;
    }
}

/// Parses the part after `define`: NAME, `=` and the value, up to the line end or `;` outside braces, which is not
/// consumed. Stores the definition.
pub fn define(lexer: &mut Lexer) -> Result<(), Failure> {
    let name = lexer.consume();
    let text = lexer.text(&name).to_owned();
    if name.kind != TokenKind::Word || is_reserved(&text) {
        return Err(lexer.unexpected(&name, "a name"));
    }
    if let Some(known) = lexer.find_define(&name) {
        let place = lexer.place_name(known.place);
        return Err(lexer.wrong(&name, format_args!("already defined at {place}")));
    }
    let sign = lexer.consume();
    if sign.kind != TokenKind::Sign(Sign::Assign) {
        return Err(lexer.unexpected(&sign, "\"=\""));
    }
    let mut value = *lexer.top();
    value.is_define = true;
    value.end = skip_value(lexer)?;
    let place = name.place;
    lexer.keep_define(text, Define { value, place });
    Ok(())
}

/// Returns the path of an included file. A relative path is relative to the folder of the including file.
fn include_name(lexer: &Lexer, file: usize, text: &str) -> String {
    let from = &lexer.names[file];
    match from.rfind('/') {
        Some(slash) if !text.starts_with('/') => format!("{}{text}", &from[..=slash]),
        _ => text.to_owned(),
    }
}

fn has_wildcard(path: &str) -> bool {
    path.contains(['*', '?', '['])
}

/// Returns the path of the file that a token names. A relative path is relative to the folder of the token's file.
/// Fails for a path with wildcards.
pub(super) fn file_name(lexer: &Lexer, path: &Token) -> Result<String, Failure> {
    let text = lexer.text(path);
    if has_wildcard(text) {
        return Err(lexer.wrong(path, "no wildcards: include each file by its name"));
    }
    Ok(include_name(lexer, path.place.file as usize, text))
}

/// Returns true if the lexer is reading this file already, so that including it would never end.
fn is_open(lexer: &Lexer, source: &Source) -> bool {
    let mut files = lexer.frames.iter().filter(|frame| !frame.is_define);
    files.any(|frame| lexer.files[frame.file].identity == source.identity)
}

/// Checks that a file may be included: it does not include itself, and keeps the limits of depth and size.
fn check_include(lexer: &Lexer, path: &Token, source: &Source) -> Result<(), Failure> {
    if is_open(lexer, source) {
        return Err(lexer.wrong(path, "this file includes itself"));
    }
    if lexer.count_frames(false) >= INCLUDE_DEPTH_MAX {
        let cause = format_args!("more than {INCLUDE_DEPTH_MAX} files in one another");
        return Err(lexer.wrong(path, cause));
    }
    if source.bytes.len() > lexer.bytes_left() {
        return Err(lexer.wrong(path, TOO_LARGE));
    }
    Ok(())
}

/// Parses the part after `include`: STRING END. The next tokens are those of the file; the file's end counts as a line
/// end.
pub fn include(lexer: &mut Lexer) -> Result<(), Failure> {
    let path = lexer.consume();
    if path.kind != TokenKind::String {
        return Err(lexer.unexpected(&path, "the name of a file in quotes"));
    }
    lexer.consume_end()?;
    // Only the end of the text can have been read ahead; it comes again after the included text.
    lexer.ahead.clear();
    let name = file_name(lexer, &path)?;
    let source = source::read(&name, lexer.bytes_left())
        .map_err(|error| lexer.wrong(&path, format_args!("cannot read it: {}", reason(&error))))?;
    check_include(lexer, &path, &source)?;
    lexer.push_file(name, source)
}
