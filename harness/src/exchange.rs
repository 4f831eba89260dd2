// SPDX-License-Identifier: GPL-2.0-or-later
//! Experiments of kind `exchange`: the subject is a program that exchanges messages with the kernel or with another
//! process. The program accepts an operation, a size and a count, and prints one JSON object (kernel/README.md).
//!
//! On this machine the harness measures time and CPU, with all processes of a subject on one processor. The scheduler's
//! placement of two communicating processes changes the cost of an exchange tenfold and varies during a run.
//!
//! A program that runs commands on their way to the network (harness/cage/way) runs on all processors. It chooses the
//! number of commands and measures their time itself; their CPU time is not measured.
//!
//! In a virtual machine that counts instructions (kernel/lab), all subjects run under all loads one after another in
//! one boot per round. Loads with their own number of rounds have a separate boot.

use std::collections::{BTreeMap, VecDeque};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{bail, ensure, Context, Result};
use serde::Deserialize;

use crate::experiment::Route;
use crate::interrupt;
use crate::load::bind_sender;
use crate::runner::{Metric, Outcome, Workload};
use crate::schedule::Cell;
use crate::subject::Subject;

/// Number of exchanges of the trial run, which estimates how many exchanges fit into the time.
const TRIAL: u64 = 50;
/// Exchanges of the shorter run under strace; the longer run has three times as many.
const COUNTED: u64 = 100;
/// Factor by which a run may exceed its planned time.
const PATIENCE: u32 = 20;

/// Result that a program of exchanges prints: the number of exchanges, the wall and CPU time of all exchanges together,
/// and percentiles of the time of one exchange. In the virtual machine, `wall_ns` is a number of instructions. For
/// commands it is their number times their median time.
#[derive(Clone, Debug, Deserialize)]
struct Printed {
    count: u64,
    wall_ns: u64,
    /// CPU time of all exchanges together. None for rings, of which only instructions are measured, and for commands on
    /// their way to the network.
    cpu_ns: Option<u64>,
    #[serde(default)]
    percentiles_ns: Vec<(f64, f64)>,
    ring: Option<Ring>,
}

/// Costs of a packet ring in the output of `capture-lab cost`: the kernel's and the reader's part of `wall_ns`
/// (instructions in the virtual machine), and the two sides of the ring.
#[derive(Clone, Debug, Deserialize)]
struct Ring {
    kernel_ns: u64,
    reader_ns: u64,
    /// Kernel's side; None if the kernel does not report it.
    kernel: Option<Side>,
    program: Side,
}

/// One side of a ring (kernel or program): its page-table entries, and the TLB misses per packet that a model predicts.
#[derive(Clone, Debug, Deserialize)]
struct Side {
    entries: u64,
    model_tlb_misses: f64,
}

impl Ring {
    fn metrics(&self, packets: u64) -> Vec<Metric> {
        let each = |ns: u64| ns as f64 / packets as f64;
        let Side {
            entries,
            model_tlb_misses,
        } = self.program;
        let mut metrics = vec![
            metric("kernel_part", "instructions", each(self.kernel_ns)),
            metric("reader_part", "instructions", each(self.reader_ns)),
            metric("program_entries", "entries", entries as f64),
            metric("model_tlb_misses", "a packet", model_tlb_misses),
        ];
        if let Some(kernel) = &self.kernel {
            let misses = kernel.model_tlb_misses;
            metrics.push(metric("kernel_entries", "entries", kernel.entries as f64));
            metrics.push(metric("model_kernel_tlb_misses", "a packet", misses));
        }
        metrics
    }
}

/// Results of the virtual machine that `measure` has not returned yet, by subject and load.
type Told = BTreeMap<(String, String), VecDeque<Printed>>;

/// State shared by all runs of an experiment of exchanges.
pub struct Exchanges {
    root: PathBuf,
    bin_dir: PathBuf,
    /// All pairs of a subject and a load that runs in the virtual machine.
    pairs: Vec<(Subject, Cell)>,
    told: Mutex<Told>,
    /// Number of boots so far, by the number of rounds of the loads that a boot measures (None: loads without their own
    /// number).
    boots: Mutex<BTreeMap<Option<u32>, usize>>,
}

impl Exchanges {
    pub fn new(root: &Path, bin_dir: &Path, subjects: &[Subject], cells: &[Cell]) -> Exchanges {
        let counted = cells.iter().filter(|cell| cell.route == Route::Vm);
        let pair = |cell: &Cell| {
            let cell = cell.clone();
            let subjects = subjects.iter().cloned();
            subjects.map(move |subject| (subject, cell.clone()))
        };
        Exchanges {
            root: root.into(),
            bin_dir: bin_dir.into(),
            pairs: counted.flat_map(pair).collect(),
            told: Mutex::default(),
            boots: Mutex::default(),
        }
    }

    pub fn measure(&self, subject: &Subject, cell: &Cell, seconds: u32) -> Result<Outcome> {
        match cell.route {
            _ if subject.is_way() => self.commands(subject, cell),
            Route::Vm => self.instructions(subject, cell),
            _ => self.time(subject, cell, seconds),
        }
    }

    /// Runs a program that times commands, such as the start of a command in a cage or its download. Returns the
    /// commands' median time under the name `mean`: the program prints their number times their median.
    fn commands(&self, subject: &Subject, cell: &Cell) -> Result<Outcome> {
        let words = self.words(subject, cell, 0, false)?;
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).stdin(Stdio::null());
        let output = command.output().context(words[0].clone())?;
        interrupt::check()?;
        let printed = printed(&output, subject)?;
        let milliseconds = printed.wall_ns as f64 / printed.count as f64 / 1e6;
        Ok(Outcome {
            metrics: vec![metric("mean", "ms", milliseconds)],
            ..Outcome::default()
        })
    }

    /// Measures exchanges for about `seconds`, after a short trial that estimates their duration. The program runs the
    /// same number of exchanges twice: first timed as a whole, then each exchange timed separately.
    fn time(&self, subject: &Subject, cell: &Cell, seconds: u32) -> Result<Outcome> {
        let limit = Duration::from_secs(seconds.into()) * PATIENCE;
        let begun = Instant::now();
        let trial = self.run(subject, cell, TRIAL, false, limit)?;
        // The program measures only a part of a timer's exchange, so the trial's whole duration is used.
        let trial_ns = match cell.workload {
            Workload::Timer => begun.elapsed().as_nanos() as u64,
            _ => trial.wall_ns,
        };
        let each_ns = (trial_ns / TRIAL).max(1);
        let count = (u64::from(seconds) * 1_000_000_000 / 2 / each_ns).max(TRIAL);
        let printed = self.run(subject, cell, count, true, limit)?;
        let us = |ns: f64| ns / 1000.0;
        let percentiles: Vec<(f64, f64)> = printed
            .percentiles_ns
            .iter()
            .map(|(percent, ns)| (*percent, us(*ns)))
            .collect();
        let at = |wanted: f64| {
            percentiles
                .iter()
                .find(|row| row.0 == wanted)
                .map(|row| row.1)
        };
        let exchanges = printed.count as f64;
        let cpu_ns = printed.cpu_ns.context("it printed no cpu_ns")?;
        let mut metrics = vec![
            metric("cost", "us", us(cpu_ns as f64 / exchanges)),
            metric("mean", "us", us(printed.wall_ns as f64 / exchanges)),
        ];
        for (name, percent) in [("p50", 50.0), ("p99", 99.0)] {
            metrics.push(metric(name, "us", at(percent).context("percentiles")?));
        }
        Ok(Outcome {
            metrics,
            percentiles,
            ..Outcome::default()
        })
    }

    /// Returns the virtual machine's next output for this subject and load. Boots the machine first if no output is
    /// left.
    fn instructions(&self, subject: &Subject, cell: &Cell) -> Result<Outcome> {
        let key = (subject.name(), cell.name().to_string());
        let next = || lock(&self.told).get_mut(&key)?.pop_front();
        let printed = match next() {
            Some(printed) => printed,
            None => {
                self.boot(cell.rounds)?;
                next().context("the machine did not tell of it")?
            }
        };
        let instructions = printed.wall_ns as f64 / printed.count as f64;
        let mut metrics = vec![metric("cost", "instructions", instructions)];
        let ring = printed.ring.iter();
        metrics.extend(ring.flat_map(|ring| ring.metrics(printed.count)));
        Ok(Outcome {
            metrics,
            ..Outcome::default()
        })
    }

    /// Boots the machine once for all pairs of subject and load with this number of rounds. Their order rotates with
    /// each boot.
    /// - rounds: the loads' own number of rounds. None: loads without their own number.
    fn boot(&self, rounds: Option<u32>) -> Result<()> {
        let pairs = self.pairs.iter().filter(|pair| pair.1.rounds == rounds);
        let mut pairs: Vec<&(Subject, Cell)> = pairs.collect();
        let mut boots = lock(&self.boots);
        let boots = boots.entry(rounds).or_default();
        let first = *boots % pairs.len().max(1);
        pairs.rotate_left(first);
        *boots += 1;
        let lines = pairs.iter().map(|(subject, cell)| {
            let (program, bytes) = (subject.base(), cell.payload_bytes);
            format!("{program} {} {bytes}\n", cell.workload)
        });
        let list = std::env::temp_dir().join(format!("twinwall-exchanges-{}", std::process::id()));
        fs::write(&list, lines.collect::<String>())?;
        let output = Command::new(self.root.join("kernel/lab"))
            .arg(&list)
            .stdin(Stdio::null())
            .output();
        fs::remove_file(&list)?;
        let output = output.context("kernel/lab")?;
        interrupt::check()?;
        ensure!(
            output.status.success(),
            "kernel/lab: {}",
            String::from_utf8_lossy(&output.stderr).trim()
        );
        let text = String::from_utf8(output.stdout)?;
        let lines: Vec<&str> = text.lines().collect();
        ensure!(
            lines.len() == pairs.len(),
            "kernel/lab reported {} of {} exchanges",
            lines.len(),
            pairs.len()
        );
        for (line, (subject, cell)) in lines.into_iter().zip(pairs) {
            let object = line.strip_prefix(&format!("{} ", subject.base()));
            let object = object.with_context(|| line.to_string())?;
            let printed: Printed =
                serde_json::from_str(object).with_context(|| object.to_string())?;
            let key = (subject.name(), cell.name().to_string());
            lock(&self.told).entry(key).or_default().push_back(printed);
        }
        Ok(())
    }

    /// Returns the system calls per exchange at both ends: the count of a long run minus that of a short run, which
    /// cancels out the program's start and end.
    pub fn count_calls(&self, subject: &Subject, cell: &Cell, table: &Path) -> Result<Metric> {
        let short = self.counted(subject, cell, COUNTED, table)?;
        let long = self.counted(subject, cell, 3 * COUNTED, table)?;
        let exchanges = (rounds_of(3 * COUNTED) - rounds_of(COUNTED)) as f64;
        Ok(metric(
            "syscalls_per_exchange",
            "calls",
            (long as f64 - short as f64) / exchanges,
        ))
    }

    fn counted(&self, subject: &Subject, cell: &Cell, count: u64, table: &Path) -> Result<u64> {
        let mut command = Command::new("strace");
        command
            .args(["-f", "-c", "-U", "calls,name", "-o"])
            .arg(table);
        command.args(self.words(subject, cell, count, false)?);
        let output = run_within(command, Duration::from_secs(60))?;
        printed(&output, subject)?;
        let text = fs::read_to_string(table).with_context(|| table.display().to_string())?;
        let total = text.lines().find(|line| line.trim_end().ends_with("total"));
        let calls = total.and_then(|line| line.split_whitespace().next()?.parse().ok());
        calls.context("strace printed no total")
    }

    fn run(
        &self,
        subject: &Subject,
        cell: &Cell,
        count: u64,
        each: bool,
        limit: Duration,
    ) -> Result<Printed> {
        let words = self.words(subject, cell, count, each)?;
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]);
        printed(&run_within(command, limit)?, subject)
    }

    /// Returns the command line for a number of exchanges.
    /// - each: true if each exchange is also timed separately.
    pub fn words(
        &self,
        subject: &Subject,
        cell: &Cell,
        count: u64,
        each: bool,
    ) -> Result<Vec<String>> {
        let program = subject.program(&self.bin_dir).context("a program")?;
        let way = subject.is_way().then(|| subject.base().to_string());
        let words = [
            cell.workload.to_string(),
            cell.payload_bytes.to_string(),
            count.to_string(),
        ];
        Ok(std::iter::once(program.display().to_string())
            .chain(way)
            .chain(words)
            .chain(each.then(|| "--each".to_string()))
            .collect())
    }
}

/// Returns the number of exchanges that a program makes for the argument `count`: `count`, and count / 10 + 1 for
/// warm-up (none if `count` is 1).
fn rounds_of(count: u64) -> u64 {
    count + count / 10 + 1
}

/// Locks a mutex and ignores poisoning: no thread panics while the data under one of these locks is half changed.
fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn metric(name: &'static str, unit: &'static str, value: f64) -> Metric {
    Metric { name, unit, value }
}

/// Runs a program to its end on the first processor, under timeout(1). Its child processes inherit that processor and
/// end with the program.
fn run_within(command: Command, limit: Duration) -> Result<Output> {
    let mut timed = Command::new("timeout");
    timed
        .args(["--kill-after=2", &limit.as_secs().max(5).to_string()])
        .arg(command.get_program())
        .args(command.get_args())
        .stdin(Stdio::null());
    // A process inherits the processors of the thread that starts it.
    let run = || {
        bind_sender()?;
        timed.output().context("timeout")
    };
    let output = thread::scope(|scope| scope.spawn(run).join()).expect("no panic")?;
    interrupt::check()?;
    Ok(output)
}

fn printed(output: &Output, subject: &Subject) -> Result<Printed> {
    if !output.status.success() {
        let words = String::from_utf8_lossy(&output.stderr);
        bail!("{subject}: {}, {}", output.status, words.trim());
    }
    let text = String::from_utf8_lossy(&output.stdout);
    serde_json::from_str(text.trim()).with_context(|| format!("{subject} printed {text:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_prints_what_is_read() {
        let text = r#"{"operation": "call", "bytes": 64, "count": 10, "wall_ns": 1000, "cpu_ns": 900, "percentiles_ns": [[50, 90]]}"#;
        let printed: Printed = serde_json::from_str(text).unwrap();
        assert_eq!(
            (printed.count, printed.wall_ns, printed.cpu_ns),
            (10, 1000, Some(900))
        );
        assert_eq!(printed.percentiles_ns, [(50.0, 90.0)]);
    }

    #[test]
    fn a_ring_is_told_by_its_sides() {
        const SIDE: &str = r#"{"entries": 16, "model_tlb_misses": 0.0006}"#;
        let text = format!(
            r#"{{"operation": "packet", "bytes": 1100, "count": 10, "wall_ns": 50000,
            "ring": {{"kernel_ns": 30000, "reader_ns": 20000, "kernel": {SIDE},
            "program": {{"entries": 8192, "model_tlb_misses": 0.29}}}}}}"#
        );
        let values = |text: &str| -> Vec<(&'static str, f64)> {
            let printed: Printed = serde_json::from_str(text).unwrap();
            let metrics = printed.ring.unwrap().metrics(printed.count);
            metrics.iter().map(|m| (m.name, m.value)).collect()
        };
        let all = values(&text);
        assert_eq!(
            all,
            [
                ("kernel_part", 3000.0),
                ("reader_part", 2000.0),
                ("program_entries", 8192.0),
                ("model_tlb_misses", 0.29),
                ("kernel_entries", 16.0),
                ("model_kernel_tlb_misses", 0.0006),
            ]
        );
        assert_eq!(values(&text.replace(SIDE, "null")), all[..4]);
    }

    #[test]
    fn start_and_end_of_a_program_cancel_out() {
        // 40 calls at the start, 3 per exchange, warm-up included.
        let calls = |count| 40 + 3 * rounds_of(count);
        let exchanges = rounds_of(3 * COUNTED) - rounds_of(COUNTED);
        assert_eq!((calls(3 * COUNTED) - calls(COUNTED)) / exchanges, 3);
    }
}
