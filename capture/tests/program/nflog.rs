// SPDX-License-Identifier: GPL-2.0-or-later
//! Packets that rules log to a group (`--nflog`).

use std::net::UdpSocket;
use std::os::unix::net::UnixDatagram;
use std::process::Command;
use std::time::Instant;

use crate::place::{fields, gaps, ledger, program, Place, Run, LIMIT};

/// Creates a test network with one rule that drops packets and logs them to group 5, with a prefix.
fn place() -> Place {
    let place = Place::new();
    let rules = "table ip t {\nchain c { type filter hook output priority 0; \
                 udp dport 9 log prefix \"refused: \u{e4} \" group 5 drop; }\n}";
    place.here.feed("nft", &["-f", "-"], rules).unwrap();
    place
}

fn start(place: &Place, more: &[&str]) -> Run {
    let words = [&["--nflog", "5"], more].concat();
    Run::start(&mut place.here.command(program()), &words)
}

/// Sends numbered UDP datagrams with a payload of `bytes` bytes, each of which the rule drops.
fn send(place: &Place, count: u32, bytes: usize) {
    place.here.enter(|| {
        let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
        for number in 0..count {
            let mut payload = vec![0; bytes];
            payload[..4].copy_from_slice(&number.to_be_bytes());
            let sent = socket.send_to(&payload, "10.77.0.2:9");
            assert!(sent.is_err(), "the rule drops it");
        }
    });
}

#[test]
fn each_packet_is_recorded_once_with_the_rules_prefix() {
    let place = place();
    for more in [&[][..], &["--zstd"]] {
        let file = place.file("x.pcapng");
        let run = start(&place, &[&["-w", &file], more].concat());
        send(&place, 1000, 100);
        let ledger = run.end();
        assert_eq!((ledger.kernel, ledger.written), (1000, 1000), "{ledger}");
        if more.is_empty() {
            assert_eq!(fields(&file, "frame.comment"), ["refused: \u{e4}"; 1000]);
            let data = fields(&file, "data.data");
            let number = |text: &String| u32::from_str_radix(&text[..8], 16).unwrap();
            let numbers: Vec<u32> = data.iter().map(number).collect();
            assert_eq!(numbers, (0..1000).collect::<Vec<u32>>());
        }
    }
}

#[test]
fn each_packet_is_recorded_from_the_notification_on() {
    let place = place();
    let (file, socket) = (place.file("x.pcapng"), place.file("notify"));
    let systemd = UnixDatagram::bind(&socket).unwrap();
    systemd.set_read_timeout(Some(LIMIT)).unwrap();
    let mut command = place.here.command(program());
    // Another user can't reach the socket in the test's folder.
    let words = ["--quiet", "--user", "root", "--nflog", "5", "-w", &file];
    let run = Run::spawn(command.env("NOTIFY_SOCKET", &socket), &words);
    let mut state = [0; 100];
    let length = systemd.recv(&mut state).unwrap();
    assert_eq!(&state[..length], b"READY=1\n");
    send(&place, 1000, 100);
    let ledger = run.end();
    assert_eq!((ledger.kernel, ledger.written), (1000, 1000), "{ledger}");
}

#[test]
fn what_finds_no_room_is_counted_to_the_packet() {
    let place = place();
    let file = place.file("x.pcapng");
    let mut run = start(&place, &["-w", &file, "--ring", "2M"]);
    // Two gaps: packets follow the first, none follow the second.
    let (mut before, mut sent_singly) = (0, 0u32);
    for is_last in [false, true] {
        run.stop();
        send(&place, 10_000, 1000);
        run.signal(libc::SIGCONT);
        let end = Instant::now() + LIMIT;
        // A packet that is sent singly finds room only after the waiting packets have been read.
        while !is_last && before == 0 {
            assert!(Instant::now() < end, "{}", run.said);
            send(&place, 1, 100);
            sent_singly += 1;
            run.signal(libc::SIGUSR1);
            run.hears("ledger: delivered");
            before = ledger(&run.said).drops;
        }
    }
    let ledger = run.end();
    let (gaps, told) = gaps(&file);
    assert_eq!(told, Some((ledger.kernel, ledger.drops)));
    assert_eq!(ledger.kernel, 20_000 + u64::from(sent_singly), "{ledger}");
    assert!(before > 1000 && ledger.drops > before + 1000, "{ledger}");
    assert_eq!(gaps, before);
    assert!(ledger.written > 500, "{ledger}");
}

#[test]
fn a_group_has_one_who_hears_it() {
    let place = place();
    let file = place.file("x.pcapng");
    let mut first = start(&place, &["-w", &file]);
    let refused = |command: &mut Command, code: i32, wanted: &str| {
        let output = command.output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(code), "{said}");
        assert!(said.contains(wanted) && said.lines().count() == 1, "{said}");
    };
    let words = ["--nflog", "5", "-w", "/dev/null"];
    let mut second = place.here.command(program());
    refused(second.args(words), 1, "another program hears the group");
    let mut nobodys = place.here.command("setpriv");
    nobodys.args(["--reuid", "65534", "--clear-groups", program()]);
    let other = ["--nflog", "6", "-w", "/dev/null"];
    refused(nobodys.args(other), 3, "needs CAP_NET_ADMIN: run as root");
    first.signal(libc::SIGINT);
    assert_eq!(first.wait(), Some(0), "{}", first.said);
    assert_eq!(ledger(&first.said).kernel, 0);
}
