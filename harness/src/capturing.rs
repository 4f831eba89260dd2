// SPDX-License-Identifier: GPL-2.0-or-later
//! Experiments of kind `capture`: the subject is a packet ring of capture, read as in a published experiment
//! (capture-lab/README.md). The reader hashes every byte; under `frames-delayed` it also computes after each tenth
//! packet, for a time that the load's size determines. Frames arrive over a veth pair; the sender runs on the first
//! CPU, the reader on the last.

use std::path::Path;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Barrier;
use std::thread::{self, ScopedJoinHandle};

use anyhow::{bail, ensure, Context, Result};
use serde::Deserialize;

use crate::interrupt;
use crate::load::{self, FramesArguments, Sent};
use crate::runner::{Metric, Outcome, Place, Workload};
use crate::schedule::Cell;
use crate::subject::Subject;

/// Frames per second in the load `frames-delayed`.
const PACE: u32 = 150_000;
/// Frames per second in the loads `frames-file-paced` (frames of a single size that are written to a file) and
/// `frames-neighbour` (with a program on the reader's CPU that accesses memory).
const SLOW_PACE: u32 = 100_000;
/// Number of packets that the reader reads between two of its delays.
const EVERY: u32 = 10;
const LEAST_BYTES: usize = 700;
const MOST_BYTES: usize = 1500;
/// Size of the ring in MiB, except under the load `frames-ring`.
const RING: usize = 64;

/// First output line of `capture-lab bench --json`: packets, losses and times of the reader.
#[derive(Debug, Deserialize)]
struct Row {
    seconds: f64,
    kernel: u64,
    taken: u64,
    lost: f64,
    foretold: Option<f64>,
    hash_ns: f64,
    delay_ns: f64,
    /// TLB misses of each processor; None if they were not requested, or if this machine can't count them.
    tlb_misses: Option<Vec<Misses>>,
}

/// TLB misses that one processor counted. Some processors count no stores: their number is then 0.
#[derive(Debug, Deserialize)]
struct Misses {
    user_loads: u64,
    #[serde(default)]
    user_stores: u64,
    kernel_loads: u64,
    #[serde(default)]
    kernel_stores: u64,
}

/// Last output line of `capture-lab bench --json`: the result of the TLB model, if it was requested.
#[derive(Debug, Deserialize)]
struct Modelled {
    misses_a_packet: f64,
}

/// Returns the sender's arguments for a load: interface, frame rate (0: as fast as possible) and frame sizes. `seconds`
/// is not used.
pub fn frames(cell: &Cell) -> FramesArguments {
    let size = cell.payload_bytes;
    let (rate, sizes) = match cell.workload {
        Workload::FramesDelayed => (PACE, LEAST_BYTES..=MOST_BYTES),
        Workload::FramesRing => (0, LEAST_BYTES..=MOST_BYTES),
        Workload::FramesNeighbour => (SLOW_PACE, LEAST_BYTES..=size),
        Workload::FramesFilePaced => (SLOW_PACE, size..=size),
        _ => (0, LEAST_BYTES..=size),
    };
    FramesArguments {
        interface: "veth".into(),
        rate,
        sizes,
        seconds: 0,
    }
}

/// Returns true if the load compares page sizes. TLB misses are then modelled, and counted where the machine allows.
fn asks_for_pages(workload: Workload) -> bool {
    matches!(workload, Workload::Frames | Workload::FramesNeighbour)
}

/// Returns the reader's command line.
pub fn words(bin_dir: &Path, subject: &Subject, cell: &Cell, seconds: u32) -> Result<Vec<String>> {
    let program = subject.program(bin_dir).context("a program")?;
    let delay = match cell.workload {
        Workload::FramesDelayed => cell.payload_bytes,
        _ => 0,
    };
    let ring = match cell.workload {
        Workload::FramesRing => cell.payload_bytes,
        _ => RING,
    };
    let mut words = vec![program.display().to_string()];
    words.extend(["bench", "-i", "veth"].map(str::to_string));
    words.extend(subject.ring_words());
    let tlb = match asks_for_pages(cell.workload) {
        true => "--tlb --model ",
        false => "",
    };
    let rest =
        format!("--ring {ring}M --delay {delay} --every {EVERY} --seconds {seconds} {tlb}--json");
    words.extend(rest.split(' ').map(str::to_string));
    Ok(words)
}

/// Returns the sender's command line, for display.
pub fn sender_words(cell: &Cell, seconds: u32) -> String {
    let asked = frames(cell);
    let (least, most) = (asked.sizes.start(), asked.sizes.end());
    let rate = asked.rate;
    format!("build/harness load frames --interface veth --rate {rate} --sizes {least}-{most} --seconds {seconds}")
}

/// Runs `work` on a separate thread, so that a CPU binding by `work` ends with the thread.
fn apart<T: Send>(work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    let ended = thread::scope(|scope| scope.spawn(work).join());
    ended.unwrap_or_else(|_| bail!("a thread panicked"))
}

/// Runs `work` on the reader's CPU. Programs that `work` starts in a namespace inherit that CPU and end with the
/// thread.
pub fn at_reader<T: Send>(work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    apart(|| {
        load::bind_server()?;
        work()
    })
}

/// Sends frames from the client's namespace, on the sender's CPU, until `over` returns true.
pub fn send(
    place: &Place,
    asked: &FramesArguments,
    over: &(dyn Fn() -> bool + Sync),
) -> Result<Sent> {
    apart(|| {
        place.client.enter(|| {
            load::bind_sender()?;
            load::send(asked, over)
        })
    })
}

/// Runs the reader in the server's namespace while frames arrive from the client's namespace.
pub fn measure(
    bin_dir: &Path,
    place: &Place,
    subject: &Subject,
    cell: &Cell,
    seconds: u32,
) -> Result<Outcome> {
    let words = words(bin_dir, subject, cell, seconds)?;
    let mut command = place.server.command(&words[0]);
    command.args(&words[1..]).stdin(Stdio::null());
    let asked = frames(cell);
    let ended = AtomicBool::new(false);
    let has_neighbour = cell.workload == Workload::FramesNeighbour;
    let alone = Barrier::new(2);
    let (output, sent, beside) = thread::scope(|scope| {
        let beside = has_neighbour.then(|| {
            let beside = scope.spawn(|| load::neighbour(&ended, &alone));
            alone.wait();
            beside
        });
        let sending = scope.spawn(|| send(place, &asked, &|| ended.load(Ordering::Relaxed)));
        let output = at_reader(|| command.output().context("capture-lab"));
        ended.store(true, Ordering::Relaxed);
        let beside = beside.map(ScopedJoinHandle::join).transpose();
        (output, sending.join(), beside)
    });
    interrupt::check()?;
    let (Ok(sent), Ok(beside)) = (sent, beside) else {
        bail!("a thread panicked");
    };
    let (output, sent) = (output?, sent?);
    ensure!(
        output.status.success(),
        "{subject}: {}",
        String::from_utf8_lossy(&output.stderr).trim()
    );
    let text = String::from_utf8(output.stdout)?;
    let mut outcome = outcome(&text).with_context(|| text.clone())?;
    let rate = sent.frames as f64 / sent.seconds;
    outcome
        .metrics
        .push(metric("sent_rate", "kpps", rate / 1e3));
    if let Some(touches) = beside.transpose()? {
        outcome
            .metrics
            .push(metric("touch", "ns", touches.beside_ns));
        outcome
            .metrics
            .push(metric("touch_alone", "ns", touches.alone_ns));
    }
    outcome.raw.push(("bench.jsonl".into(), text));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    outcome
        .raw
        .extend((!said.is_empty()).then(|| ("bench.txt".into(), said)));
    Ok(outcome)
}

fn outcome(text: &str) -> Result<Outcome> {
    let mut lines = text.lines();
    let row: Row = serde_json::from_str(lines.next().context("it printed nothing")?)?;
    ensure!(row.taken > 0, "no packet was read");
    let taken = row.taken as f64;
    let percent = |part: f64| 100.0 * part;
    let mut metrics = vec![
        metric("lost_percent", "%", percent(row.lost)),
        metric("delivered_rate", "kpps", taken / row.seconds / 1e3),
        metric(
            "offered_rate",
            "kpps",
            row.kernel as f64 / row.seconds / 1e3,
        ),
        metric("cost", "ns", row.hash_ns),
        metric("delay", "us", row.delay_ns / 1e3),
    ];
    if let Some(line) = lines.next() {
        let model: Modelled = serde_json::from_str(line)?;
        metrics.push(metric(
            "model_tlb_misses",
            "a packet",
            model.misses_a_packet,
        ));
    }
    if let Some(all) = &row.tlb_misses {
        let user: u64 = all.iter().map(|one| one.user_loads + one.user_stores).sum();
        let kernel: u64 = all
            .iter()
            .map(|one| one.kernel_loads + one.kernel_stores)
            .sum();
        metrics.push(metric("tlb_misses_user", "a packet", user as f64 / taken));
        metrics.push(metric(
            "tlb_misses_kernel",
            "a packet",
            kernel as f64 / taken,
        ));
    }
    if let Some(foretold) = row.foretold {
        metrics.push(metric("foretold", "%", percent(foretold)));
    }
    Ok(Outcome {
        metrics,
        ..Outcome::default()
    })
}

pub fn metric(name: &'static str, unit: &'static str, value: f64) -> Metric {
    Metric { name, unit, value }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_capture_prints_is_read() {
        let text = r#"{"delay":20,"every":10,"seconds":2.0,"kernel":300000,"drops":3000,"taken":290000,"bytes":1,"lost":0.01,"foretold":null,"hash_ns":260.5,"delay_ns":19000.0}
{"model":"tlb","first":64,"second":2048,"sizes_known":false,"page_bytes":4096,"packets":9,"misses_a_packet":0.3}
"#;
        let outcome = outcome(text).unwrap();
        let value = |name| {
            outcome
                .metrics
                .iter()
                .find(|m| m.name == name)
                .map(|m| m.value)
        };
        assert_eq!(value("lost_percent"), Some(1.0));
        assert_eq!(value("delivered_rate"), Some(145.0));
        assert_eq!(value("offered_rate"), Some(150.0));
        assert_eq!(value("delay"), Some(19.0));
        assert_eq!(value("model_tlb_misses"), Some(0.3));
        assert_eq!(value("foretold"), None);
        assert_eq!(value("tlb_misses_user"), None);
    }

    #[test]
    fn misses_are_those_of_all_processors() {
        let text = r#"{"seconds":1.0,"kernel":100,"taken":100,"lost":0.0,"foretold":0.0,"hash_ns":1.0,"delay_ns":0.0,"tlb_misses":
[{"cpu":0,"user_loads":1,"user_stores":2,"kernel_loads":30,"kernel_stores":40},{"cpu":1,"user_loads":50,"kernel_loads":0}]}"#;
        let outcome = outcome(&text.replace('\n', "")).unwrap();
        let value = |name| {
            let mut metrics = outcome.metrics.iter();
            metrics.find(|m| m.name == name).map(|m| m.value)
        };
        assert_eq!(value("tlb_misses_user"), Some(0.53));
        assert_eq!(value("tlb_misses_kernel"), Some(0.7));
        assert_eq!(value("model_tlb_misses"), None);
    }
}
