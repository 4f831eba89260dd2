// SPDX-License-Identifier: GPL-2.0-or-later
//! ethr (github.com/microsoft/ethr), the tool of the published experiment.
//!
//! Only its TCP bandwidth test is usable here. Its connection test keeps each connection open for two seconds at the
//! server, which exhausts its file descriptors within one second; its UDP test does not count losses.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{bail, Context};
use serde::Deserialize;

use super::child::{wait_for_listener, Child, Ended};
use super::{Load, Metric, Outcome, Place, Runner, Workload};
use crate::load::GRACE;

const CURE: &str = "run make ethr, or give it with --ethr PATH";
/// Name of the program that `make ethr` installs in the folder of programs.
const PROGRAM: &str = "ethr";
/// Time limit for the server's last row after the load. The server writes a row at the end of each second.
const LAST_ROW: Duration = Duration::from_millis(1500);
const SECONDS_PER_DAY: u64 = 24 * 60 * 60;

pub struct Ethr {
    program: PathBuf,
    version: String,
    abilities: Abilities,
}

/// Abilities of ethr in which its versions differ. They can't be derived from the version text, which may be UNKNOWN
/// for any version.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Abilities {
    /// True if the option `-dp` exists: two decimal places give a resolution of 0.1 % at 12 Gbit/s instead of 1 %.
    two_places: bool,
    /// True if this version's client starts at the beginning of a second of the server, so that every row covers a
    /// whole second.
    aligned: bool,
}

impl Ethr {
    /// Finds the program: `path` is the argument of --ethr; without it, the folder of programs is searched, then PATH.
    pub fn find(path: Option<PathBuf>, bin_dir: &Path) -> anyhow::Result<Ethr> {
        let built = Some(bin_dir.join(PROGRAM)).filter(|file| file.is_file());
        let program = path.or(built).unwrap_or_else(|| PROGRAM.into());
        let mut command = std::process::Command::new(&program);
        command.arg("-h");
        let help = Child::spawn(command, CURE)?.wait(Instant::now() + GRACE)?;
        let text = help.check("ethr -h")?;
        let text = format!("{}{}", text.stdout, text.stderr);
        let version = parse_version(&text)
            .with_context(|| format!("{} is not ethr: {CURE}", program.display()))?;
        Ok(Ethr {
            program,
            version,
            abilities: parse_abilities(&text),
        })
    }

    fn server_arguments(&self, load: &Load) -> Vec<String> {
        let address = load.address.to_string();
        let mut words = vec!["-s"];
        // ethr joins ADDR:PORT from -ip, which is no address for IPv6.
        if load.address.is_ipv4() {
            words.extend(["-ip", &address]);
        } else {
            words.push("-6");
        }
        self.with_common(words, load)
    }

    fn client_arguments(&self, load: &Load) -> Vec<String> {
        let family = if load.address.is_ipv4() { "-4" } else { "-6" };
        let address = load.address.to_string();
        let seconds = format!("{}s", load.duration.as_secs());
        let bytes = load.payload_bytes.to_string();
        let words = [
            "-c", &address, family, "-p", "tcp", "-t", "b", "-d", &seconds, "-l", &bytes,
        ];
        self.with_common(words.to_vec(), load)
    }

    fn with_common(&self, words: Vec<&str>, load: &Load) -> Vec<String> {
        let port = load.port.to_string();
        let mut words = [words, vec!["-port", &port]].concat();
        if self.abilities.two_places {
            words.extend(["-dp", "2"]);
        }
        // The log contains the rows; all other output is on standard output.
        words.extend(["-o", "/dev/stderr"]);
        words.into_iter().map(str::to_string).collect()
    }
}

impl Runner for Ethr {
    fn name(&self) -> &'static str {
        "ethr"
    }

    fn version(&self) -> String {
        self.version.clone()
    }

    fn supports(&self, workload: Workload) -> bool {
        workload == Workload::TcpStream
    }

    fn command_lines(&self, load: &Load) -> Vec<String> {
        [self.server_arguments(load), self.client_arguments(load)]
            .map(|arguments| format!("{} {}", self.program.display(), arguments.join(" ")))
            .to_vec()
    }

    fn run(&self, place: &Place, load: &Load) -> anyhow::Result<Outcome> {
        if !self.supports(load.workload) {
            bail!("ethr makes tcp-stream only: choose another runner");
        }
        let seconds = load.duration.as_secs() as usize;
        if seconds == 0 || load.duration.subsec_nanos() != 0 || seconds < self.fewest_seconds() {
            bail!(
                "ethr measures whole seconds, at least {}",
                self.fewest_seconds()
            );
        }
        let mut command = place.server.command(&self.program);
        command.args(self.server_arguments(load));
        let mut server = Child::spawn(command, CURE)?;
        wait_for_listener(place.server, load.port, &mut server)?;
        let mut command = place.client.command(&self.program);
        command.args(self.client_arguments(load));
        let deadline = Instant::now() + load.duration + GRACE;
        let client = Child::spawn(command, CURE)?.wait(deadline)?.check("ethr")?;
        let mut rows = 0;
        server.listen_to_stderr(LAST_ROW, |line| {
            rows += usize::from(row(line).is_some());
            rows >= seconds && self.abilities.aligned
        });
        let server = server.stop()?;
        let series = series(&server.stderr, &client, seconds, self.abilities)?;
        let sum: f64 = series.iter().map(|(_, value)| value).sum();
        Ok(Outcome {
            metrics: vec![Metric {
                name: "throughput",
                unit: "Gbit/s",
                value: sum / series.len() as f64,
            }],
            series,
            raw: vec![
                ("server.log".into(), server.stderr),
                ("client.log".into(), client.stderr),
            ],
            ..Outcome::default()
        })
    }
}

impl Ethr {
    /// Returns the minimum duration in seconds: rows must remain without the partial first and last second.
    fn fewest_seconds(&self) -> usize {
        if self.abilities.aligned {
            1
        } else {
            3
        }
    }
}

fn parse_version(help: &str) -> Option<String> {
    let line = help.lines().find(|line| line.starts_with("Ethr:"))?;
    let (_, version) = line.split_once("(Version: ")?;
    Some(version.trim_end().trim_end_matches(')').into())
}

fn parse_abilities(help: &str) -> Abilities {
    let has = |option: &str| {
        help.lines()
            .any(|line| line.split_whitespace().next() == Some(option))
    };
    Abilities {
        two_places: has("-dp"),
        // Option -1 was introduced together with the alignment of both ends.
        aligned: has("-1"),
    }
}

/// One line of ethr's log. All fields except time and kind depend on the line's kind (log.go: logTestResults).
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Line {
    time: String,
    #[serde(rename = "Type")]
    kind: String,
    #[serde(default)]
    remote_addr: String,
    #[serde(default)]
    bits_per_second: String,
}

/// Parses a result row: (second of the day at which it was written, Gbit/s).
fn row(line: &str) -> Option<(u64, f64)> {
    let line: Line = serde_json::from_str(line).ok()?;
    // A sum row appears only with several sessions; here is one session.
    if line.kind != "TestResult" || line.remote_addr.starts_with('[') {
        return None;
    }
    Some((
        second_of_day(&line.time)?,
        bits(&line.bits_per_second)? / 1e9,
    ))
}

/// Parses a time such as `2026-01-31T23:59:58Z`.
fn second_of_day(time: &str) -> Option<u64> {
    let (_, clock) = time.strip_suffix('Z')?.split_once('T')?;
    let mut numbers = clock.split(':').map(|number| number.parse::<u64>().ok());
    let mut next = || numbers.next().flatten();
    Some((next()? * 60 + next()?) * 60 + next()?)
}

/// Parses `0`, `930`, `23.4M`, `11.77G` (utils.go: numberToUnit, powers of 1000).
fn bits(text: &str) -> Option<f64> {
    let text = text.trim();
    let (number, unit) = match text.char_indices().last()? {
        (at, 'K') => (&text[..at], 1e3),
        (at, 'M') => (&text[..at], 1e6),
        (at, 'G') => (&text[..at], 1e9),
        (at, 'T') => (&text[..at], 1e12),
        _ => (text, 1.0),
    };
    Some(number.parse::<f64>().ok()? * unit)
}

/// Returns (end of the second counted from the start, Gbit/s) of the server's whole seconds.
///
/// The server writes no row for a second without data, so a missing row counts as zero.
fn series(
    server: &str,
    client: &Ended,
    seconds: usize,
    abilities: Abilities,
) -> anyhow::Result<Vec<(f64, f64)>> {
    let rows: Vec<(u64, f64)> = server.lines().filter_map(row).collect();
    if rows.is_empty() && !client.stderr.lines().any(|line| row(line).is_some()) {
        bail!("ethr: no result{}", errors(&client.stdout));
    }
    let first = rows.first().map_or(0, |(second, _)| *second);
    let mut values = vec![0.0; seconds];
    for (second, value) in &rows {
        // After midnight the second of the day restarts.
        let index = (second + SECONDS_PER_DAY - first) % SECONDS_PER_DAY;
        if let Some(place) = values.get_mut(index as usize) {
            *place = *value;
        }
    }
    let all = values.into_iter().enumerate();
    let all = all.map(|(index, value)| ((index + 1) as f64, value));
    // Unaligned, the first row covers part of a second, and the last whole second ends before the load.
    let skipped = usize::from(!abilities.aligned);
    Ok(all.skip(skipped).collect())
}

/// Returns the errors on standard output, which may be missing in ethr's log.
fn errors(stdout: &str) -> String {
    let errors = stdout.lines().filter(|line| line.starts_with("Error"));
    errors.map(|line| format!(": {line}")).collect()
}

#[cfg(test)]
mod tests;
