// SPDX-License-Identifier: GPL-2.0-or-later
//! Bad input: one line with place and cure, and the exit code.

use std::process::Command;

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
    ] {
        refused(words, 2, wanted);
    }
}
