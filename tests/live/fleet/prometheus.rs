// SPDX-License-Identifier: GPL-2.0-or-later
//! Debian's Prometheus with the fleet's service discovery, alert rules and dashboard.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{ensure, Context};
use serde_json::Value;
use testbed::twin::root;
use testbed::wait::{until, PATIENCE};
use twinwall_tests::fleet::{policy, Place, Plan, Row, Running, CHANNEL, CUT_OFF, NUMBERS};

pub const ROWS: &[Row] = &[("prometheus-sees-the-fleet", prometheus_sees_the_fleet)];

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

/// Metric of the node exporter: the modification time of a file of metrics.
const WRITTEN: &str = "node_textfile_mtime_seconds{file=\"/x/twinwall.prom\"}";
/// Age of a file of metrics at which the alert for silent hosts has been firing for a while.
const OLD: Duration = Duration::from_secs(700);

/// Returns the modification time of a file in seconds since 1970; 0 if there is no file.
fn written(file: &str) -> u64 {
    let time = fs::metadata(file).and_then(|data| data.modified());
    let age = time.map(|time| time.duration_since(UNIX_EPOCH).unwrap_or_default());
    age.unwrap_or_default().as_secs()
}

/// Sets the modification time of a file to OLD ago, so that the alert fires.
fn make_old(file: &str) -> anyhow::Result<()> {
    let file = fs::File::options().append(true).open(file)?;
    Ok(file.set_modified(SystemTime::now() - OLD)?)
}

/// Serves a host's metrics like the node exporter: the text of the file that the agent writes, and the file's time.
fn serve(place: &Place, number: usize) -> anyhow::Result<()> {
    let host = &place.hosts[number];
    let bind = || TcpListener::bind(format!("{}:{NUMBERS}", host.address));
    let listener = host.namespace.enter(bind)?;
    let file = place.path(&host.id, "numbers.prom");
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let _ = stream.read(&mut [0; 4096]);
            let mut text = fs::read_to_string(&file).unwrap_or_default();
            text += &format!("{WRITTEN} {}\n", written(&file));
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

/// Checks the alert for silent hosts: an agent with nothing to do writes its file again, a dead one does not.
fn silent_hosts_raise_an_alert(place: &mut Place) -> anyhow::Result<()> {
    let files = ["h1", "h2"].map(|host| place.path(host, "numbers.prom"));
    let report = fs::read_to_string(&files[0])?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
    make_old(&files[0])?;
    until("the idle agent to write its metrics", PATIENCE, || {
        Ok(written(&files[0]) >= now)
    })?;
    ensure!(fs::read_to_string(&files[0])? == report, "it was not idle");
    place.stop_agent(1);
    make_old(&files[1])?;
    let firing = "ALERTS{alertname=\"TwinwallFleetSilent\",alertstate=\"firing\"}";
    let mut said = String::new();
    until("the alert for the dead agent", PATIENCE, || {
        said = query(place, firing)?;
        Ok(said.contains("host=\"h2\""))
    })?;
    ensure!(!said.contains("host=\"h1\""), "{said}");
    place.start_agent(1)?;
    until("the end of the alert", PATIENCE, || {
        Ok(!query(place, firing)?.contains("=>"))
    })
}

fn prometheus_sees_the_fleet() -> anyhow::Result<()> {
    let mut place = Place::with(Plan {
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
    silent_hosts_raise_an_alert(&mut place)?;
    let firing = "ALERTS{alertname=\"TwinwallFleetReverted\",alertstate=\"firing\"}";
    ensure!(!query(&place, firing)?.contains("=>"));
    let options = ["--waves", "1%,100%", "--observe", "1", "--confirm", "30"];
    let (code, said) = place.push(CUT_OFF, &options)?;
    ensure!(code == Some(1), "{said}");
    until("the alert", PATIENCE, || {
        Ok(query(&place, firing)?.contains("channel=\"web\""))
    })
}
