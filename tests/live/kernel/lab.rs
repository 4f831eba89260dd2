// SPDX-License-Identifier: GPL-2.0-or-later
//! Exchanges with kernel modules in the virtual machine that counts instructions, by `kernel/lab`.

use std::collections::BTreeMap;
use std::process::Command;

use anyhow::{ensure, Context};
use serde::Deserialize;
use testbed::folder::Folder;
use testbed::skip::skip;
use testbed::twin::root;

use super::machine::{headers_of, make, CANNOT_RUN};

/// Exchanges of `ipc-binder`: every operation, and messages so large that binder's memory would run out if it were not
/// returned.
const BINDER: [&str; 7] = [
    "ipc-binder call 64",
    "ipc-binder call 1048576",
    "ipc-binder verdict 1500",
    "ipc-binder verdicts 1500",
    "ipc-binder ping 0",
    "ipc-binder calculator 0",
    "ipc-binder timer 0",
];

/// Object that `kernel/lab` prints for a line of its list. `wall_ns` is the number of instructions of `count`
/// exchanges, because the machine's clock counts instructions.
#[derive(Deserialize)]
struct Printed {
    operation: String,
    bytes: u64,
    count: u64,
    wall_ns: u64,
}

/// Runs the exchange of each line `PROGRAM OPERATION BYTES`, all in one virtual machine. Returns the instructions per
/// exchange, by line. The programs must be built.
pub fn count(lines: &[&str]) -> anyhow::Result<BTreeMap<String, f64>> {
    let folder = Folder::new()?;
    let list = folder.write("list", lines.join("\n") + "\n")?;
    let output = Command::new(root().join("kernel/lab")).arg(list).output()?;
    let (said, errors) = (
        String::from_utf8(output.stdout)?,
        String::from_utf8_lossy(&output.stderr).into_owned(),
    );
    if output.status.code() == Some(CANNOT_RUN) {
        return Err(skip(errors));
    }
    ensure!(output.status.success(), "{said}{errors}");
    let read = |line: &str| -> anyhow::Result<(String, f64)> {
        let (program, object) = line.split_once(' ').context("a program and an object")?;
        let printed: Printed = serde_json::from_str(object)?;
        let name = format!("{program} {} {}", printed.operation, printed.bytes);
        Ok((name, printed.wall_ns as f64 / printed.count as f64))
    };
    let rows = said.lines().map(|line| read(line).context(line.to_owned()));
    let counts: BTreeMap<String, f64> = rows.collect::<anyhow::Result<_>>()?;
    let missing = lines.iter().find(|line| !counts.contains_key(**line));
    ensure!(missing.is_none(), "not made: {missing:?}");
    Ok(counts)
}

/// Checks that the transport over binder supports every operation, in the kernel flavour that has binder.
pub fn binder_carries_every_operation() -> anyhow::Result<()> {
    headers_of("generic")?;
    make(&["bin/ipc-binder", "generic"])?;
    count(&BINDER).map(drop)
}
