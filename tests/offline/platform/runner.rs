// SPDX-License-Identifier: GPL-2.0-or-later
//! tests/run counts what ran, and a part in which nothing ran has failed: otherwise it could be empty for years.

use std::fs;
use std::process::{Command, Output};

use anyhow::ensure;
use testbed::twin::root;
use twinwall_tests::case::Case;

pub fn cases() -> Vec<Case> {
    vec![
        Case::new("runner/parts-are-counted", 30, counted),
        Case::new("runner/nothing-ran-is-a-failure", 30, nothing_ran),
        Case::new("runner/a-filter-that-leaves-none", 30, none_left),
    ]
}

const ONE_PASSED: &str = "test result: ok. 1 passed; 0 failed; 0 ignored";
const NONE: &str = "test result: ok. 0 passed; 0 failed; 0 ignored";

/// Runs parts of a name and of what their runners print, as tests/run does.
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
    let text = String::from_utf8_lossy(&output.stdout);
    ensure!(text.lines().last() == Some(last), "{text}");
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

/// Of the names of parts, and of the names of a program's cases.
fn none_left() -> anyhow::Result<()> {
    let parts = [("one", "libtest", ONE_PASSED)];
    let output = run("one other", &parts)?;
    expect(&output, "1 passed, 1 failed, 0 skipped", false)?;
    let program = std::env::current_exe()?;
    let output = Command::new(program).arg("no-case-is-called-so").output()?;
    ensure!(!output.status.success(), "a program without a case is well");
    Ok(())
}
