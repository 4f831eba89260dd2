// SPDX-License-Identifier: GPL-2.0-or-later
use std::collections::BTreeSet;
use std::fs;
use std::io::Read;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::Arc;

use flate2::read::MultiGzDecoder;

use super::*;
use crate::experiment::Slices;
use crate::experiment::{Experiment, ExperimentKind, Pair, Route, RunnerName, WorkloadPlan};
use crate::report::Report;
use crate::results::Results;
use crate::runner::{Load, Metric, Outcome, Place, Runner, Workload};
use crate::store::{Row, SeriesRow, RAW};

/// A fake runner: reports its number of runs as throughput; some runs fail.
struct Fake {
    runs: Arc<AtomicU32>,
    fails: fn(u32) -> bool,
}

impl Runner for Fake {
    fn name(&self) -> &'static str {
        "fake"
    }

    fn version(&self) -> String {
        "1".into()
    }

    fn supports(&self, workload: Workload) -> bool {
        workload == Workload::TcpStream
    }

    fn command_lines(&self, load: &Load) -> Vec<String> {
        vec![format!("fake {}", load.address)]
    }

    fn run(&self, _place: &Place, _load: &Load) -> Result<Outcome> {
        let run = self.runs.fetch_add(1, Ordering::Relaxed) + 1;
        if (self.fails)(run) {
            bail!("the traffic stopped");
        }
        Ok(Outcome {
            metrics: vec![Metric {
                name: "throughput",
                unit: "Gbit/s",
                value: run.into(),
            }],
            series: vec![(0.5, 1.0), (1.0, 2.0)],
            percentiles: Vec::new(),
            raw: vec![("out.json".into(), "{}".into())],
            incidents: Vec::new(),
        })
    }
}

/// A result folder that is deleted on drop, and the runs made for it.
struct Bench {
    folder: PathBuf,
    runs: Arc<AtomicU32>,
}

impl Bench {
    fn new(name: &str) -> Bench {
        let folder =
            std::env::temp_dir().join(format!("twinwall-run-{}-{name}", std::process::id()));
        Bench {
            folder,
            runs: Arc::default(),
        }
    }

    fn run(&self, experiment: Experiment, resume: bool, fails: fn(u32) -> bool) -> Result<()> {
        let make_runner = |name| -> Result<Box<dyn Runner>> {
            match name {
                RunnerName::Ethr => bail!("not installed"),
                _ => Ok(Box::new(Fake {
                    runs: self.runs.clone(),
                    fails,
                })),
            }
        };
        run(&Request {
            experiment,
            root: PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(".."),
            bin_dir: "/no/such/folder".into(),
            out: self.folder.clone(),
            host: false,
            resume,
            runner: None,
            make_runner: &make_runner,
        })
    }

    fn runs(&self) -> u32 {
        self.runs.load(Ordering::Relaxed)
    }

    fn samples(&self) -> Vec<Sample> {
        Store::open(&self.folder).read().unwrap()
    }

    /// Returns the output of all runs, one line each.
    fn raw(&self) -> String {
        let file = fs::File::open(self.folder.join(RAW)).unwrap();
        let mut text = String::new();
        MultiGzDecoder::new(file).read_to_string(&mut text).unwrap();
        text
    }
}

/// Failure rule: no run fails.
fn never(_: u32) -> bool {
    false
}

impl Drop for Bench {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn experiment(rounds: u32) -> Experiment {
    Experiment {
        name: "x".into(),
        title: "X".into(),
        question: "Which?".into(),
        long: None,
        kind: ExperimentKind::Traffic,
        rounds,
        warmup_seconds: 1,
        seconds: 1,
        slices: Slices::default(),
        baseline: "none".into(),
        subjects: ["none", "accept", "none#2"]
            .map(|name| name.parse().unwrap())
            .to_vec(),
        flows: 1,
        workloads: vec![WorkloadPlan {
            name: Workload::TcpStream,
            runner: vec![RunnerName::Ethr, RunnerName::Iperf3],
            path: vec![Route::Loopback, Route::Veth],
            payload_bytes: vec![100],
            rounds: None,
            policy: None,
        }],
        compare: vec![Pair {
            a: "accept".into(),
            b: "none".into(),
        }],
        claims: Vec::new(),
        figures: Vec::new(),
        references: Vec::new(),
        count_syscalls: false,
    }
}

#[test]
fn a_run_leaves_samples_in_the_order_of_the_schedule() {
    let bench = Bench::new("whole");
    bench.run(experiment(3), false, never).unwrap();
    // Three runs for the warm-up, six per round.
    assert_eq!(bench.runs(), 3 + 3 * 6);
    let samples = bench.samples();
    let order: Vec<&str> = samples
        .iter()
        .map(|sample| sample.subject.as_str())
        .collect();
    assert_eq!(order[..3], ["none", "accept", "none#2"]);
    assert_eq!(order[6..9], ["accept", "none#2", "none"]);
    assert_eq!(samples[0].value, 4.0);
    assert_eq!(
        (samples[5].position, samples[6].position, samples[6].round),
        (6, 1, 2)
    );
    assert_eq!(
        (samples[3].path.as_str(), samples[3].unit.as_str()),
        ("veth", "Gbit/s")
    );
    let series: Vec<SeriesRow> = Store::open(&bench.folder).read().unwrap();
    assert_eq!((series.len(), series[1].second), (36, 1.0));
    let text = bench.raw();
    assert_eq!(text.lines().count(), 18);
    let third = r#"{"name":"001-tcp-stream-loopback-100-none#2-out.json","text":"{}"}"#;
    assert_eq!(text.lines().nth(2).unwrap(), third);
}

#[test]
fn metadata_and_report_name_the_runner_that_was_used() {
    let bench = Bench::new("runner");
    bench.run(experiment(3), false, never).unwrap();
    let metadata = Metadata::read(&bench.folder).unwrap();
    let note = metadata.runners[0].note.as_deref();
    assert_eq!(note, Some("ethr was not found: iperf3 used"));
    assert_eq!(metadata.commands, ["fake 127.0.0.1", "fake 10.77.0.2"]);
    assert!(metadata.ended.is_some());
    let results = Results::work_out(&bench.folder).unwrap();
    assert_eq!(results.pairs.len(), 4);
    let report = Report::new(results, &bench.folder).unwrap();
    for text in [report.text(), report.markdown()] {
        assert!(text.contains("ethr was not found: iperf3 used"), "{text}");
        assert!(text.contains("only 3 rounds"), "{text}");
    }
}

#[test]
fn a_run_that_stopped_keeps_its_rounds_and_goes_on() {
    let bench = Bench::new("resume");
    // Three consecutive runs fail in the second round, and the round is not kept.
    let error = bench
        .run(experiment(3), false, |run| run >= 3 + 6 + 2)
        .unwrap_err();
    assert_eq!(
        format!("{error:#}"),
        "3 runs in a row failed: the traffic stopped"
    );
    assert_eq!(Metadata::read(&bench.folder).unwrap().rounds_done, 1);
    assert_eq!(bench.samples().len(), 6);
    // Data that a kill in the middle of writing leaves in the files.
    for name in [Sample::FILE, RAW] {
        let file = bench.folder.join(name);
        let mut bytes = fs::read(&file).unwrap();
        bytes.extend_from_within(..bytes.len() / 2);
        fs::write(&file, bytes).unwrap();
    }
    bench.run(experiment(4), true, never).unwrap();
    let rounds: Vec<u32> = bench.samples().iter().map(|sample| sample.round).collect();
    assert_eq!(rounds.len(), 24);
    assert!((1..=4).all(|round| rounds.iter().filter(|r| **r == round).count() == 6));
    let metadata = Metadata::read(&bench.folder).unwrap();
    assert_eq!(metadata.rounds_done, 4);
    // The incidents of the round that was not kept are not kept either.
    assert!(metadata.incidents.is_empty());
    let raw = bench.raw();
    let names: BTreeSet<&str> = raw.lines().collect();
    assert_eq!((raw.lines().count(), names.len()), (24, 24));
}

#[test]
fn a_total_of_a_load_in_slices_is_no_count_of_calls() {
    let sample = |metric: &str| Sample {
        round: UNTIMED,
        position: 0,
        subject: "c-raw-fast".into(),
        workload: "udp-flood".into(),
        path: "loopback".into(),
        payload_bytes: 18,
        policy: None,
        metric: metric.into(),
        unit: String::new(),
        value: 1.0,
    };
    assert!(!has_counts(&[sample("lost_percent")]));
    for metric in ["syscalls_per_packet", "syscalls_per_exchange"] {
        assert!(has_counts(&[sample("lost_percent"), sample(metric)]));
    }
}

#[test]
fn a_single_failure_is_an_incident_and_costs_one_sample() {
    let bench = Bench::new("incident");
    bench.run(experiment(1), false, |run| run == 3 + 6).unwrap();
    assert_eq!(bench.samples().len(), 5);
    let incidents = Metadata::read(&bench.folder).unwrap().incidents;
    assert_eq!(
        incidents,
        ["round 1, none#2, tcp-stream over veth, payload 100 B: the traffic stopped"]
    );
}

#[test]
fn failures_that_are_not_in_a_row_do_not_end_a_run() {
    let bench = Bench::new("scattered");
    bench
        .run(experiment(1), false, |run| [4, 5, 7, 8].contains(&run))
        .unwrap();
    let values: Vec<f64> = bench.samples().iter().map(|sample| sample.value).collect();
    assert_eq!(values, [6.0, 9.0]);
    assert_eq!(Metadata::read(&bench.folder).unwrap().incidents.len(), 4);
}

#[test]
fn a_failing_warm_up_ends_the_run() {
    let bench = Bench::new("warm-up");
    let error = bench.run(experiment(1), false, |_| true).unwrap_err();
    assert_eq!(
        format!("{error:#}"),
        "none, tcp-stream over loopback, payload 100 B: the traffic stopped"
    );
}

#[test]
fn another_configuration_is_not_resumed() {
    let bench = Bench::new("hash");
    bench.run(experiment(1), false, never).unwrap();
    let mut other = experiment(2);
    other.seconds = 2;
    let error = bench.run(other, true, never).unwrap_err().to_string();
    assert!(
        error.contains("are not those of its rounds: leave --resume out"),
        "{error}"
    );
    assert_eq!(bench.samples().len(), 6);
    // Pairs and words may change: they affect no sample.
    let mut same = experiment(1);
    same.compare.clear();
    same.title = "Y".into();
    bench.run(same, true, never).unwrap();
}

#[test]
fn what_cannot_be_run_is_refused_before_anything_is_touched() {
    let bench = Bench::new("refused");
    let mut experiment = experiment(1);
    experiment.subjects.push("c-raw-fast".parse().unwrap());
    let error = bench
        .run(experiment.clone(), false, never)
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("there is no program /no/such/folder/c-firewall: build it"),
        "{error}"
    );
    experiment.subjects.pop();
    experiment.workloads[0].name = Workload::UdpFlood;
    let error = bench
        .run(experiment.clone(), false, never)
        .unwrap_err()
        .to_string();
    assert_eq!(
        error,
        "ethr was not found, iperf3 does not make udp-flood: use --runner builtin"
    );
    experiment.workloads[0].name = Workload::TcpStream;
    let error = bench
        .run(experiment.clone(), true, never)
        .unwrap_err()
        .to_string();
    assert!(error.starts_with("there is nothing to resume"), "{error}");
    assert!(!bench.folder.exists());
    fs::create_dir(&bench.folder).unwrap();
    fs::write(bench.folder.join("thesis.txt"), "x").unwrap();
    let error = bench.run(experiment, false, never).unwrap_err().to_string();
    assert!(
        error.contains("holds something other than a result"),
        "{error}"
    );
}
