// SPDX-License-Identifier: GPL-2.0-or-later
//! The file contains exactly the packets that passed the interface.

use std::collections::BTreeSet;
use std::io::Write;
use std::process::Stdio;

use testbed::wait::pause_for;

use crate::place::{
    fields, gaps, judge, numbers, program, send, send_with, tunnel, Place, Run, BACKENDS, OURS,
};

#[test]
fn every_packet_is_recorded_once_and_in_order() {
    BACKENDS.iter().for_each(|backend| recorded_once(backend));
}

fn recorded_once(backend: &[&str]) {
    let place = Place::new();
    let file = place.file("x.pcapng");
    let run = Run::on(&place, &[backend, &["-w", &file, OURS]].concat());
    for (first, bytes) in [(0, 60), (1000, 61), (2000, 1514)] {
        send(&place.here, first..first + 1000, bytes);
    }
    let ledger = run.end();
    assert_eq!((ledger.kernel, ledger.written), (3000, 3000));
    assert_eq!(numbers(&file), (0..3000).collect::<Vec<u32>>());
    assert_eq!(fields(&file, "frame.len")[1000], "61");
    assert_eq!(gaps(&file), (0, Some((3000, 0))));
    let about = judge("capinfos", &[], file.as_ref());
    for words in [
        "nanoseconds",
        "Name = veth",
        "Filter string = ether proto",
        "Number of stat entries = 1",
    ] {
        assert!(about.contains(words), "{words}: {about}");
    }
}

#[test]
fn packets_are_cut_and_their_length_is_told() {
    let place = Place::new();
    let file = place.file("x.pcapng");
    for backend in BACKENDS {
        let run = Run::on(
            &place,
            &[backend, &["-w", &file, "-s", "40", OURS]].concat(),
        );
        send(&place.here, 0..3, 500);
        run.end();
        assert_eq!(fields(&file, "frame.len"), ["500"; 3]);
        assert_eq!(fields(&file, "frame.cap_len"), ["40"; 3]);
    }
}

/// The kernel removes the VLAN tag from incoming frames.
#[test]
fn a_tag_is_put_back_and_a_filter_finds_it() {
    let place = Place::new();
    for (number, (link, filter, backend)) in [
        ("veth", "vlan 5", "tpacket3"),
        ("veth", "", "tpacket3"),
        ("any", "", "tpacket3"),
        ("veth", "vlan 5", "recvmmsg"),
        ("any", "", "recvmmsg"),
        ("veth", "", "io-uring"),
    ]
    .into_iter()
    .enumerate()
    {
        let file = place.file(&format!("{number}.pcapng"));
        let words = ["-i", link, "-w", &file, "--backend", backend, filter];
        let run = Run::start(&mut place.here.command(program()), &words);
        // 802.1Q tags 5 and 6 before our protocol.
        for tag in [5, 6] {
            send_with(&place.there, &[0x81, 0, 0, tag, 0x88, 0xb5], 0..10, 100);
        }
        // The receiving side sees a sent packet a moment later.
        pause_for(std::time::Duration::from_millis(200));
        run.end();
        let mut tags = fields(&file, "vlan.id");
        tags.retain(|tag| !tag.is_empty());
        let wanted: Vec<&str> = match filter {
            "" => [["5"; 10], ["6"; 10]].concat(),
            _ => vec!["5"; 10],
        };
        assert_eq!(tags, wanted, "{link} {filter} {backend}");
    }
}

/// Each flow goes to one ring, and no packet to both.
#[test]
fn threads_share_the_packets() {
    let place = Place::new();
    let file = place.file("x.pcapng");
    let run = Run::on(
        &place,
        &["-w", &file, "--threads", "2", "--ring", "8M", "udp port 9"],
    );
    place.here.enter(|| {
        for _ in 0..64 {
            let socket = std::net::UdpSocket::bind("10.77.0.1:0").unwrap();
            for _ in 0..20 {
                // Nothing listens on the port; the stack reports that.
                let _ = socket.send_to(b"x", "10.77.0.2:9");
            }
        }
    });
    let ledger = run.end();
    assert_eq!(ledger.written, 64 * 20);
    let ids: BTreeSet<(String, String)> = fields(&file, "udp.srcport")
        .into_iter()
        .zip(fields(&file, "ip.id"))
        .collect();
    assert_eq!(ids.len(), 64 * 20);
}

#[test]
fn all_interfaces_are_one_with_a_header_of_its_own() {
    let place = Place::new();
    let file = place.file("x.pcapng");
    let mut command = place.here.command(program());
    let run = Run::start(
        &mut command,
        &["-i", "any", "-w", &file, "udp", "port", "9"],
    );
    place.here.enter(|| {
        for (from, to) in [
            ("10.77.0.1:0", "10.77.0.2:9"),
            ("127.0.0.1:0", "127.0.0.1:9"),
        ] {
            let socket = std::net::UdpSocket::bind(from).unwrap();
            socket.send_to(b"x", to).unwrap();
        }
    });
    // On loopback a packet goes out and comes in.
    assert_eq!(run.end().written, 3);
    assert_eq!(fields(&file, "sll.pkttype"), ["4", "4", "0"]);
    assert_eq!(fields(&file, "udp.dstport"), ["9"; 3]);
}

#[test]
fn several_interfaces_stand_side_by_side_in_a_file() {
    let place = Place::new();
    let file = place.file("x.pcapng");
    let run = Run::on(&place, &["-i", "lo", "-w", &file, "udp port 9"]);
    place.here.enter(|| {
        let socket = std::net::UdpSocket::bind("0.0.0.0:0").unwrap();
        for to in ["10.77.0.2:9", "127.0.0.1:9"] {
            socket.send_to(b"x", to).unwrap();
        }
    });
    assert_eq!(run.end().written, 2);
    let mut names = fields(&file, "frame.interface_name");
    names.sort();
    assert_eq!(names, ["lo", "veth"]);
}

/// Checks the form of packets without an Ethernet header: raw IP, and cooked packets for a link type that the program
/// does not know.
#[test]
fn other_links_have_their_own_form() {
    for (hardware, wanted, told) in [
        (libc::ARPHRD_NONE, "Raw IP", "(raw IP)"),
        (
            libc::ARPHRD_X25,
            "Linux cooked-mode capture v2",
            "packets come without that header",
        ),
    ] {
        let place = Place::new();
        let mut tunnel = tunnel(&place, hardware);
        let file = place.file("x.pcapng");
        let mut command = place.here.command(program());
        let mut run = Run::start(&mut command, &["-i", "tun0", "-w", &file, "udp port 9"]);
        if !run.said.contains(told) {
            run.hears(told);
        }
        // IPv4 and UDP to port 9 and to port 7, without checksums.
        for port in [9, 7] {
            let head = [
                0x45, 0, 0, 32, 0, 0, 0, 0, 64, 17, 0, 0, 10, 78, 0, 2, 10, 78, 0, 1,
            ];
            let packet = [&head[..], &[0, 1, 0, port, 0, 12, 0, 0, 1, 2, 3, 4]].concat();
            tunnel.write_all(&packet).unwrap();
        }
        assert_eq!(run.end().written, 1);
        assert_eq!(fields(&file, "udp.dstport"), ["9"]);
        let about = judge("capinfos", &["-E"], file.as_ref());
        assert!(about.contains(wanted), "{about}");
    }
}

#[test]
fn a_pipe_gets_packets_as_they_come_and_its_end_is_no_fault() {
    let place = Place::new();
    let mut command = place.here.command(program());
    command.stdout(Stdio::piped());
    let mut run = Run::start(&mut command, &["-i", "veth", "-w", "-", OURS]);
    let mut judge = std::process::Command::new("tshark")
        .args([
            "-l",
            "-c",
            "20",
            "-T",
            "fields",
            "-e",
            "frame.len",
            "-r",
            "-",
        ])
        .stdin(run.child.stdout.take().unwrap())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("tshark: make deps");
    send(&place.here, 0..20, 77);
    let mut said = String::new();
    std::io::Read::read_to_string(&mut judge.stdout.take().unwrap(), &mut said).unwrap();
    judge.wait().unwrap();
    assert_eq!(said, "77\n".repeat(20));
    // The reader has gone: packets from now on are not written. All of them wait when the program notices it.
    run.stop();
    send(&place.here, 20..50, 77);
    run.signal(libc::SIGCONT);
    assert_eq!(run.wait(), Some(0), "{}", run.said);
    let ledger = crate::place::ledger(&run.said);
    assert_eq!((ledger.written, ledger.unwritten), (20, 30), "{}", run.said);
}
