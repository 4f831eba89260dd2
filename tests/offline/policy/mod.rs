// SPDX-License-Identifier: GPL-2.0-or-later
//! Tests the policy language in both twins: `check` and `check --print`.
//!
//! NAME.nft in tests/corpus/policy is a policy whose first line describes its purpose. Beside it is NAME.ok, its
//! canonical print, or NAME.err, its error line, without "error: "; NAME.says is further output of `check` after "ok",
//! NAME.warns its warnings. A policy that nft refuses although both twins accept it has a line `# nft: WHY`, which ends
//! with `(nor the print)` if nft refuses the print, too. `generated` has policies that are too large to be stored here.

mod generated;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{ensure, Context};
use testbed::netns::Namespace;
use testbed::place::namespace;
use testbed::twin::{root, Twin, TWINS};
use twinwall_tests::case::Case;

/// Minimum number of accepted policies in tests/corpus/policy: a missing folder must not pass.
const ACCEPTED_MIN: usize = 30;
/// Minimum number of refused policies in tests/corpus/policy.
const REFUSED_MIN: usize = 100;
/// Exit code of a bad policy, as in the text of --help.
const EXIT_USAGE: i32 = 2;

/// Returns all cases of the part.
pub fn cases() -> Vec<Case> {
    let mut cases = vec![
        Case::new("files/all-are-read", all_are_read),
        Case::new("files/every-refused-word", generated::words),
    ];
    // Unreadable files fail the first case.
    for name in names("ok").unwrap_or_default() {
        let (accepted, taken) = (name.clone(), name.clone());
        cases.push(Case::new(format!("accepted/{name}"), move || {
            accepted_and_printed(&accepted)
        }));
        cases.push(Case::new(format!("nft/{name}"), move || {
            taken_by_nft(&taken)
        }));
    }
    for name in names("err").unwrap_or_default() {
        cases.push(Case::new(format!("refused/{name}"), move || {
            refused_alike(&name)
        }));
    }
    cases.extend(generated::cases());
    cases
}

fn folder() -> PathBuf {
    root().join("tests/corpus/policy")
}

fn read(name: &str, ending: &str) -> anyhow::Result<String> {
    let file = folder().join(format!("{name}.{ending}"));
    fs::read_to_string(&file).with_context(|| file.display().to_string())
}

/// Returns the names of the files in tests/corpus/policy with an ending, without the ending, sorted.
fn names(ending: &str) -> anyhow::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder())? {
        let path = entry?.path();
        if path.extension().is_some_and(|found| found == ending) {
            let stem = path.file_stem().unwrap_or_default();
            names.push(stem.to_string_lossy().into_owned());
        }
    }
    names.sort();
    Ok(names)
}

fn all_are_read() -> anyhow::Result<()> {
    let (accepted, refused) = (names("ok")?, names("err")?);
    ensure!(accepted.len() >= ACCEPTED_MIN, "only {accepted:?}");
    ensure!(refused.len() >= REFUSED_MIN, "only {refused:?}");
    let mut judged = [accepted, refused].concat();
    judged.sort();
    let policies = names("nft")?;
    ensure!(judged == policies, "{judged:?}\nfor {policies:?}");
    for name in policies {
        let text = fs::read(folder().join(format!("{name}.nft")))?;
        ensure!(text.starts_with(b"# "), "{name} does not say what it shows");
    }
    Ok(())
}

/// A program's output for a policy check.
#[derive(Debug, PartialEq, Eq)]
pub struct Said {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

/// Runs a twin's `check` in a folder.
pub fn check(twin: Twin, folder: &Path, arguments: &[&str]) -> anyhow::Result<Said> {
    let output = Command::new(twin.binary())
        .arg("check")
        .args(arguments)
        .current_dir(folder)
        .stdin(Stdio::null())
        .output()
        .with_context(|| twin.binary().display().to_string())?;
    Ok(Said {
        code: output.status.code(),
        stdout: String::from_utf8(output.stdout)?,
        stderr: String::from_utf8(output.stderr)?,
    })
}

/// Checks that both twins accept a policy, print `expected` on stdout, and print no warning.
/// - arguments: arguments of `check`, with the policy's path.
pub fn both_say(folder: &Path, arguments: &[&str], expected: &str) -> anyhow::Result<()> {
    both_warn(folder, arguments, expected, "")
}

/// Checks that both twins accept a policy, and print `expected` on stdout and `warnings` on stderr.
/// - arguments: arguments of `check`, with the policy's path.
fn both_warn(
    folder: &Path,
    arguments: &[&str],
    expected: &str,
    warnings: &str,
) -> anyhow::Result<()> {
    for twin in TWINS {
        let said = check(twin, folder, arguments)?;
        let program = twin.program();
        ensure!(
            said.code == Some(0) && said.stderr == warnings,
            "{program}: {:?}, {}\nand not {warnings}",
            said.code,
            said.stderr
        );
        ensure!(
            said.stdout == expected,
            "{program} says\n{}\nand not\n{expected}",
            said.stdout
        );
    }
    Ok(())
}

/// Checks that both twins refuse a policy, by `check` and by `check --print`.
/// - policy: path of the policy, in the folder or absolute.
/// - expected: line on stderr, without "error: " at its start.
pub fn both_refuse(folder: &Path, policy: &str, expected: &str) -> anyhow::Result<()> {
    for twin in TWINS {
        let expected = Said {
            code: Some(EXIT_USAGE),
            stdout: String::new(),
            stderr: format!("error: {expected}\n"),
        };
        for arguments in [&[policy][..], &["--print", policy]] {
            let said = check(twin, folder, arguments)?;
            let program = twin.program();
            ensure!(said == expected, "{program}: {said:?}, not {expected:?}");
        }
    }
    Ok(())
}

fn accepted_and_printed(name: &str) -> anyhow::Result<()> {
    let (policy, print) = (format!("{name}.nft"), format!("{name}.ok"));
    let expected = read(name, "ok")?;
    let read_if = |end: &str| match folder().join(format!("{name}.{end}")).exists() {
        true => read(name, end),
        false => Ok(String::new()),
    };
    let says = format!("ok\n{}", read_if("says")?);
    both_warn(&folder(), &[&policy], &says, &read_if("warns")?)?;
    both_say(&folder(), &["--print", &policy], &expected)?;
    both_say(&folder(), &["--print", &print], &expected)
}

fn refused_alike(name: &str) -> anyhow::Result<()> {
    let expected = read(name, "err")?;
    both_refuse(&folder(), &format!("{name}.nft"), expected.trim_end())
}

/// Checks that nft accepts a policy and its canonical print. If a comment `# nft: REASON` in the policy says why nft
/// refuses it, nft must refuse the policy; with "(nor the print)" also the print.
fn taken_by_nft(name: &str) -> anyhow::Result<()> {
    let namespace = namespace()?;
    let text = read(name, "nft")?;
    for (ending, refused) in [
        ("nft", text.contains("\n# nft: ")),
        ("ok", text.contains(" (nor the print)\n")),
    ] {
        let taken = nft(&namespace, &format!("{name}.{ending}"));
        match refused {
            true => ensure!(taken.is_err(), "nft -c takes {name}.{ending}"),
            false => taken?,
        }
    }
    Ok(())
}

fn nft(namespace: &Namespace, file: &str) -> anyhow::Result<()> {
    let mut nft: Command = namespace.command("nft");
    // Before 1.1 nft does not search includes beside the file.
    nft.args(["-I", ".", "-I", "parts", "-c", "-f", file]);
    let output = nft.current_dir(folder()).output().context("nft")?;
    let words = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "nft -c {file}: {words}");
    Ok(())
}
