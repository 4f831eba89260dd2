// SPDX-License-Identifier: GPL-2.0-or-later
//! Rules that lead packets to our queues, out of what the tools print.

use rust_firewall::state::queue_rules::{begin, take_nft, take_save, QueueRules};

/// Returns the kinds of the rules, and those of the queues 3 to 5 that they reach, in one line: "plain bypass 3 4 5".
fn told(queue_rules: &QueueRules) -> String {
    let mut told = String::new();
    for (is, name) in [
        (queue_rules.plain, "plain "),
        (queue_rules.bypass, "bypass "),
    ] {
        told += if is { name } else { "" };
    }
    for (number, _) in (queue_rules.first..)
        .zip(&queue_rules.reached)
        .filter(|(_, reached)| **reached)
    {
        told += &format!("{number} ");
    }
    told
}

fn save(text: &str) -> String {
    let mut queue_rules = begin(3, 5);
    take_save(&mut queue_rules, text);
    told(&queue_rules)
}

#[test]
fn rules_of_iptables_save() {
    for (text, expected) in [
        ("", ""),
        ("-A INPUT -j NFQUEUE --queue-num 3\n", "plain 3 "),
        (
            "-A INPUT -p udp -j NFQUEUE --queue-num 4 --queue-bypass",
            "bypass 4 ",
        ),
        (
            "-A x -j NFQUEUE --queue-balance 0:4 --queue-bypass --queue-cpu-fanout\n",
            "bypass 3 4 ",
        ),
        (
            "*filter\n:INPUT ACCEPT [0:0]\n-A INPUT -j NFQUEUE --queue-num 3\n\
             -A INPUT -j NFQUEUE --queue-balance 5:9 --queue-bypass\nCOMMIT\n",
            "plain bypass 3 5 ",
        ),
        (
            "-A INPUT -j NFQUEUE --queue-num 2\n-A INPUT -j NFQUEUE --queue-num 6\n",
            "",
        ),
        ("-A INPUT -j ACCEPT --queue-num 3\n", ""),
        ("#-A INPUT -j NFQUEUE --queue-num 3\n", ""),
    ] {
        assert_eq!(save(text), expected, "{text}");
    }
}

#[test]
fn what_stands_in_quotes_is_no_rule() {
    for (comment, target, expected) in [
        ("-j NFQUEUE --queue-num 3", "ACCEPT", ""),
        ("a \\\" -j NFQUEUE", "ACCEPT", ""),
        ("--queue-bypass", "NFQUEUE --queue-num 3", "plain 3 "),
    ] {
        let text = format!("-A INPUT -m comment --comment \"{comment}\" -j {target}\n");
        assert_eq!(save(&text), expected, "{text}");
    }
}

#[test]
fn rules_of_nft() {
    for (statement, expected) in [
        (r#"{"accept":null}"#, ""),
        (r#"{"queue":{"num":4}}"#, "plain 4 "),
        (r#"{"queue":{"num":6}}"#, ""),
        (r#"{"queue":null}"#, ""),
        (r#"{"queue":{"num":4,"flags":"bypass"}}"#, "bypass 4 "),
        (r#"{"queue":{"num":4,"flags":"fanout"}}"#, "plain 4 "),
        (
            r#"{"queue":{"num":{"range":[1,4]},"flags":["bypass","fanout"]}}"#,
            "bypass 3 4 ",
        ),
        (r#"{"queue":{"num":{"jhash":{"mod":4}}}}"#, "plain 3 4 5 "),
        (
            r#"{"queue":{"num":3}},{"queue":{"num":5,"flags":"bypass"}}"#,
            "plain bypass 3 5 ",
        ),
    ] {
        let text = format!(
            r#"{{"nftables":[{{"metainfo":{{}}}},{{"rule":{{"expr":[{{"counter":null}},{statement}]}}}}]}}"#
        );
        let mut queue_rules = begin(3, 5);
        assert!(take_nft(&mut queue_rules, &text), "{text}");
        assert_eq!(told(&queue_rules), expected, "{text}");
    }
}

#[test]
fn what_is_no_ruleset_is_refused() {
    for text in ["", "{", "[]", "{\"nftables\":{}}", "null"] {
        assert!(!take_nft(&mut begin(0, 0), text), "{text}");
    }
}
