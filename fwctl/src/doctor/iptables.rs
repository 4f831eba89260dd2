// SPDX-License-Identifier: GPL-2.0-or-later
//! Parses rules in the format of iptables-save.

use super::ruleset::{Chain, Rule, Table, Target};

/// Splits a line into words, which end at a blank outside quotes. Quotes stay, so that a quoted word equals no keyword.
fn words(line: &str) -> Vec<&str> {
    let (mut is_quoted, mut is_escaped) = (false, false);
    let is_end = |next: char| {
        is_quoted ^= next == '"' && !is_escaped;
        is_escaped = is_quoted && next == '\\' && !is_escaped;
        next == ' ' && !is_quoted
    };
    let words = line.split(is_end);
    words.filter(|word| !word.is_empty()).collect()
}

/// Parses the number or range after an option: "0", "0:3". Returns the first and the last number.
fn numbers(words: &[&str], option: &str) -> Option<(u16, u16)> {
    let at = words.iter().position(|word| *word == option)?;
    let value = words.get(at + 1)?;
    let (first, last) = value.split_once(':').unwrap_or((value, value));
    Some((first.parse().ok()?, last.parse().ok()?))
}

fn target_of(words: &[&str], at: usize, chains: &[Chain]) -> Target {
    let name = words.get(at + 1).copied().unwrap_or_default();
    let is_chain = chains.iter().any(|chain| chain.name == name);
    match (words[at], name) {
        ("-g", _) => Target::Goto(name.to_owned()),
        (_, "ACCEPT") => Target::Accept,
        (_, "RETURN") => Target::Return,
        (_, "DROP" | "REJECT") => Target::Drop,
        (_, "NFQUEUE") => {
            let options = &words[at..];
            let queues = numbers(options, "--queue-balance").or(numbers(options, "--queue-num"));
            let (first, last) = queues.unwrap_or((0, 0));
            Target::Queue {
                first,
                last,
                bypass: options.contains(&"--queue-bypass"),
            }
        }
        _ if is_chain => Target::Jump(name.to_owned()),
        _ => Target::Other,
    }
}

/// Returns true if a rule has a match besides its comment.
/// - words: words of the rule between its chain and its target.
fn is_conditional(words: &[&str]) -> bool {
    let comment: [&str; 3] = ["-m", "comment", "--comment"];
    match words {
        [] => false,
        [first, second, third, _] => [*first, *second, *third] != comment,
        _ => true,
    }
}

/// Splits "[PACKETS:BYTES] -A …", the format of --counters, into the number of packets and the rule. The number is None
/// if the line has no counters.
fn split_counters(line: &str) -> (Option<u64>, &str) {
    let counted = line
        .strip_prefix('[')
        .and_then(|line| line.split_once("] "));
    let Some((counters, rule)) = counted else {
        return (None, line);
    };
    let packets = counters.split_once(':').map(|(packets, _)| packets.parse());
    (packets.and_then(Result::ok), rule)
}

/// Parses a line "[PACKETS:BYTES] -A CHAIN … -j TARGET …". Returns the chain's name and the rule; None for other lines.
fn rule_of(line: &str, table: &Table) -> Option<(String, Rule)> {
    let (packets, line) = split_counters(line);
    let words = words(line);
    let ["-A", chain, ..] = words[..] else {
        return None;
    };
    let at = words.iter().position(|word| ["-j", "-g"].contains(word));
    let rule = Rule {
        text: match table.name.as_str() {
            "filter" => line.to_owned(),
            name => format!("-t {name} {line}"),
        },
        conditional: at.is_some_and(|at| is_conditional(&words[2..at])),
        target: at.map_or(Target::Other, |at| target_of(&words, at, &table.chains)),
        packets,
    };
    Some((chain.to_owned(), rule))
}

/// Parses the output of iptables-save, with or without --counters.
pub fn parse(tool: &'static str, text: &str) -> Vec<Table> {
    let mut tables: Vec<Table> = Vec::new();
    for line in text.lines() {
        if let Some(name) = line.strip_prefix('*') {
            tables.push(Table {
                tool,
                name: name.to_owned(),
                chains: Vec::new(),
            });
            continue;
        }
        let Some(table) = tables.last_mut() else {
            continue;
        };
        if let Some(chain) = line.strip_prefix(':') {
            let mut words = chain.split_whitespace();
            table.chains.push(Chain {
                name: words.next().unwrap_or_default().to_owned(),
                // User-defined chains have no policy.
                base: words.next().is_some_and(|policy| policy != "-"),
                hook: None,
                rules: Vec::new(),
            });
        } else if let Some((name, rule)) = rule_of(line, table) {
            let mut chains = table.chains.iter_mut();
            if let Some(chain) = chains.find(|chain| chain.name == name) {
                chain.rules.push(rule);
            }
        }
    }
    tables
}

#[cfg(test)]
mod tests {
    use super::super::ruleset::queue_rules;
    use super::*;

    fn rules_of(rules: &str) -> Vec<super::super::ruleset::QueueRule> {
        let text = format!(
            "*filter\n:INPUT ACCEPT [0:0]\n:OUTPUT ACCEPT [0:0]\n:OURS - [0:0]\n:TCP - [0:0]\n{rules}\nCOMMIT\n"
        );
        queue_rules(&parse("iptables", &text)[0])
    }

    #[test]
    fn a_queue_is_found_behind_a_jump() {
        let found = rules_of(
            "-A INPUT -j OURS\n-A OURS -p tcp -j NFQUEUE --queue-balance 2:3 --queue-bypass",
        );
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].first, found[0].last), (2, 3));
        assert!(found[0].bypass && found[0].blocked.is_none() && found[0].skipped.is_empty());
    }

    #[test]
    fn no_rule_behind_a_goto_is_reached() {
        let rest = "-A INPUT -j NFQUEUE --queue-num 1\n-A OURS -j NFQUEUE --queue-num 2";
        let firsts = |call: &str| -> Vec<u16> {
            let found = rules_of(&format!("-A INPUT {call}\n{rest}"));
            found.iter().map(|rule| rule.first).collect()
        };
        assert_eq!(firsts("-g OURS"), [2]);
        assert_eq!(firsts("-i lo -g OURS"), [2, 1]);
        assert_eq!(firsts("-j OURS"), [2, 1]);
    }

    #[test]
    fn counters_are_no_part_of_a_rule() {
        let found = rules_of("[12:900] -A INPUT -j NFQUEUE --queue-num 1");
        assert_eq!(found[0].packets, Some(12));
        assert_eq!(found[0].text, "iptables: -A INPUT -j NFQUEUE --queue-num 1");
    }

    #[test]
    fn what_accepts_everything_before_blocks() {
        let found = rules_of("-A INPUT -j ACCEPT\n-A INPUT -j NFQUEUE --queue-num 0");
        assert_eq!(
            found[0].blocked.as_deref(),
            Some("iptables: -A INPUT -j ACCEPT")
        );
    }

    #[test]
    fn what_accepts_some_before_is_told() {
        let found = rules_of(
            "-A INPUT -i lo -j ACCEPT\n-A INPUT -j DROP\n-A OUTPUT -j NFQUEUE --queue-num 7",
        );
        assert!(found[0].blocked.is_none() && found[0].skipped.is_empty());
        let found = rules_of("-A INPUT -i lo -j ACCEPT\n-A INPUT -j NFQUEUE --queue-num 7");
        assert_eq!(found[0].skipped, ["iptables: -A INPUT -i lo -j ACCEPT"]);
    }

    #[test]
    fn a_conditional_jump_to_what_accepts_blocks_nothing() {
        let found = rules_of(
            "-A INPUT -i lo -j OURS\n-A INPUT -j NFQUEUE --queue-num 7\n-A OURS -j ACCEPT",
        );
        assert!(found[0].blocked.is_none());
        assert_eq!(found[0].skipped.len(), 1);
    }

    #[test]
    fn packets_that_return_from_a_chain_are_not_blocked_by_its_last_rule() {
        let rest = "-A INPUT -j OURS\n-A INPUT -j NFQUEUE --queue-num 7\n-A OURS -j ACCEPT";
        for returned in ["-A OURS -p tcp -j RETURN", "-A OURS -p tcp -g TCP"] {
            let found = rules_of(&format!("{returned}\n{rest}"));
            assert_eq!(found[0].blocked, None, "{returned}");
            assert_eq!(found[0].skipped, ["iptables: -A OURS -j ACCEPT"]);
        }
        let found = rules_of(&format!("-A OURS -p tcp -j DROP\n{rest}"));
        assert!(found[0].blocked.is_some());
        // In a built-in chain a return is the chain's policy.
        let found = rules_of("-A INPUT -p tcp -j RETURN\n-A INPUT -j ACCEPT\n-A INPUT -j NFQUEUE");
        assert!(found[0].blocked.is_some());
    }
}
