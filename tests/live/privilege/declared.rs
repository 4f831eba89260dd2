// SPDX-License-Identifier: GPL-2.0-or-later
//! System calls that the source files declare (`// seccomp: NAME…`). Those of the twins must be the same, except the
//! library calls of a language that tests/exemptions lists.

use std::collections::BTreeSet;
use std::fs;

use anyhow::{ensure, Context};
use testbed::twin::{root, Twin};
use twinwall_tests::case::Case;
use twinwall_tests::sources;

/// Prefix of the lines that declare a firewall's calls.
pub const FIREWALL: &str = "// seccomp: ";
/// Prefix of the lines that declare the calls of a firewall's guard.
pub const GUARD: &str = "// seccomp-guard: ";

pub fn cases() -> Vec<Case> {
    vec![
        Case::new("declared/the-same-by-both-twins", || {
            same(FIREWALL, "seccomp")
        }),
        Case::new("declared/the-same-by-both-guards", || {
            same(GUARD, "seccomp-guard")
        }),
        Case::new("declared/none-that-gives-rights", none_that_gives_rights),
    ]
}

/// Returns the names that a twin's sources declare in lines with this prefix.
pub fn declared(twin: Twin, mark: &str) -> anyhow::Result<BTreeSet<String>> {
    let mut names = BTreeSet::new();
    for path in sources::files(&root().join(twin.program()).join("src"))? {
        let text = fs::read_to_string(path)?;
        let lines = text.lines().filter_map(|line| line.strip_prefix(mark));
        names.extend(lines.flat_map(str::split_whitespace).map(str::to_owned));
    }
    ensure!(!names.is_empty(), "{} declares nothing", twin.program());
    Ok(names)
}

/// Returns the calls that tests/exemptions lists for a twin, in lines `PROGRAM/LIST/NAME reason`.
fn exempt(twin: Twin, list: &str) -> anyhow::Result<BTreeSet<String>> {
    let text = fs::read_to_string(root().join("tests/exemptions"))?;
    let start = format!("{}/{list}/", twin.program());
    let lines = text.lines().filter_map(|line| line.strip_prefix(&start));
    lines
        .map(|line| {
            let (name, reason) = line
                .split_once(' ')
                .context("an exemption without a reason")?;
            ensure!(
                !reason.trim().is_empty(),
                "an exemption without a reason: {name}"
            );
            Ok(name.to_owned())
        })
        .collect()
}

fn same(mark: &str, list: &str) -> anyhow::Result<()> {
    let (rust, c) = (declared(Twin::Rust, mark)?, declared(Twin::C, mark)?);
    for (twin, alone) in [(Twin::Rust, &rust - &c), (Twin::C, &c - &rust)] {
        let exempt = exempt(twin, list)?;
        ensure!(
            alone == exempt,
            "{} alone has {alone:?}; tests/exemptions: {exempt:?}",
            twin.program()
        );
    }
    Ok(())
}

/// Calls that must never be declared: they start programs, change rights, inspect other processes or change the
/// machine.
const NEVER: [&str; 21] = [
    "bpf",
    "capset",
    "chmod",
    "chown",
    "chroot",
    "delete_module",
    "execve",
    "execveat",
    "finit_module",
    "init_module",
    "kexec_load",
    "mount",
    "pidfd_getfd",
    "process_vm_writev",
    "ptrace",
    "setgid",
    "setns",
    "setresuid",
    "setuid",
    "unshare",
    "userfaultfd",
];

fn none_that_gives_rights() -> anyhow::Result<()> {
    for twin in [Twin::Rust, Twin::C] {
        for mark in [FIREWALL, GUARD] {
            let names = declared(twin, mark)?;
            let found: Vec<_> = NEVER.iter().filter(|name| names.contains(**name)).collect();
            ensure!(found.is_empty(), "{} declares {found:?}", twin.program());
        }
    }
    Ok(())
}
