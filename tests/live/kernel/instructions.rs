// SPDX-License-Identifier: GPL-2.0-or-later
//! Instructions per exchange with a kernel module, counted by the virtual machine. The counts have no noise, and are
//! compared with those in kernel/instructions.toml.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{ensure, Context};
use serde::Deserialize;
use testbed::skip::skip;
use testbed::twin::root;

use super::lab::count;
use super::machine::{headers, make};

/// Share by which a count may exceed the count in kernel/instructions.toml: 0.05 is 5 %.
const ROOM: f64 = 0.05;

/// Contents of kernel/instructions.toml: the counts, and the kernel and compiler for which they hold.
#[derive(Deserialize)]
struct Kept {
    kernel: String,
    cc: String,
    /// Instructions per exchange; each key is a line for kernel/lab: program, operation, bytes.
    exchanges: BTreeMap<String, f64>,
}

fn compiler() -> anyhow::Result<String> {
    let output = Command::new("cc").arg("--version").output().context("cc")?;
    let said = String::from_utf8(output.stdout)?;
    Ok(said.lines().next().unwrap_or_default().to_owned())
}

/// Returns the name of the folder with the kernel's headers: package and version.
fn kernel() -> anyhow::Result<String> {
    let folder = headers()?;
    let name = Path::new(folder.trim()).file_name();
    Ok(name.unwrap_or_default().to_string_lossy().into_owned())
}

/// Builds the programs, and counts the instructions for each exchange of kernel/instructions.toml, all in one virtual
/// machine.
fn counted(kept: &Kept) -> anyhow::Result<BTreeMap<String, f64>> {
    let lines: Vec<&str> = kept.exchanges.keys().map(String::as_str).collect();
    let programs = lines.iter().filter_map(|line| line.split_once(' '));
    let mut targets: Vec<String> = programs
        .map(|(program, _)| format!("bin/{program}"))
        .collect();
    targets.dedup();
    make(&targets)?;
    count(&lines)
}

/// Checks that no exchange needs more instructions than kernel/instructions.toml says, plus ROOM. Skips the case if the
/// kernel or the compiler is not that of the file.
pub fn no_exchange_takes_more() -> anyhow::Result<()> {
    let file = root().join("kernel/instructions.toml");
    let text = fs::read_to_string(&file).with_context(|| file.display().to_string())?;
    let kept: Kept = toml::from_str(&text)?;
    for (kept, found) in [(&kept.kernel, kernel()?), (&kept.cc, compiler()?)] {
        if *kept != found {
            return Err(skip(format!(
                "the counts are of {kept}, and here is {found}"
            )));
        }
    }
    let found = counted(&kept)?;
    ensure!(
        found.keys().eq(kept.exchanges.keys()),
        "counted: {:?}",
        found.keys()
    );
    let more = kept
        .exchanges
        .iter()
        .filter(|(name, kept)| found[*name] > *kept * (1.0 + ROOM));
    let more: Vec<String> = more
        .map(|(name, kept)| format!("{name}: {:.0}, was {kept}", found[name]))
        .collect();
    ensure!(more.is_empty(), "{}", more.join("; "));
    Ok(())
}
