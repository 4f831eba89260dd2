// SPDX-License-Identifier: GPL-2.0-or-later
//! Debian's Prometheus with the fleet's service discovery, alert rules and dashboard.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::process::{Command, Output, Stdio};
use std::thread;

use anyhow::{ensure, Context};
use serde_json::Value;
use testbed::twin::root;
use testbed::wait::{until, PATIENCE};
use twinwall_tests::fleet::{policy, Place, Plan, Row, Running, CHANNEL, CUT_OFF, NUMBERS};

pub const ROWS: &[Row] = &[("prometheus-sees-the-fleet", 90, prometheus_sees_the_fleet)];

const ADDRESS: &str = "127.0.0.1:9090";

fn promtool(place: &Place, arguments: &[&str], input: &str) -> anyhow::Result<Output> {
    let mut command: Command = place.operator.command("promtool");
    command.args(arguments).stdin(Stdio::piped());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().context("promtool: make deps")?;
    let mut stdin = child.stdin.take().context("stdin is piped")?;
    stdin.write_all(input.as_bytes())?;
    drop(stdin);
    Ok(child.wait_with_output()?)
}

/// Returns the result of a query. Fails if it is an error.
fn query(place: &Place, query: &str) -> anyhow::Result<String> {
    let url = format!("http://{ADDRESS}");
    let output = promtool(place, &["query", "instant", &url, query], "")?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    ensure!(output.status.success(), "{query}: {said}");
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Serves a host's metrics like the node exporter: the text of the file that the agent writes.
fn serve(place: &Place, number: usize) -> anyhow::Result<()> {
    let host = &place.hosts[number];
    let bind = || TcpListener::bind(format!("{}:{NUMBERS}", host.address));
    let listener = host.namespace.enter(bind)?;
    let file = place.path(&host.id, "numbers.prom");
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let _ = stream.read(&mut [0; 4096]);
            let text = fs::read_to_string(&file).unwrap_or_default();
            let length = text.len();
            let head = format!(
                "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: {length}\r\n\r\n"
            );
            let _ = stream.write_all((head + &text).as_bytes());
        }
    });
    Ok(())
}

fn start(place: &Place) -> anyhow::Result<Running> {
    let (code, targets) = place.fleet(&["targets", CHANNEL])?;
    ensure!(code == Some(0), "{targets}");
    let targets = place.folder.write("targets.json", targets)?;
    let rules = root().join("docs/fleet-alerts.yml");
    let config = format!(
        "global:\n  scrape_interval: 1s\n  evaluation_interval: 1s\nrule_files: ['{}']\nscrape_configs:\n- job_name: twinwall\n  \
         file_sd_configs:\n  - files: ['{targets}']\n",
        rules.display()
    );
    let config = place.folder.write("prometheus.yml", config)?;
    let checked = promtool(place, &["check", "config", &config], "")?;
    ensure!(
        checked.status.success(),
        "{}",
        String::from_utf8_lossy(&checked.stderr)
    );
    let mut command = place.operator.command("prometheus");
    command
        .arg(format!("--config.file={config}"))
        .arg(format!("--storage.tsdb.path={}", place.folder.file("data")))
        .arg(format!("--web.listen-address={ADDRESS}"))
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    Ok(Running(command.spawn().context("prometheus: make deps")?))
}

/// Returns the queries of the dashboard.
fn expressions() -> anyhow::Result<Vec<String>> {
    let text = fs::read_to_string(root().join("docs/fleet-grafana.json"))?;
    let board: Value = serde_json::from_str(&text)?;
    let panels = board["panels"].as_array().context("panels")?.iter();
    let targets = panels.flat_map(|panel| panel["targets"].as_array().into_iter().flatten());
    Ok(targets
        .filter_map(|target| target["expr"].as_str().map(str::to_owned))
        .collect())
}

fn prometheus_sees_the_fleet() -> anyhow::Result<()> {
    let place = Place::with(Plan {
        hosts: 2,
        look: 2,
        numbers: true,
        ..Plan::default()
    })?;
    place.push_well(&policy(7777))?;
    for number in 0..2 {
        serve(&place, number)?;
        let text = fs::read_to_string(place.path(&place.hosts[number].id, "numbers.prom"))?;
        let checked = promtool(&place, &["check", "metrics"], &text)?;
        ensure!(
            checked.status.success(),
            "{}",
            String::from_utf8_lossy(&checked.stderr)
        );
    }
    let _prometheus = start(&place)?;
    until("both hosts to be scraped", PATIENCE, || {
        let found = query(&place, "twinwall_fleet_generation_confirmed == 1");
        Ok(found.is_ok_and(|text| text.contains("host=\"h1\"") && text.contains("host=\"h2\"")))
    })?;
    for expression in expressions()? {
        let found = query(&place, &expression.replace("$channel", CHANNEL))?;
        ensure!(found.contains("=>"), "{expression} finds nothing: {found}");
    }
    let firing = "ALERTS{alertname=\"TwinwallFleetReverted\",alertstate=\"firing\"}";
    ensure!(!query(&place, firing)?.contains("=>"));
    let options = ["--waves", "1%,100%", "--observe", "1", "--confirm", "6"];
    let (code, said) = place.push(CUT_OFF, &options)?;
    ensure!(code == Some(1), "{said}");
    until("the alert", PATIENCE, || {
        Ok(query(&place, firing)?.contains("channel=\"web\""))
    })
}
