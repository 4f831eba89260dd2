// SPDX-License-Identifier: GPL-2.0-or-later
//! Experiments of kind `capture`: a subject is a ring of capture, read as in a published experiment (capture/README.md):
//! every byte is hashed, and each tenth packet is followed by a delay. Frames of 700 to 1500 bytes come by a veth pair, from
//! the first CPU; the reader has the last.

use std::path::Path;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Barrier;
use std::thread::{self, ScopedJoinHandle};

use anyhow::{bail, ensure, Context, Result};
use serde::Deserialize;

use crate::interrupt;
use crate::load::{self, FramesArguments};
use crate::runner::{Metric, Outcome, Place, Workload};
use crate::schedule::Cell;
use crate::subject::Subject;

/// Frames a second, where their size is a delay's factor.
const PACE: u32 = 150_000;
/// The same for frames of one size that are written to a file, and beside a neighbour.
const SLOW_PACE: u32 = 100_000;
/// Each so many packets are followed by a delay.
const EVERY: u32 = 10;
const LEAST_BYTES: usize = 700;
const MOST_BYTES: usize = 1500;
/// MiB
const RING: usize = 64;

/// A line of `capture bench --json`.
#[derive(Debug, Deserialize)]
struct Row {
    seconds: f64,
    kernel: u64,
    taken: u64,
    lost: f64,
    foretold: Option<f64>,
    hash_ns: f64,
    delay_ns: f64,
}

/// The last line, of the model.
#[derive(Debug, Deserialize)]
struct Modelled {
    misses_a_packet: f64,
}

/// What comes in a load.
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

/// The reader's command line.
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
    let rest = format!(
        "--ring {ring}M --delay {delay} --every {EVERY} --seconds {seconds} --model --json"
    );
    words.extend(rest.split(' ').map(str::to_string));
    Ok(words)
}

/// The sender's command line, as a person would give it.
pub fn sender_words(cell: &Cell, seconds: u32) -> String {
    let asked = frames(cell);
    let (least, most) = (asked.sizes.start(), asked.sizes.end());
    let rate = asked.rate;
    format!("build/harness load frames --interface veth --rate {rate} --sizes {least}-{most} --seconds {seconds}")
}

/// Runs the reader while frames come, from the place's client.
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
        let sending = scope.spawn(|| {
            place.client.enter(|| {
                load::bind_sender()?;
                load::send(&asked, &|| ended.load(Ordering::Relaxed))
            })
        });
        // What a thread starts has its CPU.
        let reading = scope.spawn(|| {
            load::bind_server()?;
            command.output().context("capture")
        });
        let output = reading.join();
        ended.store(true, Ordering::Relaxed);
        let beside = beside.map(ScopedJoinHandle::join).transpose();
        (output, sending.join(), beside)
    });
    interrupt::check()?;
    let (Ok(output), Ok(sent), Ok(beside)) = (output, sent, beside) else {
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
    Ok(outcome)
}

fn outcome(text: &str) -> Result<Outcome> {
    let mut lines = text.lines();
    let row: Row = serde_json::from_str(lines.next().context("it printed nothing")?)?;
    let model: Modelled = serde_json::from_str(lines.next().context("it printed no model")?)?;
    ensure!(row.taken > 0, "no packet was read");
    let percent = |part: f64| 100.0 * part;
    let mut metrics = vec![
        metric("lost_percent", "%", percent(row.lost)),
        metric(
            "delivered_rate",
            "kpps",
            row.taken as f64 / row.seconds / 1e3,
        ),
        metric(
            "offered_rate",
            "kpps",
            row.kernel as f64 / row.seconds / 1e3,
        ),
        metric("cost", "ns", row.hash_ns),
        metric("delay", "us", row.delay_ns / 1e3),
        metric("model_tlb_misses", "a packet", model.misses_a_packet),
    ];
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
    }
}
