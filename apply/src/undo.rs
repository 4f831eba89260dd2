// SPDX-License-Identifier: GPL-2.0-or-later
//! Transactions that replace tables, and the way back from a generation.

use std::path::Path;

use crate::failure::{policy, Result};
use crate::source::Table;
use crate::state::Outcome;
use crate::store::{Store, REMOVAL, UNDO};
use crate::{clock, nft};

/// The text that removes tables, whether they are there or not: nft before 1.0.7 knows no `destroy`.
pub fn removal(tables: &[Table]) -> String {
    let lines = tables
        .iter()
        .map(|table| format!("add table {table}\ndelete table {table}\n"));
    lines.collect()
}

/// The text that brings tables back as they are now, in their order.
pub fn restoral(tables: &[Table]) -> Result<String> {
    let mut text = removal(tables);
    for table in nft::tables()?.iter().filter(|table| tables.contains(table)) {
        text.push_str(&nft::list(table)?.unwrap_or_default());
    }
    Ok(text)
}

/// Undoes the pending generation: the kernel holds what it held before, and the state says why. Changes no rule if the
/// kernel does not hold the generation. Returns its number; None if none is pending.
pub fn pending(store: &mut Store, why: &str) -> Result<Option<u64>> {
    let Some(pending) = store.state.pending.clone() else {
        return Ok(None);
    };
    if nft::loaded()? == Some(pending.number) {
        store.load(pending.number, UNDO)?;
    }
    let now_ms = clock::unix_ms();
    store.state.pending = None;
    store.state.settle(
        pending.number,
        Outcome::Reverted,
        Some(why.to_owned()),
        now_ms,
    );
    store.commit()?;
    Ok(Some(pending.number))
}

/// Removes everything that was applied. Returns the number of the generation that was applied or pending.
pub fn all(folder: &Path) -> Result<u64> {
    let mut store = Store::open(folder)?;
    let reverted = pending(&mut store, "fwctl unapply")?;
    let Some(applied) = store.state.applied().cloned() else {
        return reverted.ok_or_else(|| policy("nothing is applied: see fwctl history"));
    };
    let mut tables = applied.tables;
    tables.push(nft::own_table());
    store.write(applied.number, REMOVAL, &removal(&tables))?;
    store.load(applied.number, REMOVAL)?;
    store.state.applied = None;
    store
        .state
        .settle(applied.number, Outcome::Unapplied, None, clock::unix_ms());
    store.commit()?;
    Ok(applied.number)
}
