// SPDX-License-Identifier: GPL-2.0-or-later
//! Both ends of each load as threads in a namespace of their own, over both protocols.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::mpsc::sync_channel;
use std::time::Instant;

use super::*;
use crate::netns::Namespace;

const SECONDS: f64 = 0.5;

fn load(workload: Workload, address: IpAddr, payload_bytes: usize) -> Load {
    let duration = Duration::from_secs_f64(SECONDS);
    Load {
        workload,
        duration,
        address,
        port: 9999,
        payload_bytes,
    }
}

fn loopbacks() -> [IpAddr; 2] {
    [Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()]
}

/// Runs both ends to their end; `sent` is what the client's report says that it has sent.
fn run<S: Send, C>(
    load: &Load,
    server: impl FnOnce(&Load, Control) -> anyhow::Result<S> + Send,
    client: impl FnOnce(&Load) -> anyhow::Result<C> + Send,
    sent: impl FnOnce(&C) -> u64 + Send,
) -> (S, C)
where
    C: Send,
{
    let namespace = Namespace::new().unwrap();
    let (tell, told) = channel();
    let (listening, listens) = sync_channel(1);
    let control = Control {
        ready: Box::new(move || listening.send(()).unwrap()),
        sent: told,
    };
    thread::scope(|scope| {
        // Dropped when the client panics, so that the server does not wait for it.
        let tell = tell;
        let server = scope.spawn(|| namespace.enter(|| server(load, control)));
        listens.recv().expect("the server listens");
        let client = namespace.enter(|| client(load)).unwrap();
        // Some servers end with the connection and no longer listen to this.
        let _ = tell.send(sent(&client));
        (server.join().unwrap().unwrap(), client)
    })
}

#[test]
fn stream_counts_what_arrives() {
    for address in loopbacks() {
        let load = load(Workload::TcpStream, address, 128 << 10);
        let (server, client) = run(&load, stream::server, stream::client, |c| c.sent);
        assert_eq!(server.interval_bytes.len(), 5);
        assert_eq!(
            server.received_bytes,
            server.interval_bytes.iter().sum::<u64>()
        );
        assert!(server.received_bytes > 1_000_000, "{server:?}");
        assert!(
            server.received_bytes <= client.sent,
            "{server:?} {client:?}"
        );
        // What the sockets hold at the end was sent and did not arrive in time.
        assert!(
            client.sent - server.received_bytes < 32 << 20,
            "{server:?} {client:?}"
        );
        assert_eq!(server.seconds, SECONDS);
    }
}

#[test]
fn latency_counts_agree_and_the_curve_rises() {
    for address in loopbacks() {
        let load = load(Workload::TcpLatency, address, 64);
        let (server, client) = run(&load, latency::server, latency::client, |c| c.sent);
        assert_eq!(server.responses, client.sent + client.unfinished);
        assert!(client.sent > 100, "{client:?}");
        assert!(client.p50_us <= client.p99_us && client.p99_us <= client.p999_us);
        assert!(client.p999_us <= client.max_us);
        let curve = &client.percentiles;
        assert!(
            curve
                .windows(2)
                .all(|w| w[0].0 < w[1].0 && w[0].1 <= w[1].1),
            "{curve:?}"
        );
        let at = |percentile| {
            curve
                .iter()
                .find(|(p, _)| *p == percentile)
                .map(|(_, us)| *us)
        };
        assert_eq!(at(50.0), Some(client.p50_us));
        assert_eq!(at(99.0), Some(client.p99_us));
    }
}

#[test]
fn every_connection_is_accepted_and_none_rests_in_time_wait() {
    for address in loopbacks() {
        let load = load(Workload::TcpConnect, address, 1);
        let rests = |client: &ConnectClient| {
            let tables = ["/proc/thread-self/net/tcp", "/proc/thread-self/net/tcp6"];
            let text = tables
                .map(|table| std::fs::read_to_string(table).unwrap())
                .concat();
            // The fourth column is the state; 06 is TIME_WAIT (include/net/tcp_states.h).
            let waits = |line: &&str| line.split_whitespace().nth(3) == Some("06");
            assert_eq!(text.lines().filter(waits).count(), 0);
            client.sent
        };
        let client = |load: &Load| {
            let client = connect::client(load)?;
            rests(&client);
            Ok(client)
        };
        let (server, client) = run(&load, connect::server, client, |c| c.sent);
        assert_eq!(client.failed, 0);
        assert!(client.sent > 100, "{client:?}");
        // The last connection may be cut off by the end of the time.
        assert!(
            (client.sent..=client.sent + 1).contains(&server.accepted),
            "{server:?} {client:?}"
        );
    }
}

#[test]
fn a_probed_server_counts_connections_to_all_its_addresses() {
    let load = load(Workload::TcpProbe, Ipv4Addr::LOCALHOST.into(), 0);
    // More than a batch, some aborted at once, some left open until the end.
    let client = |load: &Load| {
        let mut open = Vec::new();
        for number in 0..1000u16 {
            let [high, low] = number.to_be_bytes();
            let to = SocketAddr::new(Ipv4Addr::new(127, 1, high, low).into(), load.port);
            let stream = socket::connect(to, CONNECT_TIMEOUT)?;
            socket::abort_on_close(&stream)?;
            if number % 10 == 0 {
                open.push(stream);
            }
        }
        Ok(1000)
    };
    let (server, _) = run(&load, probe::server, client, |sent| *sent);
    assert_eq!(server.accepted, 1000);
    let error = super::client(&load).unwrap_err().to_string();
    assert!(error.contains("is the scanner"), "{error}");
}

#[test]
fn flood_counts_are_exact() {
    for (address, payload_bytes) in loopbacks().into_iter().zip([18, 1400]) {
        let load = load(Workload::UdpFlood, address, payload_bytes);
        let (server, client) = run(&load, flood::server, flood::client, |c| c.sent);
        assert!(client.sent > 1000, "{client:?}");
        assert_eq!((server.sent, server.delivered), (client.sent, client.sent));
        assert_eq!(
            (server.lost, server.foreign, server.receiver_drops),
            (0, 0, 0)
        );
        assert_eq!(
            server.interval_packets.iter().sum::<u64>(),
            server.delivered
        );
        assert!(
            server.seconds > 0.5 * SECONDS && server.seconds < 2.0 * SECONDS,
            "{server:?}"
        );
    }
}

#[test]
fn a_datagram_that_is_none_of_ours_is_no_delivery() {
    let load = load(Workload::UdpFlood, Ipv4Addr::LOCALHOST.into(), 18);
    let client = |load: &Load| {
        let socket = std::net::UdpSocket::bind("127.0.0.1:0")?;
        for bytes in [18, 17, 19, 100] {
            socket.send_to(&vec![0; bytes], address(load))?;
        }
        Ok(5)
    };
    let (server, _) = run(&load, flood::server, client, |sent| *sent);
    assert_eq!((server.delivered, server.foreign, server.lost), (1, 3, 4));
}

#[test]
fn a_stream_whose_packets_stop_ends_in_time() {
    let load = load(Workload::TcpStream, Ipv4Addr::LOCALHOST.into(), 1000);
    let silent = |load: &Load| {
        let stream = std::net::TcpStream::connect(address(load))?;
        thread::sleep(4 * load.duration);
        drop(stream);
        Ok(0)
    };
    let server = |load: &Load, control| {
        let start = Instant::now();
        Ok((stream::server(load, control)?, start.elapsed()))
    };
    let ((server, took), _) = run(&load, server, silent, |sent| *sent);
    assert_eq!((server.received_bytes, server.seconds), (0, SECONDS));
    assert!(took < 3 * load.duration, "{took:?}");
}

#[test]
fn a_response_that_never_comes_counts_with_the_time_it_was_waited_for() {
    let load = load(Workload::TcpLatency, Ipv4Addr::LOCALHOST.into(), 64);
    let mute = |load: &Load, control: Control| {
        let listener = socket::listen(address(load), LOOK_UP)?;
        let ended = control.ready();
        let stream = stream::accept(&listener, &ended)?;
        while ended.now()?.is_none() {
            thread::sleep(LOOK_UP);
        }
        drop(stream);
        Ok(())
    };
    let ((), client) = run(&load, mute, latency::client, |c| c.sent);
    assert_eq!((client.sent, client.unfinished), (0, 1));
    assert!(client.max_us >= SECONDS * 0.99e6, "{client:?}");
}

#[test]
fn a_server_whose_client_never_came_says_so() {
    let load = load(Workload::TcpStream, Ipv4Addr::LOCALHOST.into(), 1000);
    let namespace = Namespace::new().unwrap();
    let (tell, sent) = channel();
    tell.send(0).unwrap();
    let control = Control {
        ready: Box::new(|| ()),
        sent,
    };
    let error = namespace
        .enter(|| stream::server(&load, control))
        .unwrap_err();
    assert_eq!(error.to_string(), "the client ended without a connection");
}

#[test]
fn the_command_line_of_a_load_is_taken_back() {
    let load = load(Workload::UdpFlood, Ipv6Addr::LOCALHOST.into(), 18);
    let taken = Arguments::try_parse_from(arguments("server", &load)).unwrap();
    assert_eq!(
        (taken.end.as_str(), taken.workload),
        ("server", load.workload)
    );
    assert_eq!((taken.address, taken.port), (load.address, load.port));
    assert_eq!((taken.duration_ms, taken.payload_bytes), (500, 18));
}
