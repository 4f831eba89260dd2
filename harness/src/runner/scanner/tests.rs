// SPDX-License-Identifier: GPL-2.0-or-later
use super::*;

/// Returns the last line of the scanner's output: the summary.
/// - states: fields of the object `states`, in JSON.
/// - more: further fields of the summary, each with a comma after it.
fn summary(states: &str, more: &str) -> String {
    format!(
        "{{\"summary\":{{\"targets\":8388608,\"done\":1000,\"interrupted\":true,\"seconds\":2.5,\"per_second\":400.0,\
         \"states\":{{{states}}},\"reasons\":{{\"syn-ack\":1000}},\"findings\":{{}},\"matched\":0,\"retries\":0,{more}\
         \"slowdowns\":0,\"overflows\":0,\"ring_losses\":0,\"strangers\":0,\"engine\":\"io_uring\",\"rings\":1,\
         \"cpu_us_per_target\":12.5,\"system_calls_per_target\":0.05}}}}\n"
    )
}

const ALL_OPEN: &str = r#""closed":0,"error":0,"filtered":0,"open":1000"#;
const NO_SHORTAGES: &str = r#""shortages":0,"#;

#[test]
fn connections_are_open_targets_a_second() {
    let text = format!(
        "{{\"state\":\"error\"}}\n{}",
        summary(ALL_OPEN, NO_SHORTAGES)
    );
    let summary = parse(&text).unwrap();
    let second = Duration::from_secs(1);
    let values = summary
        .metrics(2 * second)
        .map(|metric| (metric.name, metric.value));
    let wanted = [
        ("connections", 500.0),
        ("open", 1000.0),
        ("closed", 0.0),
        ("filtered", 0.0),
        ("error", 0.0),
        ("calls_per_target", 0.05),
        ("cpu_per_target", 12.5),
    ];
    assert_eq!(values, wanted);
    // A scan that ended by itself.
    assert_eq!(summary.metrics(5 * second)[0].value, 400.0);
    assert!(summary.incidents(1000).is_empty());
    // Some targets were connected and not yet counted at the end.
    assert!(summary.incidents(1010).is_empty());
}

#[test]
fn all_that_is_not_open_is_an_incident() {
    let states = r#""closed":1,"error":2,"filtered":3,"open":994"#;
    let summary = parse(&summary(states, r#""shortages":7,"#)).unwrap();
    assert_eq!(
        summary.incidents(993),
        [
            "1 of 1000 targets were closed",
            "3 of 1000 targets were filtered",
            "2 of 1000 targets were error",
            "994 connections were open, 993 were accepted",
            "the scanner lacked ports or memory 7 times",
        ]
    );
}

#[test]
fn what_is_no_summary_is_refused() {
    let nobody = summary(ALL_OPEN, NO_SHORTAGES).replace("\"done\":1000", "\"done\":0");
    for (text, words) in [
        ("", "scanner: no summary"),
        ("{\"state\":\"open\"}\n", "scanner: its summary"),
        (&summary(ALL_OPEN, ""), "missing field `shortages`"),
        (&nobody, "no target was asked to the end"),
    ] {
        let error = parse(text).err().unwrap();
        assert!(format!("{error:#}").contains(words), "{text}: {error:#}");
    }
}

#[test]
fn a_load_over_loopback_asks_its_network_and_another_that_behind_the_server() {
    let line = |address: &str| {
        let load = Load {
            workload: Workload::TcpProbe,
            duration: Duration::from_secs(1),
            address: address.parse().unwrap(),
            port: 9999,
            payload_bytes: 0,
        };
        arguments(&load).join(" ")
    };
    assert!(line("127.0.0.1")
        .starts_with("127.0.0.0/8 --exclude 127.0.0.0,127.255.255.255 --ports 9999"));
    assert!(line("10.77.0.2").starts_with("10.128.0.0/9 --ports 9999"));
}
