// SPDX-License-Identifier: GPL-2.0-or-later
//! Tests the parser of the output of `fwctl queue-rules`.

use rust_firewall::state::queue_rules::{parse, QueueRules};

#[test]
fn the_output_of_fwctl() {
    let text = r#"{"unfed":"3, 5-9","plain":true,"bypass":false,"unknown":"nft failed"}"#;
    let expected = QueueRules {
        unfed: "3, 5-9".to_owned(),
        plain: true,
        bypass: false,
        unknown: "nft failed".to_owned(),
    };
    assert_eq!(parse(text), Some(expected));
}

#[test]
fn other_output_is_refused() {
    for text in [
        "",
        "{",
        "[]",
        "null",
        r#"{"unfed":"","plain":true,"bypass":false}"#,
        r#"{"unfed":3,"plain":true,"bypass":false,"unknown":""}"#,
        r#"{"unfed":"","plain":1,"bypass":false,"unknown":""}"#,
    ] {
        assert_eq!(parse(text), None, "{text}");
    }
}
