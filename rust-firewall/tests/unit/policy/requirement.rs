// SPDX-License-Identifier: GPL-2.0-or-later
//! Tests of policies' requirements, with vectors that both twins share.

use crate::support::engine::engine;
use crate::support::lines;
use rust_firewall::engine::compile;
use rust_firewall::policy::requirement::Requirement;

/// Learning sets that the rules in requirement.txt use.
const SETS: &str = "set cdn { type ipv4_addr; learn dns \"cdn.example\"; }\n \
    set six { type ipv6_addr; learn dns \"cdn.example\"; }";

/// Returns a requirement in the format of requirement.txt.
fn describe(requirement: &Requirement) -> String {
    let mut text = format!("copy={}", requirement.copy_bytes);
    for (is_set, name) in [
        (requirement.layer4, "layer4"),
        (requirement.uid_gid, "uid_gid"),
        (requirement.conntrack_state, "conntrack_state"),
        (requirement.conntrack_mark, "conntrack_mark"),
        (requirement.interface_names, "interface_names"),
        (requirement.learns, "learns"),
        (requirement.reject, "reject"),
    ] {
        if is_set {
            text = text + " " + name;
        }
    }
    text
}

#[test]
fn vectors_require_as_expected() {
    let lines = lines::lines("requirement.txt");
    assert!(lines.len() > 30, "only {} vectors", lines.len());
    for line in &lines {
        let parts: Vec<&str> = line.split('\t').collect();
        let &[family, rules, expected] = parts.as_slice() else {
            panic!("{line}");
        };
        let text = format!(
            "table {family} t {{\n {SETS}\n chain deep {{\n meta skuid 1 drop\n }}\n chain unused {{\n jump \
             deep\n }}\n chain c {{\n type filter hook input priority 0;\n {rules}\n }}\n}}\n"
        );
        let engine = engine(&text, false);
        let requirement = compile::requirement(&engine.compiled);
        assert_eq!(describe(requirement), expected, "{line}");
    }
}
