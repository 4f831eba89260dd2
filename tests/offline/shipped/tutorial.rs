// SPDX-License-Identifier: GPL-2.0-or-later
//! Reads the table of iptables' options in docs/POLICY.md.

use anyhow::{ensure, Context};

const HEAD: &str = "| iptables | policy |\n|---|---|\n";

/// Returns one policy made of all code in the second column of the table of iptables' options in docs/POLICY.md.
/// - page: text of docs/POLICY.md.
pub fn policy_of_table(page: &str) -> anyhow::Result<String> {
    let (_, table) = page
        .split_once(HEAD)
        .context("there is no table of iptables' options")?;
    let rows = table.lines().take_while(|line| line.starts_with('|'));
    let cells = rows.filter_map(|row| row.trim_end_matches(" |").rsplit_once(" | "));
    let cells: Vec<&str> = cells.map(|(_, cell)| cell).collect();
    ensure!(cells.len() > 25, "the table has only {} rows", cells.len());
    let mut chains = String::from("set admins {\ntype ipv4_addr\n}\n");
    let mut count = 0;
    for cell in cells {
        // Every second part is between backquotes.
        for code in cell.split('`').skip(1).step_by(2) {
            match code.strip_suffix(" { … }") {
                Some(chain) => chains.push_str(&format!("{chain} {{\n}}\n")),
                None => chains.push_str(&format!("chain it-{count} {{\n{code}\n}}\n")),
            }
            count += 1;
        }
    }
    Ok(format!("table inet filter {{\n{chains}}}\n"))
}
