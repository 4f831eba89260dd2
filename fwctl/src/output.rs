// SPDX-License-Identifier: GPL-2.0-or-later
//! Output on stdout. All text for a terminal leaves this crate here, through `failure::tell`, through the questions of
//! `init`, or through the cells that `top` draws: part of it comes from a firewall, which may be compromised, or from
//! the network.

use std::fmt::Write as _;
use std::io::{self, IsTerminal, Write};

use ratatui::crossterm::terminal::size;
use unicode_width::UnicodeWidthChar;

use crate::table;

/// Returns true if a character occupies cells of a terminal and has no other effect. Control characters except the tab
/// are not printable, nor are characters without a width: they change the direction of text, or hide in it. Separators
/// of lines and paragraphs are not printable either.
fn is_printable(c: char) -> bool {
    c == '\t'
        || c.width().is_some_and(|width| width > 0)
            && !matches!(c, '\u{ad}' | '\u{2028}' | '\u{2029}')
}

/// Returns a line that is safe for a terminal: `?` replaces a character that is not printable.
pub fn printable(text: &str) -> String {
    let show = |c| if is_printable(c) { c } else { '?' };
    text.chars().map(show).collect()
}

/// Returns a line of JSON that is safe for a terminal. Characters that are not printable are escaped, which is
/// equivalent: outside of its strings JSON has only blanks.
fn printable_json(line: &str) -> String {
    let mut out = String::with_capacity(line.len());
    for c in line.chars() {
        match c {
            '\t' | '\r' | '\n' => out.push(' '),
            _ if is_printable(c) => out.push(c),
            _ => {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    // Writing to a string never fails.
                    let _ = write!(out, "\\u{unit:04x}");
                }
            }
        }
    }
    out
}

fn write(lines: impl Iterator<Item = String>) -> bool {
    let text: String = lines.map(|line| line + "\n").collect();
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())
        .and_then(|()| out.flush())
        .is_ok()
}

/// Prints lines. Returns false if stdout can't be written.
pub fn lines<T: AsRef<str>>(lines: &[T]) -> bool {
    write(lines.iter().map(|line| printable(line.as_ref())))
}

/// Prints lines. On a terminal, wraps them to its width. Returns false if stdout can't be written.
/// - indent: number of blanks before a continuation line.
pub fn fitting<T: AsRef<str>>(all: &[T], indent: usize) -> bool {
    let is_terminal = io::stdout().is_terminal();
    match size().ok().filter(|(width, _)| is_terminal && *width > 0) {
        None => lines(all),
        Some((width, _)) => {
            let fit = |line: &T| table::fit(&printable(line.as_ref()), width.into(), indent);
            write(all.iter().flat_map(fit))
        }
    }
}

/// Prints a line. Returns false if stdout can't be written.
pub fn line(text: &str) -> bool {
    lines(&[text])
}

/// Prints lines of JSON. Returns false if stdout can't be written.
pub fn json<T: AsRef<str>>(lines: &[T]) -> bool {
    write(lines.iter().map(|line| printable_json(line.as_ref())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_printable_comes_to_no_terminal() {
        assert_eq!(
            printable("tcp dport 80 \"größer\" 東"),
            "tcp dport 80 \"größer\" 東"
        );
        let hostile =
            "a\x1b[2J\u{9b}31m\u{202e}\u{2066}\u{200b}\u{ad}\u{2028}\r\n\t\0\x08\x7f\u{feff}b";
        assert_eq!(printable(hostile), "a?[2J?31m???????\t????b");
    }

    #[test]
    fn json_says_the_same_in_other_letters() {
        let value = serde_json::json!({"a": "x\u{1b}\u{7f}\u{9b}\u{202e}\u{e0041}ü\ny"});
        let line = format!("\t{value}\r");
        let printed = printable_json(&line);
        assert!(printed.chars().all(is_printable), "{printed}");
        let read: serde_json::Value = serde_json::from_str(&printed).unwrap();
        assert_eq!(read, value);
    }
}
