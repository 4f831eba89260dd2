// SPDX-License-Identifier: GPL-2.0-or-later
//! Writes the results: report.md with a table, curves.csv with each measurement, and confirmed.svg.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::Context;

use super::measure::{Point, Push};
use super::traffic::Count;

/// Measurements of idle agents.
pub struct Rest {
    pub wakes_a_second: f64,
    /// Largest resident memory of an agent, in MB.
    pub memory_mb: f64,
}

/// Results for one size of a fleet.
pub struct Run {
    pub name: String,
    pub hosts: usize,
    /// Seconds until all hosts were alive, i.e. had a lease in etcd.
    pub started: f64,
    pub pushes: Vec<Push>,
    /// Seconds for which each wave was observed (--observe).
    pub observed: f64,
    pub etcd_mb: f64,
    /// Growth of etcd's database per push and host in bytes, before a compaction.
    pub bytes_a_push: u64,
    /// Bytes of etcd's compacted database per host, at the end.
    pub bytes_at_rest: u64,
    /// Number of hosts that `fwctl fleet status` does not list.
    pub unknown: usize,
    /// Longest time in seconds for which a canary (host of the first wave) had a policy that cut it off. None: not
    /// measured, because the agents have no firewalls.
    pub canary: Option<f64>,
    pub traffic: Option<Count>,
    pub rest: Option<Rest>,
}

/// Returns the push that the figure shows: the one with the median duration, the shorter of two in the middle.
fn middle(run: &Run) -> Option<&Push> {
    let mut pushes: Vec<&Push> = run.pushes.iter().collect();
    pushes.sort_by(|a, b| a.seconds.total_cmp(&b.seconds));
    pushes.get(pushes.len().saturating_sub(1) / 2).copied()
}

/// Returns the median of a value of the pushes: of an even number the mean of the two in the middle.
fn median(run: &Run, value: impl Fn(&Push) -> f64) -> f64 {
    let mut values: Vec<f64> = run.pushes.iter().map(value).collect();
    values.sort_by(f64::total_cmp);
    let at = |index: usize| values.get(index).copied().unwrap_or(f64::NAN);
    let count = values.len();
    (at(count.saturating_sub(1) / 2) + at(count / 2)) / 2.0
}

fn waves(push: &Push) -> usize {
    push.curve.iter().map(|point| point.wave).max().unwrap_or(1)
}

/// Returns the duration of a push in seconds, without the observation of its waves.
fn without_observing(run: &Run, push: &Push) -> f64 {
    push.seconds - run.observed * waves(push) as f64
}

fn table(runs: &[Run]) -> String {
    let mut text = String::from(
        "| fleet | all there | pushes | push to all confirmed, median (longest) | without watching | etcd: CPU a push | memory | database, bytes a host and push | at rest, bytes a host | canary back after at most | datagrams lost through queues, and past them | hosts unknown to `status` | agent: wake-ups a second | memory |\n|---|---|---|---|---|---|---|---|---|---|---|---|---|---|\n",
    );
    for run in runs {
        let longest = run.pushes.iter().map(|one| one.seconds).fold(0.0, f64::max);
        let or_none = |text: Option<String>| text.unwrap_or("–".to_owned());
        let _ = writeln!(
            text,
            "| {} | {:.1} s | {} | {:.1} s ({longest:.1} s) | {:.1} s | {:.1} s | {:.0} MB | {} | {} | {} | {} | {} | {} | {} |",
            run.name,
            run.started,
            run.pushes.len(),
            median(run, |push| push.seconds),
            median(run, |push| without_observing(run, push)),
            median(run, |push| push.etcd_cpu),
            run.etcd_mb,
            run.bytes_a_push,
            run.bytes_at_rest,
            or_none(run.canary.map(|seconds| format!("{seconds:.1} s"))),
            or_none(run.traffic.as_ref().map(|count| format!(
                "{} and {} of {}",
                count.lost[0], count.lost[1], count.sent
            ))),
            run.unknown,
            or_none(run.rest.as_ref().map(|rest| format!("{:.2}", rest.wakes_a_second))),
            or_none(run.rest.as_ref().map(|rest| format!("{:.1} MB", rest.memory_mb))),
        );
    }
    text
}

const WIDTH: f64 = 900.0;
const HEIGHT: f64 = 420.0;
const LEFT: f64 = 70.0;
const TOP: f64 = 50.0;
const BOTTOM: f64 = 60.0;
/// Width of the figure's right margin, with the names of the plotted lines, in SVG units.
const RIGHT: f64 = 230.0;
const COLOURS: [&str; 4] = ["#0072b2", "#d55e00", "#009e73", "#cc79a7"];

/// Returns the SVG line of a run's median push: share of confirmed hosts over time, with a dot at the start of each
/// wave.
/// - number: index of the run, for its colour and the row of its name.
/// - longest: length of the time axis in seconds.
fn line(run: &Run, number: usize, longest: f64) -> String {
    let colour = COLOURS[number % COLOURS.len()];
    let x = |seconds: f64| LEFT + seconds / longest * (WIDTH - LEFT - RIGHT);
    let y = |confirmed: usize| {
        let share = confirmed as f64 / run.hosts as f64;
        HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM)
    };
    let Some(push) = middle(run) else {
        return String::new();
    };
    let points = push
        .curve
        .iter()
        .map(|point| format!("{:.1},{:.1}", x(point.seconds), y(point.confirmed)));
    let points: Vec<String> = points.collect();
    let mut text = format!(
        "<polyline points=\"{:.1},{:.1} {}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>\n",
        x(0.0), y(0), points.join(" ")
    );
    for wave in 1..=waves(push) {
        let begin: Option<&Point> = push.curve.iter().find(|point| point.wave >= wave);
        if let Some(point) = begin {
            let (x, y) = (x(point.seconds), y(point.confirmed));
            let _ = writeln!(text, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"5\" fill=\"{colour}\"/><text x=\"{:.1}\" y=\"{:.1}\" font-size=\"11\" fill=\"{colour}\">{wave}</text>", x + 6.0, y - 6.0);
        }
    }
    let (x, y) = (WIDTH - RIGHT + 20.0, TOP + 20.0 * number as f64 + 10.0);
    let _ = writeln!(
        text,
        "<text x=\"{x}\" y=\"{y}\" font-size=\"13\" fill=\"{colour}\">{}</text>",
        run.name
    );
    text
}

fn figure(runs: &[Run]) -> String {
    let longest = runs
        .iter()
        .filter_map(middle)
        .map(|push| push.seconds)
        .fold(1.0, f64::max);
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" font-family=\"sans-serif\">\n\
         <rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"white\"/>\n\
         <text x=\"{LEFT}\" y=\"28\" font-size=\"16\">A push: share of hosts that have confirmed, over time; a dot begins a wave</text>\n"
    );
    let bottom = HEIGHT - BOTTOM;
    for percent in [0, 25, 50, 75, 100] {
        let y = bottom - f64::from(percent) / 100.0 * (bottom - TOP);
        let _ = writeln!(text, "<line x1=\"{LEFT}\" y1=\"{y:.1}\" x2=\"{:.1}\" y2=\"{y:.1}\" stroke=\"#ddd\"/><text x=\"{:.1}\" y=\"{:.1}\" font-size=\"12\" text-anchor=\"end\">{percent} %</text>", WIDTH - RIGHT, LEFT - 8.0, y + 4.0);
    }
    for step in 0..=5 {
        let seconds = longest * f64::from(step) / 5.0;
        let x = LEFT + f64::from(step) / 5.0 * (WIDTH - LEFT - RIGHT);
        let _ = writeln!(text, "<text x=\"{x:.1}\" y=\"{:.1}\" font-size=\"12\" text-anchor=\"middle\">{seconds:.0} s</text>", bottom + 20.0);
    }
    for (number, run) in runs.iter().enumerate() {
        text += &line(run, number, longest);
    }
    text + "</svg>\n"
}

fn curves(runs: &[Run]) -> String {
    let mut text = String::from("hosts,push,seconds,confirmed,wave\n");
    for run in runs {
        for (number, push) in run.pushes.iter().enumerate() {
            for point in &push.curve {
                let _ = writeln!(
                    text,
                    "{},{},{:.2},{},{}",
                    run.hosts,
                    number + 1,
                    point.seconds,
                    point.confirmed,
                    point.wave
                );
            }
        }
    }
    text
}

/// Returns a sentence on the machine: processors, kernel, and load averages at the end.
fn machine() -> String {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let kernel = read("/proc/sys/kernel/osrelease");
    let load = read("/proc/loadavg");
    let load: Vec<&str> = load.split(' ').take(3).collect();
    let count = std::thread::available_parallelism().map_or(0, |count| count.get());
    format!(
        "{count} processors for all hosts together, kernel {}; load averages at the end {}.",
        kernel.trim(),
        load.join(", ")
    )
}

/// Writes the report's files into a folder, and the table to stdout.
pub fn write(folder: &Path, runs: &[Run]) -> anyhow::Result<()> {
    fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    let table = table(runs);
    println!("{table}");
    let report = format!(
        "# A fleet at its full size\n\n`make fleet-test` wrote this: real etcd with logins, agents, root's services; each host in a namespace. etcd and the operator's fwctl get the CPU first (nice -20): in a fleet they have machines of their own. {}\n\n{table}\n![hosts confirmed over time](confirmed.svg)\n\nThe figure shows the median push of each size; [curves.csv](curves.csv) has all.\n",
        machine()
    );
    for (name, text) in [
        ("report.md", report),
        ("curves.csv", curves(runs)),
        ("confirmed.svg", figure(runs)),
    ] {
        fs::write(folder.join(name), text).with_context(|| name.to_owned())?;
    }
    Ok(())
}
