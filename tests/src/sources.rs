// SPDX-License-Identifier: GPL-2.0-or-later
//! Finds the source files of a program in its folders.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;

/// Returns all files in a folder and its subfolders, sorted.
pub fn files(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    collect(folder, &mut files)?;
    files.sort();
    Ok(files)
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> anyhow::Result<()> {
    for entry in fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, files)?;
        } else {
            files.push(path);
        }
    }
    Ok(())
}
