// SPDX-License-Identifier: GPL-2.0-or-later
//! Removal of tables, and the revert of a generation.

use crate::failure::{policy, Result};
use crate::firewall::Naming;
use crate::learned::Sets;
use crate::source::Table;
use crate::state::Outcome;
use crate::store::{Host, Store, LEARNED, NAMES, REMOVAL, UNDO};
use crate::{clock, learned, marks, nft, queue_rules, swap};

/// Returns nft commands that remove tables, present or not: nft before 1.0.7 does not support `destroy`.
pub fn removal(tables: &[Table]) -> String {
    let lines = tables
        .iter()
        .map(|table| format!("add table {table}\ndelete table {table}\n"));
    lines.collect()
}

/// Makes the firewall run with a generation's policy and options, when the generation is applied and in a revert:
/// starts the firewall, reloads its policy, or restarts it if the options differ.
/// - naming: data of the generation's firewall.
pub fn run_firewall(store: &Store, number: u64, naming: &Naming) -> Result<()> {
    let names = store.text(number, NAMES)?;
    store
        .firewall()
        .run(&naming.orders, &names, store.share_lock()?)
}

/// Stops the firewall if a generation doesn't need it, and removes the iptables rules that the generation doesn't need.
/// - kept: data of the generation's firewall; None: the generation needs neither firewall nor rules.
pub fn tidy(store: &mut Store, kept: Option<&Naming>) -> Result<()> {
    if kept.is_none() {
        store.firewall().stop()?;
    }
    let rules = kept.map(|naming| naming.rules.clone());
    queue_rules::keep(store, &rules.unwrap_or_default())
}

/// Creates the iptables rules of the applied generation and makes its firewall run, before the kernel's rules of that
/// generation are restored. Does nothing if the generation has no names.
fn firewall_of_applied(store: &mut Store) -> Result<()> {
    let Some(applied) = store.state.applied().cloned() else {
        return Ok(());
    };
    let Some(naming) = &applied.naming else {
        return Ok(());
    };
    queue_rules::make(store, &naming.rules)?;
    run_firewall(store, applied.number, naming)
}

/// Restores the kernel's rules from before a generation, with the addresses that their sets have learned.
/// - undone: data of the reverted generation's firewall; None: that generation has no names.
fn restore(store: &Store, number: u64, undone: Option<&Naming>) -> Result<()> {
    let saved = store.text(number, LEARNED).unwrap_or_default();
    let sets = Sets {
        before: undone.map_or(&[][..], |undone| &undone.learned),
        after: &store.state.learned(),
        saved: &serde_json::from_str(&saved).unwrap_or_default(),
    };
    // If the tables can't be read, they are removed whole.
    let present = swap::present(store, number, UNDO).unwrap_or_default();
    learned::load(store, number, UNDO, &sets, &present)
}

/// Reverts the pending generation: restores the kernel's previous rules and the firewall, and writes the reason to the
/// state. If only the firewall, its iptables rules or the marks can't be restored, adds that failure to the reason.
/// Restores no nft table if the kernel does not hold the generation. Returns the generation's number; None if no
/// generation is pending.
pub fn pending(store: &mut Store, why: &str) -> Result<Option<u64>> {
    let (Some(pending), undone) = (store.state.pending.clone(), store.state.waiting().cloned())
    else {
        return Ok(None);
    };
    let undone = undone.and_then(|undone| undone.naming);
    let applied = store.state.applied().cloned();
    let naming = applied.as_ref().and_then(|applied| applied.naming.clone());
    let is_loaded = nft::loaded()? == Some(pending.number);
    // The kernel's rules are restored even if the firewall fails.
    let mut surroundings = firewall_of_applied(store);
    if is_loaded {
        let restored = restore(store, pending.number, undone.as_ref());
        if let (Err(_), Some(undone)) = (&restored, &undone) {
            // The kernel still has the pending rules: they need their firewall. The first failure is the cause.
            let _ = run_firewall(store, pending.number, undone);
        }
        restored?;
    }
    if let Some(undone) = &undone {
        let before = applied.as_ref().map(|applied| applied.number);
        let before = before.zip(naming.as_ref());
        surroundings = surroundings.and(marks::go_back(store, undone, before));
    }
    surroundings = surroundings.and(tidy(store, naming.as_ref()));
    let why = match surroundings {
        Ok(()) => why.to_owned(),
        Err(failure) => format!("{why}; {}", failure.text),
    };
    let now_ms = clock::unix_ms();
    store.state.pending = None;
    store
        .state
        .settle(pending.number, Outcome::Reverted, Some(why), now_ms);
    store.commit()?;
    Ok(Some(pending.number))
}

/// Reverts a generation at its deadline, like [`pending`]. Does nothing and returns None if it is no longer pending.
/// - number: number of the generation; None: the pending generation.
pub fn at_deadline(store: &mut Store, number: Option<u64>) -> Result<Option<u64>> {
    let waiting = store.state.pending.as_ref().map(|one| one.number);
    match number.is_none() || number == waiting {
        true => pending(store, "not confirmed in time"),
        false => Ok(None),
    }
}

/// Reverts the pending generation, removes the tables of the applied generation, and stops the firewall. Returns the
/// number of the applied generation; if there is none, of the reverted generation. Fails if there is neither.
pub fn all(host: Host) -> Result<u64> {
    let mut store = Store::open(host)?;
    let reverted = pending(&mut store, "fwctl unapply")?;
    let Some(applied) = store.state.applied().cloned() else {
        return reverted.ok_or_else(|| policy("nothing is applied: see fwctl history"));
    };
    let mut tables = applied.tables;
    tables.push(nft::own_table());
    store.write(applied.number, REMOVAL, &removal(&tables))?;
    store.load(applied.number, REMOVAL)?;
    tidy(&mut store, None)?;
    marks::end(&mut store)?;
    store.state.applied = None;
    store
        .state
        .settle(applied.number, Outcome::Unapplied, None, clock::unix_ms());
    store.commit()?;
    Ok(applied.number)
}
