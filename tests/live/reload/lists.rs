// SPDX-License-Identifier: GPL-2.0-or-later
//! Warnings about a policy that does less than it seems, at the start and at each reload: lists of which many lines are
//! left out, and names behind an accept of established connections. tests/corpus/policy has the warnings of `check`.

use anyhow::ensure;
use testbed::control::Client;
use testbed::firewall::Firewall;
use testbed::folder::Folder;
use testbed::place::namespace;
use testbed::twin::Twin;
use twinwall_tests::case::Row;

pub const ROWS: &[Row] = &[("lists-left-out-are-told", left_out)];

const POLICY: &str = "table inet t {
	set names {
		type hostname
		file \"names.txt\"
	}
	chain c {
		type filter hook output priority 0; policy accept;
		tls sni @names drop
	}
}
";
const STATUS: &str = r#"{"command":"status"}"#;

/// Returns a list with a good line first, then the bad lines, then the other good lines.
fn list(good: usize, bad: usize) -> String {
    let good: Vec<String> = (0..good).map(|n| format!("name-{n}.example\n")).collect();
    let (first, rest) = good.split_at(1.min(good.len()));
    format!("{}{}{}", first.concat(), "?\n".repeat(bad), rest.concat())
}

fn left_out(twin: Twin) -> anyhow::Result<()> {
    let folder = Folder::new()?;
    let (policy, control) = (folder.write("p.nft", POLICY)?, folder.file("control"));
    let names = folder.write("names.txt", list(2, 1))?;
    let arguments = [
        "--policy",
        &policy,
        "--control",
        &control,
        "--conntrack",
        "mark",
    ];
    let firewall = Firewall::start(&namespace()?, twin, &arguments)?;
    let mut client = Client::new(&control)?;
    // One bad line in ten causes no warning.
    folder.replace("names.txt", list(9, 1))?;
    client.command("reload")?;
    folder.replace("names.txt", list(17, 2))?;
    client.command("reload")?;
    // Names after an accept of established connections.
    let behind = POLICY.replace("\t\ttls", "\t\tct state established accept\n\t\ttls");
    folder.replace("names.txt", list(1, 0))?;
    folder.replace("p.nft", &behind)?;
    client.command("reload")?;
    // A list of which nothing is read is an error.
    folder.replace("names.txt", list(0, 3))?;
    let answer = client.ask(r#"{"command":"reload"}"#)?;
    let error = "no line of it is one that is read, the first at line 1";
    ensure!(
        answer["error"]
            .as_str()
            .is_some_and(|text| text.contains(error)),
        "{answer}"
    );
    let status = client.ask(STATUS)?;
    ensure!(status["policy"]["generation"] == 4, "{status}");
    let ended = firewall.end_by(libc::SIGTERM)?;
    let warnings: Vec<&str> = ended
        .stderr
        .lines()
        .filter(|line| line.starts_with("warning: "))
        .collect();
    let said = |bad: usize, lines: usize| {
        format!(
            "warning: {names}:2: {bad} of {lines} lines have an unknown format and were left out, the first one here: \
             see `file` in GRAMMAR.md"
        )
    };
    let accepts = format!(
        "warning: {policy}:9: reads names after {policy}:8, which accepts established connections: these are accepted \
         before they show a name: put this rule before that one"
    );
    ensure!(
        warnings == [said(1, 3), said(2, 19), accepts],
        "stderr: {}",
        ended.stderr
    );
    let started = Firewall::start(&namespace()?, twin, &arguments);
    let failed = started.err().map(|error| format!("{error:#}"));
    ensure!(
        failed.as_ref().is_some_and(|text| text.contains(error)),
        "{failed:?}"
    );
    Ok(())
}
