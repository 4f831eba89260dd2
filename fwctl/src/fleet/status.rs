// SPDX-License-Identifier: GPL-2.0-or-later
//! `fleet status`: counts the hosts by their progress, and lists the others with the reason.

use std::thread::sleep;
use std::time::Duration;

use fleet::etcd::Etcd;
use fleet::failure::Result;
use fleet::pointer::Pointer;
use fleet::rollout::{self, Host, State};
use serde_json::json;

use super::arguments::Status;
use crate::failure::Exit;
use crate::output;
use crate::table::{self, Side};

const LOOK: Duration = Duration::from_secs(1);

fn shown(host: &Host, pointer: &Pointer) -> [String; 6] {
    let local = &host.report.local;
    let ledger = match local.ledger {
        fleet::report::Ledger::None => "-",
        fleet::report::Ledger::Green => "green",
        fleet::report::Ledger::Red => "RED",
    };
    let state = host.state(pointer);
    let why = match state {
        State::Confirmed => "",
        _ => host.why(),
    };
    [
        host.id.clone(),
        state.word().to_owned(),
        local.confirmed.to_string(),
        host.report.version.clone(),
        ledger.to_owned(),
        why.to_owned(),
    ]
}

fn is_well(host: &Host, pointer: &Pointer) -> bool {
    let is_fine = matches!(
        host.state(pointer),
        State::Confirmed | State::Applying | State::Waiting
    );
    is_fine && !host.is_red()
}

fn text(pointer: &Pointer, hosts: &[Host]) -> Vec<String> {
    let mut lines = vec![format!(
        "channel {}: generation {}, wave {} of {} ({}% of the hosts)",
        pointer.channel,
        pointer.generation,
        pointer.wave + 1,
        pointer.waves.len(),
        f64::from(pointer.share()) / 10.0
    )];
    let count = |state: State| {
        hosts
            .iter()
            .filter(|host| host.state(pointer) == state)
            .count()
    };
    let counts = State::ALL.map(|state| format!("{} {}", count(state), state.word()));
    lines.push(format!("{} hosts: {}", hosts.len(), counts.join(", ")));
    let rest = hosts
        .iter()
        .filter(|host| host.state(pointer) != State::Confirmed || host.is_red());
    let mut rows = vec![["host", "state", "has", "version", "ledger", "why"].map(str::to_owned)];
    rows.extend(rest.map(|host| shown(host, pointer)));
    if rows.len() > 1 {
        lines.extend(table::lines([Side::Left; 6], &rows));
    }
    lines
}

fn json(pointer: &Pointer, hosts: &[Host]) -> Vec<String> {
    let host = |host: &Host| {
        json!({"host": host.id, "state": host.state(pointer).word(), "alive": host.is_alive, "report": host.report})
            .to_string()
    };
    let mut lines = vec![json!({"pointer": pointer}).to_string()];
    lines.extend(hosts.iter().map(host));
    lines
}

fn look(etcd: &mut Etcd, asked: &Status, is_json: bool) -> Result<(Vec<String>, Exit)> {
    let hosts = rollout::hosts(etcd, &asked.channel)?;
    let Some(present) = rollout::present(etcd, &asked.channel, None)? else {
        let line = format!(
            "channel {}: nothing was pushed, {} hosts: run fwctl fleet push",
            asked.channel,
            hosts.len()
        );
        return Ok((vec![line], Exit::Fine));
    };
    let pointer = &present.pointer;
    let lines = match is_json {
        true => json(pointer, &hosts),
        false => text(pointer, &hosts),
    };
    let exit = match hosts.iter().all(|host| is_well(host, pointer)) {
        true => Exit::Fine,
        false => Exit::Findings,
    };
    Ok((lines, exit))
}

pub fn run(asked: &Status, is_json: bool) -> Result<Exit> {
    let mut etcd = super::etcd(&asked.servers)?;
    let mut last = Vec::new();
    loop {
        let (lines, exit) = look(&mut etcd, asked, is_json)?;
        let is_read = match (lines == last, is_json) {
            (true, _) => true,
            (false, true) => output::json(&lines),
            (false, false) => output::fitting(&lines, 2),
        };
        if !asked.watch || !is_read {
            return Ok(exit);
        }
        last = lines;
        sleep(LOOK);
    }
}
