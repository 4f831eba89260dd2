// SPDX-License-Identifier: GPL-2.0-or-later
//! Reload: replacement of the policy while packets arrive. The queues stay as they are.
//!
//! Theory of operation: the new policy is read, compiled and checked first. Then it is set for each worker. A worker
//! changes the policy between two batches, so that each packet is decided by either the old or the new policy. When all
//! workers have changed, the counters of rules that both policies have continue with the old policy's values, the
//! records of packets that the old policy decided become events, and the old policy is freed.

use std::sync::Arc;

use crate::base::counts::{self, Count};
use crate::base::log::{self, failure_set, Failure, LogExit};
use crate::events::{self, EventsFacts, EventsKind};
use crate::options::OptionsConntrack;
use crate::policy::requirement::{self, Requirement};
use crate::ruleset::load::{self, Loaded};
use crate::ruleset::migration::{self, Migration};
use crate::ruleset::tally;
use crate::state::{self, State};
use crate::worker::evaluate;
use crate::worker::wait;
use crate::worker::workers;

const NS_PER_MS: u64 = 1_000_000;
const CURE: &str = "`fwctl upgrade` starts anew without losing a packet";

/// Effect of a reload on the rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReloadResult {
    /// Generation of the new policy; the first policy has 1.
    pub generation: u32,
    pub rules: u32,
    /// Number of rules that both policies have. Their counters continue.
    pub kept: u32,
    /// Number of rules that only the new policy has.
    pub added: u32,
    /// Number of rules that only the old policy had.
    pub removed: u32,
    pub milliseconds: u64,
}

/// Fails if the policy needs packet data that the queues do not provide, or a right that the process no longer has.
fn check(state: &State, requirement: &Requirement) -> Result<(), Failure> {
    let inner = state::lock(state);
    let Some(worker) = inner.workers.all.first() else {
        return Ok(()); // not reached: there is at least one queue
    };
    let queue = &worker.shared.settings;
    let by_mark = state.options.conntrack == OptionsConntrack::Mark;
    let conntrack = requirement.conntrack_state || requirement.conntrack_mark;
    let usage = |text: String| Err(failure_set(LogExit::Usage, text));
    if requirement.uid_gid && !queue.uid_gid {
        usage(format!(
            "the policy uses meta skuid or meta skgid, which the queues do not give: {CURE}"
        ))
    } else if conntrack && !by_mark && !queue.conntrack {
        usage(format!(
            "the policy uses ct state or ct mark, which the queues do not give: {CURE}"
        ))
    } else if requirement::reads_names(requirement) && !queue.names {
        usage(format!(
            "the policy reads names, for which the queues make no room: {CURE}"
        ))
    } else if requirement.reject && state.reject.is_none() {
        let text =
            "the policy rejects, for which CAP_NET_RAW was missing at the start: add it, and";
        Err(failure_set(
            LogExit::Capability,
            format_args!("{text} {CURE}"),
        ))
    } else {
        Ok(())
    }
}

/// Loads the next policy while the old policy decides.
fn load_next(state: &State) -> Result<Loaded, Failure> {
    let loaded = state::lock(state).loaded.clone();
    let (Some(mut next), Some(loaded)) = (load::load(&state.options)?, loaded) else {
        return Err(failure_set(
            LogExit::Usage,
            "there is no policy to read: start with --policy",
        ));
    };
    check(state, load::requirement(&next))?;
    load::learn(&mut next, &state.options, Some(&loaded));
    next.generation = loaded.generation + 1;
    Ok(next)
}

/// Sets the next policy for all workers, and transfers the counters.
fn swap(state: &State, old: &Arc<Loaded>, next: &Arc<Loaded>, migration: &Migration) {
    events::policy(&state.events, next.generation, next);
    let mut inner = state::lock(state);
    let workers = inner.workers.all.len();
    let sources = (0..workers).map(|_| evaluate::source_make(next)).collect();
    let mut tally = tally::make(old);
    // After workers::swap all workers have changed, so that the old policy's counters are final.
    for source in workers::swap(&mut inner.workers, sources) {
        tally::add(&mut tally, &source.counters);
    }
    migration::end(migration, &tally.counters, &tally.logged, next);
    inner.loaded = Some(Arc::clone(next));
    inner.reload_error = None;
}

/// Counts and logs a failed reload, after which the old policy stays, and stores the failure for snapshots.
pub fn refuse(state: &State, failure: &Failure) {
    state::lock(state).reload_error = Some(failure.text.clone());
    counts::add(Count::ReloadsFailed, 1);
    let facts = EventsFacts {
        text: Some(&failure.text),
        figures: &[],
    };
    events::tell(&state.events, EventsKind::ReloadFailed, &facts);
    log::error(format_args!(
        "reload: {}: the policy stays as it was",
        failure.text
    ));
}

fn exchange(state: &State) -> Result<ReloadResult, Failure> {
    let began_ns = wait::clock();
    let mut next = load_next(state)?;
    let Some(old) = state::lock(state).loaded.clone() else {
        return Err(failure_set(LogExit::Usage, "")); // not reached: load_next has checked it
    };
    let migration = migration::begin(&old, &mut next, wait::clock());
    let next = Arc::new(next);
    swap(state, &old, &next, &migration);
    let result = ReloadResult {
        generation: next.generation,
        rules: next.compiled.rules.len() as u32,
        kept: migration.kept,
        added: migration.added,
        removed: migration.removed,
        milliseconds: (wait::clock() - began_ns) / NS_PER_MS,
    };
    events::drain(&state.events); // after `drain` no event needs the old policy
    Ok(result)
}

fn tell(state: &State, result: &ReloadResult) {
    let figures = [
        result.generation.into(),
        result.rules.into(),
        result.kept.into(),
        result.added.into(),
        result.removed.into(),
    ];
    let facts = EventsFacts {
        text: None,
        figures: &figures,
    };
    events::tell(&state.events, EventsKind::Reload, &facts);
}

/// Reads options.policy again and makes it decide all packets. Fails, and leaves everything as it was, if the policy is
/// invalid, or needs packet data that the queues do not provide or a right that the process no longer has. The result
/// is counted and logged; a failure is also stored for snapshots.
pub fn reload(state: &State) -> Result<ReloadResult, Failure> {
    let result = exchange(state);
    match &result {
        Ok(result) => {
            counts::add(Count::Reloads, 1);
            tell(state, result);
            log::info(format_args!(
                "reload: policy {}: {} rules, {} kept, {} added, {} removed",
                result.generation, result.rules, result.kept, result.added, result.removed
            ));
        }
        Err(failure) => refuse(state, failure),
    }
    result
}
