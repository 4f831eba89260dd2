// SPDX-License-Identifier: GPL-2.0-or-later
//! Hostile peers: time and memory stay bounded, and each outcome is counted.

use std::io::Write;
use std::net::TcpStream;
use std::time::{Duration, Instant};

use testbed::netns::Namespace;
use testbed::wait::pause_for;

use crate::place::{namespace, parsed, scan_with, serve, text, READ_LIMITS};

fn floods(mut stream: TcpStream) {
    let chunk = [b'a'; 65536];
    // Up to 1 GiB.
    for _ in 0..16384 {
        if stream.write_all(&chunk).is_err() {
            return;
        }
    }
}

fn drips(mut stream: TcpStream) {
    while stream.write_all(b"S").is_ok() {
        pause_for(Duration::from_millis(100));
    }
}

fn resets(stream: TcpStream) {
    let linger = libc::linger {
        l_onoff: 1,
        l_linger: 0,
    };
    use std::os::fd::AsRawFd;
    // SAFETY: setsockopt(2) reads one linger, which outlives the call; the descriptor is the stream's.
    unsafe {
        let (at, len) = ((&raw const linger).cast(), size_of::<libc::linger>() as u32);
        libc::setsockopt(
            stream.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_LINGER,
            at,
            len,
        );
    }
}

fn endless_fields(mut stream: TcpStream) {
    let field = format!("X-More: {}\r\n", "and more ".repeat(100));
    let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n");
    while stream.write_all(field.as_bytes()).is_ok() {}
}

/// Sends TLS records of maximum length (16 KiB) until the client closes. The first record begins a handshake message of
/// 16 MiB.
fn endless_handshake(mut stream: TcpStream) {
    let mut record = vec![0x16, 3, 3, 0x40, 0];
    record.extend([2, 0xff, 0xff, 0xff]);
    record.resize(5 + 0x4000, 0);
    while stream.write_all(&record).is_ok() {}
}

/// Scans the five servers; returns their findings by port. Checks that time, counts and answers are bounded.
fn findings(place: &Namespace, words: &[&str]) -> Vec<String> {
    let start = Instant::now();
    let output = scan_with(place, words);
    assert!(
        output.status.success(),
        "{words:?}: {}",
        text(&output.stderr)
    );
    assert!(start.elapsed() < Duration::from_secs(200), "{words:?}");
    let (results, summary) = parsed(&output);
    let mut found: Vec<(u64, String)> = results
        .iter()
        .map(|one| {
            let finding = one["finding"].as_str().unwrap();
            (one["port"].as_u64().unwrap(), finding.to_owned())
        })
        .collect();
    found.sort_unstable();
    let counted: u64 = summary["findings"]
        .as_object()
        .unwrap()
        .values()
        .map(|n| n.as_u64().unwrap())
        .sum();
    assert_eq!(counted, 5, "{summary}");
    for result in &results {
        assert!(result["answer"].as_str().map_or(0, |answer| answer.len()) <= 8192);
    }
    found.into_iter().map(|(_, finding)| finding).collect()
}

#[test]
fn the_worst_is_bounded() {
    let place = namespace();
    serve(&place, "127.0.0.1:1", floods);
    serve(&place, "127.0.0.1:2", drips);
    serve(&place, "127.0.0.1:3", resets);
    serve(&place, "127.0.0.1:4", endless_fields);
    serve(&place, "127.0.0.1:5", endless_handshake);
    let probes: [(&[&str], [&str; 5]); 4] = [
        (
            &["--ssh", "x"],
            ["too-long", "silent", "reset", "too-long", "too-long"],
        ),
        (
            &["--http"],
            ["invalid", "invalid", "reset", "too-long", "invalid"],
        ),
        (
            &["--http", "--tls"],
            ["no-tls", "no-tls", "reset", "no-tls", "no-tls"],
        ),
        (
            &["--banner"],
            ["answer", "answer", "reset", "answer", "answer"],
        ),
    ];
    for engine in ["io_uring", "epoll"] {
        for (probe, expected) in &probes {
            let are_found_within = |limit: &str| {
                let words = ["127.0.0.1", "-p", "1-5", "-o", "json", "--engine", engine];
                let words = [&words[..], &["--read-timeout", limit], probe].concat();
                let found = findings(&place, &words);
                let mut pairs = found.iter().zip(expected);
                assert!(
                    pairs.all(|(found, expected)| found == expected || found == "silent"),
                    "{words:?}: {found:?}"
                );
                found == expected
            };
            assert!(
                READ_LIMITS.into_iter().any(are_found_within),
                "{probe:?} {engine}"
            );
        }
    }
}
