// SPDX-License-Identifier: GPL-2.0-or-later
//! Bad input yields one line with place and cure, and the exit code.

use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};

use testbed::wait::{until, PATIENCE};

use crate::place::Bound;

fn refused(words: &[&str], code: i32, wanted: &str) {
    let output = Command::new(env!("CARGO_BIN_EXE_scanner"))
        .args(words)
        .output()
        .unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(code), "{words:?}: {stderr}");
    assert!(stderr.contains(wanted), "{words:?}: {stderr}");
    assert!(output.stdout.is_empty(), "{words:?}");
    assert_eq!(stderr.lines().count(), 1, "{words:?}: {stderr}");
}

#[test]
fn one_line_each() {
    for (words, wanted) in [
        (&["10.0.0.1"][..], "no port: say which"),
        (&["-p", "22"], "no target: name"),
        (&["10.0.0.1", "-p", "0"], "--ports: \"0\""),
        (
            &["10.0.0.1", "10.0.0.0/40", "-p", "1"],
            "target 2: \"10.0.0.0/40\"",
        ),
        (&["8.8.8.8", "-p", "1"], "--i-am-authorised"),
        (
            &["--targets", "/nonexistent", "-p", "1"],
            "/nonexistent: cannot be read",
        ),
        (
            &["10.0.0.1", "-p", "1", "--match", "x"],
            "no answer to match",
        ),
        (
            &["10.0.0.1", "-p", "1", "--ssh", "("],
            "--ssh: \"(\", column 1: unclosed group",
        ),
        (
            &["10.0.0.1", "-p", "1", "--http", "--header", "x"],
            "--header: \"x\": NAME: VALUE",
        ),
        (
            &["10.0.0.1", "-p", "1", "--from", "no-such-ns"],
            "--from no-such-ns",
        ),
        (
            &["10.0.0.1", "-p", "1", "--resume", "/proc/self/stat"],
            "no file of --resume",
        ),
        (
            &["10.0.0.1", "-p", "1", "--resume", "/nonexistent/file"],
            "--resume /nonexistent/file: cannot be written",
        ),
        (
            &["10.0.0.1", "-p", "1", "--resume", ""],
            "'--resume <FILE>'",
        ),
        (&["10.0.0.1", "-p", "1", "--nonsense"], "'--nonsense'"),
        (&["10.0.0.1", "-p"], "'--ports <PORTS>'"),
        (
            &["10.0.0.1", "-p", "1", "-o", "x"],
            "nmap-xml]: scanner --help",
        ),
        (
            &["10.0.0.1", "-p", "1", "--ssh", "x", "--tls"],
            "--tls: goes with --http only",
        ),
        (
            &["10.0.0.1", "-p", "1", "--to", "10.0.0.2"],
            "--to: goes with --verify only",
        ),
        (&["fe80::1", "-p", "1"], "name it, as in fe80::1%eth0"),
    ] {
        refused(words, 2, wanted);
    }
}

/// Before the scan a signal ends the program by default, also while it waits for targets.
#[test]
fn a_signal_before_the_scan_ends_the_program() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_scanner"))
        .args(["--targets", "-", "-p", "1"])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let _bound = Bound::new(&child);
    let waits = || std::fs::read_to_string(format!("/proc/{}/wchan", child.id())).unwrap();
    until("it reads its targets", PATIENCE, || {
        Ok(waits().contains("pipe"))
    })
    .unwrap();
    // SAFETY: kill(2) touches no memory; the child is not waited for yet, so its process id is not reused.
    unsafe { libc::kill(child.id() as i32, libc::SIGINT) };
    // The program's stdin stays open until the program has ended.
    let stdin = child.stdin.take();
    let status = child.wait().unwrap();
    drop(stdin);
    assert_eq!(status.signal(), Some(libc::SIGINT));
}
