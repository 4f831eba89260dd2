// SPDX-License-Identifier: GPL-2.0-or-later
//! File metadata.json: describes a result by its experiment, machine, programs and commands.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::experiment::Slices;
use crate::experiment::{Claim, ExperimentKind, Figure, Pair, Reference};
use crate::store::{Store, METADATA};

/// Placeholder for facts that the machine doesn't report.
pub const UNKNOWN: &str = "unknown";

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Metadata {
    pub experiment: String,
    pub title: String,
    pub question: String,
    /// Kind of the experiment; older files lack it, and are of kind `traffic`.
    #[serde(default)]
    pub kind: ExperimentKind,
    pub source: Source,
    pub machine: Machine,
    /// Version text of each tool, by tool.
    pub tools: BTreeMap<String, String>,
    /// Command lines of the run, for example for policies, firewalls, and the programs that runners start.
    pub commands: Vec<String>,
    /// SHA-256 of everything that must not change between the rounds of one result, including the programs' files.
    pub config_hash: String,
    /// Start time in UTC.
    pub started: String,
    /// End time in UTC; None during the run, or after an interruption or a failure.
    pub ended: Option<String>,
    /// Planned rounds of loads without slices; 0 without such loads.
    pub rounds: u32,
    pub rounds_done: u32,
    pub warmup_seconds: u32,
    pub seconds: u32,
    /// Slicing of the embedded generator's loads; missing if there were none, and in older files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slices: Option<Slices>,
    /// Loads with slices that have all their rounds.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub loads_done: Vec<String>,
    /// True: measured on the machine's own loopback, not in namespaces.
    pub host: bool,
    pub subjects: Vec<String>,
    pub baseline: String,
    pub compare: Vec<Pair>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub claims: Vec<Claim>,
    pub runners: Vec<RunnerUse>,
    pub figures: Vec<Figure>,
    pub references: Vec<Reference>,
    /// Problems that did not end the run.
    pub incidents: Vec<String>,
}

/// Origin of the measured programs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Source {
    pub commit: String,
    /// True if tracked files, results apart, differed from the commit.
    pub dirty: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    pub kernel: String,
    pub cpu_model: String,
    pub cpus: usize,
    pub governor: String,
}

/// Runner that made the traffic of a workload.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunnerUse {
    pub workload: String,
    pub runner: String,
    /// Reason in words, if the runner is not the preferred one; None if it is.
    pub note: Option<String>,
}

impl Metadata {
    pub fn read(folder: &Path) -> Result<Metadata> {
        let file = folder.join(METADATA);
        let text = fs::read_to_string(&file).ok().with_context(|| {
            format!(
                "{} holds no result: there is no {METADATA}",
                folder.display()
            )
        })?;
        serde_json::from_str(&text).with_context(|| file.display().to_string())
    }

    /// Returns the settings of a workload's slices; None if the workload was not measured in slices.
    pub fn slices_of(&self, workload: &str) -> Option<&Slices> {
        let embedded = |used: &RunnerUse| used.workload == workload && used.runner == "builtin";
        let slices = self.slices.as_ref()?;
        self.runners.iter().any(embedded).then_some(slices)
    }

    /// Writes the file. The data are on the disk when this function returns.
    pub fn write(&self, store: &Store) -> Result<()> {
        let mut text = serde_json::to_string_pretty(self)?;
        text.push('\n');
        store.replace(METADATA, text.as_bytes())
    }
}

impl Source {
    /// Returns the state of the repository at `root`, according to git.
    pub fn of(root: &Path) -> Source {
        let git = |arguments: &[&str]| {
            let output = Command::new("git")
                .arg("-C")
                .arg(root)
                .args(arguments)
                .output()
                .ok()?;
            output.status.success().then(|| text(&output.stdout))
        };
        Source {
            commit: git(&["rev-parse", "HEAD"]).unwrap_or(UNKNOWN.into()),
            // Result files in the repository do not change the measured programs.
            dirty: git(&[
                "status",
                "--porcelain",
                "--untracked-files=no",
                "--",
                ".",
                ":!result",
            ])
            .is_some_and(|changes| !changes.is_empty()),
        }
    }
}

impl Machine {
    pub fn here() -> Machine {
        let read = |file: &str| fs::read_to_string(file).map(|text| text.trim().to_string());
        Machine {
            kernel: read("/proc/sys/kernel/osrelease").unwrap_or(UNKNOWN.into()),
            cpu_model: cpu_model(&read("/proc/cpuinfo").unwrap_or_default()),
            cpus: std::thread::available_parallelism().map_or(1, |n| n.get()),
            governor: read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")
                .unwrap_or(UNKNOWN.into()),
        }
    }
}

fn cpu_model(cpuinfo: &str) -> String {
    let line = cpuinfo.lines().find(|line| line.starts_with("model name"));
    let model = line
        .and_then(|line| line.split_once(':'))
        .map(|(_, model)| model.trim());
    model.unwrap_or(UNKNOWN).to_string()
}

/// Returns the first line of the output of `program argument`, "not found" if it can't be started, or [`UNKNOWN`]
/// without output.
pub fn version_of(program: &str, argument: &str) -> String {
    match Command::new(program).arg(argument).output() {
        Ok(output) => text(&output.stdout)
            .lines()
            .next()
            .unwrap_or(UNKNOWN)
            .to_string(),
        Err(_) => "not found".into(),
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).trim().to_string()
}

/// Returns the SHA-256 in hexadecimal digits.
pub fn hash(bytes: &[u8]) -> String {
    Sha256::digest(bytes)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

/// Returns the current time in UTC, as `2025-01-31T23:59:59Z`.
pub fn now() -> String {
    utc(SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs()))
}

/// Formats seconds since 1970 as date and time in UTC (Hinnant, "chrono-compatible low-level date algorithms":
/// civil_from_days).
fn utc(seconds: u64) -> String {
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    // Days since 0000-03-01, so that the leap day is the last day of a year.
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 {
        shifted_month + 3
    } else {
        shifted_month - 9
    };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    let (hour, minute, second) = (rest / 3_600, rest / 60 % 60, rest % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates() {
        assert_eq!(utc(0), "1970-01-01T00:00:00Z");
        assert_eq!(utc(951_782_399), "2000-02-28T23:59:59Z");
        assert_eq!(utc(951_782_400), "2000-02-29T00:00:00Z");
        assert_eq!(utc(1_735_689_599), "2024-12-31T23:59:59Z");
        assert_eq!(utc(4_107_542_400), "2100-03-01T00:00:00Z");
    }

    #[test]
    fn the_cpu_is_named() {
        let text = "processor\t: 0\nmodel name\t: Some CPU @ 2.0 GHz\nmodel name\t: Other\n";
        assert_eq!(cpu_model(text), "Some CPU @ 2.0 GHz");
        assert_eq!(cpu_model(""), UNKNOWN);
    }

    #[test]
    fn a_hash_is_that_of_sha256sum() {
        assert_eq!(
            hash(b"abc"),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
    }

    #[test]
    fn a_missing_tool_is_said_to_be_missing() {
        assert_eq!(version_of("no-such-program", "--version"), "not found");
    }
}
