// SPDX-License-Identifier: GPL-2.0-or-later
//! Parses rules in the format of `nft --json list ruleset`. nft can't express some matches in tables of iptables:
//! iptables-save prints these tables.

use serde_json::Value;

use super::ruleset::{Chain, Rule, Table, Target, ANY_QUEUE};

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_default()
}

/// Returns the table of an object: "inet filter".
fn table_name(object: &Value) -> String {
    format!("{} {}", text(object, "family"), text(object, "table"))
}

/// Parses a queue statement. If the queue is an expression, the rule may send packets to any queue.
fn queue_of(queue: &Value) -> Target {
    let number = |value: &Value| value.as_u64().and_then(|number| u16::try_from(number).ok());
    let num = &queue["num"];
    let range = &num["range"];
    let (first, last) = match (number(num), number(&range[0]), number(&range[1])) {
        (Some(one), ..) => (one, one),
        (_, Some(first), Some(last)) => (first, last),
        _ if num.is_null() => (0, 0),
        _ => ANY_QUEUE,
    };
    let flags = &queue["flags"];
    let is_bypass = |flag: &Value| flag == "bypass";
    Target::Queue {
        first,
        last,
        bypass: is_bypass(flags)
            || flags
                .as_array()
                .is_some_and(|all| all.iter().any(is_bypass)),
    }
}

fn target_of(statement: &Value) -> Option<Target> {
    let (name, value) = statement.as_object()?.iter().next()?;
    let chain = || text(value, "target").to_owned();
    Some(match name.as_str() {
        "accept" => Target::Accept,
        "drop" | "reject" | "return" => Target::End,
        "queue" => queue_of(value),
        "flow" => Target::Flow,
        "jump" => Target::Jump(chain()),
        "goto" => Target::Goto(chain()),
        _ => return None,
    })
}

/// Returns true if a statement tests the packet.
fn is_test(statement: &Value) -> bool {
    [
        "match",
        "limit",
        "quota",
        "vmap",
        "xt",
        "connlimit",
        "ct count",
    ]
    .iter()
    .any(|name| statement.get(name).is_some())
}

/// Returns the number of packets that matched a rule: the value of its last counter. None if no counter follows the
/// rule's last test.
fn packets_of(statements: &[Value]) -> Option<u64> {
    let untested = statements.iter().rev().take_while(|one| !is_test(one));
    let mut counters = untested.filter_map(|one| one["counter"]["packets"].as_u64());
    counters.next()
}

fn rule_of(object: &Value) -> Rule {
    let none = Vec::new();
    let statements = object["expr"].as_array().unwrap_or(&none);
    let target = statements.iter().find_map(target_of);
    Rule {
        text: format!(
            "{} {} handle {}",
            table_name(object),
            text(object, "chain"),
            object["handle"]
        ),
        conditional: statements.iter().any(is_test),
        target: target.unwrap_or(Target::Other),
        packets: packets_of(statements),
    }
}

fn is_xt(object: &Value) -> bool {
    let statements = object["expr"].as_array();
    statements.is_some_and(|all| all.iter().any(|statement| statement.get("xt").is_some()))
}

/// Parses the output of nft. Returns the tables, and true if a rule has a match that only iptables-save can express.
/// None if the output is invalid.
pub fn parse(printed: &str) -> Option<(Vec<Table>, bool)> {
    let value: Value = serde_json::from_str(printed).ok()?;
    let mut tables: Vec<Table> = Vec::new();
    let mut has_xt = false;
    for entry in value["nftables"].as_array()? {
        if let Some(table) = entry.get("table") {
            tables.push(Table {
                tool: "nft",
                name: format!("{} {}", text(table, "family"), text(table, "name")),
                chains: Vec::new(),
            });
        } else if let Some(object) = entry.get("chain").or(entry.get("rule")) {
            let name = table_name(object);
            let Some(table) = tables.iter_mut().find(|table| table.name == name) else {
                continue;
            };
            if entry.get("chain").is_some() {
                table.chains.push(Chain {
                    name: text(object, "name").to_owned(),
                    base: object.get("hook").is_some(),
                    hook: object["hook"].as_str().map(str::to_owned),
                    rules: Vec::new(),
                });
                continue;
            }
            has_xt |= is_xt(object);
            let mut chains = table.chains.iter_mut();
            let chain = chains.find(|chain| chain.name == text(object, "chain"));
            if let Some(chain) = chain {
                chain.rules.push(rule_of(object));
            }
        }
    }
    Some((tables, has_xt))
}

#[cfg(test)]
mod tests {
    use super::super::ruleset::queue_rules;
    use super::*;

    #[test]
    fn queues_of_nft_are_found() {
        let printed = r#"{"nftables":[{"metainfo":{}},{"table":{"family":"inet","name":"t"}},
            {"chain":{"family":"inet","table":"t","name":"c","hook":"input"}},
            {"rule":{"family":"inet","table":"t","chain":"c","handle":3,"expr":[{"match":{}},
            {"counter":{}},{"accept":null}]}},
            {"rule":{"family":"inet","table":"t","chain":"c","handle":4,"expr":[
            {"counter":{"packets":7,"bytes":420}},
            {"queue":{"num":{"range":[4,5]},"flags":["bypass","fanout"]}}]}}]}"#;
        let (tables, _) = parse(printed).unwrap();
        let found = queue_rules(&tables[0]);
        assert_eq!(
            (found[0].first, found[0].last, found[0].bypass),
            (4, 5, true)
        );
        assert_eq!(found[0].packets, Some(7));
        assert_eq!(found[0].skipped, ["nft: inet t c handle 3"]);
    }
}
