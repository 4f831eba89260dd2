// SPDX-License-Identifier: GPL-2.0-or-later
//! Tests several queries on one DNS connection over TCP. Captures run through `explain` of both twins, which must print
//! the same, as expected. Every query in a packet takes part in its decision.

use anyhow::{ensure, Context};
use serde_json::Value;
use testbed::folder::Folder;
use twinwall_tests::case::Case;

use super::explain::both;
use super::learn::{capture, framed, packet, query};

pub fn cases() -> Vec<Case> {
    vec![
        Case::new("queries/in-one-segment", in_one_segment),
        Case::new("queries/over-segments", over_segments),
        Case::new("queries/counted-each", counted_each),
    ]
}

const POLICY: &str = r#"table inet filter {
	chain forward {
		type filter hook forward priority 0; policy accept;
		th dport 53 counter
		th dport 53 dns name "allowed.example" counter meta mark set 7
		th dport 53 dns name "denied.example" counter drop
	}
}
"#;

const TCP: u8 = 6;
const CLIENT: &str = "10.0.0.1";
const SERVER: &str = "10.0.0.53";
const SYN: u8 = 0x02;
const ACK: u8 = 0x10;
/// Sequence number of the client's first byte.
const FIRST: u32 = 1000;

/// Returns a segment of the client or of the server.
/// - at: sequence number of the client's first byte in the segment, or the server's acknowledgement number.
fn segment(from_client: bool, flags: u8, at: u32, data: &[u8]) -> Vec<u8> {
    let (ports, ends) = match from_client {
        true => ([4000_u16, 53], (CLIENT, SERVER)),
        false => ([53, 4000], (SERVER, CLIENT)),
    };
    let numbers = match from_client {
        true => [at, 5000],
        false => [4999, at],
    };
    let head = [
        &ports.map(u16::to_be_bytes).concat()[..],
        &numbers.map(u32::to_be_bytes).concat(),
        &[0x50, flags, 0xff, 0xff, 0, 0, 0, 0],
        data,
    ]
    .concat();
    packet(ends.0, ends.1, TCP, &head)
}

/// Sends segments from a client on a new connection: each with its offset in the stream, its bytes, and the expected
/// verdict. Returns all lines that both twins print.
fn run(segments: &[(usize, &[u8], &str)]) -> anyhow::Result<Vec<Value>> {
    let mut packets = vec![
        segment(true, SYN, FIRST - 1, b""),
        segment(false, SYN | ACK, FIRST, b""),
    ];
    for (at, data, _) in segments {
        packets.push(segment(true, ACK, FIRST + *at as u32, data));
    }
    let packets: Vec<_> = packets.into_iter().map(|packet| (0, packet)).collect();
    let folder = Folder::new()?;
    let policy = folder.write("queries.nft", POLICY)?;
    let capture = folder.write("queries.pcap", capture(&packets))?;
    let (said, error, code) = both(&["explain", "--json", &policy, &capture])?;
    ensure!(code == 0, "{error}");
    let lines = said.lines().map(serde_json::from_str);
    let lines: Vec<Value> = lines.collect::<Result<_, _>>().context("lines of JSON")?;
    for (number, (at, _, verdict)) in segments.iter().enumerate() {
        let line = &lines[number + 2];
        ensure!(line["verdict"] == *verdict, "at {at}: {line}");
    }
    Ok(lines)
}

fn in_one_segment() -> anyhow::Result<()> {
    let allowed = framed(&query(1, "allowed.example", 1));
    let denied = framed(&query(2, "denied.example", 1));
    let both = [&allowed[..], &denied].concat();
    run(&[(0, &both, "drop"), (0, &allowed, "drop")])?;
    run(&[(0, &[&denied[..], &allowed].concat(), "drop")])?;
    run(&[(0, &[&both[..], &allowed].concat(), "drop")])?;
    let twice = allowed.repeat(2);
    run(&[
        (0, &twice, "accept"),
        (0, &twice, "accept"),
        (twice.len(), &denied, "drop"),
    ])?;
    Ok(())
}

fn over_segments() -> anyhow::Result<()> {
    let allowed = framed(&query(1, "allowed.example", 1));
    let denied = framed(&query(2, "denied.example", 1));
    let both = [&allowed[..], &denied].concat();
    for at in 1..both.len() {
        let (first, second) = both.split_at(at);
        run(&[(0, first, "accept"), (at, second, "drop")])?;
    }
    let (first, second) = (&both[..allowed.len()], &both[allowed.len()..]);
    run(&[(first.len(), second, "accept"), (0, first, "drop")])?;
    Ok(())
}

/// Tests that counters count each query, and that an accepted packet has the last query's mark.
fn counted_each() -> anyhow::Result<()> {
    let allowed = framed(&query(1, "allowed.example", 1));
    let denied = framed(&query(2, "denied.example", 1));
    let three = [&allowed.repeat(2)[..], &denied].concat();
    let lines = run(&[(0, &allowed, "accept"), (allowed.len(), &three, "drop")])?;
    ensure!(lines[2]["mark"] == 7, "{}", lines[2]);
    let counters = lines.iter().find_map(|line| line["counters"].as_array());
    let counters = counters.context("counters")?;
    let packets: Vec<_> = counters.iter().map(|one| one["packets"].as_u64()).collect();
    // Only the first rule also counts the SYN, which has no query.
    ensure!(packets == [Some(5), Some(3), Some(1)], "{packets:?}");
    Ok(())
}
