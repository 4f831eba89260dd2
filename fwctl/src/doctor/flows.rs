// SPDX-License-Identifier: GPL-2.0-or-later
//! Checks for rules of other programs that put connections into a flowtable: packets of these connections skip a policy
//! with names.

use super::finding::Findings;
use super::ruleset::{Rule, Table, Target};
use super::{applied_tables, cure};

/// Chains that `fwctl split` adds in the hooks that packets of a flowtable skip.
const STAGE: [&str; 3] = [
    "stage-keep-forward",
    "stage-keep-prerouting",
    "stage-learn-forward",
];

/// Returns true if a table belongs to a split policy that queues packets of forwarded connections for their names.
fn is_split(table: &Table) -> bool {
    let mut chains = table.chains.iter();
    chains.any(|chain| STAGE.contains(&chain.name.as_str()))
}

/// Returns the rules of other tables that put connections into a flowtable; none if no table of a split policy has names
/// of forwarded connections.
/// - own: names of the tables of the applied policy ("inet filter").
fn others<'a>(tables: &'a [Table], own: &[String]) -> Vec<&'a Rule> {
    if !tables.iter().any(is_split) {
        return Vec::new();
    }
    let others = tables
        .iter()
        .filter(|table| !is_split(table) && !own.contains(&table.name));
    let rules = others
        .flat_map(|table| &table.chains)
        .flat_map(|chain| &chain.rules);
    rules.filter(|rule| rule.target == Target::Flow).collect()
}

/// Adds a finding for each rule of another table that puts connections into a flowtable past a policy with names.
pub fn check(tables: &[Table], findings: &mut Findings) {
    for rule in others(tables, &applied_tables()) {
        let text = format!("nft: {}", rule.text);
        findings.warning(
            format!("\"{text}\" puts connections into a flowtable: their packets skip the policy with names"),
            cure::delete(&text),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::super::nft;
    use super::*;

    /// Returns the tables of a split policy, and of another program, as `nft --json list ruleset` prints them.
    /// - chain: chain of the split policy.
    fn tables(chain: &str) -> Vec<Table> {
        let text = format!(
            r#"{{"nftables":[{{"table":{{"family":"inet","name":"host"}}}},
            {{"chain":{{"family":"inet","table":"host","name":"{chain}","hook":"forward"}}}},
            {{"rule":{{"family":"inet","table":"host","chain":"{chain}","handle":3,"expr":[{{"flow":{{"op":"add","flowtable":"@own"}}}}]}}}},
            {{"table":{{"family":"ip","name":"router"}}}},
            {{"chain":{{"family":"ip","table":"router","name":"f","hook":"forward"}}}},
            {{"rule":{{"family":"ip","table":"router","chain":"f","handle":5,"expr":[
            {{"match":{{}}}},{{"flow":{{"op":"add","flowtable":"@fast"}}}}]}}}}]}}"#
        );
        nft::parse(&text).unwrap().0
    }

    #[test]
    fn flows_beside_a_policy_with_names() {
        let of = |chain, own: &[&str]| {
            let own: Vec<String> = own.iter().map(|name| name.to_string()).collect();
            let tables = tables(chain);
            let found = others(&tables, &own);
            found
                .iter()
                .map(|rule| rule.text.clone())
                .collect::<Vec<String>>()
        };
        assert_eq!(of("stage-keep-forward", &[]), ["ip router f handle 5"]);
        assert!(of("stage-keep-forward", &["ip router"]).is_empty());
        assert!(of("stage-keep-input", &[]).is_empty());
    }
}
