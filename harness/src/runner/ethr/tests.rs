// SPDX-License-Identifier: GPL-2.0-or-later
//! Recorded logs: ethr 86e0704 over loopback; in the stalled log a rule dropped everything after 3 seconds.

use std::process::ExitStatus;

use super::*;

const SERVER: &str = include_str!(concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/tests/data/ethr-server.log"
));
const SERVER_STALLED: &str = include_str!(concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/tests/data/ethr-server-stalled.log"
));
const CLIENT_STALLED: &str = include_str!(concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/tests/data/ethr-client-stalled.log"
));
const REFUSED: &str = "
Error dialing control connection: dial tcp4 :0->127.0.0.1:9999: connect: connection refused
Ethr done, connection terminated.
";

const ALIGNED: Abilities = Abilities {
    two_places: true,
    aligned: true,
};
const UNALIGNED: Abilities = Abilities {
    two_places: false,
    aligned: false,
};

fn client(log: &str, stdout: &str) -> Ended {
    Ended {
        status: ExitStatus::default(),
        stdout: stdout.into(),
        stderr: log.into(),
    }
}

fn values(series: &[(f64, f64)]) -> Vec<f64> {
    series.iter().map(|(_, value)| *value).collect()
}

#[test]
fn rows_are_the_seconds_of_the_load() {
    let series = series(SERVER, &client("", ""), 4, ALIGNED).unwrap();
    assert_eq!(
        series,
        [(1.0, 11.77), (2.0, 11.34), (3.0, 10.51), (4.0, 12.56)]
    );
}

#[test]
fn rows_beyond_the_load_are_left_out() {
    let series = series(SERVER, &client("", ""), 3, ALIGNED).unwrap();
    assert_eq!(values(&series), [11.77, 11.34, 10.51]);
}

#[test]
fn without_alignment_the_partial_first_and_last_row_are_left_out() {
    let series = series(SERVER, &client("", ""), 3, UNALIGNED).unwrap();
    assert_eq!(series, [(2.0, 11.34), (3.0, 10.51)]);
}

#[test]
fn a_second_without_a_row_is_a_zero() {
    let series = series(SERVER_STALLED, &client(CLIENT_STALLED, ""), 6, ALIGNED).unwrap();
    assert_eq!(values(&series), [15.16, 16.73, 11.2, 0.0, 0.0, 0.0]);
}

#[test]
fn a_load_that_never_got_through_is_zero_but_one_that_never_began_is_an_error() {
    let series_of = |client| series("", &client, 2, ALIGNED);
    let stalled = series_of(client(CLIENT_STALLED, "")).unwrap();
    assert_eq!(values(&stalled), [0.0, 0.0]);
    let error = series_of(client("", REFUSED)).unwrap_err().to_string();
    assert!(
        error.starts_with("ethr: no result: Error dialing"),
        "{error}"
    );
    assert!(error.ends_with("connection refused"), "{error}");
}

#[test]
fn rows_go_on_past_midnight() {
    let server = SERVER
        .replace("12:42:12Z", "23:59:58Z")
        .replace("12:42:13Z", "23:59:59Z")
        .replace("12:42:14Z", "00:00:00Z")
        .replace("12:42:15Z", "00:00:01Z");
    assert_ne!(server, SERVER);
    let series = series(&server, &client("", ""), 4, ALIGNED).unwrap();
    assert_eq!(values(&series), [11.77, 11.34, 10.51, 12.56]);
}

#[test]
fn numbers_have_decimal_units() {
    for (text, value) in [
        ("0", 0.0),
        ("930", 930.0),
        ("1.5K", 1500.0),
        ("23.4M", 23.4e6),
        ("11.77G", 11.77e9),
        ("2T", 2e12),
    ] {
        assert_eq!(bits(text), Some(value));
    }
    assert_eq!((bits("--  "), bits(""), bits("G")), (None, None, None));
}

#[test]
fn the_help_tells_the_version_and_the_abilities() {
    let help = "Ethr: a tool (Version: v1.0.0)\n\t-o <x>\n\t-dp <1|2>\n\t-1 \n\t\tOne client.\n";
    assert_eq!(parse_version(help).unwrap(), "v1.0.0");
    assert_eq!(parse_abilities(help), ALIGNED);
    let older = "Ethr: a tool (Version: UNKNOWN)\n\t-d <x>\n\t\ttakes -1 and -dp\n";
    assert_eq!(parse_version(older).unwrap(), "UNKNOWN");
    assert_eq!(parse_abilities(older), UNALIGNED);
    assert_eq!(parse_version("usage: ls"), None);
}

#[test]
fn a_missing_ethr_and_another_program_say_what_to_do() {
    for program in ["/no/such/ethr", "/bin/true"] {
        let error = Ethr::find(Some(program.into()), Path::new(""))
            .err()
            .unwrap()
            .to_string();
        assert!(error.contains(program), "{error}");
        assert!(error.ends_with("give it with --ethr PATH"), "{error}");
    }
}

#[test]
fn command_lines() {
    let ethr = |abilities| Ethr {
        program: "/bin/ethr".into(),
        version: "UNKNOWN".into(),
        abilities,
    };
    let mut load = Load {
        workload: Workload::TcpStream,
        duration: Duration::from_secs(10),
        address: "127.0.0.1".parse().unwrap(),
        port: 9999,
        payload_bytes: 16384,
    };
    assert_eq!(
        ethr(UNALIGNED).command_lines(&load),
        [
            "/bin/ethr -s -ip 127.0.0.1 -port 9999 -o /dev/stderr",
            "/bin/ethr -c 127.0.0.1 -4 -p tcp -t b -d 10s -l 16384 -port 9999 -o /dev/stderr",
        ]
    );
    load.address = "fd77::2".parse().unwrap();
    assert_eq!(
        ethr(ALIGNED).command_lines(&load),
        [
            "/bin/ethr -s -6 -port 9999 -dp 2 -o /dev/stderr",
            "/bin/ethr -c fd77::2 -6 -p tcp -t b -d 10s -l 16384 -port 9999 -dp 2 -o /dev/stderr",
        ]
    );
}
