// SPDX-License-Identifier: GPL-2.0-or-later
//! A load in slices: all subjects run at the same time in separate namespaces, and one sender switches between them. A
//! round is one slice of each subject.
//!
//! A disturbance of the machine lasts longer than a slice, so it affects all subjects of a round and cancels out in the
//! ratio of two of them.

mod lane;
mod outcome;

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{anyhow, Context, Result};

use crate::experiment::{Slices, WARM_UP_ROUNDS};
use crate::interrupt;
use crate::load;
use crate::measure::Site;
use crate::runner::Metric;
use crate::schedule::{slice_order, Cell};
use crate::subject::Subject;

use lane::{Lane, Sending};
pub use outcome::{Slice, SlicedOutcome};

/// Number of consecutive failed slices of a subject after which the load fails, or the subject is omitted if it is
/// optional, because the cause is permanent.
const FAILURES_IN_A_ROW: u32 = 3;

/// Measures all subjects under a load. An interruption ends it; the slices so far are returned.
pub fn measure(
    site: &Site,
    subjects: &[Subject],
    cell: &Cell,
    slices: &Slices,
) -> Result<SlicedOutcome> {
    let lanes: Result<Vec<Lane>> = subjects
        .iter()
        .map(|subject| Lane::start(site, subject, cell).with_context(|| subject.name()))
        .collect();
    let mut lanes = lanes?;
    let mut outcome = SlicedOutcome::new(cell.workload, lanes.len());
    on_sender(|| {
        let mut sendings = Vec::new();
        for lane in &lanes {
            sendings.push(Sending::open(site, lane, cell).with_context(|| lane.name())?);
        }
        rounds(&mut sendings, slices, &mut outcome)?;
        for (index, sending) in sendings.iter().enumerate() {
            outcome.wholes[index].receiver_drops = sending.receiver_drops()?;
        }
        Ok(())
    })?;
    for (index, lane) in lanes.drain(..).enumerate() {
        let (name, optional) = (lane.name(), lane.is_optional());
        match lane.end(&mut outcome, index) {
            Err(error) if optional => outcome.incidents.push(format!("{name}: {error:#}")),
            ended => ended?,
        }
    }
    Ok(outcome)
}

/// Runs one subject under a load for the duration. Returns the number of packets that the kernel handed to the
/// subject's firewall; fails without a firewall.
/// - meanwhile: called with the lane (the subject and its namespaces) before the load starts.
pub fn run_one(
    site: &Site,
    subject: &Subject,
    cell: &Cell,
    duration: Duration,
    meanwhile: impl FnOnce(&Lane) -> Result<()>,
) -> Result<u64> {
    let lane = Lane::start(site, subject, cell)?;
    meanwhile(&lane)?;
    let packets = on_sender(|| {
        let mut sending = Sending::open(site, &lane, cell)?;
        let slice = sending.slice(Duration::ZERO, duration)?;
        slice.packets.context("there is no firewall to count")
    })?;
    lane.end(&mut SlicedOutcome::new(cell.workload, 1), 0)?;
    Ok(packets)
}

/// Runs `work` on a thread that is bound to the sender's CPU. The calling thread, which starts the subjects, has no
/// binding.
fn on_sender<T: Send>(work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    let bound = || {
        load::bind_sender()?;
        work()
    };
    let joined = thread::scope(|scope| scope.spawn(bound).join());
    joined.map_err(|_| anyhow!("the sender panicked"))?
}

fn rounds(sendings: &mut [Sending], slices: &Slices, outcome: &mut SlicedOutcome) -> Result<()> {
    let (start, most) = (
        Instant::now(),
        Duration::from_secs(slices.most_seconds.into()),
    );
    let mut failures_in_a_row = vec![0; sendings.len()];
    for number in 1..=slices.rounds + WARM_UP_ROUNDS {
        let counted = number.checked_sub(WARM_UP_ROUNDS).filter(|n| *n > 0);
        for (place, index) in slice_order(number, sendings.len(), slices.order).enumerate() {
            if failures_in_a_row[index] == FAILURES_IN_A_ROW {
                continue;
            }
            match sendings[index].slice(slices.settle(), slices.slice()) {
                Ok(slice) => {
                    failures_in_a_row[index] = 0;
                    if let Some(round) = counted {
                        outcome.add(round, place as u32 + 1, index, slice)?;
                    }
                }
                Err(_) if interrupt::interrupted() => return Ok(()),
                Err(error) => {
                    failures_in_a_row[index] += 1;
                    let name = sendings[index].name();
                    let what = format!("round {number}, {name}: {error:#}");
                    outcome.incidents.push(what);
                    if failures_in_a_row[index] < FAILURES_IN_A_ROW {
                        continue;
                    }
                    let words = format!("{name}: {FAILURES_IN_A_ROW} slices in a row failed");
                    if !sendings[index].is_optional() {
                        return Err(error.context(words));
                    }
                    outcome
                        .incidents
                        .push(format!("{words}: it is left out from here on"));
                }
            }
        }
        if interrupt::interrupted() {
            return Ok(());
        }
        outcome.rounds = counted.unwrap_or(0);
        if start.elapsed() > most && outcome.rounds > 0 {
            return Ok(());
        }
    }
    Ok(())
}

fn metric(name: &'static str, unit: &'static str, value: f64) -> Metric {
    Metric { name, unit, value }
}
