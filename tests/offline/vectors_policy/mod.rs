// SPDX-License-Identifier: GPL-2.0-or-later
//! Tests the vectors of tests/corpus/vectors/policy: expected results of `explain` for a policy and packets. Both twins
//! must print identical bytes.

mod output;
mod vector;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use anyhow::{ensure, Context};
use testbed::folder::Folder;
use testbed::twin::{root, Twin, TWINS};
use twinwall_tests::case::Case;

use vector::{Send, Vector};

/// Minimum number of vectors: a missing file must not pass.
const VECTORS_MIN: usize = 170;
const POLICY: &str = "policy.nft";
const PACKETS: &str = "packets.pcap";
/// pcap with timestamps in nanoseconds (https://www.tcpdump.org/manpages/pcap-savefile.5.html).
const MAGIC_NANOSECONDS: u32 = 0xa1b2_3c4d;
const LINKTYPE_RAW: u32 = 101;

/// Returns all cases of the part.
pub fn cases() -> Vec<Case> {
    let mut cases = vec![Case::new("files/all-are-read", all_are_read)];
    // An unreadable file fails the case above.
    for file in files().unwrap_or_default() {
        let stem = file.file_stem().unwrap_or_default().to_string_lossy();
        for vector in read(&file).unwrap_or_default() {
            let name = format!("{stem}/{}", vector.name);
            cases.push(Case::new(name, move || check(&vector)));
        }
    }
    cases
}

fn files() -> anyhow::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(root().join("tests/corpus/vectors/policy"))? {
        files.push(entry?.path());
    }
    files.sort();
    Ok(files)
}

fn read(file: &Path) -> anyhow::Result<Vec<Vector>> {
    let text = fs::read_to_string(file)?;
    vector::parse(&text).with_context(|| file.display().to_string())
}

fn all_are_read() -> anyhow::Result<()> {
    let mut count = 0;
    for file in files()? {
        count += read(&file)?.len();
    }
    ensure!(count >= VECTORS_MIN, "only {count} vectors");
    Ok(())
}

/// Runs `explain` of both twins on a vector, and compares their output with each other and with the vector.
fn check(vector: &Vector) -> anyhow::Result<()> {
    let folder = folder_of(vector)?;
    for format in [&["--json"][..], &[]] {
        let [rust, c] = TWINS.map(|twin| explain(&folder, twin, format, &vector.options));
        let (rust, c) = (rust?, c?);
        for (twin, output) in TWINS.iter().zip([&rust, &c]) {
            let errors = String::from_utf8_lossy(&output.stderr);
            ensure!(
                output.status.success() && errors.is_empty(),
                "{}: {}: {errors}",
                twin.program(),
                output.status
            );
        }
        let (rust, c) = (
            String::from_utf8(rust.stdout)?,
            String::from_utf8(c.stdout)?,
        );
        if !format.is_empty() {
            output::check(&rust, POLICY, vector).context("rust-firewall")?;
            output::check(&c, POLICY, vector).context("c-firewall")?;
        }
        same_lines(&rust, &c)?;
    }
    Ok(())
}

fn same_lines(rust: &str, c: &str) -> anyhow::Result<()> {
    for (rust, c) in rust.lines().zip(c.lines()) {
        ensure!(rust == c, "the twins differ\nrust: {rust}\nc:    {c}");
    }
    ensure!(rust == c, "the twins differ\nrust: {rust}\nc:    {c}");
    Ok(())
}

/// Returns a folder with a vector's policy and packets.
fn folder_of(vector: &Vector) -> anyhow::Result<Folder> {
    let folder = Folder::new()?;
    folder.write(POLICY, &vector.policy)?;
    folder.write(PACKETS, pcap(&vector.sends))?;
    Ok(folder)
}

fn explain(
    folder: &Folder,
    twin: Twin,
    format: &[&str],
    options: &[String],
) -> anyhow::Result<Output> {
    Command::new(twin.binary())
        .arg("explain")
        .args(format)
        .args(options)
        .args([POLICY, PACKETS])
        .current_dir(folder.path())
        .stdin(Stdio::null())
        .output()
        .with_context(|| twin.binary().display().to_string())
}

fn pcap(sends: &[Send]) -> Vec<u8> {
    let mut file = Vec::new();
    file.extend(MAGIC_NANOSECONDS.to_le_bytes());
    // Version 2.4.
    file.extend(2_u16.to_le_bytes());
    file.extend(4_u16.to_le_bytes());
    for word in [0, 0, 65535, LINKTYPE_RAW] {
        file.extend(word.to_le_bytes());
    }
    for send in sends {
        let (seconds, nanoseconds) = (send.time_ns / 1_000_000_000, send.time_ns % 1_000_000_000);
        let (captured, original) = (send.bytes.len(), send.original);
        for word in [
            seconds as u32,
            nanoseconds as u32,
            captured as u32,
            original as u32,
        ] {
            file.extend(word.to_le_bytes());
        }
        file.extend(&send.bytes);
    }
    file
}
