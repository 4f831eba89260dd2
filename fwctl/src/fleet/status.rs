// SPDX-License-Identifier: GPL-2.0-or-later
//! `fleet status`: counts the hosts by their progress. Lists hosts that have not confirmed the policy (if there is
//! none: silent hosts), and hosts with a red ledger, with the reason.

use std::thread::sleep;
use std::time::Duration;

use fleet::etcd::Etcd;
use fleet::failure::Result;
use fleet::hosts::{self, Host, State};
use fleet::pointer::Pointer;
use fleet::rollout;
use serde_json::json;

use super::arguments::Status;
use crate::failure::Exit;
use crate::output;
use crate::table::{self, Side};

const LOOK: Duration = Duration::from_secs(1);
const HEAD: [&str; 8] = [
    "host",
    "state",
    "wanted",
    "applied",
    "confirmed",
    "version",
    "ledger",
    "why",
];

/// Channel as etcd has it: the pointer to its policy, and the reports of its hosts.
struct Channel {
    name: String,
    /// Pointer to the policy that the hosts must have; None: nothing was pushed.
    pointer: Option<Pointer>,
    hosts: Vec<Host>,
}

impl Channel {
    fn read(etcd: &mut Etcd, name: &str) -> Result<Channel> {
        // The hosts are read first: their reports are not newer than the pointer with which they are compared.
        let hosts = hosts::read(etcd, name)?;
        let present = rollout::present(etcd, name, None)?;
        Ok(Channel {
            name: name.to_owned(),
            pointer: present.map(|one| one.pointer),
            hosts,
        })
    }

    /// Returns a host's state. If no policy was pushed, a host that is alive is waiting, another host is silent.
    fn state(&self, host: &Host) -> State {
        match &self.pointer {
            Some(pointer) => host.state(pointer),
            None if host.is_alive => State::Waiting,
            None => State::Silent,
        }
    }

    fn is_well(&self, host: &Host) -> bool {
        let is_fine = matches!(
            self.state(host),
            State::Confirmed | State::Applying | State::Waiting
        );
        is_fine && !host.is_red()
    }

    fn shown(&self, host: &Host) -> [String; 8] {
        let local = &host.report.local;
        let ledger = match local.ledger {
            fleet::report::Ledger::None => "-",
            fleet::report::Ledger::Green => "green",
            fleet::report::Ledger::Red => "RED",
        };
        let state = self.state(host);
        let why = match state {
            State::Confirmed => "",
            _ => host.why(),
        };
        let word = match state == State::Reverted && !host.is_alive {
            true => "reverted, silent",
            false => state.word(),
        };
        [
            host.id.clone(),
            word.to_owned(),
            host.report.wanted.to_string(),
            host.applied().to_string(),
            local.confirmed.to_string(),
            host.report.version.clone(),
            ledger.to_owned(),
            why.to_owned(),
        ]
    }

    fn head(&self) -> String {
        match &self.pointer {
            Some(pointer) => format!(
                "channel {}: generation {}, wave {} of {} ({}% of the hosts)",
                self.name,
                pointer.generation,
                pointer.wave + 1,
                pointer.waves.len(),
                f64::from(pointer.share()) / 10.0
            ),
            None => format!(
                "channel {}: nothing was pushed: run fwctl fleet push",
                self.name
            ),
        }
    }

    fn text(&self) -> Vec<String> {
        let count = |state: State| {
            let all = self.hosts.iter();
            all.filter(|host| self.state(host) == state).count()
        };
        let counts = State::ALL.map(|state| format!("{} {}", count(state), state.word()));
        let mut lines = vec![
            self.head(),
            format!("{} hosts: {}", self.hosts.len(), counts.join(", ")),
        ];
        // Without a policy all hosts wait for one.
        let is_plain = |state: State| match self.pointer {
            Some(_) => state == State::Confirmed,
            None => state == State::Waiting,
        };
        let rest = self.hosts.iter();
        let rest = rest.filter(|host| !is_plain(self.state(host)) || host.is_red());
        let mut rows = vec![HEAD.map(str::to_owned)];
        rows.extend(rest.map(|host| self.shown(host)));
        if rows.len() > 1 {
            lines.extend(table::lines([Side::Left; 8], &rows));
        }
        lines
    }

    fn json(&self) -> Vec<String> {
        let host = |host: &Host| {
            json!({"host": host.id, "state": self.state(host).word(), "alive": host.is_alive, "report": host.report})
                .to_string()
        };
        let mut lines = vec![json!({"channel": self.name, "pointer": self.pointer}).to_string()];
        lines.extend(self.hosts.iter().map(host));
        lines
    }
}

fn look(etcd: &mut Etcd, asked: &Status, is_json: bool) -> Result<(Vec<String>, Exit)> {
    let names = match &asked.channel {
        Some(channel) => vec![channel.clone()],
        None => hosts::channels(etcd)?.into_iter().collect(),
    };
    let (mut lines, mut exit) = (Vec::new(), Exit::Fine);
    for name in &names {
        let channel = Channel::read(etcd, name)?;
        lines.extend(match is_json {
            true => channel.json(),
            false => channel.text(),
        });
        if !channel.hosts.iter().all(|host| channel.is_well(host)) {
            exit = Exit::Findings;
        }
    }
    if names.is_empty() && !is_json {
        lines.push("no channel: run fwctl fleet init".to_owned());
    }
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
