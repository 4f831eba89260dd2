// SPDX-License-Identifier: GPL-2.0-or-later
//! `status`: shows the running firewall and its health.

use serde_json::json;

use crate::answer::{Contract, Stats, StatsTotal, Status, StatusPolicy, StatusQueue};
use crate::applied::arguments::StatePlace;
use crate::applied::firewall::HostFirewall;
use crate::applied::summary;
use crate::arguments::Arguments;
use crate::client;
use crate::contract;
use crate::failure::{Exit, Failure};
use crate::output;
use crate::running;
use crate::table::{self, Side};
use crate::units::{count, span, thousands};

/// Width of the column with keys such as "policy" and "queues", in characters.
const KEY: usize = 11;

/// Returns the row of the failure contract (the table of the effects of failures) that differs under the current rules;
/// None if no row differs, or the rules can't be listed.
fn changed(status: &Status) -> Option<Contract> {
    let options = running::options(status).ok()?;
    contract::changed(status, &options)
}

/// Prints the applied policy, if there is one and its state can be read.
fn print_applied(place: &StatePlace, firewall: &HostFirewall) {
    let Some(lines) = summary::lines(&place.state, firewall) else {
        return;
    };
    let mut shown = vec!["applied policy".to_owned()];
    shown.extend(block("policy", &lines));
    output::lines(&shown);
}

pub fn run(arguments: &Arguments, place: &StatePlace) -> Result<Exit, Failure> {
    let firewall = HostFirewall::new(&place.run);
    let is_held = summary::is_held(&place.state, &firewall);
    if !arguments.json {
        print_applied(place, &firewall);
    }
    let of_applied = match is_held {
        Some(false) => Exit::Findings,
        _ => Exit::Fine,
    };
    // The applied policy needs no firewall, or its absence was reported.
    if is_held.is_some() && !arguments.json && !arguments.socket.exists() {
        return Ok(of_applied);
    }
    let mut client = client::connect(&arguments.socket)?;
    let answer = client.ask(&json!({"command": "status"}))?;
    let status: Status = answer.read()?;
    if arguments.json {
        output::json(&[answer.line]);
    } else {
        let staged = match is_stage(&status) {
            true => {
                let stats: Stats = client.ask(&json!({"command": "stats"}))?.read()?;
                Some(stage_line(&stats.total))
            }
            false => None,
        };
        output::lines(&text(&status, changed(&status).as_ref(), staged));
    }
    Ok(match status.ledger.reconciled {
        true => of_applied,
        false => Exit::Findings,
    })
}

/// Returns a block of lines with the key before the first line.
fn block(key: &str, lines: &[String]) -> Vec<String> {
    let keys = [key].into_iter().chain(std::iter::repeat(""));
    let lines = keys.zip(lines);
    lines
        .map(|(key, line)| format!("  {key:<KEY$}{line}"))
        .collect()
}

fn user(uid: u32) -> String {
    match nix::unistd::User::from_uid(uid.into()) {
        Ok(Some(user)) => user.name,
        _ => uid.to_string(),
    }
}

fn policy_lines(status: &Status, policy: &StatusPolicy) -> Vec<String> {
    let age_s = status.time_ms.saturating_sub(policy.loaded_ms) / 1000;
    let reads = &policy.requirement;
    let mut read = vec![format!("reads {} bytes", reads.copy_bytes)];
    for (does, what) in [
        (reads.uid_gid, "uid and gid"),
        (reads.conntrack_state, "ct state"),
        (reads.conntrack_mark, "ct mark"),
        (reads.interface_names, "interface names"),
        (reads.reject, "rejects"),
    ] {
        if does {
            read.push(what.to_owned());
        }
    }
    let mut lines = vec![
        policy.file.clone(),
        format!(
            "generation {}, loaded {} ago: {}, {}; {}",
            policy.generation,
            span(age_s),
            count(policy.chains, "chain"),
            count(policy.rules, "rule"),
            read.join(", ")
        ),
    ];
    if reads.learns {
        let learned = thousands(policy.learned);
        lines.push(format!("addresses learnt from answers of DNS: {learned}"));
    }
    if policy.ct_state.as_deref() == Some("missing") {
        lines.push("NO PACKET HAS A CONNECTION STATE: fwctl doctor shows the cure".to_owned());
    }
    lines
}

/// Formats a number that the firewall has read from the kernel; "?" if it could not read the number.
fn figure(number: Option<u64>) -> String {
    number.map_or("?".to_owned(), thousands)
}

fn queue_lines(queues: &[StatusQueue]) -> Vec<String> {
    let names = [
        "queue",
        "received",
        "waiting",
        "of",
        "queue full",
        "user drop",
        "unseen",
        "stalled",
        "ledger",
    ];
    let mut rows = vec![names.map(str::to_owned)];
    rows.extend(queues.iter().map(|queue| {
        [
            queue.queue.to_string(),
            thousands(queue.received),
            figure(queue.waiting),
            thousands(queue.queue_length),
            figure(queue.queue_full),
            figure(queue.user_drop),
            figure(queue.unseen),
            thousands(queue.stalled),
            ledger(queue.reconciled).to_owned(),
        ]
    }));
    let mut sides = [Side::Right; 9];
    sides[8] = Side::Left;
    table::lines(sides, &rows)
}

fn ledger(reconciled: bool) -> &'static str {
    match reconciled {
        true => "reconciled",
        false => "NOT RECONCILED",
    }
}

fn ledger_line(status: &Status) -> String {
    let figures = &status.ledger;
    let Some(lost) = figures.lost else {
        return format!(
            "{}: the kernel's figures can't be read, the losses are unknown",
            ledger(false)
        );
    };
    let lost = thousands(lost);
    let mut line = format!("{}, lost {lost} in the queues", ledger(figures.reconciled));
    if !figures.reconciled {
        let missing = thousands(figures.difference);
        line.push_str(&format!(": {missing} packets are unaccounted for"));
    }
    line
}

/// Formats the failure contract.
/// - changed: row that differs now, by the rules or without the guard; None: no row differs.
fn contract_lines(status: &Status, changed: Option<&Contract>) -> Vec<String> {
    let rows = status.contract.iter().map(|row| {
        let now = changed.filter(|now| now.situation == row.situation);
        let really = now.map_or_else(
            || row.really.clone(),
            |now| format!("{} (differs from the firewall's start)", now.really),
        );
        [row.situation.clone(), row.mode.clone(), really]
    });
    table::lines([Side::Left; 3], &rows.collect::<Vec<_>>())
}

fn counts_lines(status: &Status) -> Vec<String> {
    let counted = status.counts.iter().filter(|(_, count)| **count > 0);
    let words: Vec<String> = counted
        .map(|(name, count)| format!("{} {}", name.replace('_', " "), thousands(*count)))
        .collect();
    match words.is_empty() {
        true => Vec::new(),
        false => vec![words.join(", ")],
    }
}

/// Returns true if the firewall only reads names, for a policy in the kernel (--stage).
fn is_stage(status: &Status) -> bool {
    running::options(status).is_ok_and(|options| options.stage != 0)
}

/// Formats the number of packets that were queued since the start, and their number per connection.
fn stage_line(total: &StatsTotal) -> String {
    let opened = total.connections.get("opened").copied().unwrap_or(0);
    let queued = format!("{} queued", count(total.received, "packet"));
    let of = format!("{queued} for {}", count(opened, "connection"));
    match opened {
        0 => of,
        _ => format!("{of}, {:.1} each", total.received as f64 / opened as f64),
    }
}

/// Formats the status for people.
/// - changed: row of the failure contract that differs under the current rules; None: no row differs.
/// - staged: line about queued packets, for a firewall that only reads names; None for other firewalls.
fn text(status: &Status, changed: Option<&Contract>, staged: Option<String>) -> Vec<String> {
    let mut out = vec![format!(
        "{} {}, pid {}, user {}, backend {}, up {}",
        status.program,
        status.version,
        status.pid,
        user(status.uid),
        status.backend,
        span(status.uptime_s())
    )];
    let program = status.executable.as_ref().unwrap_or(&status.program);
    let mut command = vec![program.clone()];
    command.extend(status.arguments.iter().cloned());
    out.extend(block("started as", &[command.join(" ")]));
    let policy = status.policy.as_ref().map_or_else(
        || vec!["none: --default decides".to_owned()],
        |policy| policy_lines(status, policy),
    );
    out.extend(block("policy", &policy));
    out.extend(block("queues", &queue_lines(&status.queues)));
    out.extend(block("ledger", &[ledger_line(status)]));
    out.extend(block("stage", staged.as_slice()));
    out.extend(block("contract", &contract_lines(status, changed)));
    if let Some(error) = &status.reload_error {
        let error = format!("failed, the old policy stays: {error}");
        out.extend(block("reload", &[error]));
    }
    out.extend(block("counts", &counts_lines(status)));
    out.extend(block("log level", std::slice::from_ref(&status.log_level)));
    out
}
