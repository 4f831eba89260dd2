// SPDX-License-Identifier: GPL-2.0-or-later
//! The program as its user meets it.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use nix::sys::signal::{kill, Signal};
use nix::unistd::Pid;

/// Two subjects without a firewall, so that no other program is needed.
const EXPERIMENT: &str = r#"
title = "Nothing against nothing"
question = "Are two of the same alike?"
rounds = 4
warmup_seconds = 0
seconds = 1
subjects = ["none", "none#2"]

[[workload]]
name = "udp-flood"
payload_bytes = [18]
"#;

/// A folder that is gone with its value.
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
        "backends", "demo", "paper", "probe", "rules", "scale", "twins",
    ] {
        assert!(
            text.lines()
                .any(|line| line.starts_with(name) && line.ends_with('?')),
            "{text}"
        );
    }
}

#[test]
fn refusals_tell_the_cure() {
    let folder = Folder::new("refusals");
    let error = refused(&["run", "nope"]);
    assert!(
        error.contains("expected one of backends, demo, paper, probe, rules, scale, twins"),
        "{error}"
    );
    let file = folder.experiment("title = 1\n");
    assert!(refused(&["run", &file]).starts_with(&format!("error: {file}:1:9: invalid type")));
    let file = folder.experiment(EXPERIMENT);
    let error = refused(&["run", &file, "--subject", "x"]);
    assert!(error.contains("expected 'NAME=COMMAND LINE'"), "{error}");
    let probe = EXPERIMENT.replace("[18]", "[0]\nrunner = [\"scanner\"]");
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
            "nothing of this experiment can be measured so: leave --host out",
        ),
    ] {
        let error = refused(&[&["run", &file][..], &more].concat());
        assert!(error.contains(words), "{error}");
    }
    let error = refused(&["report", &folder.out()]);
    assert!(error.contains("holds no result"), "{error}");
}

#[test]
fn an_interrupted_run_shows_what_it_has_and_goes_on() {
    let folder = Folder::new("interrupted");
    let (file, out) = (folder.experiment(EXPERIMENT), folder.out());
    let run = ["run", &file, "--out", &out];
    let child = harness(&run).spawn().unwrap();
    let pid = Pid::from_raw(child.id() as i32);
    let rounds_done = || {
        let text = fs::read_to_string(folder.0.join("out/metadata.json")).unwrap_or_default();
        let metadata: serde_json::Value = serde_json::from_str(&text).unwrap_or_default();
        metadata["rounds_done"].as_u64().unwrap_or(0)
    };
    let start = Instant::now();
    while rounds_done() < 1 {
        assert!(
            start.elapsed() < Duration::from_secs(60),
            "no round was finished"
        );
        sleep(Duration::from_millis(50));
    }
    kill(pid, Signal::SIGINT).unwrap();
    let output = child.wait_with_output().unwrap();
    let (words, table) = (text(&output.stderr), text(&output.stdout));
    assert_eq!(output.status.code(), Some(130), "{words}");
    assert!(
        words.contains("1 of 4 rounds are kept") && words.contains("--resume"),
        "{words}"
    );
    assert!(table.contains("only 1 of 4 rounds are there"), "{table}");
    let output = harness(&run)
        .args(["--rounds", "2", "--resume"])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(rounds_done(), 2);
    let report = fs::read_to_string(folder.0.join("out/report.md")).unwrap();
    assert!(
        report.starts_with("# Nothing against nothing\n"),
        "{report}"
    );
    assert!(report.contains("| none#2 |"), "{report}");
}
