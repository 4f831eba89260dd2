// SPDX-License-Identifier: GPL-2.0-or-later
//! Debian's Prometheus reads the metrics, and promtool finds no problem in them.

use std::fs;
use std::io::Write;
use std::process::{Child, Command, Stdio};

use anyhow::{ensure, Context};
use serde_json::Value;
use testbed::place::LOCALHOST;
use testbed::traffic::{udp_client, udp_exchange, UdpServer};
use testbed::twin::{root, Twin};
use testbed::wait::{until, PATIENCE};
use twinwall_tests::case::Row;

use super::http::{ask, connect, get, Place, PORT};

pub const ROWS: &[Row] = &[
    ("promtool-finds-nothing", promtool),
    ("prometheus-gives-the-values-back", scrape),
];

const PROMETHEUS_PORT: u16 = 9090;
const PACKETS: u64 = 37;

/// Checks the metrics with promtool, which reads the text format 0.0.4 and fails if it finds a problem.
fn promtool(twin: Twin) -> anyhow::Result<()> {
    let place = Place::new()?;
    let served = place.start(twin, &["--queue", "0:1"])?;
    let open = place.metrics()?;
    let plain = place.text("Accept: text/plain\r\n")?;
    check(&plain).context("text/plain")?;
    // promtool must find problems in OpenMetrics, where families have other names. It reads its unknown parts as
    // comments.
    ensure!(
        check(&open).is_err(),
        "OpenMetrics names families otherwise"
    );
    ensure!(check("no metrics").is_err());
    served.firewall.stop().map(drop)
}

fn check(text: &str) -> anyhow::Result<()> {
    let mut child = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .context("promtool: make deps")?;
    let mut input = child.stdin.take().expect("stdin is piped");
    input.write_all(text.as_bytes())?;
    drop(input);
    let output = child.wait_with_output()?;
    let said = [output.stdout, output.stderr].concat();
    ensure!(
        output.status.success() && said.is_empty(),
        "{}: {}",
        output.status,
        String::from_utf8_lossy(&said)
    );
    Ok(())
}

/// Running Prometheus, killed on drop.
struct Prometheus(Child);

impl Prometheus {
    fn start(place: &Place) -> anyhow::Result<Prometheus> {
        let config = format!(
            "global:\n  scrape_interval: 1s\nscrape_configs:\n- job_name: twinwall\n  static_configs:\n  \
             - targets: ['127.0.0.1:{PORT}']\n"
        );
        fs::write(place.path("prometheus.yml"), config)?;
        let child = place
            .namespace
            .command("prometheus")
            .arg(format!("--config.file={}", place.path("prometheus.yml")))
            .arg(format!("--storage.tsdb.path={}", place.path("data")))
            .arg(format!("--web.listen-address=127.0.0.1:{PROMETHEUS_PORT}"))
            .arg("--log.level=warn")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(fs::File::create(place.path("prometheus.log"))?)
            .spawn()
            .context("prometheus: make deps")?;
        Ok(Prometheus(child))
    }

    /// Requests a path of Prometheus' HTTP API. Returns the reply.
    fn api(&self, place: &Place, path: &str) -> anyhow::Result<Value> {
        let stream = connect(&place.namespace, (LOCALHOST, PROMETHEUS_PORT).into())?;
        let answer = ask(stream, &get(path, "Connection: close\r\n"))?;
        ensure!(answer.status == 200, "{path}: {}", answer.status);
        // Prometheus sends long replies in chunks.
        let body = match answer.header("transfer-encoding") {
            None => answer.body,
            Some(_) => unchunked(&answer.body).context("chunks")?,
        };
        serde_json::from_str(&body).with_context(|| format!("{path}: {body}"))
    }

    /// Returns value and labels of a query's first result; None if there is none.
    fn query(&self, place: &Place, query: &str) -> anyhow::Result<Option<(f64, Value)>> {
        let answer = self.api(place, &format!("/api/v1/query?query={query}"))?;
        let result = &answer["data"]["result"][0];
        let Some(value) = result["value"][1].as_str() else {
            return Ok(None);
        };
        Ok(Some((value.parse()?, result["metric"].clone())))
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn unchunked(mut rest: &str) -> Option<String> {
    let mut text = String::new();
    loop {
        let (size, behind) = rest.split_once("\r\n")?;
        let size = usize::from_str_radix(size, 16).ok()?;
        if size == 0 {
            return Some(text);
        }
        text.push_str(behind.get(..size)?);
        rest = behind.get(size + 2..)?;
    }
}

/// Checks that the alerts of docs/alerts.yml fire for the series of tests/live/metrics/alerts.yml, and for no others.
pub fn alerts() -> anyhow::Result<()> {
    let folder = root().join("tests/live/metrics");
    let output = Command::new("promtool")
        .args(["test", "rules", "alerts.yml"])
        .current_dir(folder)
        .output()
        .context("promtool: make deps")?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    ensure!(
        output.status.success(),
        "{said}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(())
}

fn scrape(twin: Twin) -> anyhow::Result<()> {
    let place = Place::new()?;
    let served = place.start(twin, &[])?;
    let _server = UdpServer::start(&place.namespace, LOCALHOST, true)?;
    udp_exchange(&udp_client(&place.namespace, LOCALHOST)?, PACKETS)?;
    let ledger = served.firewall.settled_ledger()?.total;
    let prometheus = Prometheus::start(&place)?;
    let packets = "twinwall_rule_packets_total%7Bcomment=%22asked%22%7D";
    let mut found = None;
    until("it has scraped", PATIENCE, || {
        found = prometheus.query(&place, packets).unwrap_or(None);
        Ok(found.is_some())
    })
    .with_context(|| fs::read_to_string(place.path("prometheus.log")).unwrap_or_default())?;
    let (value, labels) = found.expect("it was found");
    ensure!(value == PACKETS as f64, "{value}");
    ensure!(labels["table"] == "inet t" && labels["chain"] == "c" && labels["position"] == "1");
    for (query, expected) in [
        ("up", 1),
        ("sum(twinwall_packets_total)", ledger.received),
        ("twinwall_received_bytes_total", ledger.bytes),
        ("twinwall_ledger_reconciled", 1),
        ("twinwall_build_info", 1),
        (
            "count(twinwall_malformed_packets_total)",
            ledger.malformed.len() as u64,
        ),
    ] {
        let expected = expected as f64;
        let mut value = None;
        // After a late scrape `up` is 0 and the other series have no value, until the next scrape.
        until(query, PATIENCE, || {
            value = prometheus.query(&place, query)?.map(|(value, _)| value);
            Ok(value.is_some() && (query != "up" || value == Some(expected)))
        })?;
        ensure!(
            value == Some(expected),
            "{query} is {value:?} instead of {expected}"
        );
    }
    // Prometheus must know every family, with its type, unit and help.
    let metadata = prometheus.api(&place, "/api/v1/targets/metadata")?;
    let families = metadata["data"].as_array().context("metadata")?;
    let text = place.metrics()?;
    let said = text
        .lines()
        .filter(|line| line.starts_with("# HELP "))
        .count();
    ensure!(
        families.len() == said,
        "{} of {said} families",
        families.len()
    );
    let bytes = families
        .iter()
        .find(|family| family["metric"] == "twinwall_received_bytes");
    let bytes = bytes.context("twinwall_received_bytes")?;
    ensure!(
        bytes["type"] == "counter" && bytes["unit"] == "bytes",
        "{bytes}"
    );
    let mut target = Value::Null;
    let is_scraped = until("the last scrape has succeeded", PATIENCE, || {
        let targets = prometheus.api(&place, "/api/v1/targets")?;
        target = targets["data"]["activeTargets"][0].clone();
        Ok(target["lastError"] == "" && target["health"] == "up")
    });
    is_scraped.with_context(|| target.to_string())?;
    // Only at the level debug does Prometheus log a late scrape.
    let log = fs::read_to_string(place.path("prometheus.log"))?;
    ensure!(!log.contains("scrape"), "{log}");
    drop(prometheus);
    served.firewall.stop().map(drop)
}
