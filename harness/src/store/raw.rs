// SPDX-License-Identifier: GPL-2.0-or-later
//! The output of tools and firewalls, raw.jsonl.gz: one line for each (name, text).

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Write};

use anyhow::{Context, Result};
use flate2::read::MultiGzDecoder;
use serde::{Deserialize, Serialize};

use super::{packed, CellName, Store, RAW};

/// A line of raw.jsonl.gz ([`RAW`]): output of a tool or a firewall, with its name.
#[derive(Serialize)]
struct Raw<'a> {
    name: &'a str,
    text: &'a str,
}

/// The name in a line of raw.jsonl.gz ([`RAW`]).
#[derive(Deserialize)]
struct RawName {
    name: String,
}

impl Store {
    /// Appends the output of tools, one line of JSON for each (name, text).
    pub(super) fn write_raw(&self, texts: &[(String, String)]) -> Result<()> {
        if texts.is_empty() {
            return Ok(());
        }
        let mut lines = Vec::new();
        for (name, text) in texts {
            serde_json::to_writer(&mut lines, &Raw { name, text })?;
            lines.push(b'\n');
        }
        let bytes = packed(RAW, lines)?;
        let file = self.folder.join(RAW);
        let append = || -> io::Result<()> {
            let mut options = OpenOptions::new();
            let mut file = options.append(true).create(true).open(&file)?;
            file.write_all(&bytes)?;
            file.sync_all()
        };
        append().with_context(|| file.display().to_string())
    }

    /// Removes the lines of raw.jsonl.gz for which `kept` is false, by load and round, and everything from a broken
    /// line on.
    /// - loads: all loads of the result.
    pub(super) fn cut_raw(
        &self,
        loads: &[CellName],
        kept: &impl Fn(&CellName, u32) -> bool,
    ) -> Result<()> {
        let path = self.folder.join(RAW);
        let mut reader = match File::open(&path) {
            Ok(file) => BufReader::new(MultiGzDecoder::new(file)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error).with_context(|| path.display().to_string()),
        };
        let (mut lines, mut line) = (Vec::new(), Vec::new());
        while reader.read_until(b'\n', &mut line).is_ok() {
            // The end of the file is an empty line, which is no JSON.
            let Ok(RawName { name }) = serde_json::from_slice(&line) else {
                break;
            };
            if run_of(&name, loads).is_none_or(|(load, round)| kept(load, round)) {
                lines.extend_from_slice(&line);
            }
            line.clear();
        }
        self.replace(RAW, &packed(RAW, lines)?)
    }
}

/// Returns the start of the names of a load's lines in raw.jsonl.gz, for one round. Names sort by round, load and
/// subject.
pub fn raw_start(round: u32, load: &CellName) -> String {
    let (workload, path, bytes) = (&load.workload, &load.path, load.payload_bytes);
    let policy = load
        .policy
        .map_or(String::new(), |policy| format!("{policy}-"));
    format!("{round:03}-{workload}-{path}-{bytes}-{policy}")
}

/// Returns load and round of a line of raw.jsonl.gz by its name; None if the name belongs to no load in `loads`.
fn run_of<'a>(name: &str, loads: &'a [CellName]) -> Option<(&'a CellName, u32)> {
    let round: u32 = name.split_once('-')?.0.parse().ok()?;
    let fitting = loads
        .iter()
        .filter(|load| name.starts_with(&raw_start(round, load)));
    // Names of a load with a policy also start like those of the load without it.
    let load = fitting.max_by_key(|load| load.policy.is_some())?;
    Some((load, round))
}
