// SPDX-License-Identifier: GPL-2.0-or-later
//! Tests of the program's command line.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use harness::store::{Sample, Store};
use nix::sys::signal::{kill, Signal};
use nix::unistd::Pid;
use testbed::wait::{until, PATIENCE};

/// Experiment file with two subjects without a firewall, so that no other program is needed.
const EXPERIMENT: &str = r#"
title = "Nothing against nothing"
question = "Are two of the same alike?"
subjects = ["none", "none#2"]

[slices]
rounds = 4

[[workload]]
name = "udp-flood"
payload_bytes = [18]
"#;

/// A folder that is deleted on drop.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let folder =
            std::env::temp_dir().join(format!("twinwall-cli-{}-{name}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        Folder(folder)
    }

    fn experiment(&self, text: &str) -> String {
        let file = self.0.join("x.toml");
        fs::write(&file, text).unwrap();
        file.to_str().unwrap().into()
    }

    fn out(&self) -> String {
        self.0.join("out").to_str().unwrap().into()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn harness(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_harness"));
    command
        .args(arguments)
        .current_dir(env!("CARGO_MANIFEST_DIR"));
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn refused(arguments: &[&str]) -> String {
    let Output { status, stderr, .. } = harness(arguments).output().unwrap();
    assert_eq!(status.code(), Some(1), "{}", text(&stderr));
    text(&stderr)
}

#[test]
fn the_experiments_are_listed_with_their_questions() {
    let output = harness(&["list"]).output().unwrap();
    let text = text(&output.stdout);
    for name in [
        "backends", "demo", "paper", "peers", "probe", "rules", "scale", "twins",
    ] {
        assert!(
            text.lines()
                .any(|line| line.starts_with(name) && line.ends_with('?')),
            "{text}"
        );
    }
}

#[test]
fn a_result_that_is_not_that_of_its_file_is_stale() {
    let folder = Folder::new("verify");
    // A repository of one experiment.
    for name in ["harness/experiments", "rules", "result"] {
        fs::create_dir_all(folder.0.join(name)).unwrap();
    }
    let file = folder.0.join("harness/experiments/x.toml");
    fs::write(&file, EXPERIMENT).unwrap();
    let root = fs::canonicalize(&folder.0).unwrap();
    let out = root.join("result/x");
    let run = |arguments: &[&str]| {
        let output = harness(arguments).current_dir(&root).output().unwrap();
        let words = text(&output.stdout) + &text(&output.stderr);
        (output.status.code(), words)
    };
    let (code, words) = run(&["run", "x", "--out", out.to_str().unwrap()]);
    assert_eq!(code, Some(0), "{words}");
    let (code, words) = run(&["verify"]);
    assert_eq!(code, Some(0), "{words}");
    assert!(words.ends_with("result/x: as its file says\n"), "{words}");
    let changes = [
        (
            "[18]",
            "[18, 64]",
            "udp-flood over loopback, payload 64 B: no sample",
        ),
        ("[18]", "[20]", "payload 18 B: not in the file"),
        ("rounds = 4", "rounds = 5", "slices: the file says"),
        (
            "\"none#2\"",
            "\"none#2\", \"accept\"",
            "subjects: the file says",
        ),
        (
            "alike?",
            "equal?",
            "question: the file says \"Are two of the same equal?\"",
        ),
    ];
    for (from, to, wanted) in changes {
        fs::write(&file, EXPERIMENT.replace(from, to)).unwrap();
        let (code, words) = run(&["verify"]);
        assert_eq!(code, Some(1), "{words}");
        assert!(words.contains(wanted), "{words}");
        assert!(words.contains("1 of 1 results are stale"), "{words}");
    }
    // The result has more rounds than the file asks for.
    fs::write(&file, EXPERIMENT.replace("rounds = 4", "rounds = 3")).unwrap();
    let (code, words) = run(&["verify"]);
    assert_eq!(code, Some(0), "{words}");
    fs::write(&file, EXPERIMENT).unwrap();
    let store = Store::open(&out);
    let samples: Vec<Sample> = store.read().unwrap();
    store.rewrite(&samples[..4]).unwrap();
    let (code, words) = run(&["verify"]);
    assert!(
        code == Some(1) && words.contains("summary.csv does not follow"),
        "{words}"
    );
    fs::write(out.join("metadata.json"), "{}").unwrap();
    let (code, words) = run(&["verify", out.to_str().unwrap()]);
    assert!(
        code == Some(1) && words.contains("metadata.json"),
        "{words}"
    );
}

#[test]
fn refusals_tell_the_cure() {
    let folder = Folder::new("refusals");
    let error = refused(&["run", "nope"]);
    assert!(
        error.contains("expected one of backends, cage, capture-delay, capture-file, capture-neighbour, capture-pages, capture-ring, capture, demo, genl, ipc-time, ipc, names, paper, peers, probe, rules, scale, services-vm, services, stage, twins"),
        "{error}"
    );
    let file = folder.experiment("title = 1\n");
    assert!(refused(&["run", &file]).starts_with(&format!("error: {file}:1:9: invalid type")));
    let file = folder.experiment(EXPERIMENT);
    let error = refused(&["run", &file, "--subject", "x"]);
    assert!(error.contains("expected 'NAME=COMMAND LINE'"), "{error}");
    let probe = EXPERIMENT.replace("[18]", "[0]\nrunner = [\"scanner\"]");
    let times = "rounds = 4\nwarmup_seconds = 0\nseconds = 1\n\n";
    let probe = probe.replace("[slices]\nrounds = 4\n\n", "");
    let probe = probe.replace("subjects", &format!("{times}subjects"));
    let file = folder.experiment(&probe.replace("udp-flood", "tcp-probe"));
    let empty = folder.0.to_str().unwrap();
    for (more, words) in [
        (["--bin-dir", empty], "/scanner: build it with make build"),
        (
            ["--runner", "builtin"],
            "builtin does not make tcp-probe: use --runner scanner",
        ),
        (
            ["--host", "--resume"],
            "nothing of this experiment can be measured on the machine itself: leave --host out",
        ),
    ] {
        let error = refused(&[&["run", &file][..], &more].concat());
        assert!(error.contains(words), "{error}");
    }
    let file = folder.experiment(EXPERIMENT);
    let error = refused(&["run", &file, "--host"]);
    assert!(
        error.contains("loads in slices have namespaces of their own"),
        "{error}"
    );
    let error = refused(&["run", &file, "--runner", "iperf3"]);
    assert!(error.contains("give --rounds and --seconds"), "{error}");
    let error = refused(&["report", &folder.out()]);
    assert!(error.contains("holds no result"), "{error}");
}

#[test]
fn an_interrupted_run_shows_what_it_has_and_goes_on() {
    let folder = Folder::new("interrupted");
    // The rounds of a load are saved at its end: the signal arrives during one of the other loads.
    let loads = EXPERIMENT.replace("rounds = 4", "rounds = 100");
    let loads = loads.replace("[18]", "[18, 64, 128, 256, 512, 1024]");
    let (file, out) = (folder.experiment(&loads), folder.out());
    let run = ["run", &file, "--out", &out];
    let mut child = harness(&run).spawn().unwrap();
    let pid = Pid::from_raw(child.id() as i32);
    until("a round is kept", PATIENCE, || {
        // A row that is being written can't be read.
        let rows = Store::open(&folder.0.join("out")).read::<Sample>();
        Ok(rows.is_ok_and(|rows| !rows.is_empty()))
    })
    .unwrap();
    assert!(child.try_wait().unwrap().is_none());
    kill(pid, Signal::SIGINT).unwrap();
    let output = child.wait_with_output().unwrap();
    let (words, table) = (text(&output.stderr), text(&output.stdout));
    assert_eq!(output.status.code(), Some(130), "{words}");
    assert!(
        words.contains("rounds are kept") && words.contains("--resume"),
        "{words}"
    );
    assert!(table.contains("the run was interrupted"), "{table}");
    let output = harness(&run)
        .args(["--rounds", "7", "--resume"])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    let report = fs::read_to_string(folder.0.join("out/report.md")).unwrap();
    assert!(
        report.starts_with("# Nothing against nothing\n"),
        "{report}"
    );
    // The first load has all its rounds, and the rounds of the interrupted load are repeated.
    assert!(report.contains("98.4 % interval of 7 rounds"), "{report}");
    assert!(report.contains("| none#2 |"), "{report}");
}

#[test]
fn a_figure_is_drawn_from_the_table_beside_it() {
    let folder = Folder::new("plot");
    let (file, out) = (folder.experiment(EXPERIMENT), folder.out());
    let run = harness(&["run", &file, "--out", &out]).output().unwrap();
    assert!(run.status.success(), "{}", text(&run.stderr));
    let written = ["summary.csv", "report.md", "udp-flood-loopback-dots.svg"];
    let read = || written.map(|name| fs::read_to_string(folder.0.join("out").join(name)).unwrap());
    let first = read();
    // Figures must not use values of summary.csv that don't follow from samples.csv.gz.
    let changed = first[0].replace(",4,", ",4,9");
    assert_ne!(changed, first[0]);
    fs::write(folder.0.join("out/summary.csv"), changed).unwrap();
    let plot = harness(&["plot", &out]).output().unwrap();
    assert!(plot.status.success(), "{}", text(&plot.stderr));
    assert_eq!(read(), first);
}
