// SPDX-License-Identifier: GPL-2.0-or-later
//! A new policy in place of the old one, while packets come. Nothing of the queues is touched.
//!
//! Theory of operation: the new policy is read, compiled and checked aside. Then each worker is given
//! it; a worker looks between two batches, so that each packet is decided by the old or by the new
//! policy, never by a mixture. When all have taken it, what the old one's counters counted goes over
//! to the new one's, what was noted of its packets becomes events, and it is freed.

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
    /// The generation of the policy, which counts up from 1.
    pub generation: u32,
    pub rules: u32,
    /// Rules that go on with their counters.
    pub kept: u32,
    /// Rules that are new.
    pub added: u32,
    /// Rules that are gone.
    pub removed: u32,
    pub milliseconds: u64,
}

/// Fails if the policy asks for what the queues were not opened for, or needs a right that is gone.
fn check(state: &State, requirement: &Requirement) -> Result<(), Failure> {
    let inner = state::lock(state);
    let Some(worker) = inner.workers.all.first() else {
        return Ok(()); // can't be: there is a queue
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

/// Loads the next policy while the old one decides.
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

/// Has all workers decide by the next policy, and counters go on.
fn swap(state: &State, old: &Arc<Loaded>, next: &Arc<Loaded>, migration: &Migration) {
    events::policy(&state.events, next.generation, next);
    let mut inner = state::lock(state);
    let workers = inner.workers.all.len();
    let sources = (0..workers).map(|_| evaluate::source_make(next)).collect();
    let mut tally = tally::make(old);
    // Nobody counts for the old policy any more: what it counted goes over whole.
    for source in workers::swap(&mut inner.workers, sources) {
        tally::add(&mut tally, &source.counters);
    }
    migration::end(migration, &tally.counters, &tally.logged, next);
    inner.loaded = Some(Arc::clone(next));
    inner.reload_error = None;
}

/// Counts that the policy stays, says so with the cause on stderr, and keeps the failure for
/// snapshots.
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
        return Err(failure_set(LogExit::Usage, "")); // can't be: load_next looked
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
    events::drain(&state.events); // after which no event tells of the old policy
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

/// Reads options.policy again and has every packet decided by it. Fails, with everything as it was,
/// for what is wrong with the policy and where, or what it reads that the queues do not give.
/// Counts, says so on stderr and keeps the failure for snapshots.
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
