// SPDX-License-Identifier: GPL-2.0-or-later
//! Libraries that replace a firewall's system calls (LD_PRELOAD).

use std::process::Command;

use anyhow::bail;
use testbed::folder::Folder;
use testbed::skip::not_installed;
use testbed::twin::root;

/// Builds the library NAME.so in `folder` from tests/live/chaos/NAME.c. Returns its path.
pub fn library(folder: &Folder, name: &str) -> anyhow::Result<String> {
    let path = folder.file(&format!("{name}.so"));
    let source = root().join("tests/live/chaos").join(format!("{name}.c"));
    let built = Command::new("cc")
        .args(["-D_GNU_SOURCE", "-shared", "-fPIC", "-O1", "-o", &path])
        .arg(source)
        .arg("-ldl")
        .status();
    match built {
        Ok(status) if status.success() => Ok(path),
        Ok(status) => bail!("cc: {status}"),
        Err(_) => Err(not_installed("cc")),
    }
}
