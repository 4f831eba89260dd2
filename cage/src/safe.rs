// SPDX-License-Identifier: GPL-2.0-or-later
//! Escaping of text that a command or a server chose: the result can't move the cursor, end a line or change the text's
//! direction.

/// Returns true for characters that change the direction of text (Unicode Bidirectional Algorithm, section 2), and line
/// separators.
fn turns(one: char) -> bool {
    matches!(one, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Returns the text with `?` in place of control characters, line separators and characters that change its direction.
pub fn shown(text: &str) -> String {
    let safe = |one: char| {
        if one.is_control() || turns(one) {
            '?'
        } else {
            one
        }
    };
    text.chars().map(safe).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_moves_the_cursor() {
        assert_eq!(shown("a\x1b[2J\r\n\u{9b}b\u{202e}ä"), "a?[2J???b?ä");
    }
}
