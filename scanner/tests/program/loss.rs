// SPDX-License-Identifier: GPL-2.0-or-later
//! More SYNs than the network can carry: reports stay correct, and every target is reported.

use std::collections::BTreeSet;

use serde_json::Value;
use testbed::netns::Namespace;

use crate::place::{namespace, results, says, serve};

/// Creates a client and a server, joined by a veth pair; returns their namespaces. The server has the addresses
/// 10.64.0.0/24, with port 22 open and all other ports closed.
fn joined() -> (Namespace, Namespace) {
    let (client, server) = (namespace(), namespace());
    Namespace::veth_pair(&client, &server).unwrap();
    let route = |place: &Namespace, line: &str| place.feed("ip", &["-batch", "-"], line).unwrap();
    route(&client, "route add 10.64.0.0/24 via 10.77.0.2\n");
    route(&server, "route add local 10.64.0.0/24 dev lo\n");
    serve(&server, "0.0.0.0:22", says(b""));
    (client, server)
}

/// Makes the server accept the SYNs that a match of iptables selects, and drop the rest. Replaces earlier rules.
fn accept(server: &Namespace, selection: &str) {
    let rules = format!(
        "*filter\n-A INPUT -p tcp --syn -m {selection} -j ACCEPT\n\
         -A INPUT -p tcp --syn -j DROP\nCOMMIT\n"
    );
    server
        .feed("iptables-restore", &["--wait"], &rules)
        .unwrap();
}

/// Checks the reports on the 512 targets: each exactly once, with its true state or as filtered. Returns the number of
/// targets with their true state, and the number of targets reported as filtered.
fn told(results: &[Value], words: &str) -> (usize, usize) {
    let mut seen = BTreeSet::new();
    let (mut right, mut silent) = (0, 0);
    for result in results {
        assert!(seen.insert((result["address"].to_string(), result["port"].to_string())));
        let truth = match result["port"].as_u64() {
            Some(22) => ("open", "syn-ack"),
            _ => ("closed", "conn-refused"),
        };
        match (result["state"].as_str(), result["reason"].as_str()) {
            (Some("filtered"), Some("timeout")) => silent += 1,
            (Some(state), Some(reason)) => {
                right += 1;
                let reset = truth.0 == "closed" && reason == "reset";
                assert!((state, reason) == truth || reset, "{words}: {result}");
            }
            _ => panic!("{result}"),
        }
    }
    assert_eq!(seen.len(), 512, "{words}");
    (right, silent)
}

#[test]
fn a_network_that_loses_most_makes_no_state_wrong() {
    let (client, server) = joined();
    for how in ["--engine io_uring", "--engine epoll", "--syn"] {
        let words = format!("10.64.0.0/24 -p 22,9 --rate 2000 --timeout 300 {how}");
        // One SYN in four, however long the scan takes.
        accept(&server, "statistic --mode nth --every 4 --packet 0");
        let once = format!("{words} --retries 0");
        let (right, silent) = told(&results(&client, &once).0, &once);
        assert!(right >= 20 && silent >= 20, "{once}: {right} {silent}");
        // With retries the scan finds the state of every target.
        accept(&server, "limit --limit 200/second --limit-burst 20");
        let again = format!("{words} --retries 20");
        let (right, silent) = told(&results(&client, &again).0, &again);
        assert_eq!((right, silent), (512, 0), "{again}");
    }
}
