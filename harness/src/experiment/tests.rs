// SPDX-License-Identifier: GPL-2.0-or-later
use std::fs;
use std::path::Path;

use super::read::line_and_column;
use super::*;
use crate::finding::LEAST_ROUNDS;
use crate::progress::{expected, in_words};
use crate::schedule::amount;
use crate::subject::original;

const WHOLE: &str = r#"
    title = "T"
    question = "Q"
    rounds = 3
    warmup_seconds = 0
    seconds = 2
    subjects = ["none", "rust-raw-fast", "c-raw-fast", "rust-raw-fast#2"]
    [[peer]]
    name = "other"
    command = "other {queue}"
    [[workload]]
    name = "udp-flood"
    runner = ["ethr", "builtin"]
    path = ["loopback", "veth"]
    payload_bytes = [18]
    [[compare]]
    a = "rust-raw-fast"
    b = "c-raw-fast"
    [[figure]]
    name = "f"
    kind = "dots"
    title = "F"
    workload = "udp-flood"
    [[reference]]
    label = "R"
    workload = "udp-flood"
    metric = "delivered_rate"
    value = 3.9
"#;

/// Replaces `from` by `to` in WHOLE, which makes it invalid. Returns the text from the refused position on, and the
/// error message.
fn refused(from: &str, to: &str) -> (String, String) {
    assert!(WHOLE.contains(from), "{from}");
    let text = WHOLE.replacen(from, to, 1);
    let refusal = Experiment::parse("x", &text).map(|_| ()).unwrap_err();
    (text[refusal.place.start..].to_string(), refusal.words)
}

#[test]
fn a_whole_experiment_is_read() {
    let experiment = Experiment::parse("x", WHOLE).ok().unwrap();
    let names: Vec<String> = experiment.subjects.iter().map(Subject::name).collect();
    assert_eq!(
        names,
        [
            "none",
            "rust-raw-fast",
            "c-raw-fast",
            "rust-raw-fast#2",
            "other"
        ]
    );
    assert_eq!(experiment.baseline, "none");
    assert_eq!(experiment.flows, 1);
    assert_eq!(
        experiment.workloads[0].runner,
        [RunnerName::Ethr, RunnerName::Builtin]
    );
    assert_eq!(experiment.figures[0].kind, FigureKind::Dots);
    assert_eq!(experiment.figures[0].path, Route::Loopback);
    assert_eq!(experiment.references[0].value, 3.9);
}

#[test]
fn each_twin_is_expanded_over_the_queues() {
    let text = WHOLE
        .replace(r#"path = ["loopback", "veth"]"#, "")
        .replace("seconds = 2", "seconds = 2\nqueues = [1, 4]");
    let experiment = Experiment::parse("x", &text).ok().unwrap();
    let names: Vec<String> = experiment.subjects.iter().map(Subject::name).collect();
    assert_eq!(names[..3], ["none", "rust-raw-fast", "rust-raw-fast@4"]);
    assert_eq!(names.len(), 8);
    assert_eq!(experiment.flows, 4);
}

/// Parses WHOLE with a policy in its workload, with nftables as a further subject, and with a figure of growth over
/// ports. Returns the error message on failure.
fn with_policy(policy: &str) -> Result<Experiment, String> {
    let text = WHOLE
        .replace("[18]", &format!("[18]\npolicy = {policy}"))
        .replace("\"none\", ", "\"none\", \"nftables\", ")
        .replace("kind = \"dots\"", "kind = \"growth\"\npolicy = \"ports\"");
    Experiment::parse("x", &text).map_err(|refusal| refusal.words)
}

#[test]
fn a_policy_in_sizes_makes_a_load_of_each() {
    let experiment = with_policy("{ kind = \"ports\", sizes = [10, 1000] }").unwrap();
    let cells = crate::schedule::cells(&experiment);
    let names: Vec<String> = cells.iter().map(|cell| cell.name().to_string()).collect();
    assert_eq!(names.len(), 4);
    assert_eq!(
        names[1],
        "udp-flood over loopback, payload 18 B, 1000 rules “udp dport N drop”"
    );
}

#[test]
fn a_variant_has_a_policy_of_its_own_and_copies() {
    let variant =
        "[[variant]]\nname = \"v\"\nof = \"c-raw-fast\"\npolicy = \"names-10\"\ncopies = 2\n";
    let text = WHOLE.replace("[[compare]]", &format!("{variant}[[compare]]"));
    let experiment = Experiment::parse("x", &text).ok().unwrap();
    let variants = &experiment.subjects[experiment.subjects.len() - 2..];
    assert_eq!(variants[0].name(), "v");
    assert_eq!(variants[1].name(), "v#2");
    let of_load = "ports-10".parse().ok();
    for variant in variants {
        assert_eq!(variant.policy(of_load), "names-10".parse().ok());
    }
    assert_eq!(experiment.subjects[1].policy(of_load), of_load);
}

#[test]
fn policies_that_do_not_fit_are_refused() {
    let cases = [
        (
            "{ kind = \"ports\", sizes = [50001] }",
            "50001 of ports: expected 1 to 50000",
        ),
        (
            "{ kind = \"ports\", sizes = [0] }",
            "0 of ports: expected 1",
        ),
        (
            "{ kind = \"ports\", sizes = [] }",
            "expected at least one value",
        ),
        ("{ kind = \"port\", sizes = [1] }", "unknown variant `port`"),
        ("{ kind = \"names\", sizes = [1] }", "nftables has no names"),
        (
            "{ kind = \"addresses\", sizes = [1] }",
            "figure \"f\": no [[workload]] has that name, path and policy",
        ),
    ];
    for (policy, words) in cases {
        let found = with_policy(policy).map(|_| ()).unwrap_err();
        assert!(found.contains(words), "{policy}: {found}");
    }
}

#[test]
fn refusals_name_place_and_expectation() {
    #[rustfmt::skip]
    let cases = [
        ("seconds = 2", "secs = 2", "secs = 2", "unknown field `secs`, expected one of `title`"),
        ("rounds = 3", "rounds = 0", "0\n", "expected a whole number from 1 to 1000"),
        ("rounds = 3", "rounds = \"3\"", "\"3\"", "invalid type: string \"3\""),
        ("\"c-raw-fast\"", "\"c-row-fast\"", "[\"none\"", "expected none, accept, nftables, or {rust,c}"),
        ("\"c-raw-fast\"", "\"none\"", "\"none\", \"rust-raw-fast#2\"", "none is named twice"),
        ("\"udp-flood\"", "\"udp\"", "\"udp\"", "unknown variant `udp`, expected one of `tcp-stream`"),
        ("[18]", "[]", "[]", "expected at least one value"),
        ("\"udp-flood\"", "\"tls-connect\"", "[[workload]]", "tls-connect: expected loopback only"),
        ("[18]", "[65508]", "[[workload]]", "payload_bytes 65508 of udp-flood: expected 1 to 65507"),
        ("\"udp-flood\"", "\"tcp-probe\"", "[[workload]]", "payload_bytes 18 of tcp-probe: expected 0"),
        ("[\"ethr\", ", "[\"ether\", ", "\"ether\"", "expected one of `builtin`, `ethr`, `iperf3`, `scanner`"),
        ("b = \"c-raw-fast\"", "b = \"c\"", "[[compare]]", "there is no subject \"c\" here"),
        ("rounds = 3", "rounds = 3\nbaseline = \"x\"", "\"x\"", "there is no subject \"x\" here"),
        ("rounds = 3", "rounds = 3\nqueues = [0]", "0]", "queues 0: expected 1 to 16"),
        ("rounds = 3", "rounds = 3\nqueues = [1, 2]", "[[workload]]", "several queues"),
        ("    workload = \"udp-flood\"", "workload = \"tcp-stream\"", "[[figure]]", "figure \"f\": no [[workload]]"),
        ("label = \"R\"\n    workload = \"udp-flood\"", "label = \"R\"\nworkload = \"tcp-connect\"", "[[reference]]", "reference \"R\": no [[workload]]"),
        ("name = \"other\"", "name = \"none\"", "[[peer]]", "no name of ours"),
        ("kind = \"dots\"", "kind = \"growth\"", "[[figure]]", "figure \"f\": growth is over"),
        ("kind = \"dots\"", "kind = \"dots\"\npolicy = \"ports\"", "[[figure]]", "figure \"f\": no [[workload]] has"),
        ("[[compare]]", "[[variant]]\nname = \"v\"\nof = \"none\"\noptions = []\n[[compare]]", "[[variant]]", "v: none is no twin"),
        ("[[compare]]", "[[variant]]\nname = \"v\"\nof = \"c-raw-fast\"\npolicy = \"names-0\"\n[[compare]]", "\"names-0\"", "expected KIND-SIZE"),
        ("[[compare]]", "[[claim]]\nsubject = \"none\"\npolicy = \"ports\"\nmetric = \"x\"\nfrom = 1\nto = 2\nat_most = 1.0\n[[compare]]", "[[claim]]", "no [[workload]] has ports in size 1"),
        ("rounds = 3\n", "", "", "missing field `rounds`: not all loads are in slices"),
        ("[\"ethr\", \"builtin\"]", "[\"builtin\"]", "", "`rounds`: all loads are in slices"),
        ("[[compare]]", "[slices]\nmilliseconds = 0\n[[compare]]", "0\n", "a whole number from 1 to 10000"),
        ("[[compare]]", "[slices]\norder = \"random\"\n[[compare]]", "\"random\"", "expected `turned` or `rotated`"),
        ("[\"ethr\", \"builtin\"]\n    path = [\"loopback\", \"veth\"]\n    payload_bytes = [18]", "[\"ethr\"]\npayload_bytes = [18]\n[slices]\n", "", "no load is in slices"),
        ("title = \"T\"", "title = T", "T\n", ""),
    ];
    for (from, to, place, words) in cases {
        let (at, found) = refused(from, to);
        assert!(found.contains(words), "{to}: {found}");
        assert!(at.starts_with(place), "{to}: {found} at {at}");
    }
}

#[test]
fn places_are_counted_from_one() {
    assert_eq!(line_and_column("ab\ncd", 0), (1, 1));
    assert_eq!(line_and_column("ab\ncd", 4), (2, 2));
    assert_eq!(line_and_column("ab\ncd", 99), (2, 3));
}

#[test]
fn a_refusal_of_a_file_names_the_file() {
    let file = std::env::temp_dir().join(format!("twinwall-{}.toml", std::process::id()));
    fs::write(&file, "title = 1\n").unwrap();
    let error = Experiment::read(&file).unwrap_err().to_string();
    fs::remove_file(&file).unwrap();
    assert!(
        error.starts_with(&format!("{}:1:9: invalid type", file.display())),
        "{error}"
    );
}

#[test]
fn every_shipped_experiment_is_valid() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("experiments");
    let files = files(&folder).unwrap();
    assert_eq!(files.len(), 22);
    for file in files {
        Experiment::read(&file).unwrap();
    }
}

fn exchanges(workload: &str, path: &str, subject: &str) -> String {
    format!(
        "title = \"t\"\nkind = \"exchange\"\nquestion = \"q\"\nrounds = 1\nwarmup_seconds = 0\nseconds = 1\n\
         baseline = \"{subject}\"\nsubjects = [\"{subject}\"]\n\
         [[workload]]\nname = \"{workload}\"\npath = [\"{path}\"]\npayload_bytes = [64]\n"
    )
}

#[test]
fn exchanges_and_traffic_do_not_mix() {
    let parse = |text: &str| Experiment::parse("x", text).map_err(|refusal| refusal.words);
    assert!(parse(&exchanges("call", "vm", "ipc-pipe")).is_ok());
    assert!(parse(&exchanges("call", "host", "ipc-pipe")).is_ok());
    assert!(parse(&exchanges("packet", "vm", "ring-dax")).is_ok());
    for (workload, path, subject) in [
        ("call", "loopback", "ipc-pipe"),
        ("udp-flood", "host", "ipc-pipe"),
        ("packet", "vm", "ipc-pipe"),
        ("call", "vm", "ring-dax"),
        ("call", "vm", "rust-raw-fast"),
    ] {
        let words = parse(&exchanges(workload, path, subject)).unwrap_err();
        assert!(words.contains("kind"), "{words}");
    }
    let words = parse(&exchanges("packet", "host", "ring-dax")).unwrap_err();
    assert!(words.contains("over vm"), "{words}");
    let traffic = exchanges("udp-flood", "loopback", "none").replace("kind = \"exchange\"\n", "");
    let traffic = traffic.replace("path =", "runner = [\"iperf3\"]\npath =");
    assert!(parse(&traffic).is_ok());
    assert!(parse(&traffic.replace("udp-flood", "call")).is_err());
    assert!(parse(&traffic.replace("none", "ipc-pipe")).is_err());
    let capture = |workload: &str, path: &str, subject: &str| {
        let text = exchanges(workload, path, subject).replace("\"exchange\"", "\"capture\"");
        parse(&text.replace("[64]", "[1500]"))
    };
    assert!(capture("frames", "veth", "capture-recvmmsg-thp").is_ok());
    assert!(capture("frames-file", "veth", "record-netsniff-ng").is_ok());
    for (workload, path, subject) in [
        ("frames", "loopback", "capture-recvmmsg-thp"),
        ("udp-flood", "veth", "capture-recvmmsg-thp"),
        ("frames", "veth", "none"),
        ("frames", "veth", "capture-tpacket3-thp"),
        ("frames", "veth", "record-tcpdump"),
        ("frames-file", "veth", "capture-recvmmsg-4k"),
        ("udp-flood", "veth", "record-tcpdump"),
    ] {
        assert!(capture(workload, path, subject).is_err(), "{subject}");
    }
}

#[test]
fn frames_have_sizes_that_can_be_sent() {
    let parse = |workload: &str, subject: &str, bytes: u32| {
        let text = exchanges(workload, "veth", subject).replace("\"exchange\"", "\"capture\"");
        let text = text.replace("[64]", &format!("[{bytes}]"));
        Experiment::parse("x", &text).map_err(|refusal| refusal.words)
    };
    for (workload, subject, least, most) in [
        ("frames", "capture-recvmmsg-thp", 700, 1500),
        ("frames-neighbour", "capture-recvmmsg-thp", 700, 1500),
        ("frames-file", "record-tcpdump", 700, 1500),
        ("frames-file-paced", "record-tcpdump", 60, 1514),
    ] {
        for (bytes, is_allowed) in [
            (least - 1, false),
            (least, true),
            (most, true),
            (most + 1, false),
        ] {
            let parsed = parse(workload, subject, bytes);
            assert_eq!(
                parsed.is_ok(),
                is_allowed,
                "{workload} {bytes}: {:?}",
                parsed.err()
            );
        }
    }
}

#[test]
fn only_exchanges_in_the_machine_have_rounds_of_their_own() {
    let parse = |text: &str| Experiment::parse("x", text).map_err(|refusal| refusal.words);
    let with = |path| exchanges("call", path, "ipc-pipe") + "rounds = 3\n";
    assert_eq!(parse(&with("vm")).unwrap().workloads[0].rounds, Some(3));
    assert!(parse(&with("host")).unwrap_err().contains("over vm alone"));
    assert!(parse(&with("vm").replace("= 3", "= 0")).is_err());
}

#[test]
fn every_shipped_experiment_has_a_pair_of_copies() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("experiments");
    for file in files(&folder).unwrap() {
        let experiment = Experiment::read(&file).unwrap();
        let names: Vec<String> = experiment.subjects.iter().map(Subject::name).collect();
        let copies = names.iter().filter_map(|name| original(name));
        let pairs = copies.filter(|name| names.iter().any(|other| other == name));
        assert!(pairs.count() > 0, "{}: {names:?}", experiment.name);
    }
}

#[test]
fn shipped_results_would_rest_on_enough() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("experiments");
    for file in files(&folder).unwrap() {
        let experiment = Experiment::read(&file).unwrap();
        let plans = &experiment.workloads;
        let in_slices = |plan: &WorkloadPlan| plan.runner.contains(&RunnerName::Builtin);
        if plans.iter().any(in_slices) && experiment.kind == ExperimentKind::Traffic {
            assert!(experiment.slices.rounds >= 40, "{}", experiment.name);
        }
        if !plans.iter().all(WorkloadPlan::only_sliced) {
            assert!(
                experiment.rounds as usize >= LEAST_ROUNDS,
                "{}",
                experiment.name
            );
        }
    }
}

#[test]
fn a_shipped_experiment_takes_five_minutes_or_has_a_reason() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("experiments");
    for file in files(&folder).unwrap() {
        let experiment = Experiment::read(&file).unwrap();
        let (rounds, counted) = (experiment.rounds, experiment.count_syscalls);
        let planned = expected(amount(&experiment, rounds, counted, |_| true));
        assert_eq!(
            planned.as_secs() > MOST_SECONDS,
            experiment.long.is_some(),
            "{}: about {}, and its reason: {:?}",
            experiment.name,
            in_words(planned),
            experiment.long
        );
    }
}
