// SPDX-License-Identifier: GPL-2.0-or-later
//! iptables rules that lead to the firewall's queues, for kernels without nft's `queue`. They are not part of nft's
//! transaction, and need not be: each matches a mark that only the chains of the name stage set.
//!
//! The state records rules, and the tables and chains that iptables creates in nf_tables for them, before they are
//! created, so that they can be removed after any failure.

use serde::{Deserialize, Serialize};

use crate::failure::{system, Result};
use crate::source::Table;
use crate::store::Store;
use crate::{nft, program};

/// Programs that manage iptables rules, and the families of their tables.
const TOOLS: [(&str, &str); 2] = [("iptables", "ip"), ("ip6tables", "ip6")];

/// iptables rules that send packets to the firewall's queues, and the tables and chains that were created for them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueRules {
    /// Rules such as "mangle FORWARD -m mark …", each for both tools.
    pub rules: Vec<String>,
    /// nf_tables tables that did not exist before the rules: iptables created them.
    pub tables: Vec<Table>,
    /// Chains that did not exist before the rules, with their tables.
    pub chains: Vec<(Table, String)>,
}

/// Returns the table of a rule, and the words after it.
fn parts(rule: &str) -> (&str, &str) {
    rule.split_once(' ').unwrap_or((rule, ""))
}

fn table(family: &str, rule: &str) -> Table {
    Table {
        family: family.to_owned(),
        name: parts(rule).0.to_owned(),
    }
}

/// Runs an iptables command on a rule. Returns true if it succeeded.
/// - verb: command of iptables: -A, -C, -D or -X.
fn command(tool: &str, verb: &str, rule: &str) -> Result<bool> {
    let (table, words) = parts(rule);
    let mut arguments = vec!["--wait", "--table", table, verb];
    arguments.extend(words.split_whitespace());
    Ok(program::run(tool, "iptables", &arguments, "")?
        .status
        .success())
}

fn chain_of(rule: &str) -> &str {
    parts(rule).1.split(' ').next().unwrap_or_default()
}

/// Returns the chains of an nf_tables table. None if the table does not exist.
fn chains(table: &Table) -> Result<Option<Vec<String>>> {
    let text = nft::list(table)?;
    let name = |line: &str| {
        let name = line.strip_prefix("\tchain ")?.strip_suffix(" {")?;
        Some(name.to_owned())
    };
    Ok(text.map(|text| text.lines().filter_map(name).collect()))
}

/// Records a rule in `made`, and the tables and chains that do not exist yet and that iptables will create for the
/// rule.
fn note(made: &mut QueueRules, rule: &str) -> Result<()> {
    for (_, family) in TOOLS {
        let table = table(family, rule);
        let there = chains(&table)?;
        let chain = (table.clone(), chain_of(rule).to_owned());
        if there.is_none() && !made.tables.contains(&table) {
            made.tables.push(table);
        }
        let is_new = there.is_none_or(|there| !there.contains(&chain.1));
        if is_new && !made.chains.contains(&chain) {
            made.chains.push(chain);
        }
    }
    made.rules.push(rule.to_owned());
    Ok(())
}

fn add(rule: &str) -> Result<()> {
    for (tool, _) in TOOLS {
        if !command(tool, "-C", rule)? && !command(tool, "-A", rule)? {
            return Err(system(format_args!(
                "{tool} accepts no NFQUEUE rule: modprobe xt_NFQUEUE"
            )));
        }
    }
    Ok(())
}

fn remove(rule: &str) -> Result<()> {
    for (tool, _) in TOOLS {
        while command(tool, "-C", rule)? && command(tool, "-D", rule)? {}
    }
    Ok(())
}

/// Returns true if a table has a rule, or a chain with a policy other than accept.
fn is_used(text: &str) -> bool {
    let is_plain = |line: &str| {
        let line = line.trim();
        let is_frame = line.is_empty() || line == "}" || line.ends_with('{');
        is_frame || line.starts_with("type ") && line.ends_with("policy accept;")
    };
    !text.lines().all(is_plain)
}

/// Removes the tables and chains that were created for rules, unless they are in use now.
fn remove_made(made: &mut QueueRules) -> Result<()> {
    for (table, chain) in std::mem::take(&mut made.chains) {
        let tool = TOOLS.iter().find(|(_, known)| *known == table.family);
        let is_there = chains(&table)?.is_some_and(|there| there.contains(&chain));
        if let Some((tool, _)) = tool.filter(|_| is_there) {
            let arguments = ["--wait", "-t", &table.name, "-S", &chain];
            let listed = program::run(tool, "iptables", &arguments, "")?;
            if listed.stdout == format!("-P {chain} ACCEPT\n").as_bytes() {
                command(tool, "-X", &format!("{} {chain}", table.name))?;
            }
        }
    }
    for table in std::mem::take(&mut made.tables) {
        if nft::list(&table)?.is_some_and(|text| !is_used(&text)) {
            let arguments = ["delete", "table", &table.family, &table.name];
            program::run("nft", "nftables", &arguments, "")?;
        }
    }
    Ok(())
}

/// Creates the wanted rules that don't exist; does not change other rules.
pub fn make(store: &mut Store, wanted: &[String]) -> Result<()> {
    for rule in wanted {
        if !store.state.rules.rules.contains(rule) {
            note(&mut store.state.rules, rule)?;
            store.commit()?;
        }
        add(rule)?;
    }
    Ok(())
}

/// Removes the iptables rules that the state records and that are not in `wanted`. If `wanted` is empty, also removes
/// the tables and chains that were created for the rules.
pub fn keep(store: &mut Store, wanted: &[String]) -> Result<()> {
    let made = store.state.rules.clone();
    if made == QueueRules::default() {
        return Ok(());
    }
    for rule in made.rules.iter().filter(|rule| !wanted.contains(rule)) {
        remove(rule)?;
    }
    store.state.rules.rules = wanted.to_vec();
    if wanted.is_empty() {
        remove_made(&mut store.state.rules)?;
    }
    store.commit()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_without_rules_is_not_used() {
        let empty = "table ip mangle {\n\tchain FORWARD {\n\t\ttype filter hook forward priority mangle; policy accept;\n\t}\n}\n";
        assert!(!is_used(empty));
        assert!(is_used(&empty.replace("policy accept", "policy drop")));
        assert!(is_used(
            &empty.replace("accept;\n", "accept;\n\t\tcounter\n")
        ));
    }
}
