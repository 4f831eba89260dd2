// SPDX-License-Identifier: GPL-2.0-or-later
//! Order and duration of the measurements.
//!
//! Rounds are interleaved, so that drift of the machine affects all subjects. Within a load the order rotates by one
//! with each round (A B C, B C A, C A B), so that no subject is always first. The order of slices is reversed or
//! rotated.

use std::time::Duration;

use crate::experiment::Order;
use crate::experiment::{Experiment, ExperimentKind, Route, RunnerName};
use crate::runner::Workload;
use crate::store::CellName;
use crate::synthetic::SyntheticPolicy;

/// One load of the experiment: a workload over one route in one size, with at most one policy.
#[derive(Clone, Debug, PartialEq)]
pub struct Cell {
    pub workload: Workload,
    pub route: Route,
    pub payload_bytes: usize,
    pub policy: Option<SyntheticPolicy>,
    /// Maximum number of rounds of this load; None: all rounds of the experiment.
    pub rounds: Option<u32>,
    /// Generators of this load's traffic, in order of preference; the first available generator is used.
    pub runners: Vec<RunnerName>,
}

impl Cell {
    /// Returns true if the load is measured in slices: it is traffic, and the preferred runner is the embedded
    /// generator.
    pub fn is_sliced(&self) -> bool {
        self.runners[0] == RunnerName::Builtin && self.workload.is_traffic()
    }

    /// Returns the number of rounds, of `rounds` in total, that include this load.
    pub fn rounds_of(&self, rounds: u32) -> u32 {
        self.rounds.unwrap_or(rounds).min(rounds)
    }

    /// Returns true if a round (counted from 1) includes this load.
    pub fn is_in(&self, round: u32) -> bool {
        self.rounds_of(round) == round
    }

    /// Returns the load's name in rows and reports.
    pub fn name(&self) -> CellName {
        CellName {
            workload: self.workload.to_string(),
            path: self.route.to_string(),
            payload_bytes: self.payload_bytes,
            policy: self.policy,
        }
    }
}

/// Duration of a load whose system calls are counted.
pub const COUNTED: Duration = Duration::from_secs(2);
/// Assumed duration of one run of the virtual machine, from its boot to its end.
const BOOT: Duration = Duration::from_secs(20);

/// One run: a subject under a load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Index of the load in the list of loads (cells).
    pub cell: usize,
    /// Index into the experiment's subjects.
    pub subject: usize,
}

/// Returns all loads of an experiment, in the order of its file.
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
                        rounds: plan.rounds,
                        runners: plan.runner.clone(),
                    });
                }
            }
        }
    }
    cells
}

/// Returns the runs of a round (counted from 1): every subject under each of the loads, once.
pub fn round(round: u32, cells: &[usize], subjects: usize) -> Vec<Step> {
    let order = slice_order(round, subjects, Order::Rotated);
    let under = |cell: &usize| {
        let cell = *cell;
        order.clone().map(move |subject| Step { cell, subject })
    };
    cells.iter().flat_map(under).collect()
}

/// Returns the order of the subjects in a round (counted from 1).
pub fn slice_order(
    round: u32,
    subjects: usize,
    order: Order,
) -> impl Iterator<Item = usize> + Clone {
    let first = (round as usize - 1) % subjects.max(1);
    (0..subjects).map(move |place| match order {
        Order::Rotated => (place + first) % subjects,
        Order::Turned if round % 2 == 0 => subjects - 1 - place,
        Order::Turned => place,
    })
}

/// Amount of work in an experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Amount {
    /// Number of runs. A load in slices counts as one run per subject.
    pub runs: u32,
    /// Total planned duration of the loads of all runs.
    pub load: Duration,
}

/// Returns the planned duration of one run under a load without slices. Exchanges in the virtual machine are counted,
/// not timed, so such a run takes its share of a boot.
pub fn load_of(experiment: &Experiment, cell: &Cell) -> Duration {
    if cell.route != Route::Vm {
        return Duration::from_secs(experiment.seconds.into());
    }
    let same_boot = |other: &Cell| other.route == Route::Vm && other.rounds == cell.rounds;
    let loads = cells(experiment).into_iter().filter(same_boot).count();
    BOOT / (loads * experiment.subjects.len()).max(1) as u32
}

/// Returns the planned duration of a run whose system calls are counted; 0 for exchanges, which are few.
pub fn counted_load(experiment: &Experiment) -> Duration {
    match experiment.kind {
        ExperimentKind::Exchange => Duration::ZERO,
        _ => COUNTED,
    }
}

/// Returns the amount of work: a warm-up, `rounds` rounds, and the loads in slices.
/// - rounds: number of rounds that are still to be made.
/// - counted: true if each program (firewall or program of exchanges) also runs once under strace, under each load
///   outside the virtual machine.
/// - sliced: returns true for each load in slices that is to be measured.
pub fn amount(
    experiment: &Experiment,
    rounds: u32,
    counted: bool,
    sliced: impl Fn(&Cell) -> bool,
) -> Amount {
    let all = cells(experiment);
    let subjects = experiment.subjects.len() as u32;
    let (in_slices, whole): (Vec<_>, Vec<_>) = all.iter().partition(|cell| cell.is_sliced());
    let in_slices = in_slices.into_iter().filter(|cell| sliced(cell)).count() as u32;
    let warmups = match rounds > 0 && experiment.warmup_seconds > 0 && !whole.is_empty() {
        true => subjects,
        false => 0,
    };
    let programs = experiment.subjects.iter().filter(|s| s.is_program());
    let counted_cells = all.iter().filter(|cell| cell.route != Route::Vm);
    let counting = match counted {
        true => (counted_cells.count() * programs.count()) as u32,
        false => 0,
    };
    let timed = |cell: &Cell| cell.rounds_of(rounds) * subjects;
    let load = |cell: &&Cell| load_of(experiment, cell) * timed(cell);
    Amount {
        runs: warmups
            + counting
            + whole.iter().map(|cell| timed(cell)).sum::<u32>()
            + in_slices * subjects,
        load: Duration::from_secs(experiment.warmup_seconds.into()) * warmups
            + counted_load(experiment) * counting
            + whole.iter().map(load).sum::<Duration>()
            + experiment.slices.duration(subjects) * in_slices,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::Slices;

    fn subjects(steps: &[Step], cell: usize) -> Vec<usize> {
        steps
            .iter()
            .filter(|step| step.cell == cell)
            .map(|step| step.subject)
            .collect()
    }

    #[test]
    fn the_order_rotates_with_the_rounds() {
        assert_eq!(subjects(&round(1, &[0], 3), 0), [0, 1, 2]);
        assert_eq!(subjects(&round(2, &[0], 3), 0), [1, 2, 0]);
        assert_eq!(subjects(&round(3, &[0], 3), 0), [2, 0, 1]);
        assert_eq!(subjects(&round(4, &[0], 3), 0), [0, 1, 2]);
    }

    #[test]
    fn a_round_holds_each_pair_once_load_by_load() {
        let steps = round(2, &[0, 1, 2], 4);
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
                .map(|n| subjects(&round(n, &[0], 5), 0)[place])
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
        let mut paper = Experiment::read(&folder.join("paper.toml")).unwrap();
        (paper.rounds, paper.seconds, paper.warmup_seconds) = (9, 60, 2);
        paper.slices = Slices {
            milliseconds: 50,
            settle_milliseconds: 5,
            order: Order::Turned,
            rounds: 97,
            most_seconds: 60,
        };
        let all = |_: &Cell| true;
        // One load of ethr, six subjects, five of them firewalls.
        let seconds = Duration::from_secs(12 + 9 * 6 * 60);
        assert_eq!(
            amount(&paper, 9, false, all),
            Amount {
                runs: 60,
                load: seconds
            }
        );
        assert_eq!(amount(&paper, 9, true, all).runs, 65);
        paper.workloads[0].runner = vec![RunnerName::Builtin];
        assert_eq!(
            amount(&paper, 9, false, all),
            Amount {
                runs: 6,
                load: Duration::from_millis(55 * 6 * 100)
            }
        );
        assert_eq!(amount(&paper, 9, false, |_| false).runs, 0);
    }

    #[test]
    fn a_load_may_have_rounds_of_its_own() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("experiments");
        let mut genl = Experiment::read(&folder.join("genl.toml")).unwrap();
        let own: Vec<Cell> = cells(&genl)
            .into_iter()
            .filter(|cell| cell.rounds.is_some())
            .collect();
        assert_eq!(own.len(), 1, "a dump of a million parts");
        let rounds = own[0].rounds.unwrap();
        assert!(own[0].is_in(rounds) && !own[0].is_in(rounds + 1));
        assert_eq!([1, 9].map(|of| own[0].rounds_of(of)), [1, rounds]);
        let runs = |genl: &Experiment| amount(genl, rounds + 2, false, |_| true).runs;
        let with = runs(&genl);
        genl.workloads.retain(|plan| plan.rounds.is_none());
        assert_eq!(with - runs(&genl), rounds * genl.subjects.len() as u32);
    }

    #[test]
    fn a_boot_is_shared_by_its_runs() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("experiments");
        let mut ipc = Experiment::read(&folder.join("ipc.toml")).unwrap();
        let load = |ipc: &Experiment| amount(ipc, 4, false, |_| true).load;
        assert!(load(&ipc).abs_diff(4 * BOOT) < Duration::from_millis(1));
        // A load with rounds of its own has another boot.
        ipc.workloads[0].rounds = Some(1);
        assert!(load(&ipc).abs_diff(5 * BOOT) < Duration::from_millis(1));
    }

    #[test]
    fn the_order_of_slices_turns_round() {
        let order = |round| slice_order(round, 3, Order::Turned).collect::<Vec<_>>();
        assert_eq!(
            [order(1), order(2), order(3)],
            [[0, 1, 2], [2, 1, 0], [0, 1, 2]]
        );
    }
}
