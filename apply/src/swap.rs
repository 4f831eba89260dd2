// SPDX-License-Identifier: GPL-2.0-or-later
//! Transactions that replace tables and keep their base chains. When a base chain is removed, the kernel drops all
//! packets that wait in queues of the namespace (nf_queue_nf_hook_drop). So a chain that is in both rule sets is
//! emptied and filled again. The kernel refuses a changed type, hook or priority; in that case, and for example if a
//! base chain must be removed, the tables are removed whole.

use std::collections::HashMap;

use crate::failure::Result;
use crate::nft;
use crate::outline::{outlines, Chain, Outline};
use crate::present::Present;
use crate::source::{commands, named_table, Table};
use crate::store::{Store, SWAP};

/// Transaction that keeps base chains.
struct Swap {
    text: String,
    /// True if the transaction adds new base chains.
    adds: bool,
}

/// Commands of a text that remove whole tables.
#[derive(Default)]
struct Removals {
    /// Byte offsets of the removing commands: `delete table X`, and `add table X` before it.
    places: Vec<usize>,
    /// The removed tables, each once.
    tables: Vec<Table>,
}

/// Finds the commands that remove tables. Returns None if a command removes a table that the text has filled before.
fn removals(text: &str) -> Option<Removals> {
    let mut found = Removals::default();
    let (mut empty, mut filled): (Vec<(Table, usize)>, Vec<Table>) = (Vec::new(), Vec::new());
    for command in commands(text) {
        let words = command.words.iter().map(String::as_str);
        let mut words = words.skip_while(|word| *word == "add").peekable();
        let is_deleted = words.next_if_eq(&"delete").is_some();
        let is_table = words.next() == Some("table");
        let Some(table) = named_table(&mut words) else {
            continue;
        };
        if is_table && is_deleted {
            if filled.contains(&table) {
                return None;
            }
            let (same, others): (Vec<_>, Vec<_>) =
                empty.into_iter().partition(|(other, _)| *other == table);
            empty = others;
            found.places.extend(same.into_iter().map(|(_, at)| at));
            found.places.push(command.at);
            if !found.tables.contains(&table) {
                found.tables.push(table);
            }
        } else if is_table && command.inner.is_none() {
            empty.push((table, command.at));
        } else {
            filled.push(table);
        }
    }
    Some(found)
}

/// Returns true if the wanted base chains of each hook begin with its present base chains, so that their order is right
/// although the present chains stay.
fn keeps_order(present: &[Outline], wanted: &[Outline]) -> bool {
    let by_hook = |all: &[Outline]| {
        let mut hooks: HashMap<String, Vec<(Table, String)>> = HashMap::new();
        for outline in all {
            for chain in outline.base_chains() {
                let hook = chain.hook.clone().unwrap_or_default();
                let place = (outline.table.clone(), chain.name.clone());
                hooks.entry(hook).or_default().push(place);
            }
        }
        hooks
    };
    let wanted = by_hook(wanted);
    by_hook(present).iter().all(|(hook, chains)| {
        let wanted = wanted.get(hook).map_or(&[][..], Vec::as_slice);
        wanted.starts_with(chains)
    })
}

/// Returns commands that empty a table, and remove its chains except those that the new text declares again. None if
/// that is impossible.
fn emptying(present: &Outline, wanted: &Outline) -> Option<Vec<String>> {
    let table = &present.table;
    if present.is_fixed || wanted.is_fixed {
        return None;
    }
    let mut lines = vec![format!("flush table {table}")];
    // Maps are removed before chains, because their elements refer to chains.
    let objects = present.objects.iter();
    lines.extend(objects.filter_map(|object| {
        let (kind, name) = object.rsplit_once(' ')?;
        Some(format!("delete {kind} {table} {name}"))
    }));
    let drops = |chain: &Chain| chain.policy.as_deref() == Some("drop");
    for chain in &present.chains {
        match wanted.chain(&chain.name) {
            None => lines.push(format!("delete chain {table} {}", chain.name)),
            Some(again) if chain.is_fixed || again.is_fixed => return None,
            Some(again) if drops(chain) && again.policy.is_none() => {
                lines.push(format!(
                    "add chain {table} {} {{ policy accept; }}",
                    chain.name
                ));
            }
            Some(_) => {}
        }
    }
    Some(lines)
}

/// Changes a transaction that first removes tables into a transaction that keeps their base chains. Returns None if
/// that is impossible, or if the tables in the kernel have no base chains.
/// - present: the tables in the kernel.
fn keeping(text: &str, removals: &Removals, present: &[Outline]) -> Option<Swap> {
    let wanted = outlines(text);
    if !present.iter().any(|one| one.base_chains().next().is_some())
        || !keeps_order(present, &wanted)
    {
        return None;
    }
    let mut first = Vec::new();
    for table in &removals.tables {
        let there = present.iter().find(|one| one.table == *table);
        match there.filter(|one| one.base_chains().next().is_some()) {
            Some(there) => {
                let again = wanted.iter().find(|one| one.table == *table)?;
                first.extend(emptying(there, again)?);
            }
            None => first.extend([
                format!("add table {table}"),
                format!("delete table {table}"),
            ]),
        }
    }
    let chains = |all: &[Outline]| {
        all.iter()
            .map(|one| one.base_chains().count())
            .sum::<usize>()
    };
    let mut places = removals.places.clone();
    places.sort_unstable();
    // The new commands are in the same line, so that line numbers in nft's messages don't change.
    let mut rest = text.to_owned();
    for at in places.iter().rev() {
        let end = rest[*at..]
            .find(['\n', ';'])
            .map_or(rest.len(), |end| at + end);
        rest.replace_range(at..&end, "");
    }
    Some(Swap {
        text: first.join("; ") + "; " + &rest,
        adds: chains(&wanted) > chains(present),
    })
}

/// Returns a variant of the transaction `text` that keeps base chains. None if that is impossible.
/// - present: the tables that the transaction removes, if they exist.
fn plan(text: &str, present: &Present) -> Option<Swap> {
    let removals = removals(text)?;
    keeping(text, &removals, &present.outlines(&removals.tables))
}

/// Checks with nft and the kernel that a transaction can be loaded. If a transaction creates or removes base chains,
/// the kernel does so for this check, too; such a transaction is first checked in a new network namespace.
/// - present: the tables that the transaction removes, if they exist.
/// - file: name of the transaction in messages.
/// - cure: advice at the end of the error message.
pub fn check(text: &str, present: &Present, file: &str, cure: &str) -> Result<()> {
    let swap = plan(text, present).filter(|swap| !swap.adds);
    let is_taken = swap.is_some_and(|swap| nft::check(&swap.text, file, cure).is_ok());
    match is_taken || nft::is_taken_elsewhere(text)? {
        true => Ok(()),
        false => nft::check(text, file, cure),
    }
}

/// Loads a transaction of a generation, and retains base chains if possible. If the kernel refuses that, for example
/// after a change by another program, or if the changed transaction can't be written, loads the transaction unchanged.
/// - present: as for [`check`].
pub fn load(store: &Store, number: u64, name: &str, present: &Present) -> Result<()> {
    let swap = plan(&store.text(number, name)?, present);
    let is_written = swap.is_some_and(|swap| store.write(number, SWAP, &swap.text).is_ok());
    match is_written && store.load(number, SWAP).is_ok() {
        true => Ok(()),
        false => store.load(number, name),
    }
}

/// Reads those of the kernel's tables that a transaction of a generation removes.
pub fn present(store: &Store, number: u64, name: &str) -> Result<Present> {
    let removed = removals(&store.text(number, name)?);
    let tables = removed.map_or(Vec::new(), |removed| removed.tables);
    Present::outline(&tables)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(present: &str, text: &str) -> Option<String> {
        let removals = removals(text)?;
        keeping(text, &removals, &outlines(present)).map(|swap| swap.text)
    }

    const PRESENT: &str = "table inet a {
	map m {
		type inet_service : verdict
	}
	chain old {
	}
	chain input {
		type filter hook input priority filter; policy drop;
	}
}
";

    #[test]
    fn a_chain_of_both_is_emptied() {
        let text = "add table inet a; delete table inet a; table inet a\ndelete table inet a\ntable inet a {\n chain input {\n type filter hook input priority 0\n accept\n }\n}\n";
        let swap = kept(PRESENT, text).unwrap();
        let (first, rest) = swap.split_once("table inet a {").unwrap();
        let commands: Vec<&str> = first
            .split(';')
            .map(str::trim)
            .filter(|one| !one.is_empty())
            .collect();
        assert_eq!(
            commands,
            [
                "flush table inet a",
                "delete map inet a m",
                "delete chain inet a old",
                "add chain inet a input { policy accept",
                "}",
            ]
        );
        assert!(rest.starts_with("\n chain input"));
    }

    #[test]
    fn a_chain_that_goes_or_changes_its_order_does_not_stay() {
        let text = |body: &str| {
            format!("add table inet a\ndelete table inet a\ntable inet a {{\n{body}\n}}\n")
        };
        let input = "chain input { type filter hook input priority 0; }";
        let other = "chain other { type filter hook input priority 0; }";
        let output = "chain output { type filter hook output priority 0; }";
        assert!(kept(PRESENT, &text(&format!("{input}\n{other}"))).is_some());
        assert!(kept(PRESENT, &text(&format!("{output}\n{input}"))).is_some());
        assert!(kept(PRESENT, &text(&format!("{other}\n{input}"))).is_none());
        assert!(kept(PRESENT, &text(output)).is_none());
        assert!(kept(PRESENT, &text(&format!("comment \"x\"\n{input}"))).is_none());
        assert!(kept("", &text(input)).is_none());
        let twice = text(input) + &text(input);
        assert!(kept(PRESENT, &twice).is_none());
    }

    #[test]
    fn tables_without_base_chains_are_removed_whole() {
        let text = "add table inet b\ndelete table inet b\nadd table inet a\ndelete table inet a\ntable inet b {\n comment \"2\"\n}\ntable inet a {\n chain input { type filter hook input priority 0; policy drop; }\n}\n";
        let present = format!("table inet b {{\n comment \"1\"\n}}\n{PRESENT}");
        let swap = kept(&present, text).unwrap();
        assert!(
            swap.starts_with("add table inet b; delete table inet b; flush table inet a; "),
            "{swap}"
        );
        assert!(!swap.contains("policy accept"), "{swap}");
        assert!(!swap.contains("delete table inet a"), "{swap}");
    }
}
