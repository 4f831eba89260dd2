// SPDX-License-Identifier: GPL-2.0-or-later
//! JSON objects as lines.

use std::io::{self, Write};

use serde::Serialize;
use serde_json::ser::{CharEscape, Formatter};

/// Formatter that writes control characters like jansson, the library of the C twin: \u001F with capital hexadecimal
/// digits.
struct Capitals;

impl Formatter for Capitals {
    fn write_char_escape<W: ?Sized + Write>(
        &mut self,
        writer: &mut W,
        escape: CharEscape,
    ) -> io::Result<()> {
        let short = match escape {
            CharEscape::Quote => "\\\"",
            CharEscape::ReverseSolidus => "\\\\",
            CharEscape::Solidus => "\\/",
            CharEscape::Backspace => "\\b",
            CharEscape::FormFeed => "\\f",
            CharEscape::LineFeed => "\\n",
            CharEscape::CarriageReturn => "\\r",
            CharEscape::Tab => "\\t",
            CharEscape::AsciiControl(byte) => return write!(writer, "\\u{byte:04X}"),
        };
        writer.write_all(short.as_bytes())
    }
}

/// Returns a text as UTF-8 for a string of a JSON object, without quotes and escapes. If the text is not UTF-8,
/// question marks replace all bytes that are not ASCII.
pub fn string_of(text: &[u8]) -> String {
    match std::str::from_utf8(text) {
        Ok(text) => text.to_owned(),
        Err(_) => text
            .iter()
            .map(|&byte| if byte.is_ascii() { byte.into() } else { '?' })
            .collect(),
    }
}

/// Returns an object as one line of JSON, with a line end.
pub fn line(object: &impl Serialize) -> String {
    let mut line = Vec::new();
    // Can't fail: memory accepts everything, and all keys are strings.
    let _ = object.serialize(&mut serde_json::Serializer::with_formatter(
        &mut line, Capitals,
    ));
    line.push(b'\n');
    String::from_utf8(line).unwrap_or_default()
}
