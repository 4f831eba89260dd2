// SPDX-License-Identifier: GPL-2.0-or-later
//! Lists of names that a policy reads, stored with its generations: each file's name is the digest of its content, so
//! that a generation's text identifies the content at the time of `apply`.

use std::fs;
use std::path::{Path, PathBuf};

use rust_firewall::policy::{advice, parse};

use crate::failure::{policy, Result};
use crate::source::{digest, Source};

/// Name of the folder with the lists of host names, in the state folder; readable by a firewall's user.
pub const FOLDER: &str = "lists";

/// File with a list of host names: its bytes, and the warnings from parsing it.
pub struct List {
    /// Name of the stored copy in the state folder: the SHA-256 of the file's bytes, in hexadecimal.
    pub name: String,
    /// Absolute path of the list's original file.
    pub path: PathBuf,
    pub content: Vec<u8>,
    /// Warnings about the list, from the firewall's code: it has no names, or many lines of an unknown form.
    pub warnings: Vec<String>,
}

/// Parses a list of host names like the firewall does. Returns the firewall's warnings. Fails if the list can't be read
/// or is too large, or if it has no names but lines of an unknown form. Another list without names has a warning.
fn warnings(path: &Path) -> Result<Vec<String>> {
    let text = format!(
        "table inet t {{\n\tset names {{\n\t\ttype hostname\n\t\tfile \"{}\"\n\t}}\n}}\n",
        path.display()
    );
    let parsed = parse::text("", text.as_bytes()).map_err(|failure| {
        // The message begins with a line number of this generated text. The cause follows.
        let cause = failure.text.split_once(": ").map(|(_, cause)| cause);
        policy(cause.unwrap_or(&failure.text))
    })?;
    let mut warnings = Vec::new();
    advice::advise(&parsed, &mut |warning| warnings.push(warning.to_owned()));
    Ok(warnings)
}

/// Reads a policy's lists of host names. Returns the policy with the paths that the lists will have in the state
/// folder, and the lists.
pub fn read(source: &Source, state: &Path) -> Result<(Source, Vec<List>)> {
    read_checked(source, state, &|_| Ok(()))
}

/// Reads a policy's lists like [`read`]. Calls `check` with the path of each list before the list is opened. Fails if
/// `check` fails.
pub fn read_checked(
    source: &Source,
    state: &Path,
    check: stage::Check,
) -> Result<(Source, Vec<List>)> {
    let mut lists = Vec::new();
    let folder = state.join(FOLDER);
    let text = source.text.map_lists(|path| {
        check(path)?;
        let content = fs::read(path).map_err(|error| {
            std::io::Error::new(error.kind(), format!("{}: {error}", path.display()))
        })?;
        let name = digest(&content);
        let kept = folder.join(&name);
        lists.push(List {
            name,
            path: path.to_owned(),
            content,
            warnings: Vec::new(),
        });
        Ok(kept)
    });
    let text =
        text.map_err(|error| policy(format_args!("{error}: name a list that can be read")))?;
    for list in &mut lists {
        list.warnings = warnings(&list.path)?;
    }
    let source = Source {
        text,
        ..source.clone()
    };
    Ok((source, lists))
}

/// Returns the paths of the stored lists whose file names occur in none of `texts`, the texts of policies.
pub fn unused(state: &Path, texts: &[String]) -> Vec<PathBuf> {
    let entries = fs::read_dir(state.join(FOLDER));
    let entries = entries.into_iter().flatten().flatten();
    let is_unused = |name: &str| !texts.iter().any(|text| text.contains(name));
    entries
        .filter(|entry| is_unused(&entry.file_name().to_string_lossy()))
        .map(|entry| entry.path())
        .collect()
}
