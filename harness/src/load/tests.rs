// SPDX-License-Identifier: GPL-2.0-or-later
//! Bursts of each load in separate namespaces, over loopback and over veth.

use std::net::Ipv4Addr;
use std::time::Instant;

use testbed::netns::{Namespace, VETH_IPV4, VETH_IPV6};
use testbed::wait::{until, PATIENCE};

use super::*;

const BURST: Duration = Duration::from_millis(100);

fn aim(workload: Workload, address: IpAddr) -> Aim {
    let payload_bytes = match workload {
        Workload::TcpStream | Workload::HelloStream => 65_536,
        _ => 18,
    };
    Aim {
        workload,
        addresses: vec![address],
        port: 9999,
        payload_bytes,
    }
}

fn over_veth() -> (Namespace, Namespace) {
    let (client, server) = (Namespace::new().unwrap(), Namespace::new().unwrap());
    Namespace::veth_pair(&client, &server).unwrap();
    (client, server)
}

fn nothing_waits() -> Result<bool> {
    Ok(true)
}

/// Runs `bursts` bursts of one load, and returns their results. Checks that each burst takes at least the requested
/// time, and that its measured seconds are at most its duration. There is no lower bound for these seconds: on a busy
/// machine, all packets may arrive within a small part of the burst.
fn bursts(aim: &Aim, place: &Place, bursts: u32) -> Vec<Burst> {
    let mut traffic = open(aim, place).unwrap();
    let burst = |_| {
        let start = Instant::now();
        let burst = traffic.burst(place, BURST, &nothing_waits).unwrap();
        let took = start.elapsed();
        assert!(took >= BURST, "{took:?}");
        assert!(burst.seconds <= took.as_secs_f64(), "{burst:?} {took:?}");
        burst
    };
    (0..bursts).map(burst).collect()
}

const ALL: [Workload; 7] = [
    Workload::TcpStream,
    Workload::TcpLatency,
    Workload::TcpConnect,
    Workload::TlsConnect,
    Workload::HelloStream,
    Workload::DnsQuery,
    Workload::UdpFlood,
];

#[test]
fn a_burst_counts_what_arrives_and_nothing_of_the_one_before() {
    let (client, server) = over_veth();
    let place = Place {
        server: &server,
        client: &client,
    };
    for workload in ALL {
        assert!(makes(workload));
        for address in [VETH_IPV4.1, VETH_IPV6.1] {
            // On a busy machine a burst may have only a few.
            until("bursts of more than ten requests", PATIENCE, || {
                let made = bursts(&aim(workload, address), &place, 3);
                let are_enough = made.iter().all(|burst| burst.sent > 10);
                for burst in made {
                    check_counts(workload, burst);
                }
                Ok(are_enough)
            })
            .unwrap();
        }
    }
}

fn check_counts(workload: Workload, burst: Burst) {
    assert_eq!(burst.sent, burst.arrived, "{workload}");
    assert!(burst.seconds > 0.0, "{workload} {burst:?}");
    let timed = burst.latencies.map_or(0, |latencies| latencies.len());
    let wanted = if workload == Workload::TcpLatency {
        burst.sent
    } else {
        0
    };
    assert_eq!(timed, wanted);
}

#[test]
fn a_flood_reaches_every_address() {
    let namespace = Namespace::new().unwrap();
    let place = Place {
        server: &namespace,
        client: &namespace,
    };
    let flood = Aim {
        addresses: (1..4).map(|n| Ipv4Addr::new(127, 0, 0, n).into()).collect(),
        ..aim(Workload::UdpFlood, Ipv4Addr::LOCALHOST.into())
    };
    let burst = &bursts(&flood, &place, 1)[0];
    assert_eq!(burst.sent, burst.arrived);
    assert_eq!(burst.sent % (3 * 64), 0);
}

#[test]
fn a_flood_that_nothing_lets_through_is_all_lost() {
    let (client, server) = over_veth();
    let rule = ["--wait", "-A", "INPUT", "-p", "udp", "-j", "DROP"];
    let status = server.command("iptables").args(rule).status().unwrap();
    assert!(status.success());
    let place = Place {
        server: &server,
        client: &client,
    };
    for burst in bursts(&aim(Workload::UdpFlood, VETH_IPV4.1), &place, 2) {
        assert!(burst.sent > 0);
        assert_eq!((burst.arrived, burst.seconds), (0, 0.0));
    }
}

#[test]
fn a_connection_that_does_not_come_about_is_an_error_in_time() {
    let (client, server) = (Namespace::new().unwrap(), Namespace::new().unwrap());
    // No link joins the two namespaces.
    let place = Place {
        server: &server,
        client: &client,
    };
    let start = Instant::now();
    for workload in [Workload::TcpStream, Workload::TcpLatency] {
        let error = open(&aim(workload, Ipv4Addr::LOCALHOST.into()), &place);
        let error = error.map(|_| ()).unwrap_err();
        assert!(format!("{error:#}").contains("refused"), "{error:#}");
    }
    assert!(start.elapsed() < Duration::from_secs(15));
}

#[test]
fn what_stops_to_arrive_is_a_stall() {
    let (client, server) = over_veth();
    let place = Place {
        server: &server,
        client: &client,
    };
    let mut traffic = open(&aim(Workload::TcpStream, VETH_IPV4.1), &place).unwrap();
    traffic.burst(&place, BURST, &nothing_waits).unwrap();
    let rule = ["--wait", "-A", "INPUT", "-p", "tcp", "-j", "DROP"];
    assert!(server
        .command("iptables")
        .args(rule)
        .status()
        .unwrap()
        .success());
    let error = traffic.burst(&place, BURST, &nothing_waits).unwrap_err();
    assert!(format!("{error:#}").contains("did not arrive"), "{error:#}");
}
