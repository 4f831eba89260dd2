// SPDX-License-Identifier: GPL-2.0-or-later
//! iperf3, with the results of its receiver.

use std::time::Instant;

use anyhow::{bail, Context};
use serde::Deserialize;

use super::child::{wait_for_listener, Child};
use super::{Load, Metric, Outcome, Place, Runner, Workload};
use crate::load::GRACE;

const PROGRAM: &str = "iperf3";
const CURE: &str = "install the Debian package iperf3";
/// Length in seconds below which a last interval is a remainder without a meaningful rate.
const SHORTEST_INTERVAL: f64 = 0.5;

pub struct Iperf3 {
    version: String,
}

impl Iperf3 {
    pub fn find() -> anyhow::Result<Iperf3> {
        let mut command = std::process::Command::new(PROGRAM);
        command.arg("--version");
        let ended = Child::spawn(command, CURE)?.wait(Instant::now() + GRACE)?;
        let text = ended.check("iperf3 --version")?.stdout;
        let first = text.lines().next().context("iperf3 --version: no output")?;
        Ok(Iperf3 {
            version: first.into(),
        })
    }
}

fn server_arguments(load: &Load) -> Vec<String> {
    let (address, port) = (load.address.to_string(), load.port.to_string());
    let words = ["-s", "-B", &address, "-p", &port, "-1", "-J"];
    words.map(str::to_string).to_vec()
}

fn client_arguments(load: &Load) -> Vec<String> {
    let (address, port) = (load.address.to_string(), load.port.to_string());
    let (seconds, bytes) = (
        load.duration.as_secs().to_string(),
        load.payload_bytes.to_string(),
    );
    let mut words = vec![
        "-c", &address, "-p", &port, "-t", &seconds, "-l", &bytes, "-J",
    ];
    if load.workload == Workload::UdpFlood {
        words.extend(["-u", "-b", "0"]);
    }
    words.into_iter().map(str::to_string).collect()
}

impl Runner for Iperf3 {
    fn name(&self) -> &'static str {
        "iperf3"
    }

    fn version(&self) -> String {
        self.version.clone()
    }

    fn supports(&self, workload: Workload) -> bool {
        matches!(workload, Workload::TcpStream | Workload::UdpFlood)
    }

    fn command_lines(&self, load: &Load) -> Vec<String> {
        [server_arguments(load), client_arguments(load)]
            .map(|arguments| format!("{PROGRAM} {}", arguments.join(" ")))
            .to_vec()
    }

    fn run(&self, place: &Place, load: &Load) -> anyhow::Result<Outcome> {
        if !self.supports(load.workload) {
            bail!("iperf3 makes tcp-stream and udp-flood only: choose another runner");
        }
        if load.duration.as_secs() == 0 || load.duration.subsec_nanos() != 0 {
            bail!("iperf3 measures whole seconds, at least 1");
        }
        let mut command = place.server.command(PROGRAM);
        command.args(server_arguments(load));
        let mut server = Child::spawn(command, CURE)?;
        wait_for_listener(place.server, load.port, &mut server)?;
        let mut command = place.client.command(PROGRAM);
        command.args(client_arguments(load));
        let deadline = Instant::now() + load.duration + GRACE;
        let client = Child::spawn(command, CURE)?.wait(deadline)?.stdout;
        // iperf3 reports failures in its JSON, and not always in its exit status.
        parse(&client).context("iperf3 client")?;
        let server = server.wait(deadline)?.stdout;
        let outcome = match load.workload {
            Workload::UdpFlood => udp_flood(&parse(&server).context("iperf3 server")?)?,
            _ => tcp_stream(&parse(&server).context("iperf3 server")?)?,
        };
        let raw = [("server.json", server), ("client.json", client)];
        Ok(Outcome {
            raw: raw.map(|(name, text)| (name.into(), text)).to_vec(),
            ..outcome
        })
    }
}

/// Parsed fields of iperf3's JSON, the same at both ends.
#[derive(Deserialize)]
struct Report {
    error: Option<String>,
    #[serde(default)]
    intervals: Vec<Interval>,
    end: End,
}

#[derive(Deserialize)]
struct Interval {
    sum: Sum,
}

#[derive(Deserialize)]
struct End {
    sum_received: Option<Sum>,
}

/// iperf3's counts over an interval, or over the whole load. For UDP, `packets` is the highest sequence number that
/// arrived, so it includes lost packets.
#[derive(Deserialize)]
struct Sum {
    end: f64,
    seconds: f64,
    bits_per_second: f64,
    #[serde(default)]
    packets: u64,
    #[serde(default)]
    lost_packets: i64,
}

impl Sum {
    fn delivered(&self) -> f64 {
        self.packets as f64 - self.lost_packets as f64
    }

    fn kpps(&self) -> f64 {
        self.delivered() / self.seconds / 1e3
    }
}

fn parse(json: &str) -> anyhow::Result<Report> {
    let report: Report = serde_json::from_str(json).context("its JSON")?;
    match report.error {
        Some(error) => bail!("{error}"),
        None => Ok(report),
    }
}

fn received(report: &Report) -> anyhow::Result<&Sum> {
    let sum = report.end.sum_received.as_ref();
    sum.filter(|sum| sum.seconds > 0.0)
        .context("iperf3 server: nothing about what was received")
}

fn series(report: &Report, value: impl Fn(&Sum) -> f64) -> Vec<(f64, f64)> {
    let sums = report.intervals.iter().map(|interval| &interval.sum);
    let whole = sums.filter(|sum| sum.seconds >= SHORTEST_INTERVAL);
    whole.map(|sum| (sum.end, value(sum))).collect()
}

fn metric(name: &'static str, unit: &'static str, value: f64) -> Metric {
    Metric { name, unit, value }
}

fn tcp_stream(server: &Report) -> anyhow::Result<Outcome> {
    let sum = received(server)?;
    Ok(Outcome {
        metrics: vec![metric("throughput", "Gbit/s", sum.bits_per_second / 1e9)],
        series: series(server, |sum| sum.bits_per_second / 1e9),
        ..Outcome::default()
    })
}

fn udp_flood(server: &Report) -> anyhow::Result<Outcome> {
    let sum = received(server)?;
    let (sent, lost) = (sum.packets as f64, sum.lost_packets as f64);
    let lost_percent = if sent > 0.0 { 100.0 * lost / sent } else { 0.0 };
    Ok(Outcome {
        metrics: vec![
            metric("sent", "packets", sent),
            metric("delivered", "packets", sum.delivered()),
            metric("delivered_rate", "kpps", sum.kpps()),
            metric("lost", "packets", lost),
            metric("lost_percent", "%", lost_percent),
        ],
        series: series(server, Sum::kpps),
        ..Outcome::default()
    })
}

#[cfg(test)]
mod tests;
