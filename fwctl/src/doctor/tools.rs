// SPDX-License-Identifier: GPL-2.0-or-later
//! Reads the machine's packet rules from the output of nft and iptables-save.

use std::process::Command;
use std::time::{Duration, Instant};

use rust_firewall::state::queue_rules::{run_tool, MISSING, MS_MAX};

use super::ruleset::{self, QueueRule, Table};
use super::{iptables, nft};

/// Time limit of all tools of one `gather`, and of one program in `printed`. A firewall waits a second longer for
/// `queue-rules`.
const LIMIT: Duration = Duration::from_millis(MS_MAX - 1000);

/// Tools with their programs, and for the legacy tools the file in which the kernel lists their tables. A legacy
/// program is not run if its file is missing or empty: it would load kernel modules.
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

/// Returns the output of a program, or the reason why there is none.
/// - due: time by which the program must have ended.
fn run(program: &str, arguments: &[&str], due: Instant) -> Result<String, &'static str> {
    let path = std::env::var("PATH").unwrap_or_default();
    let mut command = Command::new(program);
    // The PATH of other users lacks these folders.
    command.env("PATH", format!("{path}:/usr/sbin:/sbin"));
    run_tool(command.args(arguments), due)
}

/// Returns the output of a program; None if it is missing or fails.
pub fn printed(program: &str, arguments: &[&str]) -> Option<String> {
    run(program, arguments, Instant::now() + LIMIT).ok()
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

/// Returns the tables with all rules, and the tools that could not be read, each with the reason.
pub fn gather() -> (Vec<Table>, Vec<(&'static str, &'static str)>) {
    let due = Instant::now() + LIMIT;
    let (mut tables, mut unread) = (Vec::new(), Vec::new());
    let printed = run("nft", &["--json", "list", "ruleset"], due);
    let parsed = printed.and_then(|text| nft::parse(&text).ok_or("failed"));
    let (mut own, has_xt) = parsed.unwrap_or_else(|why| {
        unread.push(("nft", why));
        (Vec::new(), true)
    });
    for (tool, program, made) in SAVES {
        let names = made.map(|path| std::fs::read_to_string(path).unwrap_or_default());
        if names.is_some_and(|names| names.is_empty()) {
            continue;
        }
        match run(program, &["--counters"], due) {
            Ok(text) => tables.extend(iptables::parse(tool, &text)),
            // nft has listed all rules, and none needs iptables-save: a missing iptables-save would add nothing.
            Err(MISSING) if !has_xt && made.is_none() => {}
            Err(why) => unread.push((program, why)),
        }
    }
    own.retain(|table| !is_of_iptables(table, &tables));
    tables.extend(own);
    (tables, unread)
}

/// Lists the rules with all tools, and returns those that queue packets.
pub fn queue_rules() -> Vec<QueueRule> {
    gather().0.iter().flat_map(ruleset::queue_rules).collect()
}
