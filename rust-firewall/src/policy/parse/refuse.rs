// SPDX-License-Identifier: GPL-2.0-or-later
//! Words of nft that are not in the language, with what to do instead. rules/policy/GRAMMAR.md,
//! "What is refused, and why".

use crate::base::log::Failure;
use crate::policy::parse::lexer::Lexer;
use crate::policy::token::{Sign, Token, TokenKind};
pub use crate::spec::refused::Where;
use crate::spec::refused::REFUSED_WORDS;

/// The hint for a word that is met somewhere, if nft knows it there and the language does not.
fn hint(at: Where, word: &str) -> Option<&'static str> {
    REFUSED_WORDS
        .iter()
        .find(|(place, words, _)| *place == at && words.split(' ').any(|known| known == word))
        .map(|(_, _, hint)| *hint)
}

/// The hint for a token that is met somewhere.
fn find_hint(lexer: &Lexer, at: Where, token: &Token) -> Option<&'static str> {
    match token.kind {
        TokenKind::Word => hint(at, lexer.text(token)),
        TokenKind::Sign(Sign::At) if at == Where::Statement => Some("write the field by its name"),
        TokenKind::Other if at == Where::Element && lexer.text(token) == "*" => {
            Some("write a rule behind this one for the rest")
        }
        _ => None,
    }
}

/// Fails with the hint for a token, if there is one.
pub fn check(lexer: &Lexer, at: Where, token: &Token) -> Result<(), Failure> {
    match find_hint(lexer, at, token) {
        Some(hint) => Err(lexer.refuse(token, hint)),
        None => Ok(()),
    }
}

/// Fails with the hint for a token, or with what was expected if there is none.
pub fn unexpected(lexer: &Lexer, at: Where, token: &Token, expected: &str) -> Failure {
    match find_hint(lexer, at, token) {
        Some(hint) => lexer.refuse(token, hint),
        None => lexer.unexpected(token, expected),
    }
}
