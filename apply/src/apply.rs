// SPDX-License-Identifier: GPL-2.0-or-later
//! `apply`: the steps from a policy to a generation that waits for its confirmation.

use std::path::Path;

use crate::failure::{policy, Result};
use crate::source::{Source, Table};
use crate::state::{Generation, Outcome, Pending};
use crate::store::{Store, KERNEL, POLICY, UNDO};
use crate::{clock, confirm, nft, timer, undo};

/// What to apply, and how.
pub struct Request {
    pub source: Source,
    /// The text that the kernel gets in place of the policy's.
    pub kernel: String,
    /// Tables that the text makes besides the policy's.
    pub added: Vec<Table>,
    /// Who applies it, for the history.
    pub by: String,
    /// Seconds until it is reverted; None: it is confirmed at once.
    pub confirm_seconds: Option<u32>,
}

impl Request {
    /// A policy that the kernel gets as it is.
    pub fn verbatim(source: Source, by: String, confirm_seconds: Option<u32>) -> Request {
        let kernel = source.text.clone();
        Request {
            source,
            kernel,
            added: Vec::new(),
            by,
            confirm_seconds,
        }
    }
}

/// Fails if one of the tables exists and no generation made it.
fn refuse_foreign(tables: &[Table], ours: &[Table]) -> Result<()> {
    for table in tables.iter().filter(|table| !ours.contains(table)) {
        if nft::list(table)?.is_some() {
            return Err(policy(format_args!(
                "table {table} exists and another program made it: give the policy's table another name, or: nft delete table {table}"
            )));
        }
    }
    Ok(())
}

/// Reverts a generation whose time has passed unnoticed, and refuses another one beside it.
fn clear_pending(store: &mut Store) -> Result<()> {
    match store.state.pending.clone() {
        Some(pending) if confirm::is_late(&pending) => {
            undo::pending(store, "not confirmed in time").map(|_| ())
        }
        Some(pending) => Err(policy(format_args!(
            "generation {} waits for its confirmation: run fwctl confirm or fwctl revert first",
            pending.number
        ))),
        None => Ok(()),
    }
}

/// Writes a generation and both transactions, and commits it as pending.
fn prepare(store: &mut Store, request: &Request, tables: Vec<Table>) -> Result<u64> {
    let number = store.state.next_number();
    let before: Vec<Table> = store
        .state
        .applied()
        .map(|one| one.tables.clone())
        .unwrap_or_default();
    let mut affected: Vec<Table> = tables.iter().chain(&before).cloned().collect();
    affected.push(nft::own_table());
    affected.sort();
    affected.dedup();
    let undo = undo::restoral(&affected)?;
    nft::check(
        &undo,
        "undo.nft",
        "the present rule set can't be brought back, so nothing was changed",
    )?;
    let kernel = undo::removal(&affected) + &nft::marker(number) + &request.kernel;
    let file = request.source.file.to_string_lossy().into_owned();
    nft::check(&kernel, &file, "the transaction can't be loaded")?;
    store.write(number, POLICY, &request.source.text)?;
    store.write(number, KERNEL, &kernel)?;
    store.write(number, UNDO, &undo)?;
    let gone = store.state.add(Generation {
        number,
        outcome: Outcome::Pending,
        by: request.by.clone(),
        applied_ms: clock::unix_ms(),
        settled_ms: None,
        file,
        digest: request.source.digest(),
        tables,
        why: None,
    });
    let seconds = request.confirm_seconds.unwrap_or(0);
    store.state.pending = Some(Pending {
        number,
        boot_id: clock::boot_id(),
        deadline_ms: clock::boot_ms() + u64::from(seconds) * 1000,
    });
    store.commit()?;
    store.remove(&gone);
    Ok(number)
}

/// Loads a prepared generation; whatever fails, it is undone.
fn load(store: &mut Store, number: u64, confirm_seconds: Option<u32>) -> Result<()> {
    if let Some(seconds) = confirm_seconds {
        timer::arm(store.folder(), seconds)?;
    }
    store.load(number, KERNEL)?;
    match confirm_seconds {
        Some(_) => Ok(()),
        None => confirm::settle(store),
    }
}

/// Applies a policy. Returns the number of its generation.
pub fn run(folder: &Path, request: &Request) -> Result<u64> {
    let file = request.source.file.to_string_lossy();
    let mut store = Store::open(folder)?;
    clear_pending(&mut store)?;
    let mut tables = [&request.source.tables[..], &request.added].concat();
    tables.sort();
    tables.dedup();
    let mut ours: Vec<Table> = store
        .state
        .applied()
        .map(|one| one.tables.clone())
        .unwrap_or_default();
    ours.push(nft::own_table());
    refuse_foreign(&tables, &ours)?;
    // On the policy's first line, so that nft's line numbers are the policy's.
    let removal = undo::removal(&tables).replace('\n', "; ");
    nft::check(&(removal + &request.kernel), &file, "correct the policy")?;
    let number = prepare(&mut store, request, tables)?;
    if let Err(failure) = load(&mut store, number, request.confirm_seconds) {
        undo::pending(&mut store, &failure.text)?;
        return Err(failure);
    }
    Ok(number)
}
