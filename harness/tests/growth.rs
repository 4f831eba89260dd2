// SPDX-License-Identifier: GPL-2.0-or-later
//! The experiment `rules`, shortened: few sizes, two rounds of slices. Needs root and the built firewalls.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use harness::metadata::Metadata;
use harness::store::{Sample, Store};

const SUBJECTS: [&str; 4] = ["none", "nftables", "rust-raw-fast", "c-raw-fast"];
const POLICIES: [&str; 3] = ["ports-10", "ports-1000", "prefix-set-1000"];
const EXPERIMENT: &str = r#"
title = "Rules"
question = "Does it grow?"
subjects = ["none", "nftables", "rust-raw-fast", "c-raw-fast"]

[slices]
rounds = 2

[[workload]]
name = "udp-flood"
payload_bytes = [18]
policy = { kind = "ports", sizes = [10, 1000] }

[[workload]]
name = "udp-flood"
payload_bytes = [18]
policy = { kind = "prefix-set", sizes = [1000] }

[[claim]]
subject = "c-raw-fast"
policy = "ports"
metric = "cpu_per_packet"
from = 10
to = 1000
at_most = 1.5

[[figure]]
name = "ports"
kind = "growth"
title = "Ports"
workload = "udp-flood"
policy = "ports"
"#;

/// Returns the folder in which `make build` leaves the firewalls, or the folder in TWINWALL_BUILD.
fn built() -> PathBuf {
    match std::env::var_os("TWINWALL_BUILD") {
        Some(folder) => folder.into(),
        None => Path::new(env!("CARGO_MANIFEST_DIR")).join("../build"),
    }
}

#[test]
fn policies_of_all_kinds_are_measured_in_both_twins_and_the_kernel() {
    let folder = std::env::temp_dir().join(format!("twinwall-growth-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let (file, out) = (folder.join("short.toml"), folder.join("out"));
    fs::write(&file, EXPERIMENT).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_harness"))
        .arg("run")
        .args([&file, Path::new("--out"), &out, Path::new("--bin-dir")])
        .arg(built())
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    let words = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{words}");
    let metadata = Metadata::read(&out).unwrap();
    assert!(metadata.incidents.is_empty(), "{:?}", metadata.incidents);
    for command in [
        "build/harness policy ports 1000 >ports-1000.nft",
        "nft -f ports-1000.nft",
    ] {
        assert!(
            metadata.commands.iter().any(|c| c == command),
            "{:?}",
            metadata.commands
        );
    }
    let samples: Vec<Sample> = Store::open(&out).read().unwrap();
    for policy in POLICIES {
        for subject in SUBJECTS {
            let value = |metric: &str| {
                let of_it = |sample: &&Sample| {
                    sample
                        .policy
                        .is_some_and(|other| other.to_string() == policy)
                        && sample.subject == subject
                        && sample.metric == metric
                };
                samples.iter().find(of_it).map(|sample| sample.value)
            };
            // No rule matches: a packet that matches would be dropped and counted as lost.
            assert_eq!(value("lost"), Some(0.0), "{subject} {policy}");
            assert!(
                value("delivered").is_some_and(|count| count > 0.0),
                "{subject} {policy}"
            );
            let is_twin = subject.ends_with("fast");
            assert_eq!(
                value("cpu_per_packet").is_some(),
                is_twin,
                "{subject} {policy}"
            );
        }
    }
    let report = fs::read_to_string(out.join("report.md")).unwrap();
    for wanted in [
        "## udp-flood over loopback, payload 18 B, rules “udp dport N drop”: delivered_rate, kpps",
        "| subject | 10 | 1000 |",
        "- c-raw-fast, ports: cpu_per_packet at 1000 is at most 1.50 times that at 10: no finding on 2",
        "![Ports](ports.svg)",
    ] {
        assert!(report.contains(wanted), "{wanted}: {report}");
    }
    fs::remove_dir_all(&folder).unwrap();
}
