// SPDX-License-Identifier: GPL-2.0-or-later
//! Loads `frames-file` and `frames-file-paced`: the subject is a program that records packets to a file with a buffer
//! of 64 MiB. Packets that arrive at the interface and are missing in the file are lost.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{bail, ensure, Context, Result};
use testbed::folder::Folder;
use testbed::{proc, wait};

use crate::capturing::{at_reader, frames, metric, send};
use crate::cost::{self, Rest};
use crate::interrupt;
use crate::load::FramesArguments;
use crate::runner::{Outcome, Place};
use crate::schedule::Cell;
use crate::subject::{Kind, Subject};

/// Minimum time between the last frame and the signal that ends the recorder, which may buffer packets for a second.
const SETTLING: Duration = Duration::from_millis(1500);

/// Returns a recorder's command line.
pub fn words(bin_dir: &Path, subject: &Subject, file: &str) -> Result<Vec<String>> {
    let Kind::Recorder { program } = &subject.kind else {
        bail!("{subject} records nothing");
    };
    let rest = match program.as_str() {
        "tcpdump" => "-i veth -B 65536 -Z root -w",
        "dumpcap" => "-i veth -B 64 -q -w",
        "netsniff-ng" => "--in veth --ring-size 64MiB --no-sock-mem --silent --out",
        _ => "-i veth --ring 64M -w",
    };
    let program = subject.program(bin_dir).context("a program")?;
    let mut words = vec![program.display().to_string()];
    words.extend(rest.split(' ').map(str::to_string));
    words.push(file.into());
    Ok(words)
}

/// Returns the number of packets that have arrived at the server's end. Must be called in the server's namespace.
fn arrived() -> Result<u64> {
    let table = fs::read_to_string("/proc/thread-self/net/dev")?;
    let line = table
        .lines()
        .find_map(|line| line.trim_start().strip_prefix("veth:"))
        .context("/proc/net/dev has no line of veth")?;
    let packets = line.split_whitespace().nth(1);
    packets
        .and_then(|number| number.parse().ok())
        .with_context(|| format!("/proc/net/dev: {line}"))
}

/// Returns true if a packet socket is open in the namespace of this thread (the table has a header line).
fn is_heard() -> Result<bool> {
    Ok(fs::read_to_string("/proc/thread-self/net/packet")?
        .lines()
        .count()
        > 1)
}

/// Returns the number of packets in a file, counted by capinfos.
fn packets(file: &str) -> Result<u64> {
    let output = Command::new("capinfos")
        .args(["-cMTr", file])
        .output()
        .context("capinfos, of Debian's package tshark")?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let number = text.trim().rsplit('\t').next();
    number
        .and_then(|number| number.parse().ok())
        .with_context(|| {
            format!(
                "capinfos: {text}{}",
                String::from_utf8_lossy(&output.stderr)
            )
        })
}

/// Output and cost of a recorder while frames arrived.
struct Recorded {
    /// Text that the recorder printed on stderr.
    said: String,
    /// Time in seconds for which frames were sent.
    seconds: f64,
    cpu_ns: u64,
}

/// Runs the recorder, and sends frames once its socket is open. Its CPU time counts from then until it is idle again,
/// at least SETTLING after the last frame.
fn record(
    mut command: Command,
    place: &Place,
    asked: &FramesArguments,
    seconds: u32,
) -> Result<Recorded> {
    let child = command.spawn().context("the recorder")?;
    let pid = child.id();
    wait::until("a packet socket", wait::PATIENCE, || {
        place.server.enter(is_heard)
    })?;
    let before = cost::settled(pid)?;
    let end = Instant::now() + Duration::from_secs(seconds.into());
    let sent = send(place, asked, &|| {
        Instant::now() >= end || interrupt::check().is_err()
    });
    thread::sleep(SETTLING);
    let after = Rest::Sleeps.begin(pid);
    proc::signal(pid, libc::SIGINT);
    let output = child.wait_with_output().context("the recorder")?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    ensure!(output.status.success(), "{}", said.trim());
    Ok(Recorded {
        said,
        seconds: sent?.seconds,
        cpu_ns: after?.saturating_sub(before),
    })
}

/// Measures a recorder and deletes its file.
pub fn measure(
    bin_dir: &Path,
    place: &Place,
    subject: &Subject,
    cell: &Cell,
    seconds: u32,
) -> Result<Outcome> {
    let folder = Folder::new()?;
    let file = folder.file("frames");
    let words = words(bin_dir, subject, &file)?;
    let mut command = place.server.command(&words[0]);
    command.args(&words[1..]).stdin(Stdio::null());
    command.stdout(Stdio::null()).stderr(Stdio::piped());
    let asked = frames(cell);
    let before = place.server.enter(arrived)?;
    let recorded = at_reader(|| record(command, place, &asked, seconds));
    interrupt::check()?;
    let recorded = recorded.with_context(|| subject.to_string())?;
    let came = place.server.enter(arrived)? - before;
    let mut outcome = outcome(came, packets(&file)?, &recorded)?;
    outcome.raw.push(("recorder.txt".into(), recorded.said));
    Ok(outcome)
}

fn outcome(came: u64, written: u64, recorded: &Recorded) -> Result<Outcome> {
    ensure!(written > 0, "no packet was recorded");
    let lost = came.saturating_sub(written) as f64 / came as f64;
    let cost_us = recorded.cpu_ns as f64 / 1e3 / written as f64;
    let kpps = |packets: u64| packets as f64 / recorded.seconds / 1e3;
    Ok(Outcome {
        metrics: vec![
            metric("cost", "us", cost_us),
            metric("lost_percent", "%", 100.0 * lost),
            metric("delivered_rate", "kpps", kpps(written)),
            metric("offered_rate", "kpps", kpps(came)),
        ],
        ..Outcome::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_in_the_file_is_lost() {
        let recorded = Recorded {
            said: String::new(),
            seconds: 2.0,
            cpu_ns: 450_000,
        };
        let outcome = outcome(1000, 900, &recorded).unwrap();
        let values: Vec<f64> = outcome.metrics.iter().map(|m| m.value).collect();
        assert_eq!(values, [0.5, 10.0, 0.45, 0.5]);
    }
}
