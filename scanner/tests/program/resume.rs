// SPDX-License-Identifier: GPL-2.0-or-later
//! An interrupted scan and its continuation.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use testbed::netns::Namespace;
use testbed::wait::{until, PATIENCE};

use crate::place::{filter, namespace, scan, text, Bound};
use serde_json::Value;

/// A resume file, removed on drop.
struct File(PathBuf);

impl File {
    fn new(name: &str) -> File {
        let name = format!("scanner-resume-test-{name}-{}", std::process::id());
        let file = File(std::env::temp_dir().join(name));
        let _ = std::fs::remove_file(&file.0);
        file
    }

    fn name(&self) -> &str {
        self.0.to_str().unwrap()
    }
}

impl Drop for File {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Number of reports of each target.
#[derive(Default)]
struct Told(BTreeMap<String, u32>);

impl Told {
    fn take(&mut self, result: &Value) {
        let target = format!("{}:{}", result["address"], result["port"]);
        *self.0.entry(target).or_default() += 1;
    }
}

/// Runs a scan and interrupts it after `results` results. Its rate must be so low that it can't end before the signal.
/// Adds all its results to `told`; returns the summary.
fn interrupted(place: &Namespace, words: &str, results: usize, told: &mut Told) -> Value {
    let mut child = place
        .command(env!("CARGO_BIN_EXE_scanner"))
        .args(words.split_whitespace())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let _bound = Bound::new(&child);
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut last = Value::Null;
    for (at, line) in lines.enumerate() {
        if at + 1 == results {
            // SAFETY: kill(2) touches no memory; the child is not waited for yet, so its process id is not reused.
            unsafe { libc::kill(child.id() as i32, libc::SIGINT) };
        }
        last = serde_json::from_str(&line.unwrap()).unwrap();
        match last.get("summary") {
            Some(summary) => last = summary.clone(),
            None => told.take(&last),
        }
    }
    let mut stderr = String::new();
    let mut pipe = child.stderr.take().unwrap();
    pipe.read_to_string(&mut stderr).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(4), "{stderr}");
    assert!(stderr.contains("interrupted: "), "{stderr}");
    assert_eq!(last["interrupted"], true);
    last
}

/// Runs a scan to its end. Adds its results to `told`; returns the summary.
fn finished(place: &Namespace, words: &str, told: &mut Told) -> Value {
    let output = scan(place, words);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let (results, summary) = crate::place::parsed(&output);
    results.iter().for_each(|result| told.take(result));
    summary
}

fn each_once(told: &Told, targets: usize) {
    assert_eq!(told.0.len(), targets);
    let often: Vec<_> = told.0.iter().filter(|(_, &times)| times != 1).collect();
    assert!(often.is_empty(), "{often:?}");
}

#[test]
fn an_interrupted_scan_goes_on_and_asks_all() {
    let place = namespace();
    let (file, mut told) = (File::new("connect"), Told::default());
    let words = format!(
        "127.0.0.0/22 -p 1-4 --show all -o json --resume {}",
        file.name()
    );
    let slow = format!("{words} --rate 300");
    for _ in 0..2 {
        interrupted(&place, &slow, 1000, &mut told);
        assert!(file.0.exists());
    }
    let so_far = told.0.len() as u64;
    let summary = finished(&place, &words, &mut told);
    assert_eq!(summary["targets"], 4096 - so_far);
    each_once(&told, 4096);
    assert!(!file.0.exists(), "a scan that is done leaves no file");
}

/// One target in four never answers. The scan is interrupted while it sends, and while it waits for answers.
#[test]
fn an_interrupted_scan_by_syns_goes_on_and_asks_all() {
    let place = namespace();
    filter(&place, "tcp flags & (syn | ack) == syn tcp dport 4 drop;");
    let (file, mut told) = (File::new("syn"), Told::default());
    // Number of targets that answer; an interruption needs 1,000 results.
    let (answering, results) = (3072, 1000);
    let words = |timeout| {
        format!(
            "127.0.0.0/22 -p 1-4 --syn --rate 1000 --show all -o json --resume {} --timeout {timeout}",
            file.name()
        )
    };
    let are_in_time = || {
        let _ = std::fs::remove_file(&file.0);
        told = Told::default();
        for _ in 0..2 {
            if told.0.len() + results > answering {
                return Ok(false);
            }
            let before = told.0.len();
            interrupted(&place, &words(20_000), results, &mut told);
            assert!(told.0.len() >= before + results, "{}", told.0.len());
        }
        Ok(told.0.len() < answering)
    };
    until("nothing delays the interruptions", PATIENCE, are_in_time).unwrap();
    let (before, open) = (told.0.len(), answering - told.0.len());
    let summary = interrupted(&place, &words(20_000), open, &mut told);
    assert_eq!(summary["targets"], 4096 - before);
    assert_eq!(
        told.0.len(),
        answering,
        "of the silent ones nothing is told"
    );
    let summary = finished(&place, &words(100), &mut told);
    assert_eq!(summary["targets"], 1024);
    assert_eq!(summary["reasons"]["timeout"], 1024);
    each_once(&told, 4096);
    assert!(!file.0.exists(), "a scan that is done leaves no file");
}

#[test]
fn a_file_of_another_scan_is_refused() {
    let place = namespace();
    for (by, other) in [("--syn", ""), ("", "--syn")] {
        let file = File::new("other");
        let refused = |words: &str, wanted: &str| {
            let words = format!("127.0.0.0/24 {words} --resume {}", file.name());
            let output = scan(&place, &words);
            let stderr = text(&output.stderr);
            assert_eq!(output.status.code(), Some(2), "{words}: {stderr}");
            assert!(stderr.contains(wanted), "{words}: {stderr}");
            assert_eq!(stderr.lines().count(), 1, "{stderr}");
            assert!(file.0.exists());
        };
        let words = format!("-p 1-4 {by} --show all -o json");
        let resumed = format!("127.0.0.0/24 {words} --rate 100 --resume {}", file.name());
        interrupted(&place, &resumed, 10, &mut Told::default());
        refused(&words.replace("1-4", "1-5"), "other targets, ports");
        for order in ["--sequential", "--seed 1"] {
            refused(&format!("{words} {order}"), "is of another order: leave");
        }
        refused(
            &format!("-p 1-4 {other}"),
            "ask the same as then, or remove it",
        );
        damage(&file.0);
        refused(&words, "is damaged: remove it");
        std::fs::write(&file.0, "no object").unwrap();
        refused(&words, "is no file of --resume");
    }
}

/// An interrupted scan can't be continued with a different expression or a different HTTP request.
#[test]
fn a_file_of_another_question_is_refused() {
    let place = namespace();
    for (asked, others) in [
        ("--ssh ^SSH", &["--ssh ^SSH --match x", "--ssh x"][..]),
        (
            "--http",
            &[
                "--http --path /x",
                "--http --header X:1",
                "--http --match x",
            ],
        ),
    ] {
        let file = File::new("question");
        let words = |asked| {
            let file = file.name();
            format!("127.0.0.0/24 -p 1-4 {asked} --show all -o json --resume {file}")
        };
        let slow = format!("{} --rate 100", words(asked));
        interrupted(&place, &slow, 10, &mut Told::default());
        let before = std::fs::read(&file.0).unwrap();
        for other in others {
            let output = scan(&place, &words(other));
            let stderr = text(&output.stderr);
            assert_eq!(output.status.code(), Some(2), "{other}: {stderr}");
            assert!(
                stderr.contains("other targets, ports, request or expressions"),
                "{stderr}"
            );
            assert_eq!(stderr.lines().count(), 1, "{stderr}");
            assert_eq!(std::fs::read(&file.0).unwrap(), before);
        }
        finished(&place, &words(asked), &mut Told::default());
    }
}

/// Changes the first digit of `start` in a resume file.
fn damage(file: &Path) {
    let text = std::fs::read_to_string(file).unwrap();
    let at = text.find("\"start\":").unwrap() + "\"start\":".len();
    let digit = if text.as_bytes()[at] == b'1' {
        "2"
    } else {
        "1"
    };
    std::fs::write(file, [&text[..at], digit, &text[at + 1..]].concat()).unwrap();
}

/// When a scan is interrupted, its unanswered connection attempts are given up at once, in any state.
#[test]
fn an_interrupted_scan_of_silent_hosts_ends() {
    let place = namespace();
    filter(&place, "tcp dport 25 drop;");
    for engine in ["io_uring", "epoll"] {
        for results in [300, 700, 1500, 2100] {
            let (file, mut told) = (File::new("silent"), Told::default());
            // Some targets are in their second attempt at the interruption.
            let words = format!(
                "127.0.0.0/20 -p 24,25 --rate 1000 --timeout 300 --rings 2 --engine {engine} --show all -o json --resume {}",
                file.name()
            );
            let start = Instant::now();
            interrupted(&place, &words, results, &mut told);
            assert!(start.elapsed() < Duration::from_secs(300), "{words}");
        }
    }
}
