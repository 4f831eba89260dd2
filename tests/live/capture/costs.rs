// SPDX-License-Identifier: GPL-2.0-or-later
//! Costs of a packet that passes a ring, in the machine that counts instructions (kernel/lab), and the figures that the
//! machine prints for the kernel's and the program's side of the ring.

use std::process::Command;

use anyhow::{ensure, Context};
use serde_json::Value;
use testbed::folder::Folder;
use testbed::skip::skip;
use testbed::twin::root;

use crate::kernel::machine::{make, CANNOT_RUN};

/// Rings of 32 MiB: name of the program in the machine, number of page-table entries of the program's side, number of
/// the kernel's side. Each page policy has a different pair of numbers.
const RINGS: [(&str, u64, u64); 4] = [
    ("ring-tpacket3", 8192, 16),
    ("ring-vzalloc", 8192, 8192),
    ("ring-hugetlb", 16, 8192),
    ("ring-both", 16, 16),
];

/// Returns true if the TLB misses per packet fit the model, for 10,000 packets of 1,100 bytes and their headers.
/// - entries: number of page-table entries of the side.
fn is_modelled(entries: u64, misses: f64) -> bool {
    match entries {
        16 => misses > 0.0 && misses < 0.001,
        _ => (0.27..0.31).contains(&misses),
    }
}

pub fn each_side_is_told() -> anyhow::Result<()> {
    let targets: Vec<String> = RINGS.iter().map(|ring| format!("bin/{}", ring.0)).collect();
    make(&targets)?;
    let folder = Folder::new()?;
    let lines = RINGS.iter().map(|ring| format!("{} packet 1100\n", ring.0));
    let list = folder.write("list", lines.collect::<String>())?;
    let output = Command::new(root().join("kernel/lab")).arg(list).output()?;
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    if output.status.code() == Some(CANNOT_RUN) {
        return Err(skip(errors));
    }
    let text = String::from_utf8(output.stdout)?;
    ensure!(output.status.success(), "{text}{errors}");
    ensure!(text.lines().count() == RINGS.len(), "{text}{errors}");
    for ((name, program, kernel), line) in RINGS.into_iter().zip(text.lines()) {
        let object = line
            .strip_prefix(&format!("{name} "))
            .context(line.to_owned())?;
        let told: Value = serde_json::from_str(object).context(line.to_owned())?;
        ensure!(
            told["operation"] == "packet" && told["count"] == 10_000,
            "{line}"
        );
        let ring = &told["ring"];
        for (side, entries) in [("program", program), ("kernel", kernel)] {
            let misses = ring[side]["model_tlb_misses"].as_f64().unwrap_or(f64::NAN);
            ensure!(
                ring[side]["entries"] == entries && is_modelled(entries, misses),
                "{side}: {line}"
            );
        }
        let part = |name: &str| ring[name].as_u64().unwrap_or_default();
        let parts = [part("kernel_ns"), part("reader_ns")];
        // Each side copies or hashes at least 137 words per packet.
        ensure!(parts.iter().all(|part| *part > 1_370_000), "{line}");
        ensure!(told["wall_ns"] == parts[0] + parts[1], "{line}");
    }
    Ok(())
}
