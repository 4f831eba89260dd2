// SPDX-License-Identifier: GPL-2.0-or-later
//! Tests comments that `fwctl record` adds to packets: both twins parse them packet by packet, and report verdicts that
//! differ from the recorded verdicts.

use anyhow::{ensure, Context};
use serde_json::Value;
use testbed::folder::Folder;
use testbed::packets::{ipv4, udp};
use twinwall_tests::case::Case;

use super::explain::{block, both, LITTLE};

pub fn cases() -> Vec<Case> {
    vec![
        Case::new("comment/tells-of-its-packet", told),
        Case::new("comment/damaged", damaged),
        Case::new("comment/expected-verdicts", expected),
    ]
}

const POLICY: &str = r#"table inet filter {
	chain in {
		type filter hook input priority 0; policy drop;
		iif "eth0" ct state new meta mark 0x12 accept
		iifname "eth1" ct mark 7 accept
	}
	chain out {
		type filter hook output priority 0; policy accept;
		oif "eth2" meta skuid 5 meta skgid 6 reject
	}
}
"#;

/// Returns a capture that repeats a packet with each of these comments; None means no comment.
fn capture(comments: &[Option<&str>]) -> Vec<u8> {
    let section = [
        &0x1a2b_3c4d_u32.to_le_bytes()[..],
        &[1, 0, 0, 0],
        &[0xff; 8],
    ]
    .concat();
    let mut file = block(LITTLE, 0x0a0d_0d0a, &section);
    file.extend(block(LITTLE, 1, &[101, 0, 0, 0, 0, 0, 0, 0]));
    let packet = ipv4(libc::IPPROTO_UDP as u8, 0, &udp(12, b"abcd"));
    for comment in comments {
        let length = (packet.len() as u32).to_le_bytes();
        let mut body = [&[0; 12][..], &length, &length, &packet].concat();
        if let Some(comment) = comment {
            body.extend([1, 0]);
            body.extend((comment.len() as u16).to_le_bytes());
            body.extend(comment.as_bytes());
        }
        file.extend(block(LITTLE, 6, &body));
    }
    file
}

/// Runs `explain` on packets with these comments. Returns the origin of each decision, and the totals of the last line.
/// - words: options of `explain`.
fn explained(words: &[&str], comments: &[Option<&str>]) -> anyhow::Result<(Vec<String>, Value)> {
    let folder = Folder::new()?;
    let policy = folder.write("p.nft", POLICY)?;
    let file = folder.write("x.pcapng", capture(comments))?;
    let arguments = [&["explain", "--json"], words, &[&policy, &file]].concat();
    let (said, error, code) = both(&arguments)?;
    ensure!(code == 0 && error.is_empty(), "{code}: {error}");
    let lines: Result<Vec<Value>, _> = said.lines().map(serde_json::from_str).collect();
    let mut lines = lines?;
    let sums = lines.pop().context("no sums")?;
    let by = |line: &Value| {
        let by = line["by"].as_str().unwrap_or_default();
        by.replace(&format!("{policy}:"), "")
    };
    Ok((lines.iter().map(by).collect(), sums))
}

fn told() -> anyhow::Result<()> {
    let comments = [
        "twinwall: verdict=accept hook=input iif=eth0 mark=0x12 ct=new",
        "twinwall: verdict=drop hook=input iif=eth9 mark=0x12 ct=new",
        "twinwall: verdict=drop hook=input iif=eth0 mark=0x13 ct=new",
        "twinwall: verdict=drop hook=input iif=eth0 mark=0x12 ct=established",
        // Values missing in the comment are missing in the packet, regardless of the options.
        "twinwall: hook=input iif=eth0 mark=0x12",
        "twinwall: hook=input iif=eth1 ctmark=0x7",
        "twinwall: hook=output oif=eth2 uid=5 gid=6 verdict=reject by=rule rule=x",
        "twinwall: hook=output oif=eth2 uid=5 gid=7",
        "twinwall: hook=output iif=eth2 uid=5 gid=6",
        // Only the hook falls back to the options if the comment lacks it.
        "twinwall: iif=eth1 ctmark=7",
        "of somebody else",
    ];
    let (by, sums) = explained(
        &["--hook", "input", "--ct-state", "new", "--iif", "eth1"],
        &comments.map(Some),
    )?;
    let (drop, accept) = ("policy inet filter in", "policy inet filter out");
    let wanted = [
        "4", drop, drop, drop, drop, "5", "9", accept, accept, "5", drop,
    ];
    ensure!(by == wanted, "{by:?}");
    ensure!(
        sums["recorded"] == 5 && sums["different"] == 0 && sums["damaged"] == 0,
        "{sums}"
    );
    Ok(())
}

/// Checks that the options apply to packets whose comment can't be parsed, as they do to packets without a comment.
fn damaged() -> anyhow::Result<()> {
    let comments = [
        Some("twinwall: hook=output mark=0x"),
        None,
        Some("twinwall: hook=output"),
        Some("twinwall:"),
    ];
    let (by, sums) = explained(
        &["--hook", "input", "--iif", "eth1", "--ct-mark", "7"],
        &comments,
    )?;
    ensure!(by == ["5", "5", "policy inet filter out", "5"], "{by:?}");
    ensure!(sums["damaged"] == 2 && sums["recorded"] == 0, "{sums}");
    let folder = Folder::new()?;
    let policy = folder.write("p.nft", POLICY)?;
    let file = folder.write("x.pcapng", capture(&comments))?;
    let (said, ..) = both(&["explain", &policy, &file])?;
    ensure!(
        said.ends_with("\ndamaged comments: 2: the options replace them"),
        "{said}"
    );
    // Damage of the capture itself is an error, and does not count as a damaged comment.
    let mut bytes = capture(&[Some("twinwall: mark=0x1")]);
    let at = bytes.len() - 4 - 20 - 2;
    bytes[at] = 200;
    let file = folder.write("y.pcapng", bytes)?;
    let (_, error, code) = both(&["explain", &policy, &file])?;
    ensure!(
        code == 2 && error.ends_with("at byte 48: a packet with a damaged option\n"),
        "{code}: {error}"
    );
    Ok(())
}

fn expected() -> anyhow::Result<()> {
    let folder = Folder::new()?;
    let policy = folder.write("p.nft", POLICY)?;
    let (drop, accept) = (
        "twinwall: verdict=drop hook=input mark=0x0",
        "twinwall: verdict=accept hook=input mark=0x0",
    );
    for (comments, wanted, words) in [
        (&[Some(drop), None, Some(drop)][..], 0, ""),
        (
            &[Some(drop), Some(accept), Some("twinwall: x")],
            1,
            "1 of 2 verdicts are not those that were recorded: change the policy, or record anew",
        ),
        (
            &[None, Some("twinwall: hook=input")],
            2,
            "no packet has a recorded verdict: record some with fwctl record",
        ),
    ] {
        let file = folder.write("x.pcapng", capture(comments))?;
        let (said, error, code) = both(&["explain", "--expect", &policy, &file])?;
        let line = match words {
            "" => String::new(),
            words => format!("error: {file}: {words}\n"),
        };
        ensure!(code == wanted && error == line, "{code}: {error}");
        ensure!(
            said.contains("\n  recorded otherwise: accept\n") == (wanted == 1),
            "{said}"
        );
        // The difference is also reported without the option, but is no error then.
        let (plain, error, code) = both(&["explain", &policy, &file])?;
        ensure!(code == 0 && error.is_empty() && plain == said, "{error}");
    }
    Ok(())
}
