// SPDX-License-Identifier: GPL-2.0-or-later
//! Scans by SYNs over a veth pair and over loopback, in both families, find the same states as scans by connections.

use testbed::netns::{Namespace, VETH_IPV4, VETH_IPV6};
use testbed::wait::pause_for;

use crate::place::{filter, namespace, parsed, results, scan_with, serve, text};

#[test]
fn syns_give_the_same_states_as_connections() {
    let (client, server) = (namespace(), namespace());
    Namespace::veth_pair(&client, &server).unwrap();
    let (to, to6) = (VETH_IPV4.1, VETH_IPV6.1);
    serve(&server, &format!("{to}:22"), |_stream| {});
    serve(&server, &format!("[{to6}]:23"), |_stream| {});
    filter(
        &server,
        "tcp dport 1 drop;
         tcp dport 2 reject with tcp reset;
         tcp dport 3 reject with icmpx type host-unreachable;",
    );
    server
        .feed(
            "sh",
            &[],
            "echo 0 >/proc/sys/net/ipv4/icmp_ratelimit; echo 0 >/proc/sys/net/ipv6/icmp/ratelimit",
        )
        .unwrap();
    let asked = format!("{to} {to6} -p 1-3,22,23,1000-9000 --timeout 400");
    let states = |words: &str| {
        let (results, summary) = results(&client, words);
        let mut states: Vec<String> = results
            .iter()
            .map(|one| format!("{} {} {}", one["address"], one["port"], one["state"]))
            .collect();
        states.sort();
        (states, summary)
    };
    let (by_syn, summary) = states(&format!("{asked} --syn"));
    let (by_connect, _) = states(&asked);
    assert_eq!(by_syn, by_connect);
    assert_eq!(by_syn.len(), 2 * 8006);
    assert_eq!(summary["states"]["open"], 2, "{summary}");
    assert_eq!(summary["states"]["filtered"], 4, "{summary}");
    assert_eq!(summary["reasons"]["reset"], 2 * 8006 - 6, "{summary}");
}

#[test]
fn a_forged_answer_counts_for_nothing() {
    let place = namespace();
    filter(&place, "tcp flags & (syn | ack) == syn tcp dport 9 drop;");
    // A forger that did not receive the question cannot know the number to acknowledge.
    let forger = std::thread::scope(|scope| {
        scope.spawn(|| {
            place.enter(|| {
                for port in 32768..61000u16 {
                    forge("127.0.0.5", 9, "127.0.0.1", port);
                }
            })
        });
        pause_for(std::time::Duration::from_millis(1));
        scan_with(
            &place,
            &[
                "127.0.0.5",
                "-p",
                "9",
                "--syn",
                "--retries",
                "0",
                "-o",
                "json",
                "--show",
                "all",
            ],
        )
    });
    let (results, summary) = parsed(&forger);
    assert_eq!(
        results[0]["state"],
        "filtered",
        "{summary} {}",
        text(&forger.stderr)
    );
}

/// Sends a SYN-ACK with a made-up acknowledgement number.
fn forge(from: &str, from_port: u16, to: &str, to_port: u16) {
    let mut bytes = [0; scanner::syn::segment::LONGEST];
    let (from, to) = (
        from.parse().unwrap(),
        to.parse::<std::net::Ipv4Addr>().unwrap(),
    );
    let len = scanner::syn::segment::syn(&mut bytes, (from, from_port), (to.into(), to_port), 1);
    bytes[33] = 0x12;
    bytes[28..32].copy_from_slice(&0x1234_5678u32.to_be_bytes());
    // SAFETY: socket(2) and close(2) touch no memory; sendto(2) reads the packet and an address, by their lengths.
    unsafe {
        let socket = libc::socket(libc::AF_INET, libc::SOCK_RAW, libc::IPPROTO_RAW);
        let mut at: libc::sockaddr_in = std::mem::zeroed();
        at.sin_family = libc::AF_INET as u16;
        at.sin_addr.s_addr = u32::from_ne_bytes(to.octets());
        let size = size_of::<libc::sockaddr_in>() as u32;
        libc::sendto(
            socket,
            bytes.as_ptr().cast(),
            len,
            0,
            (&raw const at).cast(),
            size,
        );
        libc::close(socket);
    }
}
