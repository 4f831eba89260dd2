// SPDX-License-Identifier: GPL-2.0-or-later
//! Words of nft that the language does not have, with hints. rules/policy/GRAMMAR.md, "What is refused, and why".

use crate::base::log::Failure;
use crate::policy::parse::lexer::Lexer;
use crate::policy::token::{Token, TokenKind};
pub use crate::spec::refused::Where;
use crate::spec::refused::REFUSED_WORDS;

/// Returns true if a text is one of the words in `words`, which are separated by blanks.
fn is_among(words: &str, text: &str) -> bool {
    words.split(' ').any(|word| word == text)
}

/// Returns the hint for a token that nft accepts at this place and the language does not.
fn find_hint(lexer: &Lexer, at: Where, token: &Token) -> Option<&'static str> {
    if !matches!(
        token.kind,
        TokenKind::Word | TokenKind::Sign(_) | TokenKind::Other
    ) {
        return None;
    }
    REFUSED_WORDS
        .iter()
        .find(|(place, words, _)| *place == at && is_among(words, lexer.text(token)))
        .map(|(_, _, hint)| *hint)
}

/// Fails with a hint if nft accepts a token at this place of the grammar, and the language does not.
pub fn check(lexer: &Lexer, at: Where, token: &Token) -> Result<(), Failure> {
    match find_hint(lexer, at, token) {
        Some(hint) => Err(lexer.refuse(token, hint)),
        None => Ok(()),
    }
}

/// Returns the failure for an unexpected token: with a hint if nft accepts the token at this place of the grammar,
/// otherwise with the expected tokens.
/// - expected: expected tokens, for the error text.
pub fn unexpected(lexer: &Lexer, at: Where, token: &Token, expected: &str) -> Failure {
    match find_hint(lexer, at, token) {
        Some(hint) => lexer.refuse(token, hint),
        None => lexer.unexpected(token, expected),
    }
}
