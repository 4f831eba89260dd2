// SPDX-License-Identifier: GPL-2.0-or-later
//! `queue-rules`: prints facts about the rules that send packets to a firewall's queues, for the firewall's start.

use rust_firewall::state::queue_rules::QueueRules;

use crate::doctor::cure::Queues;
use crate::doctor::hooks::ranges;
use crate::doctor::ruleset::{Table, Target};
use crate::doctor::tools;
use crate::failure::{Exit, Failure};
use crate::output;

/// Returns the facts about these queues: which of them no rule sends packets to, and whether their rules have a bypass.
/// Rules of all chains count, also if no rule jumps to the chain; rules for RSTs of the name stage's rejections don't.
fn facts(tables: &[Table], queues: Queues) -> QueueRules {
    let chains = tables.iter().flat_map(|table| &table.chains);
    let targets = chains.flat_map(|chain| {
        let rules = chain.rules.iter();
        let counted = rules.filter(move |rule| !rule.is_of_resets(&chain.name));
        counted.map(|rule| &rule.target)
    });
    let mut facts = QueueRules::default();
    let mut unfed: Vec<u16> = (queues.0..=queues.1).collect();
    for target in targets {
        let Target::Queue {
            first,
            last,
            bypass,
        } = target
        else {
            continue;
        };
        if *first <= queues.1 && *last >= queues.0 {
            unfed.retain(|queue| !(first..=last).contains(&queue));
            facts.bypass |= *bypass;
            facts.plain |= !*bypass;
        }
    }
    let unfed: Vec<String> = ranges(&unfed)
        .iter()
        .map(|range| range.joined("-"))
        .collect();
    facts.unfed = unfed.join(", ");
    facts
}

/// Lists the rules with nft and iptables-save, and returns the facts about these queues. The field `unknown` names the
/// first tool that failed.
pub fn read(first: u16, last: u16) -> QueueRules {
    let (tables, unread) = tools::gather();
    let unknown = unread.first().map(|(tool, why)| format!("{tool} {why}"));
    QueueRules {
        unknown: unknown.unwrap_or_default(),
        ..facts(&tables, Queues(first, last))
    }
}

pub fn run((first, last): (u16, u16)) -> Result<Exit, Failure> {
    let text = serde_json::to_string(&read(first, last));
    output::line(&text.unwrap_or_default());
    Ok(Exit::Fine)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::{iptables, nft};

    /// Returns the facts about the queues 3 to 5 as a line: "plain bypass 3-4".
    fn told(tables: &[Table]) -> String {
        let facts = facts(tables, Queues(3, 5));
        let plain = if facts.plain { "plain " } else { "" };
        let bypass = if facts.bypass { "bypass " } else { "" };
        format!("{plain}{bypass}{}", facts.unfed)
    }

    fn save(text: &str) -> String {
        let tables = "*filter\n:INPUT ACCEPT [0:0]\n:x - [0:0]\n".to_owned() + text;
        told(&iptables::parse("iptables", &tables))
    }

    #[test]
    fn rules_of_iptables_save() {
        for (text, expected) in [
            ("", "3-5"),
            ("-A INPUT -j NFQUEUE --queue-num 3\n", "plain 4-5"),
            (
                "-A INPUT -p udp -j NFQUEUE --queue-num 4 --queue-bypass",
                "bypass 3, 5",
            ),
            (
                "-A x -j NFQUEUE --queue-balance 0:4 --queue-bypass --queue-cpu-fanout\n",
                "bypass 5",
            ),
            (
                "*filter\n:INPUT ACCEPT [0:0]\n-A INPUT -j NFQUEUE --queue-num 3\n\
                 -A INPUT -j NFQUEUE --queue-balance 5:9 --queue-bypass\nCOMMIT\n",
                "plain bypass 4",
            ),
            (
                "-A INPUT -j NFQUEUE --queue-num 2\n-A INPUT -j NFQUEUE --queue-num 6\n",
                "3-5",
            ),
            (
                "-A x -m mark --mark 0x80000000/0xffff0000 -j NFQUEUE --queue-num 3\n\
                 -A x -m mark --mark 0x80020000/0xffff0000 -j NFQUEUE --queue-num 3 --queue-bypass\n",
                "plain 4-5",
            ),
            ("-A INPUT -j ACCEPT --queue-num 3\n", "3-5"),
            ("#-A INPUT -j NFQUEUE --queue-num 3\n", "3-5"),
        ] {
            assert_eq!(save(text), expected, "{text}");
        }
    }

    #[test]
    fn quoted_text_is_no_rule() {
        for (comment, target, expected) in [
            ("-j NFQUEUE --queue-num 3", "ACCEPT", "3-5"),
            ("a -j NFQUEUE --queue-num 3 b", "ACCEPT", "3-5"),
            ("a \\\" -j NFQUEUE", "ACCEPT", "3-5"),
            ("--queue-bypass", "NFQUEUE --queue-num 3", "plain 4-5"),
        ] {
            let text = format!("-A INPUT -m comment --comment \"{comment}\" -j {target}\n");
            assert_eq!(save(&text), expected, "{text}");
        }
    }

    #[test]
    fn rules_of_nft() {
        for (statement, expected, has_xt) in [
            (r#"{"accept":null}"#, "3-5", false),
            (r#"{"xt":null},{"accept":null}"#, "3-5", true),
            (r#"{"queue":{"num":4}}"#, "plain 3, 5", false),
            (r#"{"queue":{"num":6}}"#, "3-5", false),
            (r#"{"queue":null}"#, "3-5", false),
            (
                r#"{"queue":{"num":4,"flags":"bypass"}}"#,
                "bypass 3, 5",
                false,
            ),
            (
                r#"{"queue":{"num":4,"flags":"fanout"}}"#,
                "plain 3, 5",
                false,
            ),
            (
                r#"{"queue":{"num":{"range":[1,4]},"flags":["bypass","fanout"]}}"#,
                "bypass 5",
                false,
            ),
            (r#"{"queue":{"num":{"jhash":{"mod":4}}}}"#, "plain ", false),
            (
                // The first statement decides.
                r#"{"queue":{"num":3}},{"queue":{"num":5,"flags":"bypass"}}"#,
                "plain 4-5",
                false,
            ),
        ] {
            let head = r#""family":"inet","table":"t""#;
            let text = format!(
                r#"{{"nftables":[{{"metainfo":{{}}}},{{"table":{{"family":"inet","name":"t"}}}},{{"chain":{{{head},"name":"c"}}}},{{"rule":{{{head},"chain":"c","expr":[{{"counter":null}},{statement}]}}}}]}}"#
            );
            let (tables, xt) = nft::parse(&text).unwrap();
            assert_eq!((told(&tables).as_str(), xt), (expected, has_xt), "{text}");
        }
    }

    #[test]
    fn the_bypass_of_resets_does_not_count() {
        for (chain, expected) in [("stage-refuse", "3-5"), ("stage-queue", "bypass 3, 5")] {
            let head = r#""family":"inet","table":"t""#;
            let text = format!(
                r#"{{"nftables":[{{"table":{{"family":"inet","name":"t"}}}},{{"chain":{{{head},"name":"{chain}"}}}},{{"rule":{{{head},"chain":"{chain}","expr":[{{"queue":{{"num":4,"flags":"bypass"}}}}]}}}}]}}"#
            );
            let (tables, _) = nft::parse(&text).unwrap();
            assert_eq!(told(&tables), expected, "{chain}");
        }
    }

    #[test]
    fn no_ruleset_is_refused() {
        for text in ["", "{", "[]", "{\"nftables\":{}}", "null"] {
            assert_eq!(nft::parse(text), None, "{text}");
        }
    }
}
