// SPDX-License-Identifier: GPL-2.0-or-later
//! Whole loads of one second by each runner, in separate namespaces. Needs root.

use std::fs;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use harness::runner::ethr::Ethr;
use harness::runner::iperf3::Iperf3;
use harness::runner::scanner::Scanner;
use harness::runner::{Load, Outcome, Place, Runner, Workload};
use testbed::netns::{Namespace, VETH_IPV4};

/// End of the text of an incident: only a part of the open connections was accepted by the server.
const UNACCEPTED: &str = "were accepted";
/// Maximum number of runs of a load, which is repeated while connections were not accepted because the kernel lost
/// packets, and while a program got too little CPU time.
const TRIES: u32 = 3;
/// Parts of the errors of a load whose server or client got too little CPU time, on a busy machine.
const LATE: [&str; 3] = [
    "does not listen on port",
    "did not become ready",
    "did not end in time",
];
/// Kernel counters of packets that found no room at a listener (net/ipv4/proc.c).
const NO_ROOM: [&str; 2] = ["ListenOverflows", "ListenDrops"];
const LOOPBACK_IPV4: &str = "127.0.0.1";
const LOOPBACK_IPV6: &str = "::1";

fn load(workload: Workload, address: IpAddr) -> Load {
    let payload_bytes = match workload {
        Workload::TcpStream => 128 << 10,
        Workload::TcpProbe => 0,
        Workload::UdpFlood => 18,
        other => unreachable!("no tool makes {other}"),
    };
    Load {
        workload,
        // The shortest duration that ethr and iperf3 accept.
        duration: Duration::from_secs(1),
        address,
        port: 9999,
        payload_bytes,
    }
}

/// Runs a load, and again if a program got too little CPU time (see LATE).
fn in_time(mut run: impl FnMut() -> anyhow::Result<Outcome>) -> anyhow::Result<Outcome> {
    let is_late = |error: &anyhow::Error| {
        let text = format!("{error:#}");
        LATE.iter().any(|part| text.contains(part))
    };
    for _ in 1..TRIES {
        match run() {
            Err(error) if is_late(&error) => {}
            done => return done,
        }
    }
    run()
}

fn run_in_time(runner: &dyn Runner, place: &Place, load: &Load) -> anyhow::Result<Outcome> {
    in_time(|| runner.run(place, load))
}

fn over_loopback(runner: &dyn Runner, load: &Load) -> anyhow::Result<Outcome> {
    let namespace = Namespace::new()?;
    let place = Place {
        server: &namespace,
        client: &namespace,
    };
    run_in_time(runner, &place, load)
}

fn over_veth(runner: &dyn Runner, load: &Load) -> anyhow::Result<Outcome> {
    let (client, server) = (Namespace::new()?, Namespace::new()?);
    Namespace::veth_pair(&client, &server)?;
    let place = Place {
        server: &server,
        client: &client,
    };
    run_in_time(runner, &place, load)
}

/// Checks the outcome of a load by iperf3. The series must have the ends of the intervals in iperf3's own report,
/// without short remainders: on a busy machine an interval ends late.
fn check_iperf3(load: &Load, outcome: &Outcome) {
    check(load, outcome);
    let (_, report) = outcome
        .raw
        .iter()
        .find(|(name, _)| name == "server.json")
        .unwrap();
    let report: serde_json::Value = serde_json::from_str(report).unwrap();
    let intervals = report["intervals"].as_array().unwrap();
    assert!(!intervals.is_empty(), "{report}");
    let number = |interval: &serde_json::Value, name: &str| interval["sum"][name].as_f64().unwrap();
    let whole = intervals.iter().filter(|one| number(one, "seconds") >= 0.5);
    let wanted: Vec<f64> = whole.map(|one| number(one, "end")).collect();
    let ends: Vec<f64> = outcome.series.iter().map(|(end, _)| *end).collect();
    assert_eq!(ends, wanted);
}

fn value(outcome: &Outcome, name: &str) -> f64 {
    let found = outcome.metrics.iter().find(|metric| metric.name == name);
    found
        .unwrap_or_else(|| panic!("no {name} in {:?}", outcome.metrics))
        .value
}

/// Checks the names and units on which every CSV and figure relies, and values that traffic must have.
fn check(load: &Load, outcome: &Outcome) {
    let metrics: Vec<_> = outcome.metrics.iter().map(|m| (m.name, m.unit)).collect();
    match load.workload {
        Workload::TcpStream => {
            assert_eq!(metrics, [("throughput", "Gbit/s")]);
            assert!(value(outcome, "throughput") > 0.05, "{outcome:?}");
        }
        Workload::TcpProbe => {
            let wanted = [
                ("connections", "1/s"),
                ("open", "targets"),
                ("closed", "targets"),
                ("filtered", "targets"),
                ("error", "targets"),
                ("calls_per_target", "calls"),
                ("cpu_per_target", "us"),
            ];
            assert_eq!(metrics, wanted);
            assert!(value(outcome, "open") > 500.0, "{outcome:?}");
            assert!(value(outcome, "calls_per_target") > 0.0, "{outcome:?}");
        }
        Workload::UdpFlood => {
            let wanted = [
                ("sent", "packets"),
                ("delivered", "packets"),
                ("delivered_rate", "kpps"),
                ("lost", "packets"),
                ("lost_percent", "%"),
            ];
            assert_eq!(metrics, wanted);
            let sum = value(outcome, "delivered") + value(outcome, "lost");
            assert_eq!(sum, value(outcome, "sent"));
            assert!(value(outcome, "delivered_rate") > 1.0, "{outcome:?}");
        }
        other => unreachable!("no tool makes {other}"),
    }
    assert_eq!(outcome.raw.len(), 2);
    assert!(outcome.raw.iter().all(|(_, text)| !text.is_empty()));
}

#[test]
fn a_connection_that_does_not_come_about_is_an_error_in_time() {
    let (client, server) = (Namespace::new().unwrap(), Namespace::new().unwrap());
    // No link joins the two namespaces.
    let place = Place {
        server: &server,
        client: &client,
    };
    let load = load(Workload::TcpStream, LOOPBACK_IPV4.parse().unwrap());
    let iperf3 = Iperf3::find().unwrap();
    let mut took = Duration::ZERO;
    let run = || {
        let start = Instant::now();
        let outcome = iperf3.run(&place, &load);
        took = start.elapsed();
        outcome
    };
    let error = in_time(run).unwrap_err();
    assert!(format!("{error:#}").contains("refused"), "{error:#}");
    assert!(took < Duration::from_secs(15));
}

#[test]
fn iperf3_makes_what_it_supports() {
    let iperf3 = Iperf3::find().unwrap();
    assert!(
        iperf3.version().starts_with("iperf 3"),
        "{}",
        iperf3.version()
    );
    for workload in [Workload::TcpStream, Workload::UdpFlood] {
        assert!(iperf3.supports(workload));
        for address in [LOOPBACK_IPV4, LOOPBACK_IPV6] {
            let load = load(workload, address.parse().unwrap());
            check_iperf3(&load, &over_loopback(&iperf3, &load).unwrap());
        }
        let load = load(workload, VETH_IPV4.1);
        check_iperf3(&load, &over_veth(&iperf3, &load).unwrap());
    }
}

/// Returns the file of the harness; its command `load serve` is the scanner's server.
fn harness() -> PathBuf {
    env!("CARGO_BIN_EXE_harness").into()
}

/// Returns the scanner that `make build` made, or the scanner in the folder TWINWALL_BUILD.
fn scanner() -> Scanner {
    let build = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../build");
    let folder = std::env::var_os("TWINWALL_BUILD").map_or_else(build, PathBuf::from);
    Scanner::find(&folder, harness()).unwrap()
}

/// Returns the number of packets that the kernel has lost on their way to a namespace's listeners: packets without room
/// at a listener, and packets without room in a CPU's backlog (the second number of each line of softnet_stat).
fn lost_by_the_kernel(server: &Namespace) -> u64 {
    let read = |name: &str| {
        let file = format!("/proc/thread-self/net/{name}");
        server.enter(|| fs::read_to_string(file)).unwrap()
    };
    let counters = read("netstat");
    let mut lines = counters.lines().filter(|line| line.starts_with("TcpExt:"));
    let (names, values) = (lines.next().unwrap(), lines.next().unwrap());
    let counted = names.split(' ').zip(values.split(' '));
    let no_room = counted.filter(|(name, _)| NO_ROOM.contains(name));
    let backlog = read("softnet_stat");
    let backlog = backlog.lines().map(|line| {
        let dropped = line.split(' ').nth(1).unwrap();
        u64::from_str_radix(dropped, 16).unwrap()
    });
    no_room
        .map(|(_, value)| value.parse::<u64>().unwrap())
        .sum::<u64>()
        + backlog.sum::<u64>()
}

/// Runs a load, and again if connections were not accepted because the kernel has lost their packets.
fn run_accepted(scanner: &Scanner, place: &Place, load: &Load) -> Outcome {
    let is_unaccepted = |incident: &String| incident.ends_with(UNACCEPTED);
    for _ in 1..TRIES {
        let before = lost_by_the_kernel(place.server);
        let outcome = run_in_time(scanner, place, load).unwrap();
        let lost = lost_by_the_kernel(place.server) > before;
        if !(lost && outcome.incidents.iter().any(is_unaccepted)) {
            return outcome;
        }
    }
    run_in_time(scanner, place, load).unwrap()
}

/// Fails if connections were not accepted, or if there are targets in one of these states. Other incidents are allowed:
/// a stall of the machine makes targets filtered.
fn forbid(outcome: &Outcome, states: &[&str]) {
    for incident in &outcome.incidents {
        let is = |state: &&str| incident.ends_with(&format!("targets were {state}"));
        let unaccepted = incident.ends_with(UNACCEPTED);
        assert!(!unaccepted && !states.iter().any(is), "{outcome:?}");
    }
}

#[test]
fn the_scanner_connects_to_whole_networks_and_finds_all_open() {
    let scanner = scanner();
    assert!(
        scanner.version().starts_with("scanner "),
        "{}",
        scanner.version()
    );
    let load = Load {
        // Long enough for many connections on a busy machine.
        duration: Duration::from_secs(5),
        ..load(Workload::TcpProbe, LOOPBACK_IPV4.parse().unwrap())
    };
    let by_veth = Load {
        address: VETH_IPV4.1,
        ..load.clone()
    };
    let local = Namespace::new().unwrap();
    let (client, server) = (Namespace::new().unwrap(), Namespace::new().unwrap());
    Namespace::veth_pair(&client, &server).unwrap();
    for (server, client, load) in [(&local, &local, &load), (&server, &client, &by_veth)] {
        let place = Place { server, client };
        let outcome = run_accepted(&scanner, &place, load);
        check(load, &outcome);
        forbid(&outcome, &["closed", "error"]);
        // The rate refers to at most the requested duration, without the time to discard the connections in flight.
        let (rate, open) = (value(&outcome, "connections"), value(&outcome, "open"));
        let seconds = load.duration.as_secs_f64();
        assert!(rate * seconds >= open, "{outcome:?}");
    }
}

#[test]
fn connections_that_a_rule_refuses_or_swallows_are_incidents() {
    for (target, word, others) in [
        ("REJECT --reject-with tcp-reset", "closed", &["error"][..]),
        ("DROP", "filtered", &["closed", "error"]),
    ] {
        let (client, server) = (Namespace::new().unwrap(), Namespace::new().unwrap());
        Namespace::veth_pair(&client, &server).unwrap();
        let rules = format!("*filter\n-A INPUT -p tcp -d 10.128.0.0/10 -j {target}\nCOMMIT\n");
        server
            .feed("iptables-restore", &["--noflush", "--wait"], &rules)
            .unwrap();
        let place = Place {
            server: &server,
            client: &client,
        };
        let load = Load {
            // Long enough that an unanswered connection times out.
            duration: Duration::from_secs(5),
            ..load(Workload::TcpProbe, VETH_IPV4.1)
        };
        let outcome = run_accepted(&scanner(), &place, &load);
        // Half of the network matches the rule.
        let (open, refused) = (value(&outcome, "open"), value(&outcome, word));
        assert!(open > 0.0 && refused > 0.0, "{outcome:?}");
        let wanted = format!("targets were {word}");
        let mut incidents = outcome.incidents.iter();
        assert!(incidents.any(|one| one.ends_with(&wanted)), "{outcome:?}");
        forbid(&outcome, others);
    }
}

#[test]
fn what_a_scanner_cannot_do_is_refused() {
    let error = Scanner::find(Path::new("/no/such/folder"), harness());
    let error = error.err().unwrap().to_string();
    assert!(
        error.starts_with("there is no program /no/such/folder/scanner: build it with make build"),
        "{error}"
    );
    let refused = |workload, address: &str| {
        let load = load(workload, address.parse().unwrap());
        over_loopback(&scanner(), &load).unwrap_err().to_string()
    };
    let error = refused(Workload::TcpStream, LOOPBACK_IPV4);
    assert!(error.contains("choose another runner"), "{error}");
    let error = refused(Workload::TcpProbe, LOOPBACK_IPV6);
    assert!(error.contains("IPv4 addresses only"), "{error}");
}

#[test]
#[ignore = "needs ethr, which no Debian package has: ETHR=PATH cargo test -- --ignored"]
fn ethr_makes_a_stream() {
    let path = std::env::var_os("ETHR").expect("ETHR is the file of ethr");
    let ethr = Ethr::find(Some(path.into()), "".as_ref()).unwrap();
    for address in [LOOPBACK_IPV4, LOOPBACK_IPV6] {
        let load = load(Workload::TcpStream, address.parse().unwrap());
        check(&load, &over_loopback(&ethr, &load).unwrap());
    }
    let load = load(Workload::TcpStream, VETH_IPV4.1);
    check(&load, &over_veth(&ethr, &load).unwrap());
}
