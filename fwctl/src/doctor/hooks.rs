// SPDX-License-Identifier: GPL-2.0-or-later
//! The rules that lead packets to queues: whether they are there, and what is in their way.

use std::process::{Command, Stdio};

use rust_firewall::queue_proc;

use super::finding::Findings;
use super::rights;
use super::ruleset::{self, Lead, Table};
use super::{iptables, nft, Patient};

/// The tools, and where the kernel lists the tables that the old ones have made: asking them where
/// there is none would load their modules.
const SAVES: [(&str, &str, Option<&str>); 4] = [
    ("iptables", "iptables-nft-save", None),
    ("ip6tables", "ip6tables-nft-save", None),
    (
        "iptables-legacy",
        "iptables-legacy-save",
        Some("/proc/net/ip_tables_names"),
    ),
    (
        "ip6tables-legacy",
        "ip6tables-legacy-save",
        Some("/proc/net/ip6_tables_names"),
    ),
];
/// Tables that iptables makes in nf_tables.
const OF_IPTABLES: [&str; 5] = ["filter", "nat", "mangle", "raw", "security"];

/// What a program prints; nothing if it is not there or fails.
fn printed(program: &str, arguments: &[&str]) -> Option<String> {
    let path = std::env::var("PATH").unwrap_or_default();
    let output = Command::new(program)
        .args(arguments)
        // A plain user's lacks their folders.
        .env("PATH", format!("{path}:/usr/sbin:/sbin"))
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()
        .ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    output.status.success().then_some(text)
}

fn is_of_iptables(table: &Table, others: &[Table]) -> bool {
    let Some((family, name)) = table.name.split_once(' ') else {
        return false;
    };
    let tool = match family {
        "ip" => "iptables",
        "ip6" => "ip6tables",
        _ => return false,
    };
    let mut same = others.iter().filter(|other| other.tool == tool);
    OF_IPTABLES.contains(&name) && same.any(|other| other.name == name)
}

/// All rules, and the tools that could not be asked.
fn gather() -> (Vec<Table>, Vec<&'static str>) {
    let mut tables = Vec::new();
    let mut missing = Vec::new();
    for (tool, program, made) in SAVES {
        let names = made.map(|path| std::fs::read_to_string(path).unwrap_or_default());
        if names.is_some_and(|names| names.is_empty()) {
            continue;
        }
        match printed(program, &[]) {
            Some(text) => tables.extend(iptables::parse(tool, &text)),
            None => missing.push(program),
        }
    }
    match printed("nft", &["--json", "list", "ruleset"]).and_then(|text| nft::parse(&text)) {
        Some(mut own) => {
            own.retain(|table| !is_of_iptables(table, &tables));
            tables.extend(own);
        }
        None => missing.push("nft"),
    }
    (tables, missing)
}

/// A command that shows a rule's surroundings.
fn show(lead: &Lead) -> String {
    match lead.tool {
        "nft" => "sudo nft --handle list ruleset".to_owned(),
        tool => format!("sudo {tool} -S"),
    }
}

/// A command that takes a rule away: what "iptables: -A CHAIN …" says, with -D.
fn delete(text: &str) -> String {
    match text.split_once(": -A ") {
        Some((tool, rule)) => format!("sudo {tool} -D {rule}"),
        None => "sudo nft --handle list ruleset  # then: nft delete rule … handle N".to_owned(),
    }
}

fn check_lead(lead: &Lead, patient: &Patient, findings: &mut Findings) {
    let ours = patient
        .queues
        .iter()
        .any(|queue| (lead.first..=lead.last).contains(queue));
    if ours {
        if let Some(before) = &lead.blocked {
            findings.error(
                format!(
                    "no packet reaches \"{}\": before it stands \"{before}\"",
                    lead.text
                ),
                delete(before),
            );
        }
        for before in &lead.skipped {
            findings.note(
                format!("packets of \"{before}\" pass \"{}\" by, unseen", lead.text),
                show(lead),
            );
        }
        let open = patient.crash_open();
        if open == Some(false) && lead.bypass {
            findings.warning(
                format!(
                    "--fail crash=closed, but \"{}\" lets packets pass while no firewall runs",
                    lead.text
                ),
                format!(
                    "{}  # then add it without --queue-bypass",
                    delete(&lead.text)
                ),
            );
        }
        if open == Some(true) && !lead.bypass {
            findings.note(
                format!(
                    "--fail crash=open, but once the firewall and its guard are gone \"{}\" drops",
                    lead.text
                ),
                format!("{}  # then add it with --queue-bypass", delete(&lead.text)),
            );
        }
    }
    for queue in (lead.first..=lead.last)
        .filter(|queue| !patient.queues.contains(queue) || !patient.is_running())
    {
        check_served(lead, queue, ours, findings);
    }
}

/// Whether anybody is bound to a queue that a rule leads to.
fn check_served(lead: &Lead, queue: u16, ours: bool, findings: &mut Findings) {
    if queue_proc::figures(queue) != Err(nix::errno::Errno::ENOENT) {
        return;
    }
    let what = format!("nobody serves queue {queue} of \"{}\"", lead.text);
    match (lead.bypass, ours) {
        (true, _) => findings.note(
            format!("{what}: its packets pass"),
            format!("rust-firewall --queue {queue}"),
        ),
        // Nothing runs yet.
        (false, true) => findings.note(
            format!("{what}: its packets are dropped until a firewall starts"),
            format!("rust-firewall --queue {queue}"),
        ),
        (false, false) => findings.warning(
            format!("{what}: its packets are dropped"),
            delete(&lead.text),
        ),
    }
}

fn check_backends(tables: &[Table], findings: &mut Findings) {
    let has = |legacy: bool| {
        let mut of_it = tables
            .iter()
            .filter(|table| table.tool.ends_with("legacy") == legacy);
        of_it.any(ruleset::has_rules)
    };
    if has(true) && has(false) {
        findings.warning(
            "there are rules in legacy iptables and in nf_tables: each hook asks both, in an order \
             that no tool shows",
            "sudo sh -c 'iptables-legacy-save | iptables-nft-restore --noflush'  # then flush the \
             legacy ones",
        );
    }
}

pub fn check(patient: &Patient, findings: &mut Findings) {
    if !rights::has_net_admin() {
        findings.unseen("the rules that lead packets to queues: that needs root");
        return;
    }
    let (tables, missing) = gather();
    if !missing.is_empty() {
        findings.unseen(format!(
            "what {} would tell: not installed, or it fails",
            missing.join(", ")
        ));
    }
    check_backends(&tables, findings);
    let leads: Vec<Lead> = tables.iter().flat_map(ruleset::leads).collect();
    for lead in &leads {
        check_lead(lead, patient, findings);
    }
    for queue in &patient.queues {
        let mut of_it = leads
            .iter()
            .filter(|lead| (lead.first..=lead.last).contains(queue));
        match of_it.next() {
            Some(lead) => findings.ok(format!("queue {queue} has a rule: \"{}\"", lead.text)),
            None if patient.is_running() => findings.error(
                format!("no rule leads packets to queue {queue}: the firewall sees none"),
                format!("sudo iptables -A INPUT -p tcp --dport 80 -j NFQUEUE --queue-num {queue}"),
            ),
            None => findings.note(
                format!("no rule leads packets to queue {queue}"),
                format!("sudo iptables -A INPUT -p tcp --dport 80 -j NFQUEUE --queue-num {queue}"),
            ),
        }
    }
}
