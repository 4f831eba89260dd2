// SPDX-License-Identifier: GPL-2.0-or-later
//! Health of a host under a policy: the ledger of its firewall, and the packets that the policy's rules drop.

use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::failure::{system, Result};
use crate::report::Ledger;

const NFT: &str = "/usr/sbin/nft";

/// Runs a program with a fixed environment. Returns its exit code (None: ended by a signal), stdout and stderr.
pub fn run(program: &Path, arguments: &[&str]) -> Result<(Option<i32>, String, String)> {
    let output = Command::new(program)
        .args(arguments)
        .env_clear()
        .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
        .env("LC_ALL", "C")
        .current_dir("/")
        .stdin(Stdio::null())
        .output();
    let output = output
        .map_err(|error| system(format_args!("{}: {error}: install it", program.display())))?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Ok((
        output.status.code(),
        text(&output.stdout),
        text(&output.stderr),
    ))
}

/// Runs nft with a fixed environment. Returns its stdout. Fails if nft fails.
pub fn nft(arguments: &[&str]) -> Result<String> {
    let (code, said, error) = run(Path::new(NFT), arguments)?;
    let line = error.lines().next().unwrap_or("no reason").trim();
    match code {
        Some(0) => Ok(said),
        _ => Err(system(format_args!("nft {}: {line}", arguments.join(" ")))),
    }
}

/// Runs nft with a fixed environment, and parses its stdout as JSON. Fails if nft fails.
/// - arguments: without `-j`.
pub fn nft_json(arguments: &[&str]) -> Result<Value> {
    let said = nft(&[&["-j"], arguments].concat())?;
    serde_json::from_str(&said).map_err(|error| {
        system(format_args!(
            "nft -j {}: {error}: update nftables",
            arguments.join(" ")
        ))
    })
}

/// Returns the ledger of the firewall at a control socket, and its program's name. If the firewall does not answer, the
/// ledger is red, as if it did not reconcile.
/// - control: None: there is no firewall.
pub fn ledger(fwctl: &Path, control: Option<&Path>) -> Result<(Ledger, Option<String>)> {
    let Some(control) = control else {
        return Ok((Ledger::None, None));
    };
    let control = control.to_string_lossy();
    let arguments = ["--json", "--socket", &control, "status"];
    let (_, said, _) = run(fwctl, &arguments)?;
    let status: Value = serde_json::from_str(&said).unwrap_or_default();
    let twin = status["program"].as_str().map(str::to_owned);
    Ok(match status["ledger"]["reconciled"].as_bool() {
        Some(true) => (Ledger::Green, twin),
        _ => (Ledger::Red, twin),
    })
}

/// Returns the rule of a table that has dropped or rejected the most packets since it was loaded: its chain and handle,
/// and its packets. Rules that drop without a counter, or by a verdict map, are not seen.
/// - table: output of `nft -j list table`.
fn most_dropped(table: &Value) -> Option<(String, u64)> {
    let all = table["nftables"].as_array()?;
    let rules = all.iter().filter_map(|object| object.get("rule"));
    let dropped = |rule: &Value| {
        let words = rule["expr"].as_array()?;
        let drops = |word: &Value| word.get("drop").is_some() || word.get("reject").is_some();
        let counted = words
            .iter()
            .find_map(|word| word["counter"]["packets"].as_u64());
        let name = format!("{} handle {}", rule["chain"].as_str()?, rule["handle"]);
        words.iter().any(drops).then_some((name, counted?))
    };
    rules
        .filter_map(dropped)
        .max_by_key(|(_, packets)| *packets)
}

/// Returns the reason why a policy drops too much; None if it doesn't. Fails if a table of the policy can't be read.
/// - seconds: time since the policy was loaded.
/// - bound: packets per second that one rule may drop.
pub fn excess(tables: &[apply::source::Table], seconds: f64, bound: u64) -> Result<Option<String>> {
    for table in tables {
        let read = nft_json(&["list", "table", &table.family, &table.name])?;
        let Some((rule, packets)) = most_dropped(&read) else {
            continue;
        };
        let rate = packets as f64 / seconds.max(1.0);
        if rate > bound as f64 {
            return Ok(Some(format!(
                "table {table}, rule {rule} drops {rate:.0} packets a second, more than {bound}"
            )));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_rule_that_drops_most_is_found() {
        let rule = |handle: u64, packets: u64, end: &str| {
            json!({"rule": {"chain": "input", "handle": handle, "expr": [
                {"counter": {"packets": packets, "bytes": 1}}, {end: null}]}})
        };
        let table = json!({"nftables": [
            {"metainfo": {}}, rule(1, 5, "drop"), rule(2, 9, "accept"), rule(3, 7, "drop")]});
        assert_eq!(most_dropped(&table), Some(("input handle 3".to_owned(), 7)));
        assert_eq!(most_dropped(&json!({"nftables": []})), None);
        assert_eq!(most_dropped(&Value::Null), None);
    }

    #[test]
    fn a_table_that_cannot_be_read_is_an_error() {
        let table = apply::source::Table {
            family: "inet".to_owned(),
            name: "twinwall_no_such_table".to_owned(),
        };
        let failure = excess(&[table], 1.0, 10).unwrap_err();
        let begin = "nft -j list table inet twinwall_no_such_table: ";
        assert!(failure.text.starts_with(begin), "{}", failure.text);
    }
}
