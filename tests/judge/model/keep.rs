// SPDX-License-Identifier: GPL-2.0-or-later
//! Saves disagreements in tests/corpus/crashes: NAME.nft, which begins with comments on the observation and the
//! arguments, and NAME.pcap. The judge that saved a disagreement runs it again, except the judge `names`.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;
use testbed::twin::root;

use super::pcap;

/// A policy and packets of an earlier disagreement.
pub struct Kept {
    pub path: PathBuf,
    /// Description of the disagreement in one sentence.
    pub note: String,
    /// Arguments of the judge: one line per packet, or one line for all packets.
    pub asked: Vec<String>,
    pub packets: Vec<Vec<u8>>,
}

pub fn folder() -> PathBuf {
    root().join("tests/corpus/crashes")
}

/// Writes the policy of a disagreement to NAME.nft, and its packets to NAME.pcap. Returns the path of the policy.
pub fn write(
    name: &str,
    judge: &str,
    note: &str,
    asked: &[String],
    policy: &str,
    packets: &[Vec<u8>],
) -> anyhow::Result<PathBuf> {
    let folder = folder();
    fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    let path = folder.join(format!("{name}.nft"));
    let mut text = format!("# {}\n", note.replace('\n', " "));
    for line in asked {
        text.push_str(&format!("# {judge}: {line}\n"));
    }
    text.push_str(policy);
    fs::write(&path, text)?;
    fs::write(path.with_extension("pcap"), pcap::write(packets))?;
    Ok(path)
}

/// Returns the cases that a judge has saved in a folder, sorted by name.
pub fn read_all(folder: &Path, judge: &str) -> anyhow::Result<Vec<Kept>> {
    let mut kept = Vec::new();
    let Ok(entries) = fs::read_dir(folder) else {
        return Ok(kept);
    };
    let mut paths: Vec<PathBuf> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .collect();
    paths.sort();
    for path in paths
        .into_iter()
        .filter(|path| path.extension().is_some_and(|end| end == "nft"))
    {
        let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        let start = format!("# {judge}: ");
        let asked: Vec<String> = text
            .lines()
            .filter_map(|line| Some(line.strip_prefix(&start)?.to_string()))
            .collect();
        if asked.is_empty() {
            continue;
        }
        let note = text
            .lines()
            .next()
            .and_then(|line| line.strip_prefix("# "))
            .unwrap_or("");
        let file = path.with_extension("pcap");
        let packets = pcap::read(&fs::read(&file).with_context(|| file.display().to_string())?)
            .with_context(|| file.display().to_string())?;
        kept.push(Kept {
            note: note.to_string(),
            asked,
            packets,
            path,
        });
    }
    Ok(kept)
}
