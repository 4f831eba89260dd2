// SPDX-License-Identifier: GPL-2.0-or-later
//! Trial by the kernel: it decides the host's traffic by another policy, but drops no packet.
//!
//! A rule that drops or rejects becomes a rule that counts and accepts, in tables whose names begin with TRIAL. There
//! are at most three copies. `new` and `old` are just before the policy's priority, and see all packets. `flip` is a
//! copy of the new policy just after the policy's priority. It sees only packets that the present policy accepts, so it
//! counts the packets that would newly be dropped. `old` is a copy of the present policy, and is missing if there is
//! none, or if it reads names. Statements that change a packet, its marks or its path are left out. nft itself parses
//! both policies, in a temporary network namespace.

use std::path::Path;

use serde_json::{json, Value};

use super::health::{nft, nft_json, run};
use crate::failure::{request, system, Result};
use crate::report::{Flip, Trial};

/// Prefix of the names of a trial's tables.
const TRIAL: &str = "twinwall_trial_";
/// Name of the chain that counts and accepts the packets which a verdict map of the policy would drop.
const DROPPED: &str = "twinwall_dropped";
/// Maximum size of a comment of a trial's rules in bytes; nft accepts 128.
const COMMENT_MAX: usize = 120;
/// Maximum number of rules in each list of a trial's outcome; the rules with the most packets remain.
pub const FLIPS_MAX: usize = 50;
/// Statements of the policy's rules that a trial's rules have, too: they only read a packet, or change objects of the
/// table. `drop` and `reject` are replaced.
const KEPT: [&str; 15] = [
    "match", "counter", "limit", "quota", "ct count", "vmap", "jump", "goto", "return", "accept",
    "continue", "drop", "reject", "set", "map",
];
/// Kinds of objects of a table that a trial copies. Helpers and flowtables are not copied, because they change
/// connections.
const OBJECTS: [&str; 5] = ["set", "map", "counter", "quota", "limit"];

/// Shell command that lists a file's rules as nft reads them: as JSON objects, and as text with handles.
const LIST: &str = "nft -f \"$1\" && nft -j list ruleset && nft -s -a list ruleset";

/// Returns true if a policy reads names, or learns addresses from DNS.
pub fn reads_names(policy: &Path) -> Result<bool> {
    let source = apply::source::read(policy)?;
    Ok(stage::asks_for_names(&source.text) == Ok(true))
}

fn list(policy: &Path) -> Result<(Value, String)> {
    if reads_names(policy)? {
        return Err(request(
            "the policy can't be tried: it reads names, which the kernel can't read: keep a record on the host: systemctl enable --now twinwall-record",
        ));
    }
    let path = policy.to_string_lossy();
    let arguments = ["-n", "sh", "-c", LIST, "sh", &path];
    let (code, said, error) = run(Path::new("/usr/bin/unshare"), &arguments)?;
    let line = error.lines().next().unwrap_or("nft failed");
    if code != Some(0) {
        return Err(request(format_args!(
            "the policy can't be tried: {}",
            line.trim()
        )));
    }
    let (objects, text) = said.split_once('\n').unwrap_or((&said, ""));
    let read = serde_json::from_str(objects)
        .map_err(|error| system(format_args!("nft's list: {error}: update nftables")))?;
    Ok((read, text.to_owned()))
}

/// Returns the text of a rule, by the handle that follows it in a table's list.
fn rule_text(list: &str, table: &str, handle: u64) -> Option<String> {
    let begin = list.find(&format!("{table} {{"))?;
    let end = format!(" # handle {handle}");
    let line = list[begin..].lines().find(|line| line.ends_with(&end))?;
    Some(line.trim_end_matches(&end).trim().to_owned())
}

/// Returns a text as a comment that nft accepts: without quotes, and not too long.
fn comment(text: &str) -> String {
    let plain = text.chars().filter(|c| *c != '"');
    let mut bytes = 0;
    let fits = |c: &char| {
        bytes += c.len_utf8();
        bytes <= COMMENT_MAX
    };
    plain.take_while(fits).collect()
}

/// Replaces each drop in a verdict map by a goto to DROPPED, a chain that counts and accepts.
fn without_drops(value: &mut Value) {
    match value {
        Value::Object(object) if object.contains_key("drop") => {
            *value = json!({"goto": {"target": DROPPED}});
        }
        Value::Object(object) => object.values_mut().for_each(without_drops),
        Value::Array(all) => all.iter_mut().for_each(without_drops),
        _ => {}
    }
}

/// Returns a rule's statements for a trial: a counter and accept replace drop and reject, accept replaces queue.
/// Returns true in the second field if the rule has a drop or reject statement.
fn statements(rule: &Value) -> (Vec<Value>, bool) {
    let mut drops = false;
    let mut kept = Vec::new();
    for statement in rule["expr"].as_array().into_iter().flatten() {
        let Some(name) = statement.as_object().and_then(|one| one.keys().next()) else {
            continue;
        };
        match name.as_str() {
            "drop" | "reject" => {
                drops = true;
                kept.extend([json!({"counter": null}), json!({"accept": null})]);
            }
            // A packet that goes to a firewall's queue is accepted here.
            "queue" => kept.push(json!({"accept": null})),
            "counter" if statement["counter"].is_object() => {}
            "vmap" => {
                let mut map = statement.clone();
                without_drops(&mut map);
                kept.push(map);
            }
            name if KEPT.contains(&name) => kept.push(statement.clone()),
            _ => {}
        }
    }
    (kept, drops)
}

/// Returns a rule for each base chain of type filter with `policy drop`. The rule counts and accepts the packets that
/// reach the chain's end. The caller must add it after the chain's other rules.
/// - tables: family and name of the policy's tables, in the order of the copies' numbers.
/// - copy: as in [`shadow`].
fn policies<'a>(
    objects: &'a Value,
    tables: &'a [(String, String)],
    copy: &'a str,
) -> impl Iterator<Item = Value> + 'a {
    let all = objects["nftables"].as_array().into_iter().flatten();
    let drops = |chain: &&Value| chain["policy"] == "drop" && chain["type"] == "filter";
    let chains = all.filter_map(|object| object.get("chain")).filter(drops);
    chains.map(move |chain| {
        let place = (
            chain["family"].as_str().unwrap_or_default(),
            chain["table"].as_str().unwrap_or_default(),
        );
        let is_place = |(family, name): &(String, String)| (family.as_str(), name.as_str()) == place;
        let number = tables.iter().position(is_place).unwrap_or(0);
        json!({"rule": {
            "family": chain["family"], "table": format!("{TRIAL}{copy}_{number}"), "chain": chain["name"],
            "comment": "policy drop", "expr": [{"counter": null}, {"accept": null}]}})
    })
}

/// Returns a copy of a policy's tables that drops no packet.
/// - objects, text: as [`list`] returns them.
/// - copy: part of the tables' names: `new`, `old` or `flip`.
/// - shift: added to the priority of each base chain.
fn shadow(objects: &Value, text: &str, copy: &str, shift: i64) -> Vec<Value> {
    let mut tables: Vec<(String, String)> = Vec::new();
    let mut made = Vec::new();
    let mut rules = Vec::new();
    let mut gone = Vec::new();
    let all = objects["nftables"].as_array().into_iter().flatten();
    for (kind, object) in all.filter_map(|object| object.as_object()?.iter().next()) {
        let family = object["family"].as_str().unwrap_or_default().to_owned();
        let mut copied = object.clone();
        if let Some(fields) = copied.as_object_mut() {
            fields.remove("handle");
        }
        let table = object["table"].as_str().unwrap_or_default().to_owned();
        let number = tables
            .iter()
            .position(|one| *one == (family.clone(), table.clone()));
        copied["table"] = json!(format!("{TRIAL}{copy}_{}", number.unwrap_or(0)));
        match kind.as_str() {
            "table" => {
                let name = object["name"].as_str().unwrap_or_default().to_owned();
                let place = format!("{TRIAL}{copy}_{}", tables.len());
                made.push(json!({"table": {"family": family, "name": place}}));
                let chain = json!({"family": family, "table": place, "name": DROPPED});
                made.push(json!({"chain": chain}));
                let mut rule = chain;
                rule["chain"] = json!(DROPPED);
                rule["comment"] = json!("a map of verdicts");
                rule["expr"] = json!([{"counter": null}, {"accept": null}]);
                rules.push(json!({"rule": rule}));
                tables.push((family, name));
            }
            "chain" => {
                let kind = object["type"].as_str();
                if kind.is_some_and(|kind| kind != "filter") {
                    gone.push((family, table, object["name"].clone()));
                    continue;
                }
                if kind.is_some() {
                    copied["prio"] = json!(object["prio"].as_i64().unwrap_or(0) + shift);
                    copied["policy"] = json!("accept");
                }
                made.push(json!({"chain": copied}));
            }
            "rule" => {
                let chain = (family, table.clone(), object["chain"].clone());
                if gone.contains(&chain) {
                    continue;
                }
                let (kept, drops) = statements(object);
                copied["expr"] = json!(kept);
                if let Some(fields) = copied.as_object_mut() {
                    fields.remove("comment");
                }
                if drops {
                    let handle = object["handle"].as_u64().unwrap_or(0);
                    let name = format!("table {} {table}", chain.0);
                    let words = rule_text(text, &name, handle);
                    copied["comment"] = json!(comment(&words.unwrap_or_default()));
                }
                rules.push(json!({"rule": copied}));
            }
            name if OBJECTS.contains(&name) => {
                if copied["map"] == "verdict" {
                    without_drops(&mut copied["elem"]);
                }
                made.push(json!({kind: copied}));
            }
            _ => {}
        }
    }
    rules.extend(policies(objects, &tables, copy));
    made.into_iter().chain(rules).collect()
}

/// Returns family and name of the trial's tables in the kernel.
fn tables() -> Result<Vec<(String, String)>> {
    let read = nft_json(&["list", "tables"])?;
    let all = read["nftables"].as_array().into_iter().flatten();
    let table = |object: &Value| {
        let name = object["table"]["name"].as_str()?;
        let family = object["table"]["family"].as_str()?;
        let is_ours = name.starts_with(TRIAL);
        is_ours.then(|| (family.to_owned(), name.to_owned()))
    };
    Ok(all.filter_map(table).collect())
}

/// Removes the tables of a trial, if there are any.
pub fn remove() -> Result<()> {
    for (family, name) in tables()? {
        nft(&["delete", "table", &family, &name])?;
    }
    Ok(())
}

/// Begins a trial of a policy, in addition to the present policy.
/// - old: present policy; None: no policy is applied.
/// - place: file for the tables, in a folder that only root can change.
pub fn begin(new: &Path, old: Option<&Path>, place: &Path) -> Result<()> {
    remove()?;
    let (objects, text) = list(new)?;
    let mut all = shadow(&objects, &text, "new", -1);
    all.extend(shadow(&objects, &text, "flip", 1));
    if let Some(old) = old {
        let (objects, text) = list(old)?;
        all.extend(shadow(&objects, &text, "old", -1));
    }
    let add: Vec<Value> = all.iter().map(|one| json!({"add": one})).collect();
    crate::file::replace(place, json!({"nftables": add}).to_string().as_bytes())?;
    let made = nft(&["-j", "-f", &place.to_string_lossy()]);
    made.map(drop)
        .map_err(|failure| request(format_args!("the policy can't be tried: {}", failure.text)))
}

/// Returns the counts of a table's rules that replace drops.
fn counts(table: &Value) -> Vec<Flip> {
    let all = table["nftables"].as_array().into_iter().flatten();
    let count = |object: &Value| {
        let rule = object.get("rule")?;
        let text = rule["comment"].as_str()?;
        let words = rule["expr"].as_array()?.iter().rev();
        let mut counters = words.filter_map(|word| word["counter"]["packets"].as_u64());
        Some(Flip {
            rule: match rule["chain"].as_str()? {
                DROPPED => text.to_owned(),
                chain => format!("chain {chain}: {text}"),
            },
            packets: counters.next()?,
            flows: None,
        })
    };
    all.filter_map(count).collect()
}

/// Ends a trial, and reads the counts of packets that the policy would newly drop or pass.
/// - into: out: the outcome.
pub fn end(into: &mut Trial) -> Result<()> {
    let (mut old, mut new) = (0, 0);
    let mut flips = Vec::new();
    for (family, name) in tables()? {
        let found = counts(&nft_json(&["list", "table", &family, &name])?);
        let sum: u64 = found.iter().map(|one| one.packets).sum();
        match name[TRIAL.len()..].split('_').next() {
            Some("old") => old += sum,
            Some("new") => new += sum,
            _ => flips.extend(found.into_iter().filter(|one| one.packets > 0)),
        }
    }
    remove()?;
    flips.sort_by_key(|one| std::cmp::Reverse(one.packets));
    let flipped: u64 = flips.iter().map(|one| one.packets).sum();
    // Packets that both policies drop = all drops of the new policy - its drops of packets that pass now.
    let passes = old.saturating_sub(new.saturating_sub(flipped));
    into.passes = (passes > 0)
        .then(|| Flip {
            rule: "a rule of the present policy".to_owned(),
            packets: passes,
            flows: None,
        })
        .into_iter()
        .collect();
    flips.truncate(FLIPS_MAX);
    into.drops = flips;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(statements: Value) -> (Vec<Value>, bool) {
        super::statements(&json!({"expr": statements}))
    }

    #[test]
    fn a_drop_counts_and_nothing_changes_a_packet() {
        let (kept, drops) = rule(json!([
            {"match": {"op": "==", "left": 1, "right": 2}}, {"counter": {"packets": 9, "bytes": 1}},
            {"log": {"prefix": "x"}}, {"mangle": {"key": 1, "value": 2}}, {"drop": null}]));
        let words: Vec<&String> = kept
            .iter()
            .flat_map(|one| one.as_object().unwrap().keys())
            .collect();
        assert_eq!(words, ["match", "counter", "accept"]);
        assert!(drops);
        let (kept, drops) = rule(
            json!([{"vmap": {"key": 1, "data": {"set": [[60, {"drop": null}], [61, {"jump": {"target": "a"}}]]}}}]),
        );
        let text = json!(kept).to_string();
        assert!(
            !drops && !text.contains("drop\"") && text.contains(DROPPED),
            "{text}"
        );
        assert_eq!(
            rule(json!([{"queue": {"num": 0}}])).0,
            [json!({"accept": null})]
        );
        for changing in [
            "snat",
            "dnat",
            "masquerade",
            "redirect",
            "notrack",
            "dup",
            "fwd",
            "tproxy",
            "flow",
            "ct helper",
            "secmark",
            "synproxy",
            "xt",
            "new",
        ] {
            assert!(rule(json!([{changing: null}])).0.is_empty(), "{changing}");
        }
    }

    #[test]
    fn tables_get_other_names_and_chains_another_place() {
        let objects = json!({"nftables": [
            {"metainfo": {}},
            {"table": {"family": "inet", "name": "host", "handle": 1}},
            {"map": {"family": "inet", "table": "host", "name": "m", "map": "verdict", "elem": [[53, {"drop": null}]]}},
            {"chain": {"family": "inet", "table": "host", "name": "input", "type": "filter", "hook": "input", "prio": 0, "policy": "drop"}},
            {"chain": {"family": "inet", "table": "host", "name": "post", "type": "nat", "hook": "postrouting", "prio": 100, "policy": "accept"}},
            {"rule": {"family": "inet", "table": "host", "chain": "post", "handle": 4, "expr": [{"masquerade": null}]}},
            {"rule": {"family": "inet", "table": "host", "chain": "input", "handle": 5, "expr": [{"drop": null}]}}]});
        let text = "table inet host { # handle 1\n\tchain input { # handle 2\n\t\tudp dport 5 drop # handle 5\n";
        let made = json!(shadow(&objects, text, "flip", 1)).to_string();
        for words in [
            "twinwall_trial_flip_0",
            "\"prio\":1",
            "\"policy\":\"accept\"",
            "udp dport 5 drop\"",
            "policy drop",
        ] {
            assert!(made.contains(words), "{words}: {made}");
        }
        for words in ["{\"drop\"", "nat", "\"host\"", "handle"] {
            assert!(!made.contains(words), "{words}: {made}");
        }
    }

    #[test]
    fn a_comment_is_as_long_as_nft_takes() {
        assert_eq!(comment("a \"b\""), "a b");
        assert!(comment(&"ä".repeat(200)).len() <= COMMENT_MAX);
    }
}
