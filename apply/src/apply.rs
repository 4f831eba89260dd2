// SPDX-License-Identifier: GPL-2.0-or-later
//! Command `apply`: the steps from a policy to a generation that waits for its confirmation.

use crate::failure::{policy, Result};
use crate::firewall::Naming;
use crate::kernel::{self, Parts, Wanted};
use crate::learned::{Learned, Saved, Sets};
use crate::present::Present;
use crate::source::{self, Source, Table};
use crate::state::{Generation, Outcome, Pending};
use crate::store::{Host, Store, KERNEL, LEARNED, NAMES, POLICY, UNDO};
use crate::{
    clock, confirm, conntrack, expectations, flows, learned, lists, marks, nft, queue_rules, swap,
    timer, undo,
};

/// Parameters of an application of a policy (`fwctl apply`).
pub struct Request {
    pub source: Source,
    /// Parameters of the firewall, if the policy has names; and settings for the expectations of any policy (comments
    /// with expected verdicts).
    pub wanted: Wanted,
    /// User who applies the policy, for the history.
    pub by: String,
    /// Seconds until the generation is reverted, unless it is confirmed before; None: it is confirmed at once, without
    /// a timer.
    pub confirm_seconds: Option<u32>,
}

/// Result of `run`: the loaded generation. It is pending, or confirmed if no deadline was requested.
pub struct Applied {
    pub number: u64,
    /// Warnings about the policy, its lists, and flowtables of other tables.
    pub warnings: Vec<String>,
}

/// Fails if the kernel has a table that another program made: a table of the policy that is not in `ours`, or a table
/// with the name of the one that identifies the generation, but without a generation's number.
/// - tables: tables of the policy.
/// - ours: tables of the applied and of the pending generation.
fn refuse_foreign(tables: &[Table], ours: &[Table], present: &Present) -> Result<()> {
    let own = nft::own_table();
    let listed = present.text_of(&own);
    if listed.is_some_and(|listed| nft::generation(listed).is_none()) {
        return Err(policy(format_args!(
            "table {own} exists and another program made it: nft delete table {own}"
        )));
    }
    let mut foreign = tables.iter().filter(|table| !ours.contains(table));
    match foreign.find(|table| present.has(table)) {
        Some(table) => Err(policy(format_args!(
            "table {table} exists and another program made it: give the policy's table another name, or: nft delete table {table}"
        ))),
        None => Ok(()),
    }
}

/// Returns warnings about rules of unaffected tables that put connections into flowtables, past the policy; none if the
/// policy queues no forwarded packets. Fails instead of warning if `Wanted::allows_flowtables` is false.
/// - affected: tables that the transaction replaces or removes.
fn check_flows(parts: &Parts, wanted: &Wanted, affected: &[Table]) -> Result<Vec<String>> {
    if !parts.is_forwarding {
        return Ok(Vec::new());
    }
    let flows = flows::of_others(affected)?;
    match flows.first() {
        Some(flow) if !wanted.allows_flowtables => Err(policy(format_args!(
            "{flow}; or allow it by FLOWTABLES=allow in twinwall.conf"
        ))),
        _ => Ok(flows.iter().map(ToString::to_string).collect()),
    }
}

/// Reverts the pending generation if its deadline has passed. Fails if its deadline has not passed yet.
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

/// Returns the tables of a policy and of the applied generation, and the table that identifies the generation in the
/// kernel.
fn affected(store: &Store, source: &Source) -> Vec<Table> {
    let before = store.state.applied().map(|one| one.tables.clone());
    let before = before.unwrap_or_default();
    let mut affected: Vec<Table> = source.tables.iter().chain(&before).cloned().collect();
    affected.push(nft::own_table());
    affected.sort();
    affected.dedup();
    affected
}

/// nft transactions that load and undo a generation, and the learned addresses to restore.
struct Transactions {
    kernel: String,
    undo: String,
    /// Learned addresses, which `undo` does not contain.
    saved: Saved,
}

/// Makes the nft transactions that load and undo a generation, and checks that the kernel accepts them.
/// - present: in/out: tables of the kernel; loses the addresses of the sets that learn.
/// - learned: sets of the applied generation that learn addresses.
fn transactions(
    affected: &[Table],
    parts: &Parts,
    present: &mut Present,
    learned: &[Learned],
) -> Result<Transactions> {
    let saved = Saved::take(present, learned);
    let present = &*present;
    // The removal is in the policy's first line, so that line numbers in nft's messages are those of the policy.
    let removal = undo::removal(affected).replace('\n', "; ");
    let kernel = removal + &parts.kernel + "\n" + &nft::marker(parts.number);
    swap::check(&kernel, present, &parts.name, "correct the policy")?;
    let undo = undo::removal(affected) + &present.text();
    swap::check(
        &undo,
        present,
        "undo.nft",
        "the present rule set can't be brought back, so nothing was changed",
    )?;
    Ok(Transactions {
        kernel,
        undo,
        saved,
    })
}

/// Writes the files of a generation, and commits the generation as pending.
fn prepare(
    store: &mut Store,
    request: &Request,
    source: &Source,
    parts: &Parts,
    Transactions {
        kernel,
        undo,
        saved,
    }: &Transactions,
) -> Result<()> {
    let number = parts.number;
    store.write(number, POLICY, &source.text.text)?;
    store.write(number, KERNEL, kernel)?;
    store.write(number, UNDO, undo)?;
    let saved = serde_json::to_string(saved).unwrap_or_default();
    store.write(number, LEARNED, &saved)?;
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

/// Loads a generation with names: first into the firewall, then into the kernel. The kernel does not use the firewall's
/// new classes before it has its new rules.
fn load_with_names(
    store: &mut Store,
    number: u64,
    naming: &Naming,
    present: &Present,
) -> Result<()> {
    queue_rules::make(store, &naming.rules)?;
    undo::run_firewall(store, number, naming)?;
    let cleared = marks::begin(store, naming, number)?;
    let sets = Sets {
        before: &store.state.learned(),
        after: &naming.learned,
        saved: &Saved::default(),
    };
    learned::load(store, number, KERNEL, &sets, present)?;
    // Until now the kernel's former rules have set marks, so the marks are cleared again.
    cleared.map_or(Ok(()), conntrack::clear)
}

/// Loads a prepared generation, after starting the timer of its revert. Without `confirm_seconds`, starts no timer and
/// confirms the generation at once.
fn load(
    store: &mut Store,
    parts: &Parts,
    confirm_seconds: Option<u32>,
    present: &Present,
) -> Result<()> {
    if let Some(seconds) = confirm_seconds {
        timer::arm(store.places(), parts.number, seconds)?;
    }
    match &parts.naming {
        Some((_, naming)) => load_with_names(store, parts.number, naming, present)?,
        None => swap::load(store, parts.number, KERNEL, present)?,
    }
    match confirm_seconds {
        Some(_) => Ok(()),
        None => confirm::settle(store),
    }
}

/// Applies a policy. Reverts it if it can't be loaded.
pub fn run(host: Host, request: &Request) -> Result<Applied> {
    // At boot, without a deadline, the table may be in a stored generation of an earlier version: without the generation
    // the host would be less protected.
    if request.confirm_seconds.is_some() {
        source::refuse_own(&request.source)?;
    }
    let mut store = Store::open(host)?;
    clear_pending(&mut store)?;
    let (source, lists) = lists::read(&request.source, store.folder())?;
    store.write_lists(&lists)?;
    let parts = kernel::parts(&source, &request.wanted, &store.state)?;
    let affected = affected(&store, &source);
    let mut present = Present::read(&affected)?;
    refuse_foreign(&source.tables, &store.state.tables(), &present)?;
    let flows = check_flows(&parts, &request.wanted, &affected)?;
    let transactions = transactions(&affected, &parts, &mut present, &store.state.learned())?;
    expectations::check(&source.text, &request.wanted.expect)?;
    prepare(&mut store, request, &source, &parts, &transactions)?;
    if let Err(failure) = load(&mut store, &parts, request.confirm_seconds, &present) {
        undo::pending(&mut store, &failure.text)?;
        return Err(failure);
    }
    Ok(Applied {
        number: parts.number,
        warnings: lists
            .into_iter()
            .flat_map(|list| list.warnings)
            .chain(parts.warnings)
            .chain(flows)
            .collect(),
    })
}
