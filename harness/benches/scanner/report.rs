// SPDX-License-Identifier: GPL-2.0-or-later
//! The report: a table in Markdown, one row per workload and subject.

use harness::statistics::{interval_in_words, median_interval};

use super::subject::Run;
use super::Workload;

/// Returns the description of the machine, and the head of the table.
pub fn head(rounds: usize) -> String {
    let read = |file: &str| std::fs::read_to_string(file).unwrap_or_default();
    let load = read("/proc/loadavg");
    let cpus = std::thread::available_parallelism().map_or(0, |cpus| cpus.get());
    format!(
        "# Scanner\n\nLinux {}, {cpus} CPUs; load average at the start {}. Medians of interleaved rounds; a run is the whole \
         program, its start included. In brackets: {}.\n\n\
         | workload | subject | targets | targets/s | CPU us a target | system calls a target | open, of |\n\
         |---|---|---|---|---|---|---|\n",
        read("/proc/sys/kernel/osrelease").trim(),
        load.split(' ').next().unwrap_or("?"),
        interval_in_words(rounds),
    )
}

/// Returns the row of one subject, with the number of runs if some rounds failed.
pub fn row(workload: &Workload, subject: &str, runs: &[Run], rounds: usize) -> String {
    let rates: Vec<f64> = runs.iter().map(Run::rate).collect();
    let costs: Vec<f64> = runs.iter().map(Run::cost_us).collect();
    let calls = runs
        .iter()
        .find_map(|run| run.calls)
        .map_or("-".into(), |calls| format!("{calls:.3}"));
    let failed = match rounds - runs.len() {
        0 => String::new(),
        _ => format!(", {}", interval_in_words(runs.len())),
    };
    format!(
        "| {} | {subject}{failed} | {} | {} | {} | {calls} | {} of {} |\n",
        workload.name,
        runs[0].targets,
        with_interval(&rates, 0),
        with_interval(&costs, 1),
        range(runs.iter().map(|run| run.open)),
        workload.truth,
    )
}

/// Returns the median and its interval, e.g. `172794 (157184 to 220666)`.
fn with_interval(values: &[f64], decimals: usize) -> String {
    let interval = median_interval(values);
    format!(
        "{:.decimals$} ({:.decimals$} to {:.decimals$})",
        interval.estimate, interval.low, interval.high
    )
}

/// Returns the smallest and the largest count, e.g. `60776 to 64725`, or `65536` if they are equal.
fn range(counts: impl Iterator<Item = u64> + Clone) -> String {
    let low = counts.clone().min().unwrap_or(0);
    let high = counts.max().unwrap_or(0);
    match low == high {
        true => low.to_string(),
        false => format!("{low} to {high}"),
    }
}
