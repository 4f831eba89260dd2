// SPDX-License-Identifier: GPL-2.0-or-later
//! Tests `check` and `explain`: both twins print the same bytes and return the same exit codes, for every capture
//! format.

use std::fs;

use anyhow::{ensure, Context};
use testbed::firewall::{run_to_end, Ended};
use testbed::folder::Folder;
use testbed::netns::Namespace;
use testbed::packets::{ipv4, ipv6, tcp, udp};
use testbed::place::namespace;
use testbed::twin::{Twin, TWINS};
use twinwall_tests::case::Case;

pub fn cases() -> Vec<Case> {
    vec![
        Case::new("check/words-and-exit-codes", check_words),
        Case::new("explain/text", text),
        Case::new("explain/json", json),
        Case::new("explain/every-kind-of-capture", every_kind),
        Case::new("explain/what-is-no-ip-is-skipped", skipped),
        Case::new("explain/damaged-captures", damaged),
        Case::new("explain/mutated-captures", mutated),
    ]
}

const TCP: u8 = libc::IPPROTO_TCP as u8;
const UDP: u8 = libc::IPPROTO_UDP as u8;
const HOP_BY_HOP: u8 = 0;

const POLICY: &str = r#"table inet filter {
	chain input {
		type filter hook input priority 0; policy drop;
		iif "eth0" ip ttl 1 drop
		tcp dport 22 ct state new accept
		tcp dport 9999 counter packets 5 bytes 7 meta mark set 0x10 jump more
		udp dport 9999 limit rate 1/hour burst 1 packets counter accept
		ip6 saddr . udp sport { ::2 . 5 } drop
		ip protocol udp reject
	}
	chain more {
		tcp flags & (syn | ack) == syn accept
		return
	}
}
"#;

fn place() -> Namespace {
    namespace().unwrap_or_else(|_| Namespace::host())
}

fn run(twin: Twin, arguments: &[&str]) -> anyhow::Result<Ended> {
    run_to_end(&place(), &[], twin, arguments).with_context(|| twin.name())
}

/// Runs both twins, which must print the same. Returns stdout, stderr and the exit code.
pub fn both(arguments: &[&str]) -> anyhow::Result<(String, String, i32)> {
    let [rust, c] = [run(Twin::Rust, arguments)?, run(Twin::C, arguments)?];
    ensure!(
        (&rust.lines, &rust.stderr, rust.code) == (&c.lines, &c.stderr, c.code),
        "{arguments:?}:\nrust ({:?}):\n{}\n{}\nc ({:?}):\n{}\n{}",
        rust.code,
        rust.lines.join("\n"),
        rust.stderr,
        c.code,
        c.lines.join("\n"),
        c.stderr
    );
    let code = rust
        .code
        .with_context(|| format!("{arguments:?}: ended by a signal"))?;
    Ok((rust.lines.join("\n"), rust.stderr, code))
}

fn packets() -> Vec<Vec<u8>> {
    let mut ack = tcp(5);
    ack[13] = 0x10;
    vec![
        ipv4(TCP, 0, &tcp(5)),
        ipv4(TCP, 0, &ack),
        ipv4(UDP, 0, &udp(12, b"abcd")),
        ipv4(UDP, 0, &udp(12, b"abcd")),
        ipv6(6, UDP, 12, &udp(12, b"abcd")),
        ipv4(TCP, 0, &tcp(5)[..8]),
        ipv4(UDP, 8, b"a later fragment"),
    ]
}

/// Byte order of a capture's numbers.
#[derive(Clone, Copy)]
pub struct Order {
    big: bool,
}

impl Order {
    fn u16(self, value: u16) -> [u8; 2] {
        if self.big {
            value.to_be_bytes()
        } else {
            value.to_le_bytes()
        }
    }

    fn u32(self, value: u32) -> [u8; 4] {
        if self.big {
            value.to_be_bytes()
        } else {
            value.to_le_bytes()
        }
    }
}

/// Returns a pcap file with two packets per second: at its start, and a millisecond later.
/// - units: number of time units per second.
fn pcap(order: Order, units: u32, link: u32, frames: &[Vec<u8>]) -> Vec<u8> {
    let magic = if units == 1_000_000 {
        0xa1b2_c3d4
    } else {
        0xa1b2_3c4d
    };
    let mut file = order.u32(magic).to_vec();
    file.extend(order.u16(2));
    file.extend(order.u16(4));
    for word in [0, 0, 65535, link] {
        file.extend(order.u32(word));
    }
    for (number, frame) in (0_u32..).zip(frames) {
        for word in [
            1_700_000_000 + number / 2,
            number % 2 * (units / 1000),
            frame.len() as u32,
            frame.len() as u32,
        ] {
            file.extend(order.u32(word));
        }
        file.extend(frame);
    }
    file
}

pub fn block(order: Order, kind: u32, body: &[u8]) -> Vec<u8> {
    let padded = body.len().next_multiple_of(4);
    let length = order.u32(padded as u32 + 12);
    let mut block = [&order.u32(kind)[..], &length, body].concat();
    block.resize(8 + padded, 0);
    block.extend(length);
    block
}

/// Returns a pcapng file with the same times as [`pcap`]'s.
/// - resolution: value of the option if_tsresol.
fn pcapng(order: Order, resolution: u8, link: u16, frames: &[Vec<u8>]) -> Vec<u8> {
    let section = [
        &order.u32(0x1a2b_3c4d)[..],
        &order.u16(1),
        &order.u16(0),
        &[0xff; 8],
    ]
    .concat();
    let interface = [
        &order.u16(link)[..],
        &[0, 0],
        &order.u32(0),
        &order.u16(9),
        &order.u16(1),
        &[resolution, 0, 0, 0],
        &[0; 4],
    ]
    .concat();
    let mut file = block(order, 0x0a0d_0d0a, &section);
    file.extend(block(order, 1, &interface));
    file.extend(block(order, 5, &[0; 12])); // statistics: not looked at
    for (number, frame) in (0_u64..).zip(frames) {
        let ms = (1_700_000_000 + number / 2) * 1000 + number % 2;
        let stamp = match resolution {
            6 => ms * 1000,
            9 => ms * 1_000_000,
            _ => (ms << 20).div_ceil(1000), // 2^-20
        };
        let length = order.u32(frame.len() as u32);
        let head = [
            &order.u32(0)[..],
            &order.u32((stamp >> 32) as u32),
            &order.u32(stamp as u32),
            &length,
            &length,
        ]
        .concat();
        file.extend(block(order, 6, &[&head[..], frame].concat()));
    }
    file
}

/// Returns frames of a link type that contain these packets.
fn framed(link: u16, packets: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let frame = |packet: &Vec<u8>| {
        let ethertype: [u8; 2] = match packet[0] >> 4 {
            6 => [0x86, 0xdd],
            _ => [0x08, 0x00],
        };
        match link {
            0 if packet[0] >> 4 == 6 => [&[30, 0, 0, 0][..], packet].concat(),
            0 => [&[0, 0, 0, 2][..], packet].concat(),
            1 => {
                // Two VLAN tags, and the padding of a short frame.
                let mut frame = [
                    &[2; 12][..],
                    &[0x88, 0xa8, 0, 1, 0x81, 0, 0, 2],
                    &ethertype,
                    packet,
                ]
                .concat();
                frame.resize(frame.len().max(68), 0x99);
                frame
            }
            113 => [
                &[0, 0, 0, 1, 0, 6, 2, 2, 2, 2, 2, 2, 0, 0][..],
                &ethertype,
                packet,
            ]
            .concat(),
            276 => [&ethertype[..], &[0; 18], packet].concat(),
            _ => packet.clone(),
        }
    };
    packets.iter().map(frame).collect()
}

pub const LITTLE: Order = Order { big: false };
const BIG: Order = Order { big: true };
const US: u32 = 1_000_000;

fn check_words() -> anyhow::Result<()> {
    let folder = Folder::new()?;
    let policy = folder.write("web.nft", POLICY)?;
    let (said, _, code) = both(&["check", &policy])?;
    ensure!(said == "ok" && code == 0, "{said}");
    let (printed, _, code) = both(&["check", "--print", &policy])?;
    ensure!(
        code == 0 && printed.starts_with("table inet filter {"),
        "{printed}"
    );
    let again = folder.write("again.nft", printed.clone() + "\n")?;
    let (twice, ..) = both(&["check", &again, "--print"])?;
    ensure!(twice == printed, "the print of the print differs");

    let missing = folder.file("missing.nft");
    let (_, error, code) = both(&["check", &missing])?;
    let expected = format!("error: {missing}: cannot read the policy: No such file or directory\n");
    ensure!(error == expected && code == 2, "{error}");
    let wrong = folder.write(
        "wrong.nft",
        "table inet t {\n\tchain c { tcp dport 70000 drop\n}\n}\n",
    )?;
    let (_, error, code) = both(&["check", &wrong])?;
    ensure!(
        error.starts_with(&format!("error: {wrong}:2:22: \"70000\"")) && code == 2,
        "{error}"
    );
    let (_, error, code) = both(&["check", &folder.path().to_string_lossy()])?;
    ensure!(error.ends_with("Is a directory\n") && code == 2, "{error}");
    let interface = folder.write(
        "if.nft",
        "table inet t { chain c { iif \"nowhere\" drop\n}\n}\n",
    )?;
    ensure!(
        both(&["check", &interface])?.0 == "ok",
        "an interface is looked for"
    );
    Ok(())
}

fn text() -> anyhow::Result<()> {
    let folder = Folder::new()?;
    let policy = folder.write("web.nft", POLICY)?;
    let capture = folder.write("a.pcap", pcap(LITTLE, US, 101, &packets()))?;
    let (said, error, code) = both(&["explain", &policy, &capture])?;
    ensure!(error.is_empty() && code == 0, "{error}");
    let expected = EXPLAINED.replace("web.nft", &policy);
    let first: String = said
        .lines()
        .take(9)
        .map(|line| format!("{line}\n"))
        .collect();
    ensure!(first == expected, "{said}");
    let end = "7 packets: 2 accepted, 3 dropped, 2 rejected";
    ensure!(said.ends_with(end), "{said}");
    for line in [
        "  drop: malformed (tcp-short), --fail closed",
        "  reject with icmp port-unreachable by web.nft:9",
        "      chain inet filter more",
        "        web.nft:12  no   tcp flags & (syn | ack) == syn accept | tcp flags is ack",
        "  drop by the policy of chain inet filter input, mark 0x00000010",
        "    web.nft:7  no   udp dport 9999 limit rate 1/hour burst 1 packets counter packets 0 bytes 0 accept | limit \
         exceeded",
        "packet 7 at 3.000000: 127.0.0.1 > 127.0.0.1 udp, a later fragment, 36 bytes",
    ] {
        let line = line.replace("web.nft", &policy);
        // Columns are as wide as the longest location of a packet.
        let squeeze = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        ensure!(
            said.lines().any(|found| squeeze(found) == squeeze(&line)),
            "no line {line:?} in\n{said}"
        );
    }
    let more = [
        "--iif",
        "eth0",
        "--ct-state",
        "new",
        "--default",
        "drop",
        "--fail",
        "open",
    ];
    both(&[&["explain", &policy, &capture][..], &more].concat())?;
    let forward = both(&[
        "explain",
        "--hook",
        "forward",
        "--default",
        "accept",
        &policy,
        &capture,
    ])?
    .0;
    ensure!(forward.contains("\n  accept by --default\n"), "{forward}");
    let by_policy = both(&["explain", "--malformed", "policy", &policy, &capture])?.0;
    ensure!(!by_policy.contains("--fail"), "{by_policy}");
    Ok(())
}

/// Expected explanation of a capture's first packet, for a policy named web.nft.
const EXPLAINED: &str = "\
packet 1 at 0.000000: 127.0.0.1:40000 > 127.0.0.1:9999 tcp syn, 40 bytes
  chain inet filter input
    web.nft:4   no   iif \"eth0\" ip ttl 1 drop | iif is \"\"
    web.nft:5   no   tcp dport 22 ct state new accept | tcp dport is 9999
    web.nft:6   yes  tcp dport 9999 counter packets 5 bytes 7 meta mark set 0x00000010 jump more
      chain inet filter more
        web.nft:12  yes  tcp flags & (syn | ack) == syn accept
  accept by web.nft:12, mark 0x00000010
  nearest miss web.nft:4: iif \"eth0\" ip ttl 1 drop | iif is \"\"
";

fn json() -> anyhow::Result<()> {
    let folder = Folder::new()?;
    let policy = folder.write("q\"\u{1}\\\u{e4}.nft", POLICY)?;
    let capture = folder.write("a.pcap", pcap(LITTLE, US, 101, &packets()))?;
    let (said, error, code) = both(&["explain", "--json", &policy, &capture])?;
    ensure!(error.is_empty() && code == 0, "{error}");
    let lines: Vec<serde_json::Value> = said
        .lines()
        .map(serde_json::from_str)
        .collect::<Result<_, _>>()
        .with_context(|| said.clone())?;
    ensure!(lines.len() == 8, "{} lines", lines.len());
    let keys: Vec<&String> = lines[0].as_object().context("an object")?.keys().collect();
    ensure!(keys.len() == 10, "{keys:?}");
    ensure!(lines[0]["by"] == format!("{policy}:12"), "{}", lines[0]);
    ensure!(
        lines[0]["mark"] == 16 && lines[0]["time"] == 0.0,
        "{}",
        lines[0]
    );
    ensure!(lines[1]["time"] == 0.001, "{}", lines[1]);
    ensure!(
        lines[1]["rules"][3]["why"] == "tcp flags is ack",
        "{}",
        lines[1]
    );
    ensure!(
        lines[5]["status"] == "tcp-short" && lines[5]["by"] == "fail",
        "{}",
        lines[5]
    );
    ensure!(
        lines[3]["nearest_miss"] == format!("{policy}:7"),
        "{}",
        lines[3]
    );
    let end = &lines[7];
    ensure!(
        end["counters"][0]["packets"] == 7 && end["counters"][0]["bytes"] == 87,
        "{end}"
    );
    ensure!(end["packets"] == 7 && end["skipped"] == 0, "{end}");
    Ok(())
}

/// Returns the packets that a link type can carry: some link types carry one IP version only.
fn of_link(link: u16) -> Vec<Vec<u8>> {
    let carried = |packet: &Vec<u8>| match link {
        228 => packet[0] >> 4 == 4,
        229 => packet[0] >> 4 == 6,
        _ => true,
    };
    packets().into_iter().filter(carried).collect()
}

fn every_kind() -> anyhow::Result<()> {
    let folder = Folder::new()?;
    let policy = folder.write("web.nft", POLICY)?;
    for link in [0_u16, 1, 12, 14, 101, 113, 228, 229, 276] {
        let packets = of_link(link);
        let plain = folder.write("plain.pcap", pcap(LITTLE, US, 101, &packets))?;
        let expected = both(&["explain", &policy, &plain])?.0;
        let frames = framed(link, &packets);
        let mut captures = Vec::new();
        for order in [LITTLE, BIG] {
            for units in [US, US * 1000] {
                captures.push(pcap(order, units, link.into(), &frames));
            }
            for resolution in [6, 9, 0x80 | 20] {
                captures.push(pcapng(order, resolution, link, &frames));
            }
        }
        for (number, bytes) in captures.iter().enumerate() {
            let capture = folder.write("other.pcap", bytes)?;
            let (said, error, code) = both(&["explain", &policy, &capture])?;
            ensure!(
                code == 0 && said == expected,
                "link type {link}, capture {number}: {error}{said}"
            );
        }
    }
    Ok(())
}

fn skipped() -> anyhow::Result<()> {
    let folder = Folder::new()?;
    let policy = folder.write("web.nft", POLICY)?;
    let arp = [&[0xff; 12][..], &[8, 6], &[0; 28]].concat();
    let mut frames = framed(1, &packets());
    frames.insert(1, arp.clone());
    frames.push(arp);
    frames.push(vec![0; 5]);
    let capture = folder.write("a.pcap", pcap(LITTLE, US, 1, &frames))?;
    let (said, _, code) = both(&["explain", &policy, &capture])?;
    ensure!(code == 0, "exit code {code}");
    ensure!(
        said.ends_with("\nskipped 3 frames that are not IP"),
        "{said}"
    );
    ensure!(
        said.contains("\npacket 3 at "),
        "frames are not numbered: {said}"
    );
    Ok(())
}

fn damaged() -> anyhow::Result<()> {
    let folder = Folder::new()?;
    let policy = folder.write("web.nft", POLICY)?;
    let whole = pcap(LITTLE, US, 101, &packets());
    let ng = pcapng(LITTLE, 6, 101, &packets());
    let mut other_link = whole.clone();
    other_link[20] = 105;
    let mut long = whole.clone();
    long[24 + 8..24 + 12].copy_from_slice(&(17_u32 << 20).to_le_bytes());
    let mut lengths = ng.clone();
    lengths[28 - 4] = 99;
    let mut odd = ng.clone();
    odd[28 + 4] = 33;
    for (bytes, cause) in [
        (&b""[..], "the capture is damaged at byte 0: it ends here"),
        (
            b"plain text",
            "the capture is damaged at byte 0: it is neither pcap nor pcapng",
        ),
        (
            &whole[..10],
            "the capture is damaged at byte 4: it ends here",
        ),
        (
            &whole[..30],
            "the capture is damaged at byte 24: it ends here",
        ),
        (
            &whole[..50],
            "the capture is damaged at byte 40: it ends here",
        ),
        (
            &long,
            "the capture is damaged at byte 40: a packet or block of more than 16 MiB",
        ),
        (
            &other_link,
            "packets of link type 105 are not understood: capture Ethernet, Linux cooked or raw IP",
        ),
        (&ng[..40], "the capture is damaged at byte 36: it ends here"),
        (
            &lengths,
            "the capture is damaged at byte 0: a block whose two lengths differ",
        ),
        (
            &odd,
            "the capture is damaged at byte 28: a block of an impossible length",
        ),
    ] {
        let capture = folder.write("bad.pcap", bytes)?;
        let (_, error, code) = both(&["explain", &policy, &capture])?;
        ensure!(
            error == format!("error: {capture}: {cause}\n") && code == 2,
            "expected {cause}: {error}"
        );
    }
    // Packets before the damage are explained.
    let capture = folder.write("cut.pcap", &whole[..whole.len() - 3])?;
    let (said, error, code) = both(&["explain", &policy, &capture])?;
    ensure!(
        said.contains("\npacket 6 at ") && code == 2 && !error.is_empty(),
        "{said}{error}"
    );
    let missing = folder.file("missing.pcap");
    let (_, error, code) = both(&["explain", &policy, &missing])?;
    let expected =
        format!("error: {missing}: cannot read the capture: No such file or directory\n");
    ensure!(error == expected && code == 2, "{error}");
    Ok(())
}

/// Tests captures that differ from valid captures in a few bytes: no twin crashes, and both print the same.
fn mutated() -> anyhow::Result<()> {
    const EACH: u64 = 60;
    let folder = Folder::new()?;
    let policy = folder.write("web.nft", POLICY)?;
    let mut packets = packets();
    let options = [UDP, 0, 1, 4, 0, 0, 0, 0];
    packets.push(ipv6(
        6,
        HOP_BY_HOP,
        20,
        &[&options[..], &udp(12, b"abcd")].concat(),
    ));
    let good = [
        pcap(BIG, US, 1, &framed(1, &packets)),
        pcap(LITTLE, US, 101, &packets),
        pcapng(LITTLE, 9, 113, &framed(113, &packets)),
        pcapng(BIG, 6, 101, &packets),
    ];
    let mut state = 0x1234_5678_9abc_def1_u64; // xorshift64
    let mut next = |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as usize % below
    };
    for number in 0..EACH * good.len() as u64 {
        let mut bytes = good[number as usize % good.len()].clone();
        for _ in 0..=next(4) {
            let at = next(bytes.len());
            bytes[at] = match next(4) {
                0 => 0,
                1 => 0xff,
                _ => next(256) as u8,
            };
        }
        if next(8) == 0 {
            bytes.truncate(next(bytes.len()));
        }
        let capture = folder.write("mutated.pcap", &bytes)?;
        let arguments = [
            "explain",
            "--json",
            "--malformed",
            "policy",
            &policy,
            &capture,
        ];
        let kept = format!("/tmp/twinwall-mutated-{}.pcap", std::process::id());
        let result = both(&arguments).and_then(|(_, error, code)| {
            ensure!(code == 0 || code == 2, "exit code {code}: {error}");
            Ok(())
        });
        if result.is_err() {
            fs::write(&kept, &bytes)?;
        }
        result.with_context(|| format!("kept as {kept}"))?;
    }
    for twin in TWINS {
        ensure!(
            run(twin, &["check", &policy])?.code == Some(0),
            "{}",
            twin.name()
        );
    }
    Ok(())
}
