// SPDX-License-Identifier: GPL-2.0-or-later
//! Deviations from the kernel that are known and meant: tests/conformance/deviations.txt lists them, this file recognises
//! them. What is not listed, or listed for another kernel, counts as a disagreement.

use std::fs;

use anyhow::{ensure, Context};
use twinwall_tests::twin::root;

use crate::cell::Shot;

/// Whether a packet meets a deviation under a policy (its text).
type Recognise = fn(policy: &str, shot: &Shot) -> bool;

const RECOGNISERS: &[(&str, Recognise)] = &[];

pub struct Deviation {
    pub name: String,
    /// The version's beginning, `6.18`; `*` = any.
    kernel: String,
    recognise: Recognise,
    /// Packets that met it.
    pub met: u64,
}

/// Of the list, those that are for the running kernel.
pub fn read() -> anyhow::Result<Vec<Deviation>> {
    let path = root().join("tests/conformance/deviations.txt");
    let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    let release = fs::read_to_string("/proc/sys/kernel/osrelease")?;
    let mut deviations = Vec::new();
    for line in text
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
    {
        let fields: Vec<&str> = line.split('|').map(str::trim).collect();
        ensure!(
            fields.len() == 4 && fields.iter().all(|field| !field.is_empty()),
            "a deviation is NAME | KERNEL | HOW TO RECOGNISE IT | REASON: {line}"
        );
        let found = RECOGNISERS.iter().find(|(name, _)| *name == fields[0]);
        let (name, recognise) =
            found.with_context(|| format!("no code recognises {}", fields[0]))?;
        deviations.push(Deviation {
            name: name.to_string(),
            kernel: fields[1].to_string(),
            recognise: *recognise,
            met: 0,
        });
    }
    for (name, _) in RECOGNISERS {
        ensure!(
            deviations.iter().any(|one| one.name == *name),
            "{name} is not listed"
        );
    }
    deviations.retain(|one| one.kernel == "*" || release.starts_with(&one.kernel));
    Ok(deviations)
}

/// Whether a difference is a listed one; counts it.
pub fn is_listed(deviations: &mut [Deviation], policy: &str, shot: &Shot) -> bool {
    let found = deviations
        .iter_mut()
        .find(|one| (one.recognise)(policy, shot));
    found.map(|one| one.met += 1).is_some()
}
