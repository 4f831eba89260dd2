// SPDX-License-Identifier: GPL-2.0-or-later
//! `confirm`: the pending generation stays.

use std::path::Path;

use crate::failure::{policy, Result};
use crate::state::{Outcome, Pending};
use crate::store::Store;
use crate::{clock, nft, timer, undo};

/// Whether the deadline has passed. In another boot it has.
pub fn is_late(pending: &Pending) -> bool {
    pending.boot_id != clock::boot_id() || clock::boot_ms() >= pending.deadline_ms
}

/// Writes that the pending generation is the applied one.
pub fn settle(store: &mut Store) -> Result<()> {
    if let Some(pending) = store.state.pending.take() {
        store.state.applied = Some(pending.number);
        store
            .state
            .settle(pending.number, Outcome::Confirmed, None, clock::unix_ms());
        store.commit()?;
    }
    Ok(())
}

/// Confirms the pending generation. Returns its number.
pub fn run(folder: &Path) -> Result<u64> {
    let mut store = Store::open(folder)?;
    let Some(pending) = store.state.pending.clone() else {
        return Err(policy(
            "nothing waits for a confirmation: see fwctl history",
        ));
    };
    if is_late(&pending) {
        undo::pending(&mut store, "not confirmed in time")?;
        return Err(policy(format_args!(
            "generation {} was not confirmed in time and is reverted: apply it again",
            pending.number
        )));
    }
    if nft::loaded()? != Some(pending.number) {
        undo::pending(&mut store, "another program replaced the rule set")?;
        return Err(policy(format_args!(
            "the kernel does not hold generation {}: another program replaced the rule set: apply the policy again",
            pending.number
        )));
    }
    settle(&mut store)?;
    timer::disarm();
    Ok(pending.number)
}
