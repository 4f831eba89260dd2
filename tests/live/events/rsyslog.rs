// SPDX-License-Identifier: GPL-2.0-or-later
//! Debian's rsyslog with docs/rsyslog.conf: a collector must get each line, also those written before the collector was
//! there, and those of a file that was moved.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::process::Stdio;

use anyhow::{ensure, Context};
use testbed::proc;
use testbed::twin::{root, Twin};
use testbed::wait::{until, PATIENCE};
use twinwall_tests::case::Row;
use twinwall_tests::fleet::Running;

use super::running::{lines_of, parsed, send, wait_for_drops, Place, DROPPED};

pub const ROWS: &[Row] = &[("rsyslog-brings-each-line-to-a-collector", collected)];

const COLLECTOR: &str = "127.0.0.1:5140";

/// Writes the configuration of docs/rsyslog.conf with the case's folders and collector. Returns its path.
fn configuration(place: &Place) -> anyhow::Result<String> {
    let shipped = fs::read_to_string(root().join("docs/rsyslog.conf"))?;
    let here = shipped
        .replace("/var/log/twinwall", &place.path("log"))
        .replace("collector.example", "127.0.0.1")
        .replace("resumeInterval=\"10\"", "resumeInterval=\"1\"");
    let work = format!("global(workDirectory=\"{}\")\n", place.path("work"));
    let path = place.path("rsyslog.conf");
    fs::write(&path, work + &here)?;
    Ok(path)
}

/// Returns true if a process has read a file to its end. An open file is not enough: rsyslog also opens a file to
/// identify it by its first bytes.
fn has_read(process: u32, path: &str) -> anyhow::Result<bool> {
    let end = format!("pos:\t{}", fs::metadata(path)?.len());
    for entry in fs::read_dir(format!("/proc/{process}/fd"))?.flatten() {
        let target = fs::read_link(entry.path());
        if target.is_ok_and(|target| target.as_os_str() == path) {
            let number = entry.file_name().to_string_lossy().into_owned();
            // rsyslog may have closed it since.
            let Ok(state) = fs::read_to_string(format!("/proc/{process}/fdinfo/{number}")) else {
                continue;
            };
            if state.lines().any(|line| line == end) {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

/// Reads lines at the collector until all lines of some files have arrived.
fn collect(listener: &TcpListener, files: &[String]) -> anyhow::Result<()> {
    let mut missing = BTreeSet::new();
    for file in files {
        missing.extend(lines_of(file)?.iter().map(ToString::to_string));
    }
    ensure!(missing.len() > 5, "{missing:?}");
    let (stream, _) = listener.accept()?;
    stream.set_read_timeout(Some(PATIENCE))?;
    for line in BufReader::new(stream).lines() {
        let mut line = parsed(&line.with_context(|| format!("missing: {missing:#?}"))?)?;
        let host = line.as_object_mut().and_then(|line| line.remove("host"));
        ensure!(host.is_some_and(|host| host.is_string()), "{line}");
        missing.remove(&line.to_string());
        if missing.is_empty() {
            return Ok(());
        }
    }
    anyhow::bail!("rsyslog has ended; missing: {missing:#?}")
}

fn collected(twin: Twin) -> anyhow::Result<()> {
    let place = Place::new()?;
    for folder in ["log", "work"] {
        let path = place.path(folder);
        fs::create_dir(&path)?;
        fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o777))?;
    }
    let (events, moved) = (
        place.path("log/events.json"),
        place.path("log/events.json.1"),
    );
    let firewall = place.start(twin, &events, &[])?;
    let configuration = configuration(&place)?;
    let mut command = place.namespace.command("rsyslogd");
    command.args(["-n", "-f", &configuration, "-i", &place.path("pid")]);
    let rsyslog = Running(command.stderr(Stdio::null()).spawn().context("make deps")?);
    let client = place.client()?;
    send(&client, DROPPED, 3);
    wait_for_drops(&events, 3)?;
    let reader = rsyslog.0.id();
    until("rsyslog to read the file", PATIENCE, || {
        has_read(reader, &events)
    })?;
    fs::rename(&events, &moved)?;
    proc::signal(firewall.pid, libc::SIGUSR2);
    until("the file to be opened anew", PATIENCE, || {
        Ok(fs::metadata(&events).is_ok())
    })?;
    send(&client, DROPPED, 3);
    firewall.finish()?;
    // The firewall's rule queues all packets of the namespace, also those of the collector's connection, so it is
    // removed.
    let flushed = place.namespace.command("iptables").arg("-F").status()?;
    ensure!(flushed.success(), "iptables -F");
    let listener = place.namespace.enter(|| TcpListener::bind(COLLECTOR))?;
    collect(&listener, &[moved, events])
}
