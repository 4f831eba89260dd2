// SPDX-License-Identifier: GPL-2.0-or-later
//! `fwctl explain` and `fwctl diff`: fwctl itself decides packets, with the Rust twin's library.

use std::process::{Command, Stdio};

use anyhow::{ensure, Context};
use serde_json::Value;
use testbed::packets::ipv4;
use testbed::twin::{root, Twin, TWINS};
use testbed::wait::pause_for;
use twinwall_tests::case::Row;

use super::ctl::{check_has, until_end, Place, ACCEPTED, DROPPED, OTHER, POLICY};

pub const ROWS: &[Row] = &[
    ("explain-by-the-running-policy", explain),
    ("explain-possible-marks", explain_marks),
    ("diff-of-a-capture", diff_capture),
    ("diff-of-a-policy-that-reads-nothing", diff_nothing_read),
    ("recorded-packets-are-what-they-were", recorded),
    ("diff-live", diff_live),
    ("diff-live-for-a-second", diff_live_for_a_second),
    ("diff-live-lacks-what-it-reads", diff_lacks),
    ("diff-notes-limits", diff_limits),
];

/// Policy with the opposite verdicts of POLICY: drops port ACCEPTED, and accepts port DROPPED.
const TURNED: &str = "table inet filter {
	chain output {
		type filter hook output priority filter; policy accept;
		udp dport 9001 counter drop
		udp dport 9002 counter accept
	}
}
";

/// Returns a capture with a datagram to each port (pcap of raw IP packets, one per millisecond).
fn capture(ports: &[u16]) -> Vec<u8> {
    let mut out = Vec::new();
    for word in [0xa1b2_c3d4_u32, 0x0004_0002, 0, 0, 65535, 101] {
        out.extend(word.to_le_bytes());
    }
    for (number, port) in ports.iter().enumerate() {
        let mut udp = Vec::new();
        for word in [40000, *port, 9, 0] {
            udp.extend(word.to_be_bytes());
        }
        udp.push(b'x');
        let packet = ipv4(libc::IPPROTO_UDP as u8, 0, &udp);
        let bytes = packet.len() as u32;
        for word in [1_700_000_000, number as u32 * 1000, bytes, bytes] {
            out.extend(word.to_le_bytes());
        }
        out.extend(packet);
    }
    out
}

/// Checks that fwctl explains like the twin itself, with the policy and options of the running twin.
fn explain(twin: Twin) -> anyhow::Result<()> {
    let decide = [
        "--default",
        "drop",
        "--fail",
        "malformed=open",
        "--malformed=policy",
    ];
    let place = Place::with(twin, POLICY, &decide)?;
    let pcap = place
        .folder
        .write("a.pcap", capture(&[ACCEPTED, DROPPED, OTHER]))?;
    for more in [&[][..], &["--json"], &["--hook", "input"]] {
        let twins = Command::new(twin.binary())
            .args([&["explain"], &decide[..], more, &[&place.policy, &pcap]].concat())
            .output()?;
        let said = place.fwctl(&[&["explain"], more, &[&pcap]].concat())?;
        ensure!(
            !twins.stdout.is_empty(),
            "{}",
            String::from_utf8_lossy(&twins.stderr)
        );
        ensure!(
            said.code(0)?.as_bytes() == twins.stdout,
            "{more:?}: fwctl: {}\n{}: {}",
            said.stdout,
            twin.name(),
            String::from_utf8_lossy(&twins.stdout)
        );
    }
    let other = place.folder.write("turned.nft", TURNED)?;
    let said = place.fwctl(&["explain", &other, &pcap])?;
    check_has(said.code(0)?, "  drop by ")?;
    place
        .fwctl(&["explain", "--hook", "door", &pcap])?
        .error(2, "--hook \"door\": expected")?;
    place
        .fwctl(&["explain", &place.policy])?
        .error(2, "neither pcap nor pcapng")?;

    // The policy file no longer contains the running policy.
    pause_for(std::time::Duration::from_millis(20));
    place.folder.write("web.nft", TURNED)?;
    let said = place.fwctl(&["explain", &pcap])?;
    said.code(0)?;
    check_has(&said.stderr, "has changed since it was loaded")
}

/// Checks the reason that `explain` prints for a rule that matches no possible mark of a packet with an unknown name.
fn explain_marks(twin: Twin) -> anyhow::Result<()> {
    let kept = root().join("tests/corpus/crashes/explain-possible-marks");
    let output = Command::new(twin.binary())
        .args(["explain", "--hook", "input"])
        .args([kept.with_extension("nft"), kept.with_extension("pcap")])
        .output()?;
    let text = String::from_utf8(output.stdout)?;
    check_has(
        &text,
        "meta mark 0x00000007 accept | no possible meta mark matches\n",
    )
}

fn diff_capture(twin: Twin) -> anyhow::Result<()> {
    let place = Place::new(twin)?;
    let ports = [DROPPED, ACCEPTED, DROPPED, OTHER];
    let pcap = place.folder.write("a.pcap", capture(&ports))?;
    let new = place.folder.write("turned.nft", TURNED)?;
    let said = place.fwctl(&["diff", &new, &pcap])?;
    let old = &place.policy;
    let address = "127.0.0.1:40000 > 127.0.0.1";
    let expected = format!(
        "now drop by {old}:5, then accept by {new}:5:\n  {address}:9002 udp, 2 packets\n\
         now accept by {old}:4, then drop by {new}:4:\n  {address}:9001 udp, 1 packet\n\
         2 flows would flip: 3 of 4 packets\n"
    );
    ensure!(said.code(1)? == expected, "{}", said.stdout);

    let said = place.fwctl(&["diff", "--json", &new, &pcap])?;
    let lines: Result<Vec<Value>, _> = said.code(1)?.lines().map(serde_json::from_str).collect();
    let lines = lines?;
    let [first, _, sums] = &lines[..] else {
        anyhow::bail!("{lines:?}");
    };
    ensure!(
        first["flow"]["dest_port"] == DROPPED && first["packets"] == 2,
        "{first}"
    );
    ensure!(first["will"]["by"] == format!("{new}:5"), "{first}");
    ensure!(
        sums["packets"] == 4 && sums["flipped"] == 3 && sums["flows"] == 2,
        "{sums}"
    );

    // In another hook both policies give the same verdicts, as does a policy compared with itself.
    let said = place.fwctl(&["diff", &new, &pcap, "--hook", "input"])?;
    check_has(said.code(0)?, "no verdict would flip: 4 packets compared")?;
    place.fwctl(&["diff", old, &pcap])?.code(0)?;
    let bad = place
        .folder
        .write("bad.nft", "table inet filter {\n\tchian c {\n\t}\n}\n")?;
    place
        .fwctl(&["diff", &bad, &pcap])?
        .error(2, &format!("{bad}:2:2: "))
}

/// Checks diff with a policy that reads no byte of a packet: it decides by the address family, which the kernel
/// reports.
fn diff_nothing_read(twin: Twin) -> anyhow::Result<()> {
    let place = Place::new(twin)?;
    let pcap = place
        .folder
        .write("a.pcap", capture(&[ACCEPTED, DROPPED, OTHER]))?;
    let base = "type filter hook output priority filter; policy drop;";
    for family in ["ip", "inet", "ip6"] {
        let text = format!("table {family} t {{\n\tchain output {{\n\t\t{base}\n\t}}\n}}\n");
        let new = place.folder.write("all.nft", text)?;
        let said = place.fwctl(&["diff", &new, &pcap])?;
        let (flipped, flows) = match family {
            // The table ip6 does not match the packets, so --default accepts them.
            "ip6" => (
                " then accept by default:\n".to_owned(),
                "1 flow would flip: 1 of 3",
            ),
            _ => (
                format!(" then drop by policy {family} t output:\n"),
                "2 flows would flip: 2 of 3",
            ),
        };
        check_has(said.code(1)?, &flipped)?;
        check_has(&said.stdout, flows)?;
    }
    Ok(())
}

/// Policy that decides by properties that a capture of raw packets does not have: hook, interface and mark.
const TELLING: &str = "table inet filter {
	chain input {
		type filter hook input priority filter; policy drop;
	}
	chain output {
		type filter hook output priority filter; policy accept;
		oifname \"lo\" meta mark 0 udp dport 9002 drop
	}
}
";

/// Checks that a recorded capture can be a regression test: explain and diff need no options. With another policy they
/// report the verdicts that differ from the recorded ones.
fn recorded(twin: Twin) -> anyhow::Result<()> {
    let place = Place::with(twin, TELLING, &[])?;
    let file = place.folder.file("x.pcapng");
    let child = place
        .command()?
        .args(["record", "-w", &file, "--count", "4"])
        .stderr(Stdio::piped())
        .spawn()?;
    place.until_followed(1)?;
    // No program listens on these ports, so an accepted packet causes an answer.
    for port in [DROPPED, DROPPED, DROPPED, OTHER] {
        place.send(port, 1)?;
    }
    let said = until_end(child)?;
    ensure!(said.code == Some(0), "{}", said.stderr);

    let expected =
        "\n4 packets: 1 accepted, 3 dropped, 0 rejected\nrecorded verdicts: 4, 0 different\n";
    for judge in TWINS {
        let output = Command::new(judge.binary())
            .args(["explain", "--expect", &place.policy, &file])
            .output()?;
        let text = String::from_utf8(output.stdout)?;
        ensure!(output.status.code() == Some(0), "{}: {text}", judge.name());
        check_has(&text, expected)?;
    }
    let said = place.fwctl(&["explain", "--expect", &file])?;
    check_has(said.code(0)?, expected)?;
    let said = place.fwctl(&["diff", &place.policy, &file])?;
    check_has(said.code(0)?, "4 packets compared")?;

    let new = place.folder.write(
        "new.nft",
        TELLING.replace("oifname \"lo\" meta", "oifname \"eth0\" meta"),
    )?;
    let said = place.fwctl(&["explain", "--expect", &new, &file])?;
    check_has(said.code(1)?, "\n  recorded otherwise: drop\n")?;
    check_has(
        &said.stderr,
        "3 of 4 verdicts are not those that were recorded",
    )?;
    let said = place.fwctl(&["diff", &new, &file])?;
    check_has(said.code(1)?, "would flip: 3 of 4 packets")
}

fn diff_live(twin: Twin) -> anyhow::Result<()> {
    let place = Place::new(twin)?;
    let new = place.folder.write("turned.nft", TURNED)?;
    let old = place.policy.clone();
    let said = place.diff_live(&new, |place| {
        place.send(ACCEPTED, 1)?;
        place.send(DROPPED, 3)?;
        place.send(OTHER, 1)
    })?;
    check_has(&said.stderr, "the firewall has ended")?;
    let lines: Result<Vec<Value>, _> = said.code(1)?.lines().map(serde_json::from_str).collect();
    let lines = lines?;
    let sums = lines.last().context("no sums")?;
    // Each call of `send` is a flow. ICMP errors answer the packets that arrived; their verdicts don't flip.
    ensure!(sums["flipped"] == 4 && sums["missed"] == 0, "{lines:?}");
    ensure!(sums["packets"].as_u64() >= Some(5), "{sums}");
    let dropped = lines
        .iter()
        .find(|line| line["flow"]["dest_port"] == DROPPED);
    let dropped = dropped.context("no flow to the port that was dropped")?;
    ensure!(dropped["packets"] == 3, "{dropped}");
    ensure!(dropped["was"]["verdict"] == "drop", "{dropped}");
    ensure!(dropped["was"]["by"] == format!("{old}:5"), "{dropped}");
    ensure!(dropped["will"]["by"] == format!("{new}:5"), "{dropped}");
    Ok(())
}

/// Checks that a comparison without packets ends after its time.
fn diff_live_for_a_second(twin: Twin) -> anyhow::Result<()> {
    let place = Place::new(twin)?;
    let new = place.folder.write("turned.nft", TURNED)?;
    let said = place.fwctl(&["diff", &new, "--live", "--seconds", "1"])?;
    let expected = "no verdict would flip: 0 packets compared\n";
    ensure!(said.code(0)? == expected, "{}", said.stdout);
    ensure!(said.stderr.is_empty(), "{}", said.stderr);
    Ok(())
}

/// Checks that diff refuses to compare live if the queues lack data that the new policy reads.
fn diff_lacks(twin: Twin) -> anyhow::Result<()> {
    let place = Place::new(twin)?;
    let new = TURNED.replace("udp dport 9001", "meta skuid 0 udp dport 9001");
    let new = place.folder.write("uid.nft", new)?;
    let said = place.fwctl(&["diff", &new, "--live", "--seconds", "1"])?;
    said.error(2, "reads meta skuid or meta skgid")
}

fn diff_limits(twin: Twin) -> anyhow::Result<()> {
    let place = Place::new(twin)?;
    let limited = POLICY.replace(
        "udp dport 9001 counter",
        "udp dport 9001 limit rate over 2/hour burst 2 packets counter drop\n\t\tudp dport 9001 counter",
    );
    let new = place.folder.write("limited.nft", limited)?;
    let pcap = place.folder.write("a.pcap", capture(&[ACCEPTED; 5]))?;
    let said = place.fwctl(&["diff", &new, &pcap])?;
    check_has(said.code(1)?, ":9001 udp, 3 packets *\n")?;
    check_has(
        &said.stdout,
        "* by a limit or a quota: it depends on the time",
    )?;
    // A packet that no limit decides has no note.
    let pcap = place.folder.write("b.pcap", capture(&[DROPPED]))?;
    place.fwctl(&["diff", &new, &pcap])?.code(0)?;
    Ok(())
}
