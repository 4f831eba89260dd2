// SPDX-License-Identifier: GPL-2.0-or-later
//! Tests that no file and no function in FOLDERS exceeds the limits of docs/STYLE.md, and that no test sleeps without a
//! reason. The code is formatted (`make lint-format`), so a function ends with the first brace in the column of its
//! first line.

use std::fs;

use anyhow::ensure;
use testbed::twin::root;
use twinwall_tests::case::Case;
use twinwall_tests::sources;

pub fn cases() -> Vec<Case> {
    vec![
        Case::new("lengths/files", no_file_too_long),
        Case::new("lengths/functions", no_function_too_long),
        Case::new("sleeps/tests-sleep-by-name", only_named_sleeps),
    ]
}

/// Checks that tests wait by the functions of testbed::wait: the name of each sleep says why it is no wait for a result.
fn only_named_sleeps() -> anyhow::Result<()> {
    let is_test = |path: &str| {
        let place = path.strip_prefix("tests/");
        place.is_some_and(|place| {
            ["live/", "offline/", "soak/", "src/"]
                .iter()
                .any(|folder| place.starts_with(folder))
        }) || [
            "capture/tests/",
            "capture-lab/tests/",
            "scanner/tests/",
            "testbed/src/",
        ]
        .iter()
        .any(|folder| path.starts_with(folder))
    };
    let sleep = concat!("sleep", "(");
    let mut bare = Vec::new();
    for Source { path, text } in all_sources()? {
        if is_test(&path) && path.ends_with(".rs") && path != "testbed/src/wait.rs" {
            let lines = text.lines().enumerate();
            let found =
                lines.filter(|(_, line)| line.contains(sleep) && !line.contains("time.sleep"));
            bare.extend(found.map(|(index, _)| format!("{path}:{}", index + 1)));
        }
    }
    ensure!(
        bare.is_empty(),
        "wait by testbed::wait instead:\n{}",
        bare.join("\n")
    );
    Ok(())
}

/// Maximum number of lines of a source file (docs/STYLE.md).
const FILE_MAX: usize = 600;
/// Maximum number of lines of a function, with its signature (docs/STYLE.md).
const FUNCTION_MAX: usize = 80;

/// Folders whose source files must not exceed the limits.
const FOLDERS: [&str; 18] = [
    "apply",
    "c-firewall",
    "cage",
    "capture",
    "capture-lab",
    "expect",
    "exporter",
    "fleet",
    "fwctl",
    "kernel",
    "pcapng",
    "rust-firewall",
    "scanner",
    "spec",
    "stage",
    "sys-bindings",
    "testbed",
    "tests",
];

/// A source file: its path from the repository's root, and its lines.
struct Source {
    path: String,
    text: String,
}

fn all_sources() -> anyhow::Result<Vec<Source>> {
    let mut all = Vec::new();
    for folder in FOLDERS {
        for path in sources::files(&root().join(folder))? {
            let is_code = path
                .extension()
                .is_some_and(|ending| ["rs", "c", "h"].iter().any(|code| ending == *code));
            let is_built = path.components().any(|part| part.as_os_str() == "target");
            if is_code && !is_built {
                let short = path.strip_prefix(root())?.to_string_lossy().into_owned();
                let text = fs::read_to_string(&path)?;
                all.push(Source { path: short, text });
            }
        }
    }
    ensure!(all.len() > 800, "only {} source files", all.len());
    Ok(all)
}

fn no_file_too_long() -> anyhow::Result<()> {
    let mut long = Vec::new();
    for Source { path, text } in all_sources()? {
        let lines = text.lines().count();
        if lines > FILE_MAX {
            long.push(format!("{path} has {lines} lines"));
        }
    }
    ensure!(long.is_empty(), "more than {FILE_MAX}: {}", long.join(", "));
    Ok(())
}

/// Returns true if a line may begin a function: in Rust a line with `fn`, at any depth; in C a line that begins with a
/// letter or `_`.
fn begins_function(line: &str, is_rust: bool) -> bool {
    if !is_rust {
        return line.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_');
    }
    let words = ["pub", "const", "unsafe", "extern", "\"C\"", "async"];
    let known = |word: &str| words.contains(&word) || word.starts_with("pub(");
    let before = line.split_once("fn ").map(|(before, _)| before);
    before.is_some_and(|before| before.split_whitespace().all(known))
}

/// Returns the number of functions in a source file, and a line of text for each function that is too long.
fn long_functions(source: &Source) -> (usize, Vec<String>) {
    let is_rust = source.path.ends_with(".rs");
    let lines: Vec<&str> = source.text.lines().collect();
    let (mut count, mut long) = (0, Vec::new());
    for (start, line) in lines.iter().enumerate() {
        if !begins_function(line, is_rust) {
            continue;
        }
        let indent = &line[..line.len() - line.trim_start().len()];
        let stands_there = |other: &&&str| {
            let rest = other.strip_prefix(indent).unwrap_or_default();
            !rest.is_empty() && !rest.starts_with([' ', ')', '{'])
        };
        // Lines without such a brace begin a declaration or a table, or end on the same line.
        let after = &lines[start + 1..];
        let Some(end) = after.iter().position(|other| stands_there(&other)) else {
            continue;
        };
        if after[end].trim_start() != "}" || line.trim_end().ends_with([';', '}']) {
            continue;
        }
        count += 1;
        let length = end + 2;
        if length > FUNCTION_MAX {
            let place = format!("{}:{}", source.path, start + 1);
            long.push(format!("{place}: {length} lines: {}", line.trim()));
        }
    }
    (count, long)
}

fn no_function_too_long() -> anyhow::Result<()> {
    let (mut count, mut long) = (0, Vec::new());
    for source in all_sources()? {
        let found = long_functions(&source);
        count += found.0;
        long.extend(found.1);
    }
    ensure!(count > 6000, "only {count} functions");
    ensure!(
        long.is_empty(),
        "more than {FUNCTION_MAX} lines:\n{}",
        long.join("\n")
    );
    Ok(())
}
