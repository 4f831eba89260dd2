// SPDX-License-Identifier: GPL-2.0-or-later
//! Counters, limits and quotas of the old firewall, read when its workers have stopped.
//!
//! Format: little-endian numbers of 64 bits, in two memories. The states, which the new firewall needs before its
//! workers start: the counts; for each queue, the packets that the guard answered and the queue's counters; for each
//! limit, its fill level; for each quota, the bytes used. The sums, which the new firewall adds while its workers run:
//! for each log, its packets; for each counter, packets and bytes. Counts and queues' counters come in the order of
//! their names in the line of state; limits, quotas, logs and counters in the order of the rules.

use std::sync::atomic::Ordering;

use nix::errno::Errno;

use crate::base::counts;
use crate::engine::flow::{self, FlowCounter};
use crate::handover;
use crate::handover::memory::HandoverMemory;
use crate::handover::Handover;
use crate::ruleset::load;
use crate::ruleset::migration::{MigrationKind, MigrationStates, KIND_COUNT};
use crate::state::StateInner;
use crate::worker::stats;

const WORD_BYTES: u64 = 8;

fn total(totals: &[u32; KIND_COUNT], kind: MigrationKind) -> u64 {
    totals[kind as usize].into()
}

/// Returns the size of the old firewall's states in bytes: counts, queues' counters, limits and quotas.
pub fn states_bytes(of: &Handover) -> u64 {
    let queue = 1 + of.stat_places.len();
    let queues = (of.queues.len() * queue) as u64;
    let limits = total(&of.side.totals, MigrationKind::Limits);
    let quotas = total(&of.side.totals, MigrationKind::Quotas);
    WORD_BYTES * (of.count_places.len() as u64 + queues + limits + quotas)
}

/// Returns the size of the old firewall's sums in bytes: totals of the log and counter statements.
pub fn sums_bytes(of: &Handover) -> u64 {
    let logs = total(&of.side.totals, MigrationKind::Logs);
    WORD_BYTES * (logs + 2 * total(&of.side.totals, MigrationKind::Counters))
}

/// Writes the states: counts, queues' counters, limits and quotas. Must be called after the workers have stopped.
/// - now_ns: time by the clock of the limits.
pub fn write_states(
    memory: &mut HandoverMemory,
    inner: &StateInner,
    now_ns: u64,
) -> Result<(), Errno> {
    for (count, _) in counts::ALL {
        handover::memory::append_number(memory, counts::get(count))?;
    }
    for worker in &inner.workers.all {
        let stalled = worker.shared.stalled.load(Ordering::Relaxed);
        handover::memory::append_number(memory, stalled)?;
        for word in stats::snapshot(&worker.shared.stats).words() {
            handover::memory::append_number(memory, *word)?;
        }
    }
    let Some(loaded) = inner.loaded.as_deref() else {
        return Ok(());
    };
    for (word, limit) in loaded.flow.limits.iter().zip(&loaded.compiled.limits) {
        let tokens = flow::limit_tokens(word, limit, now_ns);
        handover::memory::append_number(memory, tokens as u64)?;
    }
    for word in &loaded.flow.quotas {
        handover::memory::append_number(memory, word.0.load(Ordering::Relaxed))?;
    }
    Ok(())
}

/// Writes the sums: totals of the log and counter statements. Must be called after the workers have stopped.
pub fn write_sums(memory: &mut HandoverMemory, inner: &StateInner) -> Result<(), Errno> {
    let Some(loaded) = inner.loaded.as_deref() else {
        return Ok(());
    };
    let began = load::began(loaded);
    let workers = inner.workers.all.iter();
    let sources: Vec<_> = workers
        .filter_map(|worker| worker.source.as_ref())
        .collect();
    for (log, began) in (0..).zip(&began.logged) {
        let logged = sources
            .iter()
            .map(|source| flow::logged(&source.counters, log));
        handover::memory::append_number(memory, logged.fold(*began, u64::wrapping_add))?;
    }
    for (counter, began) in (0..).zip(&began.counters) {
        let mut sum = *began;
        for source in &sources {
            flow::sum(&source.counters, counter, &mut sum);
        }
        handover::memory::append_number(memory, sum.packets)?;
        handover::memory::append_number(memory, sum.bytes)?;
    }
    Ok(())
}

/// Decodes little-endian numbers of 64 bits.
fn words(bytes: &[u8]) -> impl Iterator<Item = u64> + '_ {
    let words = bytes.chunks_exact(WORD_BYTES as usize);
    words.map(|word| u64::from_le_bytes(word.try_into().unwrap_or_default()))
}

/// Parses counters from `words`, and stores each counter whose name this process knows in `ours`. Returns None if a
/// counter exceeds i64::MAX.
/// - places: index in `ours` of each counter; None if its name is unknown.
fn decode_known<'a>(
    words: &mut impl Iterator<Item = u64>,
    places: &[Option<usize>],
    ours: impl Iterator<Item = &'a mut u64>,
) -> Option<()> {
    let mut ours: Vec<_> = ours.collect();
    for (place, word) in places.iter().zip(words) {
        if word > i64::MAX as u64 {
            return None;
        }
        if let Some(our) = place.and_then(|place| ours.get_mut(place)) {
            **our = word;
        }
    }
    Some(())
}

/// Parses the states (counts, queues' counters, limits and quotas) into `taken`. Fails with the name of the invalid
/// part.
/// - bytes: the states; their length is `states_bytes`.
pub fn parse_states(bytes: &[u8], taken: &mut Handover) -> Result<(), &'static str> {
    let words = &mut words(bytes);
    decode_known(words, &taken.count_places, taken.counts.iter_mut()).ok_or("counts")?;
    for queue in &mut taken.queues {
        let stalled = [&mut queue.stalled];
        decode_known(words, &[Some(0)], stalled.into_iter()).ok_or("stalled")?;
        decode_known(words, &taken.stat_places, queue.stats.words_mut()).ok_or("stats")?;
    }
    let mut states = MigrationStates::default();
    for (size, tokens) in taken.side.limit_sizes.iter().zip(&mut *words) {
        let tokens = i64::try_from(tokens).ok();
        let tokens = tokens.filter(|tokens| tokens <= size);
        states.tokens.push(tokens.ok_or("limits")?);
    }
    for used in words {
        // A quota in a policy's text has at most this number of bytes, too.
        if used > i64::MAX as u64 {
            return Err("quotas");
        }
        states.used.push(used);
    }
    taken.states = states;
    Ok(())
}

/// Parses the sums. Returns the values of the counter statements, and the packets of the log statements. Every value is
/// valid.
/// - bytes: the sums; their length is `sums_bytes`.
pub fn parse_sums(bytes: &[u8], taken: &Handover) -> (Vec<FlowCounter>, Vec<u64>) {
    let mut words = words(bytes);
    let logs = total(&taken.side.totals, MigrationKind::Logs);
    let logged = words.by_ref().take(logs as usize).collect();
    let counters = total(&taken.side.totals, MigrationKind::Counters);
    let counter = |_| FlowCounter {
        packets: words.next().unwrap_or_default(),
        bytes: words.next().unwrap_or_default(),
    };
    ((0..counters).map(counter).collect(), logged)
}
