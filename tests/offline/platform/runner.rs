// SPDX-License-Identifier: GPL-2.0-or-later
//! Tests tests/run, which counts executed tests. A part without any executed test fails; otherwise it could stay empty
//! for years. A failed test runs once more, alone, and is reported as unsteady if it passes, never as passed.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Output};

use anyhow::ensure;
use testbed::twin::root;
use twinwall_tests::case::Case;

pub fn cases() -> Vec<Case> {
    vec![
        Case::new("runner/parts-are-counted", counted),
        Case::new("runner/nothing-ran-is-a-failure", nothing_ran),
        Case::new("runner/a-filter-that-leaves-none", none_left),
        Case::new("runner/what-fails-again-has-failed", fails_again),
        Case::new("runner/what-then-passes-is-unsteady", passes_then),
        Case::new("runner/a-crash-is-a-failure", crashed),
        Case::new("runner/every-folder-is-a-part", every_folder),
    ]
}

const ONE_PASSED: &str = "test result: ok. 1 passed; 0 failed; 0 ignored";
const NONE: &str = "test result: ok. 0 passed; 0 failed; 0 ignored";

/// Script of a program with one test, with the output format of libtest. The test fails the first $FAILURES times.
const PROGRAM: &str = r#"
    echo run >>"$RUNS"
    if [ $(wc -l <"$RUNS") -gt $FAILURES ]; then
        echo "test some::test ... ok"
        echo "test result: ok. 1 passed; 0 failed; 0 ignored"
        exit
    fi
    printf '%s\n' "test some::test ... FAILED" "" "failures:" "" \
        "---- some::test stdout ----" "this is why" "failures:" "    some::test" ""
    echo "test result: FAILED. 0 passed; 1 failed; 0 ignored"
    exit 101
"#;

/// Runs two programs as one part of the tests, with the functions of tests/run-part: PROGRAM, and the script `other`.
/// - failures: number of runs in which PROGRAM's test fails; later runs pass.
fn run_twice(failures: u32, other: &str) -> anyhow::Result<Output> {
    let folder = std::env::temp_dir().join(format!("twinwall-runner-{}", std::process::id()));
    fs::create_dir_all(&folder)?;
    let program = |name: &str, script: &str| -> anyhow::Result<String> {
        let path = folder.join(name);
        fs::write(&path, format!("#!/bin/bash\n{script}"))?;
        fs::set_permissions(&path, Permissions::from_mode(0o755))?;
        Ok(format!("tests\t{}", path.display()))
    };
    let programs = [program("program", PROGRAM)?, program("other", other)?].join("\n");
    let script = "
        LOGS=$FOLDER/logs; wanted=(); . tests/run-part; begin
        part some 10 libtest bash -c 'run_programs \"$@\"' -
        retry; summary
    ";
    let output = Command::new("bash")
        .args(["-c", script])
        .env("FOLDER", &folder)
        .env("RUNS", folder.join("runs"))
        .env("FAILURES", failures.to_string())
        .env("PROGRAMS", programs)
        .env_remove("AS_ROOT")
        .current_dir(root())
        .output()?;
    fs::remove_dir_all(folder)?;
    Ok(output)
}

/// Runs parts as tests/run does.
/// - wanted: names of the parts to run, separated by blanks; "" for all parts.
/// - parts: name, way of counting (libtest, cmocka or step), and the output of the part's runner.
fn run(wanted: &str, parts: &[(&str, &str, &str)]) -> anyhow::Result<Output> {
    let logs = std::env::temp_dir().join(format!("twinwall-runner-{}", std::process::id()));
    let mut script = format!(
        "LOGS='{}'; wanted=({wanted}); . tests/run-part; begin\n",
        logs.display()
    );
    for (name, counter, words) in parts {
        script += &format!("part '{name}' 10 {counter} echo '{words}'\n");
    }
    let output = Command::new("bash")
        .args(["-c", &(script + "summary")])
        .current_dir(root())
        .output()?;
    fs::remove_dir_all(logs)?;
    Ok(output)
}

fn expect(output: &Output, last: &str, success: bool) -> anyhow::Result<()> {
    expect_end(output, &format!("\n{last}\n"))?;
    ensure!(output.status.success() == success, "{}", output.status);
    Ok(())
}

fn counted() -> anyhow::Result<()> {
    let parts = [("one", "libtest", ONE_PASSED), ("step", "step", "")];
    expect(&run("", &parts)?, "2 passed, 0 failed, 0 skipped", true)?;
    expect(&run("one", &parts)?, "1 passed, 0 failed, 0 skipped", true)
}

fn nothing_ran() -> anyhow::Result<()> {
    let parts = [
        ("one", "libtest", ONE_PASSED),
        ("empty", "libtest", NONE),
        ("silent", "cmocka", "[==========] 0 test(s) run."),
    ];
    expect(&run("", &parts)?, "1 passed, 2 failed, 0 skipped", false)
}

/// Tests a filter that matches no part, and a filter that matches no case.
fn none_left() -> anyhow::Result<()> {
    let parts = [("one", "libtest", ONE_PASSED)];
    let output = run("one other", &parts)?;
    expect(&output, "1 passed, 1 failed, 0 skipped", false)?;
    let program = std::env::current_exe()?;
    let output = Command::new(program).arg("no-case-is-called-so").output()?;
    ensure!(!output.status.success(), "a program without a case is well");
    Ok(())
}

/// Checks that a run's output ends with `end` (the counts, and before them a short list of the failed tests).
fn expect_end(output: &Output, end: &str) -> anyhow::Result<()> {
    let text = String::from_utf8_lossy(&output.stdout);
    ensure!(text.ends_with(end), "{text}");
    Ok(())
}

fn fails_again() -> anyhow::Result<()> {
    let output = run_twice(2, &format!("echo '{ONE_PASSED}'"))?;
    expect(&output, "1 passed, 1 failed, 0 skipped", false)?;
    expect_end(
        &output,
        "\n  some/some::test\n      this is why\n1 passed, 1 failed, 0 skipped\n",
    )
}

fn passes_then() -> anyhow::Result<()> {
    let output = run_twice(1, &format!("echo '{ONE_PASSED}'"))?;
    expect(
        &output,
        "1 unsteady: failed first, passed alone; counted as neither\n1 passed, 0 failed, 0 skipped",
        true,
    )?;
    let told = "\n== failed first, passed alone: some/some::test\n      this is why\n";
    let text = String::from_utf8_lossy(&output.stdout);
    ensure!(text.contains(told), "{text}");
    ensure!(!text.contains("== failed: "), "{text}");
    Ok(())
}

/// Tests that a program that crashes without naming a failed test stays failed, even if a test passes in the end.
fn crashed() -> anyhow::Result<()> {
    let output = run_twice(1, "echo 'test other ... ok'; kill -SEGV $$")?;
    expect(
        &output,
        "1 unsteady: failed first, passed alone; counted as neither\n0 passed, 1 failed, 0 skipped",
        false,
    )
}

/// Tests that each folder of tests has a line in tests/parts. Without the line the folder would never run.
fn every_folder() -> anyhow::Result<()> {
    let parts = fs::read_to_string(root().join("tests/parts"))?;
    let name = |line: &str| line.split_whitespace().nth(3).map(str::to_owned);
    let lines = parts.lines().filter(|line| !line.starts_with('#'));
    let named: Vec<String> = lines.filter_map(name).collect();
    for folder in folders("vm/tests")? {
        let line = format!("vm {folder}");
        ensure!(
            parts.lines().any(|part| part.ends_with(&line)),
            "tests/parts has no line for vm/tests/{folder}"
        );
    }
    for program in ["tests/live", "tests/offline"] {
        for folder in folders(program)? {
            ensure!(
                named.contains(&folder.replace('_', "-")),
                "tests/parts has no line for {program}/{folder}"
            );
        }
    }
    Ok(())
}

/// Returns the names of the folders in a folder of the checkout.
fn folders(path: &str) -> anyhow::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(root().join(path))? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            names.push(entry.file_name().to_string_lossy().into_owned());
        }
    }
    Ok(names)
}
