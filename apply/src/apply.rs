// SPDX-License-Identifier: GPL-2.0-or-later
//! Command `apply`: the steps from a policy to a generation that waits for its confirmation.

use crate::failure::{policy, Result};
use crate::firewall::Naming;
use crate::kernel::{self, Parts, Wanted};
use crate::source::{Source, Table};
use crate::state::{Generation, Outcome, Pending};
use crate::store::{Host, Store, KERNEL, NAMES, POLICY, UNDO};
use crate::{
    clock, confirm, conntrack, expectations, lists, marks, nft, queue_rules, swap, timer, undo,
};

/// Parameters of an apply.
pub struct Request {
    pub source: Source,
    /// Parameters of the firewall, if the policy has names.
    pub wanted: Wanted,
    /// User who applies it, for the history.
    pub by: String,
    /// Seconds until the revert; None confirms at once.
    pub confirm_seconds: Option<u32>,
}

/// Applied generation.
pub struct Applied {
    pub number: u64,
    /// Warnings about the policy: "FILE:LINE: …".
    pub warnings: Vec<String>,
}

/// Fails if a table exists that no generation created.
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

/// Reverts a generation whose deadline has passed unnoticed. Fails if another one is pending.
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

/// Checks that the kernel accepts a policy and that its tables are free to use.
fn check_parts(source: &Source, parts: &Parts, ours: &[Table]) -> Result<()> {
    refuse_foreign(&source.tables, ours)?;
    // Inserted in the policy's first line, so that nft's line numbers are the policy's.
    let removal = undo::removal(&source.tables).replace('\n', "; ");
    swap::check(
        &(removal + &parts.kernel),
        &parts.name,
        "correct the policy",
    )
}

/// Writes a generation and both transactions, and commits it as pending.
fn prepare(store: &mut Store, request: &Request, source: &Source, parts: &Parts) -> Result<()> {
    let number = parts.number;
    let before: Vec<Table> = store
        .state
        .applied()
        .map(|one| one.tables.clone())
        .unwrap_or_default();
    let mut affected: Vec<Table> = source.tables.iter().chain(&before).cloned().collect();
    affected.push(nft::own_table());
    affected.sort();
    affected.dedup();
    let undo = undo::restoral(&affected)?;
    swap::check(
        &undo,
        "undo.nft",
        "the present rule set can't be brought back, so nothing was changed",
    )?;
    let kernel = undo::removal(&affected) + &parts.kernel + "\n" + &nft::marker(number);
    swap::check(&kernel, &parts.name, "the transaction can't be loaded")?;
    store.write(number, POLICY, &source.text.text)?;
    store.write(number, KERNEL, &kernel)?;
    store.write(number, UNDO, &undo)?;
    if let Some((names, _)) = &parts.naming {
        store.write(number, NAMES, names)?;
    }
    let gone = store.state.add(Generation {
        number,
        outcome: Outcome::Pending,
        by: request.by.clone(),
        applied_ms: clock::unix_ms(),
        settled_ms: None,
        file: source.file.to_string_lossy().into_owned(),
        digest: source.digest(),
        tables: source.tables.clone(),
        naming: parts.naming.as_ref().map(|(_, naming)| naming.clone()),
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
    Ok(())
}

/// Loads a generation with names, the firewall first. The kernel does not use the firewall's new classes before it has
/// its new rules.
fn load_with_names(store: &mut Store, number: u64, naming: &Naming) -> Result<()> {
    queue_rules::make(store, &naming.rules)?;
    undo::run_firewall(store, number, naming)?;
    let cleared = marks::begin(store, naming, number)?;
    swap::load(store, number, KERNEL)?;
    // The kernel's former rules set marks until now.
    cleared.map_or(Ok(()), conntrack::clear)
}

/// Loads a prepared generation.
fn load(store: &mut Store, parts: &Parts, confirm_seconds: Option<u32>) -> Result<()> {
    if let Some(seconds) = confirm_seconds {
        timer::arm(store.places(), seconds)?;
    }
    match &parts.naming {
        Some((_, naming)) => load_with_names(store, parts.number, naming)?,
        None => swap::load(store, parts.number, KERNEL)?,
    }
    match confirm_seconds {
        Some(_) => Ok(()),
        None => confirm::settle(store),
    }
}

/// Applies a policy, and reverts it after any failure.
pub fn run(host: Host, request: &Request) -> Result<Applied> {
    let mut store = Store::open(host)?;
    clear_pending(&mut store)?;
    let (source, lists) = lists::read(&request.source, store.folder())?;
    store.write_lists(&lists)?;
    let parts = kernel::parts(&source, &request.wanted, &store.state)?;
    check_parts(&source, &parts, &store.state.tables())?;
    expectations::check(&source.text, &request.wanted.expect)?;
    prepare(&mut store, request, &source, &parts)?;
    if let Err(failure) = load(&mut store, &parts, request.confirm_seconds) {
        undo::pending(&mut store, &failure.text)?;
        return Err(failure);
    }
    Ok(Applied {
        number: parts.number,
        warnings: lists
            .into_iter()
            .flat_map(|list| list.warnings)
            .chain(parts.warnings)
            .collect(),
    })
}
