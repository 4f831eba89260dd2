// SPDX-License-Identifier: GPL-2.0-or-later
//! Runs `explain --json` on captures whose packets have comments with metadata, some of them malformed.

use twinwall_judge::random::Random;
use twinwall_judge::{pcap, shrink};

use crate::ask::{line, Asker, PACKETS, POLICY};
use crate::Tally;

const PER_PART: usize = 500;

/// A policy under which a comment's values appear in the verdict, the mark or the reason why a rule did not match.
const TELLING: &str = r#"table inet filter {
	chain input {
		type filter hook input priority 0; policy accept;
		iif "eth0" oif "eth1" drop
		iifname "eth*" meta mark 0x10-0xff reject
		oifname != "a b" meta skuid 1-1000 meta mark set meta mark or 0x1000
		meta skgid { 0, 5, 100 } ct state established,related drop
		ct mark & 0xf0 == 0x10 ct state != new reject
		ct state invalid,untracked drop
		ct state new counter
	}
	chain output {
		type filter hook output priority 0; policy drop;
		oif { "eth0", "eth1", "lo" } meta skuid != 5 accept
	}
	chain forward {
		type filter hook forward priority 0; policy drop;
		iifname . oifname { "eth0" . "eth1", "a" . "b" } accept
	}
}
"#;

/// UDP from 10.0.0.1 to 10.0.0.2, 28 bytes.
const PACKET: [u8; 28] = [
    0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0x66, 0xcf, 10, 0, 0, 1, 10, 0, 0, 2, 0, 5, 0, 6, 0, 8, 0,
    0,
];

const BEGIN: &str = "twinwall:";
/// Fields of a comment: names and values. Some values are invalid.
const FIELDS: [(&str, &[&str]); 13] = [
    (
        "verdict",
        &["accept", "drop", "reject", "mark", "none", "drop%20"],
    ),
    (
        "hook",
        &[
            "input",
            "output",
            "forward",
            "prerouting",
            "postrouting",
            "ingress",
        ],
    ),
    (
        "iif",
        &[
            "eth0",
            "eth1",
            "%65th0",
            "a",
            "a%20b",
            "123456789012345",
            "1234567890123456",
            "a%00",
        ],
    ),
    ("oif", &["eth1", "lo", "b", "a%20b", "%ff%25", "eth0", "%"]),
    (
        "mark",
        &[
            "0x0",
            "0x10",
            "255",
            "0xffffffff",
            "0x100000000",
            "0x",
            "-1",
            "4294967295",
        ],
    ),
    (
        "uid",
        &["0", "5", "1000", "4294967294", "4294967295", "root"],
    ),
    ("gid", &["0", "5", "100", "01", "0x5"]),
    (
        "ct",
        &[
            "new",
            "established",
            "related",
            "invalid",
            "untracked",
            "new,related",
            "new,",
            "old",
        ],
    ),
    ("ctmark", &["0x10", "0x1f", "16", "0", "x"]),
    ("by", &["rule", "policy", "fail"]),
    ("rule", &["web.nft:6", "/etc/my%20web.nft:6", "%zz"]),
    ("chain", &["input"]),
    ("later", &["1", "=", ""]),
];

fn comment(random: &mut Random) -> Vec<u8> {
    let mut text = BEGIN.to_owned();
    for (name, values) in FIELDS {
        // Some fields appear twice, some not at all.
        let times = random.weighted(&[40, 58, 2]);
        for _ in 0..times {
            // The first half of the values is valid.
            let good = values.len().div_ceil(2);
            let end = if random.percent(90) {
                good
            } else {
                values.len()
            };
            text += &format!(" {name}={}", values[random.below(end)]);
        }
    }
    let mut bytes = text.into_bytes();
    while random.percent(25) {
        let at = random.below(bytes.len());
        match random.below(3) {
            0 => bytes[at] = random.word() as u8,
            1 => drop(bytes.remove(at)),
            _ => bytes.insert(at, *random.pick(b" =%,\0x0")),
        }
    }
    bytes
}

/// Returns None if the twins agree, otherwise the difference.
fn judge(asker: &Asker, comments: &[Vec<u8>]) -> anyhow::Result<Option<String>> {
    asker.write(POLICY, TELLING.as_bytes())?;
    asker.write(PACKETS, &pcap::write_commented(&PACKET, comments))?;
    let said = match asker.ask(&["explain", "--json", "--hook", "input", POLICY, PACKETS])? {
        Ok(said) => said,
        Err(difference) => return Ok(Some(difference)),
    };
    let lines = said.stdout.iter().filter(|byte| **byte == b'\n').count();
    let fine = said.code == Some(0) && lines == comments.len() + 1 && said.stderr.is_empty();
    Ok((!fine).then(|| {
        let error = line(&said.stderr, 0);
        format!("both end with {:?} and {lines} lines: {error}", said.code)
    }))
}

/// Judges a part of a run: random comments. If the twins disagree, prints a short list of comments on which they
/// disagree, for tests/corpus/vectors/comments.txt.
pub fn part(asker: &Asker, seed: u64, part: u64, tally: &mut Tally) -> anyhow::Result<()> {
    let mut random = Random::split(!seed, part);
    let comments: Vec<Vec<u8>> = (0..PER_PART).map(|_| comment(&mut random)).collect();
    tally.comments += comments.len() as u64;
    let Some(difference) = judge(asker, &comments)? else {
        return Ok(());
    };
    tally.disagreements += 1;
    let fails = |fewer: &[Vec<u8>]| !fewer.is_empty() && matches!(judge(asker, fewer), Ok(Some(_)));
    let fewest = shrink::list(&comments, fails);
    println!("comments-{seed}-{part}: {difference}");
    for comment in fewest {
        println!("  a comment for comments.txt: {}", comment.escape_ascii());
    }
    Ok(())
}
