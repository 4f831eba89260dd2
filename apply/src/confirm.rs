// SPDX-License-Identifier: GPL-2.0-or-later
//! Command `confirm`: makes the pending generation permanent.

use crate::failure::{policy, system, Result};
use crate::state::{Outcome, Pending};
use crate::store::{Host, Store, NAMES};
use crate::{clock, nft, timer, undo};

/// Returns true if the deadline has passed. After a reboot it has always passed.
pub fn is_late(pending: &Pending) -> bool {
    pending.boot_id != clock::boot_id() || clock::boot_ms() >= pending.deadline_ms
}

/// Stops the firewall unless the applied generation needs it. Removes the iptables rules that the state records, except
/// those that the applied generation needs. The firewall and such rules may remain from the previous generation, from a
/// killed command or from a failed removal.
fn tidy(store: &mut Store) -> Result<()> {
    let naming = store.state.applied().and_then(|one| one.naming.clone());
    undo::tidy(store, naming.as_ref())
}

/// Makes the pending generation the applied generation. Then stops the firewall and removes the iptables rules of the
/// previous generation, if the applied generation does not need them. Does nothing if no generation is pending.
pub fn settle(store: &mut Store) -> Result<()> {
    let Some(pending) = store.state.pending.take() else {
        return Ok(());
    };
    store.state.applied = Some(pending.number);
    store
        .state
        .settle(pending.number, Outcome::Confirmed, None, clock::unix_ms());
    store.commit()?;
    tidy(store)
}

/// Fails if the pending generation has names, and the firewall does not run with that generation's parameters and
/// policy.
fn check_firewall(store: &Store) -> Result<()> {
    let waiting = store.state.waiting();
    let Some((number, naming)) = waiting.and_then(|one| Some((one.number, one.naming.as_ref()?)))
    else {
        return Ok(());
    };
    let checked = store
        .firewall()
        .check(&naming.orders, &store.text(number, NAMES)?);
    checked.map_err(|failure| {
        system(format_args!(
            "generation {number} is not confirmed, since no firewall names for it: {}",
            failure.text
        ))
    })
}

/// Confirms the pending generation. Returns its number. Reverts it and fails if its deadline has passed, or if another
/// program has replaced the rule set. Fails without a revert if no generation is pending, or if the firewall of the
/// pending generation does not run.
pub fn run(host: Host) -> Result<u64> {
    let mut store = Store::open(host)?;
    let Some(pending) = store.state.pending.clone() else {
        tidy(&mut store)?;
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
    check_firewall(&store)?;
    settle(&mut store)?;
    timer::disarm();
    Ok(pending.number)
}
