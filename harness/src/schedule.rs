// SPDX-License-Identifier: GPL-2.0-or-later
//! In which order subjects are measured.
//!
//! Rounds are interleaved, so that drift of the machine meets all subjects; within a load the order
//! is rotated by one with each round (A B C, B C A, C A B), so that none always comes first.

use crate::experiment::{Experiment, Route, RunnerName};
use crate::policy::Policy;
use crate::runner::Workload;
use crate::store::CellName;

/// One load of the experiment: a workload over one route in one size, filtered by one policy.
#[derive(Clone, Debug, PartialEq)]
pub struct Cell {
    pub workload: Workload,
    pub route: Route,
    pub payload_bytes: usize,
    pub policy: Option<Policy>,
    /// The preferred one first.
    pub runners: Vec<RunnerName>,
}

impl Cell {
    /// As rows and people name it.
    pub fn name(&self) -> CellName {
        CellName {
            workload: self.workload.to_string(),
            path: self.route.to_string(),
            payload_bytes: self.payload_bytes,
            policy: self.policy,
        }
    }
}

/// One run: a subject under a load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Index into the cells.
    pub cell: usize,
    /// Index into the experiment's subjects.
    pub subject: usize,
}

/// All loads of an experiment, in the order of its file.
pub fn cells(experiment: &Experiment) -> Vec<Cell> {
    let mut cells = Vec::new();
    for plan in &experiment.workloads {
        for &route in &plan.path {
            for &payload_bytes in &plan.payload_bytes {
                for policy in plan.policies() {
                    cells.push(Cell {
                        workload: plan.name,
                        route,
                        payload_bytes,
                        policy,
                        runners: plan.runner.clone(),
                    });
                }
            }
        }
    }
    cells
}

/// The runs of a round (counted from 1): every subject under every load, once.
pub fn round(round: u32, cells: usize, subjects: usize) -> Vec<Step> {
    let first = (round as usize - 1) % subjects.max(1);
    let order = (0..subjects).map(|place| (place + first) % subjects);
    (0..cells)
        .flat_map(|cell| order.clone().map(move |subject| Step { cell, subject }))
        .collect()
}

/// How much there is to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Amount {
    pub runs: u32,
    /// Of all runs together.
    pub load_seconds: u32,
}

/// What so many rounds need: a warm-up, the rounds, and with `counted` a run of each firewall under
/// strace.
pub fn amount(experiment: &Experiment, rounds: u32, counted: bool) -> Amount {
    let cells = cells(experiment).len() as u32;
    let subjects = experiment.subjects.len() as u32;
    let firewalls = experiment
        .subjects
        .iter()
        .filter(|s| s.has_firewall())
        .count() as u32;
    let warmups = if rounds > 0 && experiment.warmup_seconds > 0 {
        subjects
    } else {
        0
    };
    let timed = rounds * cells * subjects + if counted { cells * firewalls } else { 0 };
    Amount {
        runs: warmups + timed,
        load_seconds: warmups * experiment.warmup_seconds + timed * experiment.seconds,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subjects(steps: &[Step], cell: usize) -> Vec<usize> {
        steps
            .iter()
            .filter(|step| step.cell == cell)
            .map(|step| step.subject)
            .collect()
    }

    #[test]
    fn the_order_rotates_with_the_rounds() {
        assert_eq!(subjects(&round(1, 1, 3), 0), [0, 1, 2]);
        assert_eq!(subjects(&round(2, 1, 3), 0), [1, 2, 0]);
        assert_eq!(subjects(&round(3, 1, 3), 0), [2, 0, 1]);
        assert_eq!(subjects(&round(4, 1, 3), 0), [0, 1, 2]);
    }

    #[test]
    fn a_round_holds_each_pair_once_load_by_load() {
        let steps = round(2, 3, 4);
        assert_eq!(steps.len(), 12);
        assert!(steps.windows(2).all(|two| two[0].cell <= two[1].cell));
        for cell in 0..3 {
            let mut seen = subjects(&steps, cell);
            seen.sort();
            assert_eq!(seen, [0, 1, 2, 3]);
        }
    }

    #[test]
    fn over_as_many_rounds_as_subjects_each_has_had_each_place() {
        for place in 0..5 {
            let mut seen: Vec<usize> = (1..=5)
                .map(|n| subjects(&round(n, 1, 5), 0)[place])
                .collect();
            seen.sort();
            assert_eq!(seen, [0, 1, 2, 3, 4]);
        }
    }

    #[test]
    fn loads_are_those_of_the_file() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("experiments");
        let twins = Experiment::read(&folder.join("twins.toml")).unwrap();
        let loads: Vec<_> = cells(&twins)
            .iter()
            .map(|cell| format!("{} {} {}", cell.workload, cell.route, cell.payload_bytes))
            .collect();
        assert_eq!(
            loads[..2],
            ["tcp-stream loopback 65536", "tcp-stream veth 65536"]
        );
        assert_eq!(loads.len(), 6);
    }

    #[test]
    fn the_amount_is_what_will_be_run() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("experiments");
        let mut backends = Experiment::read(&folder.join("backends.toml")).unwrap();
        (backends.seconds, backends.warmup_seconds) = (3, 1);
        // 2 loads, 8 subjects, 7 of them firewalls.
        assert_eq!(
            amount(&backends, 5, false),
            Amount {
                runs: 88,
                load_seconds: 8 + 80 * 3
            }
        );
        assert_eq!(
            amount(&backends, 5, true),
            Amount {
                runs: 102,
                load_seconds: 8 + 94 * 3
            }
        );
        assert_eq!(
            amount(&backends, 0, false),
            Amount {
                runs: 0,
                load_seconds: 0
            }
        );
    }
}
