// SPDX-License-Identifier: GPL-2.0-or-later
//! The embedded traffic generator ([`crate::load`]), its two ends as child processes.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{bail, Context};
use serde::de::DeserializeOwned;

use super::child::Child;
use super::{Load, Metric, Outcome, Place, Runner, Workload};
use crate::load::{
    self, ConnectClient, ConnectServer, FloodClient, FloodServer, LatencyClient, LatencyServer,
    StreamClient, StreamServer, GRACE, READY,
};
use crate::netns::Namespace;

const CURE: &str = "this program must stay where it is while it runs";
/// A server that needs longer to listen will not listen at all.
const START_TIMEOUT: Duration = Duration::from_secs(5);

/// Both reports of a load.
struct Reports {
    server: String,
    client: String,
}

pub struct Builtin {
    /// The program that has the hidden subcommand `load`.
    program: PathBuf,
}

impl Builtin {
    /// The generator in this very program.
    pub fn find() -> anyhow::Result<Builtin> {
        let program = std::env::current_exe().context("the file of this program")?;
        Ok(Builtin::new(program))
    }

    pub fn new(program: PathBuf) -> Builtin {
        Builtin { program }
    }

    /// Starts the server of a load and returns when it listens.
    pub(super) fn serve(&self, place: &Place, load: &Load) -> anyhow::Result<Child> {
        let mut server = self.spawn(place.server, "server", load)?;
        server.wait_for_line(START_TIMEOUT, |line| line == READY)?;
        Ok(server)
    }

    /// The full command line of one end.
    pub(super) fn command_line(&self, end: &str, load: &Load) -> String {
        let arguments = load::arguments(end, load).join(" ");
        format!("{} load {arguments}", self.program.display())
    }

    fn spawn(&self, namespace: &Namespace, end: &str, load: &Load) -> anyhow::Result<Child> {
        let mut command = namespace.command(&self.program);
        command.arg("load").args(load::arguments(end, load));
        Child::spawn(command, CURE)
    }

    /// Runs both ends. `sent` finds in the client's report what the server is told.
    fn both_ends<C: DeserializeOwned>(
        &self,
        place: &Place,
        load: &Load,
        sent: impl Fn(&C) -> u64,
    ) -> anyhow::Result<(C, Reports)> {
        let server = self.serve(place, load)?;
        let client = self.spawn(place.client, "client", load)?;
        let deadline = Instant::now() + load.duration + GRACE;
        let client = client.wait(deadline)?.check("load client")?.stdout;
        let report: C = parse(&client)?;
        let server = end(server, sent(&report), deadline)?;
        Ok((report, Reports { server, client }))
    }

    fn tcp_stream(&self, place: &Place, load: &Load) -> anyhow::Result<Outcome> {
        let (_, reports) = self.both_ends(place, load, |client: &StreamClient| client.sent)?;
        let server: StreamServer = parse(&reports.server)?;
        if server.seconds <= 0.0 {
            bail!("the connection ended at once");
        }
        let to_gbits = |bytes: u64, seconds: f64| bytes as f64 * 8.0 / seconds / 1e9;
        let throughput = to_gbits(server.received_bytes, server.seconds);
        let interval = server.interval_seconds;
        let series = ends(interval, &server.interval_bytes);
        let series = series.map(|(end, bytes)| (end, to_gbits(bytes, interval)));
        Ok(Outcome {
            metrics: vec![metric("throughput", "Gbit/s", throughput)],
            series: series.collect(),
            raw: reports.raw(),
            ..Outcome::default()
        })
    }

    fn tcp_latency(&self, place: &Place, load: &Load) -> anyhow::Result<Outcome> {
        let (client, reports) =
            self.both_ends(place, load, |client: &LatencyClient| client.sent)?;
        let _: LatencyServer = parse(&reports.server)?;
        Ok(Outcome {
            metrics: vec![
                metric("p50", "us", client.p50_us),
                metric("p99", "us", client.p99_us),
                metric("p999", "us", client.p999_us),
                metric("rate", "1/s", client.sent as f64 / client.seconds),
            ],
            percentiles: client.percentiles,
            raw: reports.raw(),
            ..Outcome::default()
        })
    }

    fn tcp_connect(&self, place: &Place, load: &Load) -> anyhow::Result<Outcome> {
        let (client, reports) =
            self.both_ends(place, load, |client: &ConnectClient| client.sent)?;
        let server: ConnectServer = parse(&reports.server)?;
        if server.accepted < client.sent {
            bail!(
                "{} connections got a byte, {} were accepted",
                client.sent,
                server.accepted
            );
        }
        let rate = client.sent as f64 / client.seconds;
        Ok(Outcome {
            metrics: vec![metric("connections", "1/s", rate)],
            raw: reports.raw(),
            ..Outcome::default()
        })
    }

    fn udp_flood(&self, place: &Place, load: &Load) -> anyhow::Result<Outcome> {
        let (_, reports) = self.both_ends(place, load, |client: &FloodClient| client.sent)?;
        let server: FloodServer = parse(&reports.server)?;
        let per = |count: f64, of: f64| if of > 0.0 { count / of } else { 0.0 };
        let (sent, lost) = (server.sent as f64, server.lost as f64);
        let delivered = server.delivered as f64;
        let mut metrics = vec![
            metric("sent", "packets", sent),
            metric("delivered", "packets", delivered),
            metric(
                "delivered_rate",
                "kpps",
                per(delivered, server.seconds) / 1e3,
            ),
            metric("lost", "packets", lost),
            metric("lost_percent", "%", 100.0 * per(lost, sent)),
        ];
        if server.receiver_drops > 0 {
            // Then the losses are not those of the path alone, and the reader must see that.
            let drops = server.receiver_drops as f64;
            metrics.push(metric("receiver_drops", "packets", drops));
        }
        let interval = server.interval_seconds;
        let series = ends(interval, &server.interval_packets);
        Ok(Outcome {
            metrics,
            series: series
                .map(|(end, packets)| (end, packets as f64 / interval / 1e3))
                .collect(),
            raw: reports.raw(),
            ..Outcome::default()
        })
    }
}

impl Runner for Builtin {
    fn name(&self) -> &'static str {
        "builtin"
    }

    fn version(&self) -> String {
        env!("CARGO_PKG_VERSION").into()
    }

    fn supports(&self, workload: Workload) -> bool {
        workload != Workload::TcpProbe
    }

    fn command_lines(&self, load: &Load) -> Vec<String> {
        ["server", "client"]
            .map(|end| self.command_line(end, load))
            .to_vec()
    }

    fn run(&self, place: &Place, load: &Load) -> anyhow::Result<Outcome> {
        match load.workload {
            Workload::TcpStream => self.tcp_stream(place, load),
            Workload::TcpLatency => self.tcp_latency(place, load),
            Workload::TcpConnect => self.tcp_connect(place, load),
            Workload::TcpProbe => bail!("builtin does not make tcp-probe: use --runner scanner"),
            Workload::UdpFlood => self.udp_flood(place, load),
        }
    }
}

impl Reports {
    fn raw(self) -> Vec<(String, String)> {
        vec![
            ("server.json".into(), self.server),
            ("client.json".into(), self.client),
        ]
    }
}

/// Tells a server what the client has sent and takes its report.
pub(super) fn end(mut server: Child, sent: u64, deadline: Instant) -> anyhow::Result<String> {
    // A server that has ended with its connection does not hear this any more.
    let told = server.tell(&format!("sent {sent}"));
    let server = match told {
        Ok(()) => server.wait(deadline)?,
        Err(error) => server.wait(deadline).map_err(|_| error)?,
    };
    Ok(server.check("load server")?.stdout)
}

fn metric(name: &'static str, unit: &'static str, value: f64) -> Metric {
    Metric { name, unit, value }
}

/// (end of the interval in seconds, its count)
fn ends(interval_seconds: f64, counts: &[u64]) -> impl Iterator<Item = (f64, u64)> + '_ {
    // Multiples of a tenth, and not sums of it: 0.3 and not 0.30000000000000004.
    let per_second = 1.0 / interval_seconds;
    let end = move |index: usize| (index + 1) as f64 / per_second.round();
    counts
        .iter()
        .enumerate()
        .map(move |(index, count)| (end(index), *count))
}

/// The report is the last line; a server has printed [`READY`] before it.
pub(super) fn parse<T: DeserializeOwned>(stdout: &str) -> anyhow::Result<T> {
    let line = stdout.lines().last().context("a load printed no report")?;
    serde_json::from_str(line).with_context(|| format!("the report of a load: {line}"))
}
