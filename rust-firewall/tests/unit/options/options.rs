// SPDX-License-Identifier: GPL-2.0-or-later
//! Tests of the command line: defaults, syntax, values, and the text of each error.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

use rust_firewall::base::log::{LogExit, LogLevel};
use rust_firewall::options::daemon::fail_text;
use rust_firewall::options::{
    backend_name, parse, profile_name, queue, Options, OptionsAction, OptionsConntrack,
    OptionsExplain, OptionsProfile, OptionsSituation, HELP, SITUATION_COUNT,
};
use rust_firewall::packet::verdict::Verdict;
use rust_firewall::queue::QueueKind;

const FAIL: &str = "open or closed, or a list like overload=open,crash=closed of overload, stall, \
                    crash, malformed, truncated and unknown";

fn parse_words(words: &[&str]) -> Result<OptionsAction, String> {
    let arguments: Vec<OsString> = ["rust-firewall"]
        .iter()
        .chain(words)
        .map(OsString::from)
        .collect();
    parse(&arguments).map_err(|failure| {
        assert_eq!(failure.code, LogExit::Usage);
        failure.text
    })
}

fn good(words: &[&str]) -> Options {
    match parse_words(words) {
        Ok(OptionsAction::Run(options)) => options,
        other => panic!("{words:?} gives {other:?}"),
    }
}

fn bad(words: &[&str]) -> String {
    parse_words(words).expect_err("a bad command line")
}

fn fast() -> Options {
    Options {
        queue_first: 0,
        queue_last: 0,
        pin: false,
        backend: QueueKind::Raw,
        profile: OptionsProfile::Fast,
        copy_bytes: 128,
        batch: 64,
        receive_buffer: 67108864,
        receive_buffer_asked: false,
        copy_bytes_asked: false,
        queue_length: 131072,
        gso: true,
        spin_us: 50,
        coalesce_us: 60,
        policy: None,
        default_verdict: Verdict::Accept,
        malformed_by_policy: false,
        conntrack: OptionsConntrack::Auto,
        undecided_verdict: Verdict::Accept,
        undecided_bytes: 32768,
        stage: 0,
        settled: 0,
        connections: 65536,
        hello_memory: 33554432,
        hello_timeout_s: 10,
        learned: 65_536,
        fail_open: [false; SITUATION_COUNT],
        deadline_ms: 1000,
        stats_s: 0,
        json: false,
        events: None,
        events_rate: 1000,
        log_level: LogLevel::Info,
        control: None,
        control_mode: 0o600,
        control_owner: None,
        take_over: None,
        user: None,
        sandbox: true,
        print: false,
        explain: OptionsExplain::default(),
    }
}

fn paper() -> Options {
    Options {
        backend: QueueKind::Classic,
        profile: OptionsProfile::Paper,
        copy_bytes: 65535,
        batch: 1,
        receive_buffer: 0,
        queue_length: 1024,
        gso: false,
        spin_us: 0,
        coalesce_us: 0,
        deadline_ms: 0,
        ..fast()
    }
}

#[test]
fn without_options_it_is_the_fast_profile() {
    assert_eq!(good(&[]), fast());
    assert_eq!(good(&["--"]), fast());
    assert_eq!(good(&["--profile", "fast"]), fast());
}

#[test]
fn the_paper_profile_sets_the_published_values() {
    assert_eq!(good(&["--profile", "paper"]), paper());
    assert_eq!(good(&["--profile=paper", "--batch", "1"]), paper());
    let given = good(&["--copy-bytes", "64", "--gso", "on", "--profile", "paper"]);
    assert_eq!(
        given,
        Options {
            copy_bytes: 64,
            copy_bytes_asked: true,
            gso: true,
            ..paper()
        }
    );
}

#[test]
fn every_option_is_taken() {
    let words = "--queue 3:258 --pin --backend mnl --copy-bytes 0 --batch 1024 \
                 --receive-buffer 1073741823 --queue-length 4294967295 --gso off --spin 1000 \
                 --coalesce 0 --policy web.nft --default drop --malformed policy \
                 --conntrack mark --undecided drop --connections 16777216 \
                 --hello-memory 4294967295 --hello-timeout 3600 --learned 1048576 --fail open --deadline 60000 --stats 86400 --json \
                 --events unix:/run/e --events-rate 1000000 \
                 --log-level debug --control /run/c --control-mode 0777 \
                 --control-owner root:adm --take-over /run/old --user twinwall --sandbox off";
    let words: Vec<&str> = words.split_whitespace().collect();
    let expected = Options {
        queue_first: 3,
        queue_last: 258,
        pin: true,
        backend: QueueKind::Mnl,
        profile: OptionsProfile::Fast,
        copy_bytes: 0,
        copy_bytes_asked: true,
        batch: 1024,
        receive_buffer: 1073741823,
        receive_buffer_asked: true,
        queue_length: 4294967295,
        gso: false,
        spin_us: 1000,
        coalesce_us: 0,
        policy: Some("web.nft".to_owned()),
        default_verdict: Verdict::Drop,
        malformed_by_policy: true,
        conntrack: OptionsConntrack::Mark,
        undecided_verdict: Verdict::Drop,
        undecided_bytes: 32768,
        stage: 0,
        settled: 0,
        connections: 16777216,
        hello_memory: 4294967295,
        hello_timeout_s: 3600,
        learned: 1_048_576,
        fail_open: [true; SITUATION_COUNT],
        deadline_ms: 60000,
        stats_s: 86400,
        json: true,
        events: Some("unix:/run/e".to_owned()),
        events_rate: 1000000,
        log_level: LogLevel::Debug,
        control: Some("/run/c".to_owned()),
        control_mode: 0o777,
        control_owner: Some("root:adm".to_owned()),
        take_over: Some("/run/old".to_owned()),
        user: Some("twinwall".to_owned()),
        sandbox: false,
        ..fast()
    };
    assert_eq!(good(&words), expected);
}

#[test]
fn every_choice_is_taken() {
    for (kind, name) in [
        (QueueKind::Classic, "classic"),
        (QueueKind::Mnl, "mnl"),
        (QueueKind::Raw, "raw"),
    ] {
        assert_eq!(good(&["--backend", name]).backend, kind);
        assert_eq!(backend_name(kind), name);
    }
    for (profile, name) in [
        (OptionsProfile::Fast, "fast"),
        (OptionsProfile::Paper, "paper"),
    ] {
        assert_eq!(good(&["--profile", name]).profile, profile);
        assert_eq!(profile_name(profile), name);
    }
    assert!(good(&["--gso", "on"]).gso && !good(&["--gso", "off"]).gso);
    assert_eq!(
        good(&["--default", "accept"]).default_verdict,
        Verdict::Accept
    );
    assert_eq!(good(&["--default", "drop"]).default_verdict, Verdict::Drop);
    let wide = good(&["--policy", "p", "--undecided", "accept:4294967295"]);
    assert_eq!(wide.undecided_verdict, Verdict::Accept);
    assert_eq!(wide.undecided_bytes, 4294967295);
    assert_eq!(
        good(&["--policy", "p", "--undecided", "accept"]).undecided_bytes,
        32768
    );
    for value in ["accept:", "accept:1023", "accept:x", "drop:2048", ":2048"] {
        assert_eq!(
            bad(&["--policy", "p", "--undecided", value]),
            format!("--undecided \"{value}\": expected accept, drop, or accept:BYTES with at least 1024")
        );
    }
}

#[test]
fn values_of_a_daemon_at_their_limits() {
    assert_eq!(good(&["--deadline", "0"]).deadline_ms, 0);
    assert_eq!(good(&["--deadline", "10"]).deadline_ms, 10);
    for events in ["-", "file", "unix:e"] {
        let options = good(&["--events", events]);
        assert_eq!(options.events.as_deref(), Some(events));
    }
    let options = good(&["--control", &"p".repeat(107), "--control-mode", "0"]);
    assert_eq!(options.control_mode, 0);
    let paper = good(&["--profile", "paper", "--deadline", "500"]);
    assert_eq!(paper.deadline_ms, 500);
}

#[test]
fn modes_are_for_all_or_by_situation() {
    let some = good(&["--fail", "stall=open,malformed=open,crash=closed"]).fail_open;
    assert_eq!(some, [false, true, false, true, false, false]);
    assert!(some[OptionsSituation::Stall as usize] && some[OptionsSituation::Malformed as usize]);
    let told = |modes: &str| fail_text(&good(&["--fail", modes]));
    assert_eq!(fail_text(&good(&[])), "closed");
    assert_eq!(told("open"), "open");
    assert_eq!(told("closed"), "closed");
    assert_eq!(told("truncated=closed"), "closed");
    assert_eq!(told("stall=open,overload=open"), "overload=open,stall=open");
    assert_eq!(
        told("overload=open,stall=open,crash=open,malformed=open,truncated=open,unknown=open"),
        "open"
    );
    assert_eq!(
        bad(&["--fail", "stall=open,crash=open,stall=open"]),
        "--fail \"stall=open,crash=open,stall=open\": stall is given twice: leave one out"
    );
}

#[test]
fn what_has_no_meaning_alone_is_refused() {
    for (option, value, needed) in [
        ("events-rate", "5", "events"),
        ("control-mode", "600", "control"),
        ("control-owner", "root", "control"),
    ] {
        assert_eq!(
            bad(&[&format!("--{option}"), value]),
            format!("--{option} has no meaning without --{needed}: add --{needed} or leave it out")
        );
    }
    for (option, value) in [
        ("connections", "64"),
        ("learned", "64"),
        ("stage", "0xffff0000"),
        ("settled", "0x80000000"),
    ] {
        assert_eq!(
            bad(&[&format!("--{option}"), value]),
            format!("--{option} has no meaning without a policy: add --policy or leave it out")
        );
    }
}

#[test]
fn prefixes_and_equal_signs_are_understood_and_the_last_value_wins() {
    assert_eq!(good(&["--cop=7"]).copy_bytes, 7);
    assert_eq!(good(&["--bat", "7"]).batch, 7);
    assert_eq!(good(&["--queue", "1", "--queue=2"]).queue_last, 2);
    assert_eq!(
        good(&["--queue", "nonsense", "--queue", "2"]).queue_first,
        2
    );
    assert!(good(&["--js", "--pin", "--json"]).json);
    assert_eq!(good(&["--copy-bytes", "007"]).copy_bytes, 7);
}

#[test]
fn help_and_version_act_where_they_are_met() {
    for word in ["--help", "-h", "-hx", "-hV"] {
        assert_eq!(parse_words(&[word]), Ok(OptionsAction::Help), "{word}");
    }
    for word in ["--version", "-V", "--v", "-Vh"] {
        assert_eq!(parse_words(&[word]), Ok(OptionsAction::Version), "{word}");
    }
    assert_eq!(
        parse_words(&["--queue", "x", "-h", "--bogus"]),
        Ok(OptionsAction::Help)
    );
    assert_eq!(
        bad(&["--bogus", "-h"]),
        "unknown or ambiguous option --bogus: see --help"
    );
    assert_eq!(
        bad(&["--queue", "-h"]).split(':').next(),
        Some("--queue \"-h\"")
    );
    assert!(HELP.starts_with("Twinwall: ") && HELP.ends_with("refused.\n"));
}

#[test]
fn unknown_options_are_named_as_they_were_typed() {
    let unknown = |token: &str| format!("unknown or ambiguous option {token}: see --help");
    for (word, token) in [
        ("--foo", "--foo"),
        ("--foo=bar", "--foo"),
        ("--s", "--s"),
        ("--co=5", "--co"),
        ("--=5", "--"),
        ("-x", "-x"),
        ("-xyz", "-x"),
        ("-é", "-\\xc3"),
        ("--a\"b\\", "--a\\x22b\\x5c"),
    ] {
        assert_eq!(bad(&[word]), unknown(token), "{word}");
    }
    let long = format!("--{}", "x".repeat(63));
    assert_eq!(bad(&[&long]), unknown(&format!("--{}...", "x".repeat(62))));
}

#[test]
fn bytes_that_are_no_text_are_shown_as_numbers() {
    let parse_bytes = |bytes: &[u8]| {
        let arguments = ["rust-firewall".into(), OsString::from_vec(bytes.to_vec())];
        parse(&arguments).expect_err("a bad command line").text
    };
    let unknown = |token: &str| format!("unknown or ambiguous option {token}: see --help");
    assert_eq!(parse_bytes(b"--\xff=1"), unknown("--\\xff"));
    assert_eq!(parse_bytes(b"-\xff"), unknown("-\\xff"));
    assert_eq!(
        parse_bytes(b"\xff"),
        "unexpected argument \"\\xff\": see --help"
    );
    let expected = "expected N or N:M, 0 <= N <= M <= 65535, at most 256 queues";
    assert_eq!(
        parse_bytes(b"--queue=\x01\x7f\xff"),
        format!("--queue \"\\x01\\x7f\\xff\": {expected}")
    );
}

#[test]
fn structure_is_judged_in_the_order_of_the_command_line() {
    let unexpected = |word: &str| format!("unexpected argument \"{word}\": see --help");
    assert_eq!(
        bad(&["--queue"]),
        "option --queue needs a value: see --help"
    );
    assert_eq!(
        bad(&["--pin", "--bat", "1", "--receive"]),
        "option --receive-buffer needs a value: see --help"
    );
    assert_eq!(
        bad(&["--pin=yes"]),
        "option --pin takes no value: see --help"
    );
    assert_eq!(bad(&["--js="]), "option --json takes no value: see --help");
    assert_eq!(
        bad(&["--help=x"]),
        "option --help takes no value: see --help"
    );
    assert_eq!(bad(&["x", "--bogus"]), unexpected("x"));
    assert_eq!(bad(&["--", "--bogus"]), unexpected("--bogus"));
    assert_eq!(bad(&["--pin", "-"]), unexpected("-"));
    assert_eq!(bad(&["--queue", "x", "y"]), unexpected("y"));
}

#[test]
fn values_are_judged_in_the_order_of_the_help_text() {
    assert_eq!(
        bad(&["--stats", "0", "--fail", "x", "--gso", "y"]),
        "--gso \"y\": expected on or off"
    );
    assert_eq!(
        bad(&["--profile", "paper", "--spin", "1", "--stats", "0"]),
        "--stats \"0\": expected a whole number from 1 to 86400"
    );
}

/// Checks that each of these values of an option fails with the text that names the expected values.
fn check_wrong(option: &str, values: &[&str], expected: &str) {
    for value in values {
        let shown = if *value == "٣" { "\\xd9\\xa3" } else { value };
        let words = [format!("--{option}={value}")];
        let text = format!("--{option} \"{shown}\": expected {expected}");
        assert_eq!(bad(&[&words[0]]), text);
    }
}

fn number(max: u64, min: u64) -> String {
    format!("a whole number from {min} to {max}")
}

#[test]
fn every_wrong_value_of_the_queue_has_its_words() {
    for (option, values, expected) in [
        (
            "queue",
            vec![
                "", "a", "-1", "+1", " 1", "1 ", "65536", ":1", "1:", "2:1", "0:256", "1:2:3",
            ],
            "N or N:M, 0 <= N <= M <= 65535, at most 256 queues".to_owned(),
        ),
        (
            "backend",
            vec!["", "Raw", "raw ", "r"],
            "classic, mnl or raw".to_owned(),
        ),
        ("profile", vec!["", "slow"], "fast or paper".to_owned()),
        (
            "copy-bytes",
            vec!["", "65536", "1k", "0x10", "٣"],
            number(65535, 0),
        ),
        (
            "batch",
            vec!["0", "1025", "99999999999999999999"],
            number(1024, 1),
        ),
        (
            "receive-buffer",
            vec!["1073741824", "4294967297"],
            number(1073741823, 0),
        ),
        (
            "queue-length",
            vec!["0", "4294967296"],
            number(4294967295, 1),
        ),
        ("gso", vec!["", "yes", "ON"], "on or off".to_owned()),
        ("spin", vec!["1001", "always"], number(1000, 0)),
        ("coalesce", vec!["1001", "-0"], number(1000, 0)),
        ("default", vec!["", "reject"], "accept or drop".to_owned()),
        (
            "fail",
            vec![
                "",
                "close",
                "open,closed",
                "overload",
                "overload=",
                "=open",
                "stall=open,",
                "stall,x=open",
                "stall=opened",
            ],
            FAIL.to_owned(),
        ),
    ] {
        check_wrong(option, &values, &expected);
    }
}

#[test]
fn every_wrong_value_of_reporting_and_operating_has_its_words() {
    for (option, values, expected) in [
        (
            "deadline",
            vec!["9", "60001", "1s"],
            "0 or a whole number from 10 to 60000".to_owned(),
        ),
        (
            "events",
            vec!["", "unix:"],
            "a file, - or unix:PATH of at most 107 bytes".to_owned(),
        ),
        ("events-rate", vec!["0", "1000001"], number(1000000, 1)),
        (
            "log-level",
            vec!["", "all"],
            "error, warning, info or debug".to_owned(),
        ),
        ("control", vec![""], "a path of 1 to 107 bytes".to_owned()),
        (
            "control-mode",
            vec!["", "8", "1000", "00600"],
            "an octal mode from 0 to 0777".to_owned(),
        ),
        (
            "control-owner",
            vec!["", ":x", "x:", "x:y:z"],
            "USER or USER:GROUP".to_owned(),
        ),
        ("user", vec![""], "a user's name".to_owned()),
        ("sandbox", vec!["no"], "on or off".to_owned()),
        ("stats", vec!["0", "86401"], number(86400, 1)),
    ] {
        check_wrong(option, &values, &expected);
    }
}

#[test]
fn a_long_value_is_cut_after_64_bytes() {
    let shown = |value: &str| bad(&["--gso", value]).replace(": expected on or off", "");
    assert_eq!(
        shown(&"x".repeat(64)),
        format!("--gso \"{}\"", "x".repeat(64))
    );
    assert_eq!(
        shown(&"x".repeat(65)),
        format!("--gso \"{}...\"", "x".repeat(64))
    );
}

#[test]
fn the_paper_profile_refuses_what_it_fixes() {
    let fixes = |option: &str| {
        format!("--profile paper fixes --{option}: leave it out or use --profile fast")
    };
    let paper = |words: &[&str]| bad(&[&["--profile", "paper"], words].concat());
    assert_eq!(
        paper(&["--coalesce", "0", "--spin", "0", "--batch", "2"]),
        fixes("batch")
    );
    assert_eq!(paper(&["--coalesce", "0", "--spin", "0"]), fixes("spin"));
    assert_eq!(
        paper(&["--coalesce", "0", "--default", "drop"]),
        fixes("coalesce")
    );
    assert_eq!(
        paper(&["--default", "drop"]),
        "--profile paper accepts every packet: leave --default out or use --profile fast"
    );
    for option in ["events", "control", "take-over"] {
        assert_eq!(
            paper(&[&format!("--{option}"), "[::]:1"]),
            format!("--profile paper does without --{option}: leave it out or use --profile fast")
        );
    }
    assert_eq!(
        good(&[
            "--profile",
            "paper",
            "--default",
            "accept",
            "--fail",
            "open"
        ])
        .fail_open,
        [true; SITUATION_COUNT]
    );
}

#[test]
fn a_queue_gets_the_settings_of_its_profile() {
    let settings = queue(&good(&["--receive-buffer", "5", "--fail", "open"]), None, 9);
    assert_eq!((settings.number, settings.kind), (9, QueueKind::Raw));
    assert_eq!(
        (settings.copy_bytes, settings.batch, settings.slot_bytes),
        (128, 64, 640)
    );
    assert_eq!(
        (settings.receive_buffer, settings.receive_buffer_required),
        (5, true)
    );
    assert_eq!(
        (settings.queue_length, settings.gso, settings.fail_open),
        (131072, true, true)
    );
    let settings = queue(&good(&["--profile", "paper"]), None, 0);
    assert_eq!((settings.slot_bytes, settings.batch), (1 << 32, 1));
    assert_eq!(
        (settings.receive_buffer, settings.receive_buffer_required),
        (0, false)
    );
}
