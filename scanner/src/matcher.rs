// SPDX-License-Identifier: GPL-2.0-or-later
//! Matches answers against expressions. Runs where results are written, so that no ring waits for an expression.

use regex::bytes::{Regex, RegexBuilder};

use crate::failure::{Failure, Result};

/// Maximum bytes of a compiled expression; larger ones are refused.
const LARGEST_BYTES: usize = 4 << 20;

#[derive(Debug, Default)]
pub struct Matcher {
    expressions: Vec<Regex>,
}

impl Matcher {
    /// Compiles expressions, given as (option, text); the option is named in errors.
    pub fn new(texts: &[(&str, &str)]) -> Result<Matcher> {
        let expressions = texts.iter().map(|(option, text)| {
            RegexBuilder::new(text)
                .multi_line(true)
                .crlf(true)
                .size_limit(LARGEST_BYTES)
                .build()
                .map_err(|error| refused(option, text, &error))
        });
        Ok(Matcher {
            expressions: expressions.collect::<Result<_>>()?,
        })
    }

    /// Returns true if all expressions match; None without expressions.
    pub fn matches(&self, answer: &[u8]) -> Option<bool> {
        let all = || self.expressions.iter().all(|one| one.is_match(answer));
        (!self.expressions.is_empty()).then(all)
    }
}

/// Formats an error as one line, with the column if regex marks it: regex's own message has several lines.
fn refused(option: &str, text: &str, error: &regex::Error) -> Failure {
    let words = error.to_string();
    let why = words
        .lines()
        .last()
        .unwrap_or("")
        .trim_start_matches("error: ");
    let lines: Vec<&str> = words.lines().collect();
    let marker = lines.iter().find(|line| line.trim_start().starts_with('^'));
    // regex indents the expression and its marker by four spaces.
    let column = marker.map_or(String::new(), |line| {
        format!(", column {}", line.len() - line.trim_start().len() - 3)
    });
    Failure::usage(format!(
        "{option}: \"{}\"{column}: {why}",
        text.escape_debug()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_must_match() {
        let matcher = Matcher::new(&[("--match", "^Server: nginx"), ("--match", "OK$")]).unwrap();
        let head = b"HTTP/1.1 200 OK\r\nServer: nginx\r\n\r\n";
        assert_eq!(matcher.matches(head), Some(true));
        assert_eq!(matcher.matches(b"HTTP/1.1 200 OK\r\n\r\n"), Some(false));
        assert_eq!(Matcher::default().matches(head), None);
    }

    #[test]
    fn errors_are_one_line_with_the_place() {
        let text = Matcher::new(&[("--ssh", "OpenSSH_(8")]).unwrap_err().text;
        assert_eq!(text, "--ssh: \"OpenSSH_(8\", column 9: unclosed group");
        let text = Matcher::new(&[("--match", "a{99999}{99999}")])
            .unwrap_err()
            .text;
        assert!(!text.contains('\n') && text.contains("--match"), "{text}");
    }
}
