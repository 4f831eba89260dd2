// SPDX-License-Identifier: GPL-2.0-or-later

use rust_firewall::base::object;
use serde::Serialize;

#[derive(Serialize)]
struct Object {
    text: String,
}

/// Checks the line of a JSON object whose only member is `text`.
fn check_text(text: &[u8], expected: &str) {
    let text = object::string_of(text);
    assert_eq!(object::line(&Object { text }), expected);
}

#[test]
fn control_characters_are_escaped_in_capitals() {
    check_text(
        b"a\x1f\x7f\"\\/\n",
        "{\"text\":\"a\\u001F\x7f\\\"\\\\/\\n\"}\n",
    );
}

#[test]
fn what_is_no_utf8_becomes_question_marks() {
    check_text("grüß".as_bytes(), "{\"text\":\"grüß\"}\n");
    check_text(b"gr\xc3\xbc\xff", "{\"text\":\"gr???\"}\n");
}
