// SPDX-License-Identifier: GPL-2.0-or-later
//! Tests that the twins have the same files; tests/exemptions lists exactly the differences.

use std::collections::BTreeSet;
use std::fs;

use anyhow::{ensure, Context};
use testbed::twin::root;
use twinwall_tests::case::Case;
use twinwall_tests::sources;

pub fn cases() -> Vec<Case> {
    vec![
        Case::new("files/same-modules", same_modules),
        Case::new(
            "files/every-c-file-has-its-header",
            every_c_file_has_its_header,
        ),
        Case::new(
            "files/unsafe-only-where-it-may-be",
            unsafe_only_where_it_may_be,
        ),
    ]
}

/// Returns the files with an ending in a folder of the repository and its subfolders, as relative paths without the ending.
/// The lists of modules (mod.rs) are omitted: C needs none.
fn stems(folder: &str, ending: &str) -> anyhow::Result<BTreeSet<String>> {
    let folder = root().join(folder);
    let mut stems = BTreeSet::new();
    for path in sources::files(&folder)? {
        if path.extension().is_some_and(|found| found == ending) && !path.ends_with("mod.rs") {
            let stem = path.strip_prefix(&folder)?.with_extension("");
            stems.insert(stem.to_string_lossy().into_owned());
        }
    }
    Ok(stems)
}

fn exemptions() -> anyhow::Result<BTreeSet<String>> {
    let text = fs::read_to_string(root().join("tests/exemptions"))?;
    let mut paths = BTreeSet::new();
    // tests/live/privilege checks the exemptions of system calls.
    let is_file = |line: &&str| !line.starts_with('#') && !line.contains("/seccomp");
    for line in text.lines().filter(is_file) {
        let (path, reason) = line
            .split_once(' ')
            .context("an exemption without a reason")?;
        ensure!(
            !reason.trim().is_empty(),
            "an exemption without a reason: {path}"
        );
        paths.insert(path.to_string());
    }
    Ok(paths)
}

fn same_modules() -> anyhow::Result<()> {
    let (rust, c) = (
        stems("rust-firewall/src", "rs")?,
        stems("c-firewall/src", "c")?,
    );
    ensure!(
        rust.contains("main") && c.contains("main"),
        "there is no main"
    );
    let rust_alone = rust
        .difference(&c)
        .map(|stem| format!("rust-firewall/src/{stem}.rs"));
    let c_alone = c
        .difference(&rust)
        .map(|stem| format!("c-firewall/src/{stem}.c"));
    let alone: BTreeSet<String> = rust_alone.chain(c_alone).collect();
    let exempt = exemptions()?;
    ensure!(
        alone == exempt,
        "files without a twin: {alone:?}, exempt: {exempt:?}"
    );
    Ok(())
}

/// Checks that every C source file except main has its header. A header without code holds only types or constants; its
/// Rust file is exempt.
fn every_c_file_has_its_header() -> anyhow::Result<()> {
    let (mut expected, headers) = (stems("c-firewall/src", "c")?, stems("c-firewall/src", "h")?);
    expected.remove("main");
    let exempt = exemptions()?;
    let alone = exempt.iter().filter_map(|path| {
        let stem = path.strip_prefix("rust-firewall/src/")?;
        stem.strip_suffix(".rs")
    });
    expected.extend(
        alone
            .filter(|stem| headers.contains(*stem))
            .map(str::to_owned),
    );
    let missing: Vec<&String> = expected.difference(&headers).collect();
    let alone: Vec<&String> = headers.difference(&expected).collect();
    ensure!(
        missing.is_empty() && alone.is_empty(),
        "without their headers: {missing:?}; headers without code: {alone:?}"
    );
    Ok(())
}

/// Name prefixes of modules that may contain unsafe code, for calls that the safe crates lack.
const UNSAFE: [&str; 5] = [
    "control/peer",
    "guard/run",
    "handover/channel",
    "privilege/",
    "queue/",
];

fn unsafe_only_where_it_may_be() -> anyhow::Result<()> {
    for stem in stems("rust-firewall/src", "rs")? {
        let text = fs::read_to_string(root().join(format!("rust-firewall/src/{stem}.rs")))?;
        let code = text
            .lines()
            .filter(|line| !line.trim_start().starts_with("//"));
        let has_unsafe = code
            .clone()
            .any(|line| line.contains("unsafe {") || line.contains("unsafe fn"));
        ensure!(
            !has_unsafe || UNSAFE.iter().any(|start| stem.starts_with(start)),
            "rust-firewall/src/{stem}.rs has unsafe code"
        );
    }
    Ok(())
}
