// SPDX-License-Identifier: GPL-2.0-or-later
//! Recorded reports of iperf3 3.12 over loopback, two seconds each.

use super::*;

const TCP: &str = include_str!(concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/tests/data/iperf3-tcp-server.json"
));
const UDP: &str = include_str!(concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/tests/data/iperf3-udp-server.json"
));
const REFUSED: &str = include_str!(concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/tests/data/iperf3-refused.json"
));

fn value(outcome: &Outcome, name: &str) -> f64 {
    let metric = outcome.metrics.iter().find(|metric| metric.name == name);
    metric.unwrap().value
}

#[test]
fn tcp_is_what_the_receiver_got() {
    let outcome = tcp_stream(&parse(TCP).unwrap()).unwrap();
    assert!((value(&outcome, "throughput") - 25.133518).abs() < 1e-6);
    // The third interval lasts half a millisecond.
    let ends: Vec<f64> = outcome.series.iter().map(|(end, _)| end.round()).collect();
    assert_eq!(ends, [1.0, 2.0]);
    assert!((outcome.series[0].1 - 25.029332).abs() < 1e-6);
}

#[test]
fn udp_counts_packets_and_losses_of_the_receiver() {
    let outcome = udp_flood(&parse(UDP).unwrap()).unwrap();
    assert_eq!(value(&outcome, "sent"), 608_862.0);
    assert_eq!(value(&outcome, "lost"), 2449.0);
    assert_eq!(value(&outcome, "delivered"), 606_413.0);
    assert!((value(&outcome, "lost_percent") - 0.402_226).abs() < 1e-6);
    assert!((value(&outcome, "delivered_rate") - 303.1973).abs() < 1e-3);
    assert!((outcome.series[0].1 - 300.262).abs() < 0.1);
}

#[test]
fn an_error_in_the_report_is_an_error() {
    let error = parse(REFUSED).err().unwrap().to_string();
    assert_eq!(error, "unable to connect to server: Connection refused");
    let error = parse("iperf3: interrupt").err().unwrap().to_string();
    assert_eq!(error, "its JSON");
    assert!(tcp_stream(&parse(r#"{"end":{}}"#).unwrap()).is_err());
}

#[test]
fn command_lines() {
    let iperf3 = Iperf3 {
        version: String::new(),
    };
    let mut load = Load {
        workload: Workload::UdpFlood,
        duration: std::time::Duration::from_secs(10),
        address: "fd77::2".parse().unwrap(),
        port: 9999,
        payload_bytes: 18,
    };
    assert_eq!(
        iperf3.command_lines(&load),
        [
            "iperf3 -s -B fd77::2 -p 9999 -1 -J",
            "iperf3 -c fd77::2 -p 9999 -t 10 -l 18 -J -u -b 0",
        ]
    );
    load.workload = Workload::TcpStream;
    let client = &iperf3.command_lines(&load)[1];
    assert_eq!(client, "iperf3 -c fd77::2 -p 9999 -t 10 -l 18 -J");
}
