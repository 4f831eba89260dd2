// SPDX-License-Identifier: GPL-2.0-or-later
//! Tests that imports have one direction: in both twins between folders in the order of tests/layers, and in the twins
//! and PACKAGES without a cycle, so that there is always a file that can be read first.

use std::collections::BTreeSet;
use std::fs;

use anyhow::{ensure, Context};
use testbed::twin::root;
use twinwall_tests::case::Case;

use super::imports::{of_c, of_rust, Imports};

/// Rust programs, besides the twin, that are checked for cycles.
const PACKAGES: [&str; 5] = ["capture", "capture-lab", "fwctl", "harness", "scanner"];

pub fn cases() -> Vec<Case> {
    vec![
        Case::new("layers/rust", || check_layers(&of_rust("rust-firewall")?)),
        Case::new("layers/c", || check_layers(&of_c("c-firewall")?)),
        Case::new("layers/rust-without-circles", || {
            check_circles(&of_rust("rust-firewall")?)
        }),
        Case::new("layers/c-without-circles", || {
            check_circles(&of_c("c-firewall")?)
        }),
        Case::new("layers/programs-without-circles", || {
            PACKAGES.into_iter().try_for_each(|package| {
                check_circles(&of_rust(package)?).with_context(|| package.to_owned())
            })
        }),
    ]
}

/// Returns the folders of tests/layers, lowest first: a folder imports only from folders before it.
fn layers() -> anyhow::Result<Vec<String>> {
    let text = fs::read_to_string(root().join("tests/layers"))?;
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    Ok(lines.map(str::to_owned).collect())
}

fn folder_of(file: &str) -> Option<&str> {
    Some(file.rsplit_once('/')?.0)
}

fn check_layers(imports: &Imports) -> anyhow::Result<()> {
    let layers = layers()?;
    let rank = |file: &str| {
        let folder = folder_of(file)?;
        layers.iter().position(|layer| layer == folder)
    };
    let mut upward = Vec::new();
    let mut known = BTreeSet::new();
    for (file, imported) in imports {
        // main and lib are above all folders.
        let Some(own) = folder_of(file) else { continue };
        let own = rank(file).with_context(|| format!("{own} is not in tests/layers"))?;
        known.insert(own);
        let above = imported
            .iter()
            .filter(|other| rank(other).is_none_or(|other| other > own));
        upward.extend(above.map(|other| format!("{file} imports {other}")));
    }
    ensure!(
        known.len() == layers.len(),
        "a folder of tests/layers has no files"
    );
    ensure!(
        upward.is_empty(),
        "against tests/layers:\n{}",
        upward.join("\n")
    );
    Ok(())
}

/// Fails if imports form a cycle. Repeatedly removes files that import none of the remaining files; the rest forms or
/// imports a cycle.
fn check_circles(imports: &Imports) -> anyhow::Result<()> {
    ensure!(
        imports.values().any(|imported| !imported.is_empty()),
        "no file imports another"
    );
    let mut left = imports.clone();
    loop {
        let free: BTreeSet<String> = left
            .iter()
            .filter(|(_, imported)| !imported.iter().any(|other| left.contains_key(other)))
            .map(|(file, _)| file.clone())
            .collect();
        if free.is_empty() {
            break;
        }
        left.retain(|file, _| !free.contains(file));
    }
    let circle: Vec<String> = left
        .iter()
        .map(|(file, imported)| {
            let others: Vec<&str> = imported
                .iter()
                .filter(|other| left.contains_key(*other))
                .map(String::as_str)
                .collect();
            format!("{file} imports {}", others.join(", "))
        })
        .collect();
    ensure!(
        circle.is_empty(),
        "files that import each other in a circle, or one of a circle:\n{}",
        circle.join("\n")
    );
    Ok(())
}
