// SPDX-License-Identifier: GPL-2.0-or-later
//! Tests the memory that an upgrade passes: its content, with the vectors that both twins share, and its seals.

use std::fs::{self, File};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use nix::errno::Errno;
use rust_firewall::connection::{follow, ConnectionSettings, Connections};
use rust_firewall::engine::compiled::Compiled;
use rust_firewall::engine::learned;
use rust_firewall::handover;
use rust_firewall::handover::counted::{parse_states, states_bytes};
use rust_firewall::handover::memory::HandoverMemory;
use rust_firewall::handover::rules::parse;
use rust_firewall::handover::Handover;
use rust_firewall::worker::WorkerHandover;

use crate::support::connections::written;
use crate::support::engine::engine;

fn vectors() -> Vec<(String, String)> {
    let path =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/corpus/vectors/handover-memory.txt");
    let text = fs::read_to_string(path).expect("the vectors");
    let lines = text
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'));
    let lines: Vec<_> = lines.collect();
    let pair = |pair: &[&str]| {
        let expect = pair[1].strip_prefix("expect ").expect("what is expected");
        (pair[0].to_owned(), expect.to_owned())
    };
    lines.chunks(2).map(pair).collect()
}

fn unhex(hex: &str) -> Vec<u8> {
    let byte = |at| u8::from_str_radix(&hex[at..at + 2], 16).expect("digits");
    (0..hex.len()).step_by(2).map(byte).collect()
}

fn judge_rules(hex: &str) -> String {
    match parse(&unhex(hex)) {
        None => "refused".to_owned(),
        Some(side) => {
            let totals = side.totals.map(|total| format!(" {total}"));
            assert_eq!(side.limit_sizes.len(), side.totals[2] as usize);
            format!("{}{}", side.rules.len(), totals.concat())
        }
    }
}

const NOW_NS: u64 = 1_000_000_000_000;
/// Approximate number of limits of bytes (rooms) with which `check_rooms` writes connections.
const ROOMS: usize = 128;

fn empty_connections() -> Connections {
    follow::make(&ConnectionSettings {
        connections: 16,
        hello_bytes: 16384,
        hello_timeout_ns: 10_000_000_000,
        undecided_bytes: 8192,
    })
}

/// Parses the connections in a memory, and writes them again with several limits of bytes, each large enough for the
/// records of forgotten connections. Checks that no result exceeds its limit, that a limit of the memory's length gives
/// the same bytes again, and that writing changes nothing.
fn check_rooms(bytes: &[u8]) {
    let write = |room: usize| {
        let mut connections = empty_connections();
        handover::connections::parse(bytes, &mut connections, NOW_NS).expect("connections");
        let short = written(&mut connections, room as u64, NOW_NS);
        assert_eq!(written(&mut connections, u64::MAX, NOW_NS), bytes, "{room}");
        short
    };
    let least = write(0).len();
    for room in (least..bytes.len()).step_by(1 + bytes.len() / ROOMS) {
        assert!(write(room).len() <= room, "{room}");
    }
    assert_eq!(write(bytes.len()), bytes);
}

/// Parses the memory of connections, given in hexadecimal. Returns the name of the invalid part; without an invalid
/// part, returns the counts of connections that were taken and left out, "same" if writing them again gives the same
/// bytes, and index and tag of each record of a forgotten connection.
fn judge_connections(hex: &str) -> String {
    let bytes = unhex(hex);
    let mut connections = empty_connections();
    match handover::connections::parse(&bytes, &mut connections, NOW_NS) {
        Err(part) => {
            assert!(follow::counts(&connections).now.iter().all(|now| *now == 0));
            part.to_owned()
        }
        Ok(followed) => {
            let again = written(&mut connections, u64::MAX, NOW_NS);
            let same = if again == bytes { " same" } else { "" };
            check_rooms(&again);
            let graves = connections.table.graves.iter().zip(0..);
            let graves = graves.filter(|(grave, _)| grave.second != 0);
            let graves = graves.map(|(grave, place)| format!(" {place}:{:08x}", grave.tag));
            let graves: String = graves.collect();
            format!("{} {}{same}{graves}", followed.taken, followed.left_out)
        }
    }
}

const LEARNING: &str = "table inet t {
	set cdn { type ipv4_addr; learn dns \"a.example\"; }
	set cdn6 { type ipv6_addr; learn dns \"a.example\"; }
}
";

/// Returns the learned addresses as an upgrade writes them.
fn learned_written(compiled: &Compiled) -> Vec<u8> {
    let mut made = handover::memory::make().expect("memory");
    handover::learned::write(&mut made, compiled, NOW_NS).expect("room");
    handover::memory::seal(&mut made).expect("a seal");
    let sealed = handover::memory::open(second(&made), u64::MAX).expect("sealed memory");
    handover::memory::read(&sealed).expect("bytes")
}

/// Parses the memory of learned addresses, given in hexadecimal. Returns the name of the invalid part; without an
/// invalid part, returns the counts of addresses that were taken, had no room, and belong to unknown sets, and "same"
/// if writing them again gives the same bytes.
fn judge_learned(hex: &str) -> String {
    let bytes = unhex(hex);
    let learned = Arc::new(learned::make(8));
    let mut compiled = engine(LEARNING, false).compiled;
    compiled.learned = Some(Arc::clone(&learned));
    let known = || learned::count(&learned, NOW_NS);
    match handover::learned::parse(&bytes, &compiled, NOW_NS) {
        Err(part) => {
            assert_eq!(known(), 0);
            part.to_owned()
        }
        Ok(taken) => {
            assert_eq!(known(), taken.taken);
            let again = learned_written(&compiled);
            let same = if again == bytes { " same" } else { "" };
            format!("{} {} {}{same}", taken.taken, taken.left_out, taken.other)
        }
    }
}

fn judge_states(line: &str) -> String {
    let (shape, words) = line.split_once(": ").expect("a shape");
    let shape: Vec<_> = shape.split(' ').collect();
    let count = |at: usize| shape[at].parse::<usize>().expect("a number");
    let sizes = shape[3].split(',').filter(|size| *size != "-");
    let words = words
        .split(' ')
        .map(|word| word.parse::<u64>().expect("a number"));
    let bytes: Vec<_> = words.flat_map(u64::to_le_bytes).collect();
    let mut taken = Handover {
        count_places: (0..count(0)).map(Some).collect(),
        stat_places: (0..count(1)).map(Some).collect(),
        queues: (0..count(2)).map(|_| WorkerHandover::default()).collect(),
        ..Handover::default()
    };
    taken.side.limit_sizes = sizes.map(|size| size.parse().expect("a size")).collect();
    taken.side.totals = [0, 0, taken.side.limit_sizes.len() as u32, count(4) as u32];
    assert_eq!(states_bytes(&taken), bytes.len() as u64, "{line}");
    parse_states(&bytes, &mut taken)
        .err()
        .unwrap_or("ok")
        .to_owned()
}

#[test]
fn memory_is_taken_as_the_vectors_say() {
    let vectors = vectors();
    assert!(vectors.len() > 30);
    for (line, expect) in vectors {
        let (kind, rest) = line.split_once(' ').expect("a kind");
        let found = match kind {
            "rules" => judge_rules(rest),
            "connections" => judge_connections(rest),
            "learned" => judge_learned(rest),
            _ => judge_states(rest),
        };
        assert_eq!(found, expect, "{line}");
    }
}

fn second(memory: &HandoverMemory) -> OwnedFd {
    let fd = handover::memory::fd(memory).try_clone_to_owned();
    fd.expect("a descriptor")
}

#[test]
fn what_is_sealed_comes_over_and_stays() {
    let mut memory = handover::memory::make().expect("memory");
    handover::memory::reserve(&mut memory, 200_008).expect("room");
    handover::memory::append(&mut memory, &vec![7; 200_000]).expect("room");
    handover::memory::append_number(&mut memory, 0x0807_0605_0403_0201).expect("room");
    handover::memory::seal(&mut memory).expect("a seal");
    let sealed = handover::memory::open(second(&memory), 200_008).expect("sealed memory");
    let read = handover::memory::read(&sealed).expect("bytes");
    assert_eq!(read.len(), 200_008);
    assert!(read[..200_000].iter().all(|byte| *byte == 7));
    assert_eq!(read[200_000..], [1, 2, 3, 4, 5, 6, 7, 8]);
    let file = File::from(second(&memory));
    assert!(file.write_all_at(&[1], 0).is_err());
    assert!(file.set_len(0).is_err() && file.set_len(300_000).is_err());
}

#[test]
fn what_is_not_sealed_or_too_large_is_refused() {
    let refused = |fd: OwnedFd| handover::memory::open(fd, 8).err();
    let mut memory = handover::memory::make().expect("memory");
    handover::memory::append_number(&mut memory, 1).expect("room");
    assert_eq!(refused(second(&memory)), Some(Errno::EPROTO));
    handover::memory::seal(&mut memory).expect("a seal");
    assert_eq!(refused(second(&memory)), None);
    assert!(handover::memory::open(second(&memory), 7).is_err());
    let path = std::env::temp_dir().join(format!("twinwall-memory-{}", std::process::id()));
    let file = File::create(&path).expect("a file");
    assert_eq!(refused(file.into()), Some(Errno::EPROTO));
    assert_eq!(
        refused(File::open("/dev/zero").expect("a device").into()),
        Some(Errno::EPROTO)
    );
    let stdin = std::io::stdin();
    let descriptor = stdin.as_fd().try_clone_to_owned().expect("a descriptor");
    assert_eq!(refused(descriptor), Some(Errno::EPROTO));
    fs::remove_file(&path).expect("a file");
}
