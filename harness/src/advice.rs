// SPDX-License-Identifier: GPL-2.0-or-later
//! Warnings about a result (noise, few rounds, growth) and the change that would improve the next run.

use crate::finding::noise_floor;
use crate::metadata::UNKNOWN;
use crate::results::Results;
use crate::statistics::Interval;
use crate::store::CellName;
use crate::summary::main_metric;

/// Number of rounds of loads without slices below which a result needs a warning.
const GOOD_ROUNDS: u32 = 9;
/// Number of rounds of loads in slices below which a result needs a warning.
const GOOD_SLICES: u32 = 100;
/// Noise floor above which a result needs a warning.
const HIGH_NOISE: f64 = 0.05;
/// Width of the baseline's interval, divided by its median, above which a result needs a warning.
const UNSTEADY_BASELINE: f64 = 0.1;

/// Returns the warnings about a result, each with its fix or its cause.
pub fn advice(results: &Results) -> Vec<String> {
    let metadata = &results.metadata;
    let mut advice = Vec::new();
    let sliced = results.summaries.iter().filter(|row| {
        let main = row.metric == main_metric(&row.workload);
        main && row.rounds > 0 && metadata.slices_of(&row.workload).is_some()
    });
    let slices = sliced.map(|row| row.rounds as u32).min();
    let mut warn = |words: String| advice.push(format!("warning: {words}"));
    if metadata.rounds_done < metadata.rounds {
        warn(format!(
            "only {} of {} rounds are there: go on with --resume",
            metadata.rounds_done, metadata.rounds
        ));
    }
    for (of, rounds, good) in [
        ("", metadata.rounds_done, GOOD_ROUNDS),
        (" of slices", slices.unwrap_or(0), GOOD_SLICES),
    ] {
        if (1..good).contains(&rounds) {
            warn(format!(
                "the intervals rest on only {rounds} rounds{of}: ask for {good} or more with --rounds"
            ));
        }
    }
    if metadata.ended.is_none() && slices.is_some() {
        warn(format!(
            "the run was interrupted, {} loads in slices are whole: go on with --resume",
            metadata.loads_done.len()
        ));
    }
    for (cell, floor) in worst_of_growths(high_noise(results)) {
        warn(format!(
            "two copies of the same differ by up to {:.1} % under {cell}: \
             close other programs, or ask for more rounds",
            100.0 * floor
        ));
    }
    for (cell, spread) in worst_of_growths(unsteady(results)) {
        warn(format!(
            "{} itself varies by {:.0} % under {cell}: \
             the machine was busy, or its CPUs are shared",
            metadata.baseline,
            100.0 * spread
        ));
    }
    match metadata.machine.governor.as_str() {
        UNKNOWN => warn(
            "the CPU governor is unknown (a virtual machine?): \
             the clock may have changed while measuring"
                .into(),
        ),
        "performance" => {}
        governor => warn(format!(
            "the CPU governor is {governor}: \
             set it to performance with `cpupower frequency-set -g performance`"
        )),
    }
    if metadata.source.dirty {
        warn(
            "the source had changes that are in no commit: \
             commit them, so that others can measure the same"
                .into(),
        );
    }
    if metadata.host {
        warn(
            "measured on the machine's own loopback: \
             its other rules and traffic are part of the result"
                .into(),
        );
    }
    advice
}

/// Returns the loads under which the two copies of one subject (the A/A pair) differ too much in the main metric, with
/// their noise floor.
fn high_noise(results: &Results) -> Vec<(CellName, f64)> {
    let copies = results
        .pairs
        .iter()
        .filter(|pair| pair.is_of_copies() && pair.metric == main_metric(&pair.workload));
    copies
        .filter_map(|pair| {
            let (low, high) = (pair.low?, pair.high?);
            let floor = noise_floor(Interval {
                estimate: pair.ratio?,
                low,
                high,
            });
            (floor > HIGH_NOISE).then(|| (pair.cell(), floor))
        })
        .collect()
}

/// Returns all loads without a policy, and the load with the largest value of those with a policy.
fn worst_of_growths(found: Vec<(CellName, f64)>) -> Vec<(CellName, f64)> {
    let (growing, mut kept): (Vec<_>, Vec<_>) = found
        .into_iter()
        .partition(|(cell, _)| cell.policy.is_some());
    kept.extend(growing.into_iter().max_by(|a, b| a.1.total_cmp(&b.1)));
    kept
}

/// Returns the loads under which the baseline's interval is wide, with its width divided by the median.
fn unsteady(results: &Results) -> Vec<(CellName, f64)> {
    let baselines = results.summaries.iter().filter(|summary| {
        summary.subject == results.metadata.baseline
            && summary.metric == main_metric(&summary.workload)
    });
    baselines
        .filter_map(|row| {
            let spread = (row.high - row.low) / row.median;
            (spread > UNSTEADY_BASELINE).then(|| (row.cell(), spread))
        })
        .collect()
}
