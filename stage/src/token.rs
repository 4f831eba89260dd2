// SPDX-License-Identifier: GPL-2.0-or-later
//! Splits nft text into tokens: words, strings, signs and ends of statements. The rest of the language is not known
//! here.

use std::ops::Range;

/// Kind of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A name, number, address, `@set` or `$define`.
    Word,
    /// A string, with its quotes.
    String,
    /// One of `{}(),.:|&^-/` alone, or a run of `=!<>`.
    Sign,
    /// A line end or `;`.
    End,
}

/// Token, with its bytes in the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    pub kind: Kind,
    pub span: Range<usize>,
}

/// A text with its tokens.
#[derive(Clone, Debug, Default)]
pub struct Tokens {
    pub text: String,
    pub list: Vec<Token>,
}

impl Tokens {
    /// Returns the text of a token; empty after the last token.
    pub fn get(&self, at: usize) -> &str {
        let token = self.list.get(at);
        token.map_or("", |token| &self.text[token.span.clone()])
    }

    /// Returns the kind of a token; `End` after the last token.
    pub fn kind(&self, at: usize) -> Kind {
        self.list.get(at).map_or(Kind::End, |token| token.kind)
    }

    /// Returns the byte offset of a token in the text.
    pub fn start(&self, at: usize) -> usize {
        let token = self.list.get(at);
        token.map_or(self.text.len(), |token| token.span.start)
    }

    /// Returns the byte offset of the end of the token before `at`.
    pub fn end_before(&self, at: usize) -> usize {
        let token = at.checked_sub(1).and_then(|at| self.list.get(at));
        token.map_or(0, |token| token.span.end)
    }

    /// Returns the text from a token to the token before `range.end`, as it was written.
    pub fn text_of(&self, range: &Range<usize>) -> &str {
        if range.is_empty() {
            return "";
        }
        &self.text[self.start(range.start)..self.end_before(range.end)]
    }

    /// Returns the token after the brace that closes the brace at `open`, or the end of the list.
    pub fn behind_braces(&self, open: usize) -> usize {
        let mut depth = 0_u32;
        for at in open..self.list.len() {
            match self.get(at) {
                "{" => depth += 1,
                "}" => depth = depth.saturating_sub(1),
                _ => {}
            }
            if depth == 0 {
                return at + 1;
            }
        }
        self.list.len()
    }

    /// Returns the end of the statement that begins at a token: the `End` outside of braces, or the `}` that closes the
    /// block.
    pub fn statement_end(&self, start: usize) -> usize {
        let mut at = start;
        while at < self.list.len() {
            match (self.kind(at), self.get(at)) {
                (Kind::End, _) | (Kind::Sign, "}") => return at,
                (Kind::Sign, "{") => at = self.behind_braces(at),
                _ => at += 1,
            }
        }
        at
    }
}

fn is_of_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte >= 0x80 || b"_-./:*@$+%\\[]?~'`".contains(&byte)
}

/// Returns kind and length of the token at the beginning of a text. None: the text is empty.
fn first(rest: &[u8]) -> Option<(Kind, usize)> {
    let run = |is_part: fn(u8) -> bool| {
        let end = rest.iter().position(|byte| !is_part(*byte));
        end.unwrap_or(rest.len())
    };
    let (byte, next) = (*rest.first()?, rest.get(1).copied().unwrap_or(b' '));
    let is_alone = !is_of_word(next);
    Some(match byte {
        b'\n' | b';' => (Kind::End, 1),
        b'"' => {
            let end = rest.iter().skip(1).position(|byte| *byte == b'"');
            (Kind::String, end.map_or(rest.len(), |end| end + 2))
        }
        b'=' | b'!' | b'<' | b'>' => (Kind::Sign, run(|byte| b"=!<>".contains(&byte))),
        b':' if next != b':' => (Kind::Sign, 1),
        b'.' | b'-' | b'/' if is_alone => (Kind::Sign, 1),
        byte if is_of_word(byte) => {
            let length = run(is_of_word);
            // In `key: value` the colon is a separate token.
            let is_key = length > 1 && rest[length - 1] == b':' && rest[length - 2] != b':';
            (Kind::Word, length - usize::from(is_key))
        }
        _ => (Kind::Sign, 1),
    })
}

/// Returns the number of bytes of the blank, comment, or backslash with a line end, at the beginning of a text; 0 if
/// there is none of them.
fn blanks(rest: &[u8]) -> usize {
    match rest {
        [b'\\', b'\n', ..] => 2,
        [b'\\', b'\r', b'\n', ..] => 3,
        [b' ' | b'\t' | b'\r', ..] => 1,
        [b'#', ..] => {
            let end = rest.iter().position(|byte| *byte == b'\n');
            end.unwrap_or(rest.len())
        }
        _ => 0,
    }
}

/// Splits a text into tokens.
pub fn tokens(text: &str) -> Tokens {
    let bytes = text.as_bytes();
    let (mut list, mut at) = (Vec::new(), 0);
    while at < bytes.len() {
        let skipped = blanks(&bytes[at..]);
        if skipped > 0 {
            at += skipped;
            continue;
        }
        let Some((kind, length)) = first(&bytes[at..]) else {
            break;
        };
        let span = at..at + length;
        list.push(Token { kind, span });
        at += length;
    }
    let text = text.to_owned();
    Tokens { text, list }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(text: &str) -> Vec<String> {
        let tokens = tokens(text);
        let count = tokens.list.len();
        (0..count).map(|at| tokens.get(at).to_owned()).collect()
    }

    #[test]
    fn words_strings_and_signs() {
        let text = "tls sni != @b # why\n th dport {22,80-90} \"a b\":drop";
        let want = [
            "tls", "sni", "!=", "@b", "\n", "th", "dport", "{", "22", ",", "80-90", "}", "\"a b\"",
            ":", "drop",
        ];
        assert_eq!(cut(text), want);
    }

    #[test]
    fn addresses_and_concatenations() {
        let want = ["ip6", "daddr", "2001:db8::1/64", ".", "tcp", "dport"];
        assert_eq!(cut("ip6 daddr 2001:db8::1/64 . tcp dport"), want);
        assert_eq!(
            cut("ct mark 0x1: accept"),
            ["ct", "mark", "0x1", ":", "accept"]
        );
        assert_eq!(cut("filter - 3"), ["filter", "-", "3"]);
        assert_eq!(cut("a \\\n b"), ["a", "b"]);
    }

    #[test]
    fn statements_end_outside_of_braces() {
        let tokens = tokens("tcp dport { 22,\n 80 } accept; drop }");
        assert_eq!(tokens.get(tokens.statement_end(0)), ";");
        assert_eq!(tokens.text_of(&(0..3)), "tcp dport {");
    }
}
