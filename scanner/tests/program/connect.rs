// SPDX-License-Identifier: GPL-2.0-or-later
//! Port states: each engine, each order, each kind of filtering.

use std::os::fd::AsRawFd;

use testbed::netns::{Namespace, VETH_IPV4};
use testbed::wait::{pause_for, until, PATIENCE};

use crate::place::{filter, namespace, results, says, serve, text, with_state};

const ENGINES: [&str; 2] = ["io_uring", "epoll"];

#[test]
fn what_is_open_is_found_and_nothing_else() {
    let place = namespace();
    let accept = |_stream| {};
    let open = ["127.0.0.7:22", "127.0.0.7:80", "127.0.14.9:443", "[::1]:80"];
    open.iter().for_each(|address| {
        serve(&place, address, accept);
    });
    for engine in ENGINES {
        for order in ["", "--sequential", "--rings 3 --max-inflight 5"] {
            let words = format!("127.0.0.0-127.0.15.9 ::1 -p 22,80,443 --engine {engine} {order}");
            let (results, summary) = results(&place, &words);
            let found = with_state(&results, "open");
            assert_eq!(
                found,
                ["127.0.0.7:22", "127.0.0.7:80", "127.0.14.9:443", "::1:80"],
                "{words}"
            );
            let targets = (3850 + 1) * 3;
            assert_eq!(results.len(), targets, "{words}");
            assert_eq!(summary["states"]["closed"], targets - 4, "{words}");
            assert_eq!(summary["engine"], engine);
        }
    }
}

/// A scan leaves nothing at an open port: no connection, and no TIME_WAIT.
#[test]
fn connections_are_dissolved_by_reset() {
    let place = namespace();
    // The server waits for the end, so that it is not the first to close.
    serve(&place, "0.0.0.0:22", says(b""));
    for engine in ENGINES {
        let (_, summary) = results(
            &place,
            &format!("127.0.0.0/21 -p 22 --max-inflight 64 --timeout 9000 --engine {engine}"),
        );
        assert_eq!(summary["states"]["open"], 2048);
        let sockets = place
            .enter(|| std::fs::read_to_string("/proc/thread-self/net/sockstat"))
            .unwrap();
        let tcp = sockets
            .lines()
            .find(|line| line.starts_with("TCP:"))
            .unwrap();
        assert!(tcp.contains(" tw 0 "), "{engine}: {tcp}");
    }
}

#[test]
fn reasons_are_told() {
    let (client, server) = (namespace(), namespace());
    Namespace::veth_pair(&client, &server).unwrap();
    let to = VETH_IPV4.1;
    serve(&server, &format!("{to}:22"), |_stream| {});
    filter(
        &server,
        "tcp dport 1 drop;
         tcp dport 2 reject with tcp reset;
         tcp dport 3 reject with icmpx type host-unreachable;
         tcp dport 4 reject with icmpx type port-unreachable;
         tcp dport 5 reject with icmpx type admin-prohibited;",
    );
    // With one slot, the state that an answer leaves on a socket would affect the next target.
    // The server sends an ICMP error for each refusal: no rate limit.
    server
        .feed("sh", &[], "echo 0 >/proc/sys/net/ipv4/icmp_ratelimit")
        .unwrap();
    for (engine, most) in ENGINES
        .iter()
        .flat_map(|engine| [(engine, 1), (engine, 100)])
    {
        let words = format!(
            "{to} 10.99.0.1 -p 1-6,22 --timeout 300 --retries 1 --engine {engine} --max-inflight {most}"
        );
        let (results, summary) = results(&client, &words);
        let told: Vec<String> = results
            .iter()
            .filter(|result| result["address"] == to.to_string())
            .map(|result| {
                let word = |key: &str| result[key].as_str().unwrap().to_string();
                format!("{} {} {}", result["port"], word("state"), word("reason"))
            })
            .collect();
        let mut told = told;
        told.sort();
        let expected = [
            "1 filtered timeout",
            "2 closed conn-refused",
            "22 open syn-ack",
            "3 filtered host-unreach",
            "4 closed conn-refused",
            "5 filtered host-unreach",
            "6 closed conn-refused",
        ];
        assert_eq!(told, expected, "{engine}");
        let dropped = results.iter().find(|result| result["reason"] == "timeout");
        assert_eq!(dropped.unwrap()["attempts"], 2);
        // No route leads there.
        assert_eq!(summary["reasons"]["net-unreach"], 7, "{engine}: {summary}");
    }
}

#[test]
fn a_rate_is_kept() {
    let place = namespace();
    for engine in ENGINES {
        let words = format!("127.0.0.0/24 -p 1-10 --rate 2000 --engine {engine}");
        let is_in_time = || {
            let (_, summary) = results(&place, &words);
            let seconds = summary["seconds"].as_f64().unwrap();
            assert!(seconds >= 1.25, "{engine}: {seconds} s");
            Ok(seconds < 10.0)
        };
        until("nothing delays a scan", PATIENCE, is_in_time).unwrap();
    }
}

/// The machine has no local port, and after a while it has some: targets are paused, and none is lost.
#[test]
fn shortages_slow_down_and_lose_nothing() {
    let place = namespace();
    let shell = |line: &str| place.feed("sh", &[], line).unwrap();
    let reserved = "/proc/sys/net/ipv4/ip_local_reserved_ports";
    shell("echo 40000 40019 >/proc/sys/net/ipv4/ip_local_port_range");
    let sockets = || {
        let file = "/proc/thread-self/net/sockstat";
        let told = place.enter(|| std::fs::read_to_string(file)).unwrap();
        // The first line is `sockets: used NUMBER`.
        let used = told.split_whitespace().nth(2).unwrap();
        used.parse::<u32>().unwrap()
    };
    let idle = sockets();
    for engine in ENGINES {
        let mut told = String::new();
        let lost_nothing = until("a shortage that loses nothing", PATIENCE, || {
            shell(&format!("echo 40000-40019 >{reserved}"));
            let is_over = || Ok(sockets() == idle);
            until("the scan before has no socket", PATIENCE, is_over)?;
            let (results, summary) = std::thread::scope(|scope| {
                scope.spawn(|| {
                    let has_begun = || Ok(sockets() > idle);
                    until("the scan has begun", PATIENCE, has_begun).unwrap();
                    pause_for(std::time::Duration::from_millis(600));
                    // A shell would start too late on a busy machine.
                    let free = || std::fs::write(reserved, "\n");
                    place.enter(free).unwrap();
                });
                results(&place, &format!("127.0.0.0/26 -p 9 --engine {engine}"))
            });
            assert_eq!(with_state(&results, "closed").len(), 64, "{summary}");
            told = summary.to_string();
            Ok(summary["shortages"].as_u64() >= Some(64)
                && summary["slowdowns"].as_u64() >= Some(1))
        });
        assert!(lost_nothing.is_ok(), "{engine}: {told}");
    }
    // The machine never has a port: each target is reported with the reason.
    shell(&format!("echo 40000-40019 >{reserved}"));
    let (results, summary) = results(&place, "127.0.0.1 -p 1-3");
    assert_eq!(with_state(&results, "error").len(), 3, "{summary}");
    assert_eq!(summary["reasons"]["shortage"], 3);
    assert_eq!(results[0]["errno"], libc::EADDRNOTAVAIL);
}

/// Tests 200 simultaneous sockets with a limit of 100 descriptors.
#[test]
fn few_descriptors_are_enough() {
    let place = namespace();
    let mut command = place.command("prlimit");
    let program = env!("CARGO_BIN_EXE_scanner");
    let words = "127.0.0.0/20 -p 9 -o json --engine epoll --max-inflight 200";
    command.args([
        "--nofile=100:100",
        "setpriv",
        "--bounding-set=-sys_resource",
    ]);
    let output = command
        .args(["--inh-caps=-sys_resource", program])
        .args(words.split(' '))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(crate::place::parsed(&output).1["done"], 4096);
    assert!(
        text(&output.stderr).contains("in flight instead of 200"),
        "{}",
        text(&output.stderr)
    );
}

/// The reader of the results pauses longer than any time-out: open ports are still reported as open.
#[test]
fn a_reader_that_pauses_makes_nothing_silent() {
    let place = namespace();
    let many = "echo 65535 >/proc/sys/net/core/somaxconn";
    place.feed("sh", &[], many).unwrap();
    let listener = place
        .enter(|| std::net::TcpListener::bind("0.0.0.0:22"))
        .unwrap();
    // SAFETY: listen(2) touches no memory. All connections fit into the backlog, and nothing accepts them.
    assert_eq!(unsafe { libc::listen(listener.as_raw_fd(), 65535) }, 0);
    for engine in ENGINES {
        let words = format!(
            "127.0.0.0/18 -p 22,23 --show all -o json --timeout 300 --retries 0 --engine {engine}"
        );
        let mut child = place
            .command(env!("CARGO_BIN_EXE_scanner"))
            .args(words.split(' '))
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        // The pipe and the queues before it are full.
        pause_for(std::time::Duration::from_millis(1500));
        let mut told = String::new();
        std::io::Read::read_to_string(&mut child.stdout.take().unwrap(), &mut told).unwrap();
        assert!(child.wait().unwrap().success());
        let open = told.matches("\"state\":\"open\"").count();
        let closed = told.matches("\"state\":\"closed\"").count();
        assert_eq!(
            (open, closed),
            (16384, 16384),
            "{engine}: {}",
            told.lines().last().unwrap()
        );
    }
}
