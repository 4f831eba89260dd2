// SPDX-License-Identifier: GPL-2.0-or-later
//! Tests that `spec/generate --check` detects a manual edit of every generated file.

use std::fs;
use std::path::Path;

use anyhow::{ensure, Context};
use testbed::folder::Folder;
use testbed::twin::root;
use twinwall_tests::case::Case;

use super::dependencies::by_user;

const SOURCES: [&str; 2] = ["c-firewall/src/spec", "rust-firewall/src/spec"];
/// Start of a generated section of a page.
const SECTION: &str = "<!-- spec/generate writes ";

pub fn cases() -> Vec<Case> {
    vec![
        Case::new("generated/all-is-as-made", as_made),
        Case::new("generated/hand-edits-are-noticed", hand_edits),
    ]
}

/// Returns the paths of the files in a folder of the repository whose names have this ending.
fn names(folder: &str, end: &str) -> anyhow::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(root().join(folder)).context(folder.to_owned())? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if name.ends_with(end) {
            names.push(format!("{folder}/{name}"));
        }
    }
    Ok(names)
}

/// Returns the files that are generated, or have generated sections, with their texts.
fn made() -> anyhow::Result<Vec<(String, String)>> {
    let mut paths = names("cli", "")?;
    for folder in SOURCES {
        paths.extend(names(folder, "")?);
    }
    for path in ["exporter/src/family.rs", "packaging/example/twinwall.conf"] {
        paths.push(path.to_owned());
    }
    // mod.rs only names the other modules.
    paths.retain(|path| !path.ends_with("/mod.rs"));
    paths.extend(names("docs", ".md")?);
    let mut made = Vec::new();
    for path in paths {
        let text = fs::read_to_string(root().join(&path))?;
        if text.contains(SECTION) || !path.starts_with("docs/") {
            made.push((path, text));
        }
    }
    Ok(made)
}

/// Runs `spec/generate --check` on files with these paths and texts. Returns true if it succeeded, and its stderr.
fn check(files: &[(String, String)]) -> anyhow::Result<(bool, String)> {
    let folder = Folder::new()?;
    for (path, text) in files {
        let path = folder.path().join(path);
        fs::create_dir_all(path.parent().unwrap_or(Path::new("/")))?;
        fs::write(path, text)?;
    }
    let output = by_user("spec/generate")
        .arg("--check")
        .arg(folder.path())
        .output()?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    Ok((output.status.success(), said))
}

fn as_made() -> anyhow::Result<()> {
    let (is_content, said) = check(&made()?)?;
    ensure!(is_content && said.is_empty(), "{said}");
    Ok(())
}

/// Changes the last letter of a generated text; in a page, of its last section.
fn edit(text: &str) -> anyhow::Result<String> {
    let end = text.rfind("<!-- to here -->").unwrap_or(text.len());
    let letter = text[..end].rfind(|letter: char| letter.is_ascii_lowercase());
    let at = letter.context("it has no letter")?;
    Ok(format!("{}_{}", &text[..at], &text[at + 1..]))
}

fn hand_edits() -> anyhow::Result<()> {
    let mut files = made()?;
    for (path, text) in &mut files {
        *text = edit(text).with_context(|| path.clone())?;
    }
    let (is_content, said) = check(&files)?;
    ensure!(!is_content, "it was content");
    for (path, _) in &files {
        let line = format!("error: {path} is not what spec/ makes: run spec/generate\n");
        ensure!(said.contains(&line), "{path}: not noticed: {said}");
    }
    Ok(())
}
