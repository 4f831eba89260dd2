// SPDX-License-Identifier: GPL-2.0-or-later
//! Converts names to the form of each language.

use minijinja::Environment;

/// Converts `ip_saddr`, `ip saddr` or `frag-off` to a constant's name such as IP_SADDR.
fn upper(name: String) -> String {
    name.replace([' ', '-'], "_").to_uppercase()
}

/// Converts `ip_saddr`, `ip saddr` or `ip-saddr` to a Rust variant's name such as IpSaddr.
fn camel(name: String) -> String {
    let words = name.split(['_', ' ', '-']);
    let mut camel = String::new();
    for word in words {
        let mut letters = word.chars();
        camel.extend(letters.next().map(|first| first.to_ascii_uppercase()));
        camel.extend(letters);
    }
    camel
}

/// Converts the name of an event's member to the name of its Rust field: adds `r#` to the keywords that the function
/// lists.
fn identifier(name: String) -> String {
    match name.as_str() {
        "as" | "else" | "for" | "if" | "in" | "match" | "mod" | "move" | "ref" | "type" | "use" => {
            format!("r#{name}")
        }
        _ => name,
    }
}

/// Converts a text to a string literal, valid in C and Rust for the texts of the tables.
fn literal(text: String) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

/// Converts a text's first letter to a capital letter, for the start of a sentence.
fn capitalize_first(text: String) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(|first| first.to_ascii_uppercase());
    first.into_iter().chain(letters).collect()
}

/// Converts a text's first letter to a small letter, unless the second is a capital letter, too (an abbreviation).
fn uncapitalize_first(text: String) -> String {
    if text.chars().nth(1).is_some_and(char::is_uppercase) {
        return text;
    }
    let mut letters = text.chars();
    let first = letters.next().map(|first| first.to_ascii_lowercase());
    first.into_iter().chain(letters).collect()
}

/// Returns a text's first line.
fn first_line(text: String) -> String {
    text.lines().next().unwrap_or_default().to_owned()
}

/// Escapes a text for single quotes of the shell fish.
fn in_fish(text: String) -> String {
    text.replace('\\', "\\\\").replace('\'', "\\'")
}

/// Escapes a text for the brackets of an option of zsh's _arguments, in single quotes.
fn in_zsh(text: String) -> String {
    let mut escaped = String::new();
    for letter in text.chars() {
        match letter {
            '\'' => escaped.push_str("'\\''"),
            '[' | ']' | ':' | '\\' => escaped.extend(['\\', letter]),
            _ => escaped.push(letter),
        }
    }
    escaped
}

/// Wraps words to lines of at most `width` characters; a longer word gets its own line.
pub fn wrap(text: String, width: usize) -> String {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines.join("\n")
}

/// Indents a text by `column` characters and puts a term at the start of its first line. A term of at least `column`
/// characters gets its own line above the text.
pub fn beside(text: String, term: String, column: usize) -> String {
    let room = if term.chars().count() < column {
        &term
    } else {
        ""
    };
    let mut lines: Vec<String> = Vec::new();
    if room.is_empty() {
        lines.push(term.clone());
    }
    for (i, line) in text.lines().enumerate() {
        let before = if i == 0 { room } else { "" };
        lines.push(format!("{before:column$}{line}").trim_end().to_owned());
    }
    lines.join("\n")
}

/// Adds the filters to the templates' environment.
pub fn add(environment: &mut Environment) {
    environment.add_filter("upper", upper);
    environment.add_filter("camel", camel);
    environment.add_filter("identifier", identifier);
    environment.add_filter("literal", literal);
    environment.add_filter("capitalize_first", capitalize_first);
    environment.add_filter("uncapitalize_first", uncapitalize_first);
    environment.add_filter("first_line", first_line);
    environment.add_filter("in_fish", in_fish);
    environment.add_filter("in_zsh", in_zsh);
    environment.add_filter("wrap", wrap);
    environment.add_filter("beside", beside);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_take_the_form_of_each_language() {
        assert_eq!(upper("ip frag-off".into()), "IP_FRAG_OFF");
        assert_eq!(camel("ip frag-off".into()), "IpFragOff");
        assert_eq!(camel("meta_l4proto".into()), "MetaL4proto");
    }

    #[test]
    fn an_identifier_is_no_word_of_rust() {
        assert_eq!(identifier("type".into()), "r#type");
        assert_eq!(identifier("types".into()), "types");
    }

    #[test]
    fn a_sentence_becomes_a_note_but_for_abbreviations() {
        assert_eq!(uncapitalize_first("Packets lost".into()), "packets lost");
        assert_eq!(uncapitalize_first("UNIX time".into()), "UNIX time");
    }

    #[test]
    fn words_are_put_into_lines() {
        assert_eq!(wrap("a bc def g".into(), 5), "a bc\ndef g");
    }

    #[test]
    fn lines_stand_beside_their_term() {
        assert_eq!(beside("x\ny".into(), "a".into(), 3), "a  x\n   y");
        assert_eq!(beside("x\ny".into(), "abc".into(), 3), "abc\n   x\n   y");
    }

    #[test]
    fn a_literal_keeps_quotes_and_backslashes() {
        assert_eq!(literal("a \"b\" \\".into()), "\"a \\\"b\\\" \\\\\"");
    }
}
