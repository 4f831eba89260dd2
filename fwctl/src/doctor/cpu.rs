// SPDX-License-Identifier: GPL-2.0-or-later
//! Checks of the processors.

use std::fs;

use super::finding::Findings;
use super::Patient;

fn governors() -> Vec<String> {
    let cpus = fs::read_dir("/sys/devices/system/cpu")
        .into_iter()
        .flatten()
        .flatten();
    let files = cpus.map(|cpu| cpu.path().join("cpufreq/scaling_governor"));
    files
        .filter_map(|file| fs::read_to_string(file).ok())
        .map(|name| name.trim().to_owned())
        .collect()
}

pub fn check(patient: &Patient, findings: &mut Findings) {
    let slow = governors()
        .iter()
        .filter(|name| *name == "powersave")
        .count();
    if slow > 0 {
        findings.note(
            format!("{slow} CPUs are governed by powersave: the first packets of a burst wait"),
            "sudo cpupower frequency-set -g performance",
        );
    }
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    if patient.is_running() && patient.queues.len() > cpus {
        findings.warning(
            format!(
                "{} queues have a worker each on {cpus} CPUs: more than CPUs gain nothing",
                patient.queues.len()
            ),
            format!(
                "--queue 0:{}  # and as many in --queue-balance of the rule",
                cpus - 1
            ),
        );
    }
}
