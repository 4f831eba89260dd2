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

/// Runs nft with a fixed environment. Returns the same as [`run`].
pub fn nft(arguments: &[&str]) -> Result<(Option<i32>, String, String)> {
    run(Path::new(NFT), arguments)
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

/// Returns the reason why a policy drops too much; None if it doesn't.
/// - seconds: time since the policy was loaded.
/// - bound: packets per second that one rule may drop.
pub fn excess(tables: &[apply::source::Table], seconds: f64, bound: u64) -> Result<Option<String>> {
    for table in tables {
        let arguments = ["-j", "list", "table", &table.family, &table.name];
        let (_, said, _) = nft(&arguments)?;
        let read: Value = serde_json::from_str(&said).unwrap_or_default();
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
}
