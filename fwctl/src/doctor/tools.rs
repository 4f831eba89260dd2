// SPDX-License-Identifier: GPL-2.0-or-later
//! Reads the machine's rules from the output of the tools.

use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use rust_firewall::state::queue_rules::MS_MAX;

use super::ruleset::{self, QueueRule, Table};
use super::{iptables, nft};

/// The tools, and the file in which the kernel lists the tables of the legacy tools: running these without such tables
/// would load their modules.
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
/// Tables that iptables creates in nf_tables.
const OF_IPTABLES: [&str; 5] = ["filter", "nat", "mangle", "raw", "security"];

/// Starts a program whose output is read.
fn start(program: &str, arguments: &[&str]) -> Option<Child> {
    let path = std::env::var("PATH").unwrap_or_default();
    let mut command = Command::new(program);
    command
        .args(arguments)
        // The PATH of other users lacks these folders.
        .env("PATH", format!("{path}:/usr/sbin:/sbin"))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    command.spawn().ok()
}

/// Returns the output of a program; None if it is missing, fails or does not end in time.
pub fn printed(program: &str, arguments: &[&str]) -> Option<String> {
    let mut child = start(program, arguments)?;
    let mut stdout = child.stdout.take()?;
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let mut bytes = Vec::new();
        let read = stdout.read_to_end(&mut bytes);
        let _ = sender.send(read.map(|_| bytes));
    });
    let read = receiver.recv_timeout(Duration::from_millis(MS_MAX));
    if read.is_err() {
        let _ = child.kill();
    }
    let status = child.wait().ok()?;
    let bytes = read.ok()?.ok()?;
    let text = String::from_utf8_lossy(&bytes).into_owned();
    status.success().then_some(text)
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

/// Returns all rules, and the tools that could not be run.
pub fn gather() -> (Vec<Table>, Vec<&'static str>) {
    let mut tables = Vec::new();
    let mut missing = Vec::new();
    for (tool, program, made) in SAVES {
        let names = made.map(|path| std::fs::read_to_string(path).unwrap_or_default());
        if names.is_some_and(|names| names.is_empty()) {
            continue;
        }
        match printed(program, &["--counters"]) {
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

/// Returns the current queue rules.
pub fn queue_rules() -> Vec<QueueRule> {
    gather().0.iter().flat_map(ruleset::queue_rules).collect()
}
