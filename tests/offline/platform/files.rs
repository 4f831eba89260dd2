// SPDX-License-Identifier: GPL-2.0-or-later
//! The twins have the same files; what differs stands in tests/exemptions, and what stands there differs.

use std::collections::BTreeSet;
use std::fs;

use anyhow::{ensure, Context};
use testbed::twin::root;
use twinwall_tests::case::Case;
use twinwall_tests::sources;

pub fn cases() -> Vec<Case> {
    vec![
        Case::new("files/same-modules", 10, same_modules),
        Case::new(
            "files/every-c-file-has-its-header",
            10,
            every_c_file_has_its_header,
        ),
        Case::new("files/no-file-too-long", 10, no_file_too_long),
        Case::new(
            "files/unsafe-only-where-it-may-be",
            10,
            unsafe_only_where_it_may_be,
        ),
    ]
}

/// Lines that a source file may have at most (docs/STYLE.md).
const LINES_MAX: usize = 800;

/// The files with an ending in a folder of the repository and those below it, as paths from there without the ending.
/// The lists of modules (mod.rs) are left out: C needs none.
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
    // Those of system calls are for tests/live/privilege.
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

/// Headers without code are those whose Rust file is exempt.
fn every_c_file_has_its_header() -> anyhow::Result<()> {
    let (mut code, headers) = (stems("c-firewall/src", "c")?, stems("c-firewall/src", "h")?);
    code.remove("main");
    let exempt = exemptions()?;
    code.extend(exempt.iter().filter_map(|path| {
        let stem = path
            .strip_prefix("rust-firewall/src/")?
            .strip_suffix(".rs")?;
        (stem != "lib").then(|| stem.to_owned())
    }));
    ensure!(code == headers, "code {code:?}, headers {headers:?}");
    Ok(())
}

fn no_file_too_long() -> anyhow::Result<()> {
    for (folder, ending) in [
        ("rust-firewall/src", "rs"),
        ("c-firewall/src", "c"),
        ("c-firewall/src", "h"),
    ] {
        for stem in stems(folder, ending)? {
            let path = format!("{folder}/{stem}.{ending}");
            let lines = fs::read_to_string(root().join(&path))?.lines().count();
            ensure!(
                lines <= LINES_MAX,
                "{path} has {lines} lines, {LINES_MAX} are allowed"
            );
        }
    }
    Ok(())
}

/// Modules that may have unsafe code, by how their names begin: what the safe crates have no call for.
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
