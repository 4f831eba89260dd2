// SPDX-License-Identifier: GPL-2.0-or-later
//! Parses rules in the format of `nft --json list ruleset`. nft can't express some matches in tables of iptables:
//! iptables-save prints these tables.

use serde_json::Value;

use super::ruleset::{Chain, Rule, Table, Target, ANY_QUEUE};

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_default()
}

/// Returns family and name of the table that an object belongs to: "inet filter".
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
        "drop" | "reject" => Target::Drop,
        "return" => Target::Return,
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

/// Returns the elements of the map in a verdict map statement: [[KEY, VERDICT], …]. None if there is no such map.
/// - data: set of elements, or "@NAME" of a map of the table.
/// - maps: all named maps.
fn elements_of<'a>(data: &'a Value, table: &str, maps: &[&'a Value]) -> Option<&'a Vec<Value>> {
    let Some(name) = data.as_str() else {
        return data["set"].as_array();
    };
    let name = name.strip_prefix('@')?;
    let is_meant = |map: &&&Value| table_name(map) == table && text(map, "name") == name;
    let map = *maps.iter().find(is_meant)?;
    map["elem"].as_array()
}

/// Parses a rule. Each verdict of its verdict maps becomes a conditional rule before the rest of the rule. The rest
/// decides the packets without an element.
/// - maps: all named maps.
fn rules_of(object: &Value, maps: &[&Value]) -> Vec<Rule> {
    let (rest, table) = (rule_of(object), table_name(object));
    let statements = object["expr"].as_array().into_iter().flatten();
    let data = statements.filter_map(|statement| Some(&statement.get("vmap")?["data"]));
    let elements = data.filter_map(|data| elements_of(data, &table, maps));
    let mut targets: Vec<Target> = Vec::new();
    for target in elements.flatten().filter_map(|one| target_of(&one[1])) {
        if !targets.contains(&target) {
            targets.push(target);
        }
    }
    let of_target = |target| Rule {
        target,
        ..rest.clone()
    };
    let mut rules: Vec<Rule> = targets.into_iter().map(of_target).collect();
    rules.push(rest);
    rules
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
    let entries = value["nftables"].as_array()?;
    let maps: Vec<&Value> = entries.iter().filter_map(|one| one.get("map")).collect();
    for entry in entries {
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
                chain.rules.extend(rules_of(object, &maps));
            }
        }
    }
    Some((tables, has_xt))
}

#[cfg(test)]
mod tests {
    use super::super::ruleset::{queue_rules, QueueRule};
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

    /// Returns the queue rules of a ruleset with a base chain "c", and the chains "web" (queue 1) and "dns" (queue 2).
    /// - data: map of the statement vmap in the only rule of "c".
    /// - more: further statements of the same rule.
    fn rules_behind(data: &str, more: &str) -> Vec<QueueRule> {
        let printed = format!(
            r#"{{"nftables":[{{"metainfo":{{}}}},{{"table":{{"family":"inet","name":"t"}}}},
            {{"chain":{{"family":"inet","table":"t","name":"web","handle":1}}}},
            {{"chain":{{"family":"inet","table":"t","name":"dns","handle":2}}}},
            {{"chain":{{"family":"inet","table":"t","name":"c","handle":3,"type":"filter","hook":"input","prio":0}}}},
            {{"map":{{"family":"inet","name":"m","table":"u","type":"inet_service","handle":4,"map":"verdict"}}}},
            {{"map":{{"family":"inet","name":"m","table":"t","type":"inet_service","handle":4,"map":"verdict",
            "elem":[[80,{{"goto":{{"target":"web"}}}}],[{{"elem":{{"val":53,"comment":"a"}}}},{{"drop":null}}]]}}}},
            {{"rule":{{"family":"inet","table":"t","chain":"web","handle":5,"expr":[{{"queue":{{"num":1}}}}]}}}},
            {{"rule":{{"family":"inet","table":"t","chain":"dns","handle":6,"expr":[{{"queue":{{"num":2}}}}]}}}},
            {{"rule":{{"family":"inet","table":"t","chain":"c","handle":7,"expr":[
            {{"vmap":{{"key":{{"payload":{{"protocol":"tcp","field":"dport"}}}},"data":{data}}}}}{more}]}}}}]}}"#
        );
        queue_rules(&parse(&printed).unwrap().0[0])
    }

    #[test]
    fn queues_behind_a_verdict_map_are_found() {
        let set = r#"{"set":[[22,{"accept":null}],[80,{"jump":{"target":"web"}}],[8080,{"jump":{"target":"web"}}],
            [{"range":[53,54]},{"goto":{"target":"dns"}}],[1,{"continue":null}]]}"#;
        let rest = r#",{"queue":{"num":3}}"#;
        for (data, more, expected) in [
            (set, "", vec![1, 2]),
            (set, rest, vec![1, 2, 3]),
            (r#""@m""#, "", vec![1]),
            (r#""@m""#, rest, vec![1, 3]),
            (r#""@none""#, "", vec![]),
        ] {
            let found = rules_behind(data, more);
            let queues: Vec<u16> = found.iter().map(|rule| rule.first).collect();
            assert_eq!(queues, expected, "{data}{more}");
        }
        for rule in rules_behind(set, rest) {
            assert_eq!(rule.skipped, ["nft: inet t c handle 7"]);
            assert_eq!(rule.blocked, None);
        }
    }
}
