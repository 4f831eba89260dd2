// SPDX-License-Identifier: GPL-2.0-or-later
//! Generated policies of a kind and a size. No packet of a shipped experiment's loads matches them, so no rule or
//! element ends the evaluation of a packet early.

use std::fmt;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::Context;
use serde::{Deserialize, Serialize};

/// First port in rules: 10,000, above the port of the loads.
const FIRST_PORT: u32 = 10_000;
/// Factor that scatters addresses (2^32 divided by the golden ratio). It is odd, so that its multiples modulo a power
/// of two are all different. They are far apart, so that no rules can be joined to ranges.
const STRIDE: u32 = 2_654_435_761;
/// Number of bits that select the /26 of a prefix in 10.0.0.0/8. Each prefix is in a separate /26.
const BLOCK_BITS: u32 = 18;

/// Kind of a generated policy: what its rules test.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    Hash,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    clap::ValueEnum,
)]
#[serde(rename_all = "kebab-case")]
pub enum SyntheticKind {
    /// One rule per UDP destination port.
    Ports,
    /// One rule per source address.
    Addresses,
    /// One rule and a set of source addresses.
    AddressSet,
    /// One rule and a set of source prefixes of /26 to /32.
    PrefixSet,
    /// Two rules, for TLS and DNS, and a set of host names, a quarter of them wildcards.
    Names,
}

const KINDS: [SyntheticKind; 5] = [
    SyntheticKind::Ports,
    SyntheticKind::Addresses,
    SyntheticKind::AddressSet,
    SyntheticKind::PrefixSet,
    SyntheticKind::Names,
];

impl SyntheticKind {
    /// Returns the name in experiments and rows.
    pub fn name(self) -> &'static str {
        match self {
            SyntheticKind::Ports => "ports",
            SyntheticKind::Addresses => "addresses",
            SyntheticKind::AddressSet => "address-set",
            SyntheticKind::PrefixSet => "prefix-set",
            SyntheticKind::Names => "names",
        }
    }

    /// Returns the unit of the policy's size.
    pub fn counts(self) -> &'static str {
        match self {
            SyntheticKind::Ports => "rules “udp dport N drop”",
            SyntheticKind::Addresses => "rules “ip saddr X drop”",
            SyntheticKind::AddressSet => "addresses in the set of one rule",
            SyntheticKind::PrefixSet => "prefixes in the set of one rule",
            SyntheticKind::Names => "names in the set of its rules",
        }
    }

    /// Returns the largest allowed size, within the available ports, prefixes and addresses.
    pub fn largest(self) -> u32 {
        match self {
            SyntheticKind::Ports => 50_000,
            SyntheticKind::PrefixSet => 1 << BLOCK_BITS,
            SyntheticKind::Addresses | SyntheticKind::AddressSet | SyntheticKind::Names => {
                1_000_000
            }
        }
    }
}

/// Generated policy: its kind and its size. The text form is `KIND-SIZE`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct SyntheticPolicy {
    pub kind: SyntheticKind,
    pub size: u32,
}

impl SyntheticPolicy {
    /// Returns the text, always the same for the same policy. The twins accept it; nft accepts it unless it contains
    /// names.
    pub fn text(self) -> String {
        let (size, counts) = (self.size, self.kind.counts());
        let (listed, rules) = (self.listed(), self.rules());
        format!(
            "# SPDX-License-Identifier: GPL-2.0-or-later\n\
             # {size} {counts}\n\
             table inet filter {{\n\
             {listed}\
             \tchain output {{\n\
             \t\ttype filter hook output priority filter; policy accept;\n\
             {rules}\
             \t}}\n\
             }}\n"
        )
    }

    /// Returns the declaration of the set `listed`; an empty text if the rules need no set.
    pub fn listed(self) -> String {
        let kind = match self.kind {
            SyntheticKind::Ports | SyntheticKind::Addresses => return String::new(),
            SyntheticKind::AddressSet => "type ipv4_addr",
            SyntheticKind::PrefixSet => "type ipv4_addr\n\t\tflags interval",
            SyntheticKind::Names => "type hostname",
        };
        let mut text = format!("\tset listed {{\n\t\t{kind}\n\t\telements = {{\n");
        for index in 0..self.size {
            writeln!(text, "\t\t\t{},", self.element(index)).expect("writing to a string");
        }
        text.push_str("\t\t}\n\t}\n\n");
        text
    }

    /// Returns the rules, one per line.
    pub fn rules(self) -> String {
        let each = |rule: fn(SyntheticPolicy, u32) -> String| {
            let line = |index| format!("\t\t{} drop\n", rule(self, index));
            (0..self.size).map(line).collect()
        };
        match self.kind {
            SyntheticKind::Ports => each(|_, index| format!("udp dport {}", FIRST_PORT + index)),
            SyntheticKind::Addresses => {
                each(|policy, index| format!("ip saddr {}", policy.element(index)))
            }
            SyntheticKind::AddressSet | SyntheticKind::PrefixSet => {
                "\t\tip saddr @listed drop\n".into()
            }
            SyntheticKind::Names => {
                "\t\ttls sni @listed drop\n\t\tth dport 53 dns name @listed drop\n".into()
            }
        }
    }

    /// Returns an address or a prefix in 10.0.0.0/8, from which no load over loopback sends, or a name that no load
    /// uses.
    fn element(self, index: u32) -> String {
        let scattered = index.wrapping_mul(STRIDE);
        if self.kind == SyntheticKind::Names {
            return name(index, scattered);
        }
        if self.kind == SyntheticKind::PrefixSet {
            let block = (scattered % (1 << BLOCK_BITS)) << (24 - BLOCK_BITS);
            let length = 8 + BLOCK_BITS + index % 7;
            return format!("{}/{length}", address(block));
        }
        address(scattered % (1 << 24))
    }
}

/// Returns a name in quotes. A wildcard has two or three labels after its asterisk.
fn name(index: u32, scattered: u32) -> String {
    match index % 8 {
        0 => format!("\"*.w{scattered:08x}.example\""),
        4 => format!("\"*.w{scattered:08x}.cdn.example\""),
        _ => format!("\"n{scattered:08x}.s{:02x}.example\"", index % 251),
    }
}

/// Returns an address in 10.0.0.0/8 with these last three bytes.
fn address(low: u32) -> String {
    let [_, a, b, c] = low.to_be_bytes();
    format!("10.{a}.{b}.{c}")
}

impl fmt::Display for SyntheticPolicy {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{}-{}", self.kind.name(), self.size)
    }
}

impl FromStr for SyntheticPolicy {
    type Err = String;

    fn from_str(text: &str) -> Result<SyntheticPolicy, String> {
        let parse = || {
            let (name, size) = text.rsplit_once('-')?;
            let kind = KINDS.into_iter().find(|kind| kind.name() == name)?;
            let policy = SyntheticPolicy {
                kind,
                size: size.parse().ok()?,
            };
            policy.check().ok().map(|()| policy)
        };
        parse().ok_or_else(|| format!("policy {text:?}: expected KIND-SIZE such as addresses-1000"))
    }
}

impl SyntheticPolicy {
    /// Checks that the size is available for its kind.
    pub fn check(self) -> Result<(), String> {
        let largest = self.kind.largest();
        match (1..=largest).contains(&self.size) {
            true => Ok(()),
            false => Err(format!(
                "{} of {}: expected 1 to {largest}",
                self.size,
                self.kind.name()
            )),
        }
    }
}

impl TryFrom<String> for SyntheticPolicy {
    type Error = String;

    fn try_from(text: String) -> Result<SyntheticPolicy, String> {
        text.parse()
    }
}

impl From<SyntheticPolicy> for String {
    fn from(policy: SyntheticPolicy) -> String {
        policy.to_string()
    }
}

/// The policy files of an experiment, deleted on drop.
pub struct SyntheticFiles {
    /// Folder with the files; None if the experiment has no policy.
    folder: Option<PathBuf>,
}

impl SyntheticFiles {
    pub fn write(
        policies: impl IntoIterator<Item = SyntheticPolicy>,
    ) -> anyhow::Result<SyntheticFiles> {
        let mut files = SyntheticFiles { folder: None };
        for policy in policies {
            let folder = match &files.folder {
                Some(folder) => folder.clone(),
                None => {
                    let folder = new_folder()?;
                    files.folder = Some(folder.clone());
                    folder
                }
            };
            let file = folder.join(file_name(policy));
            fs::write(&file, policy.text()).with_context(|| file.display().to_string())?;
        }
        Ok(files)
    }

    /// Returns the path of the file of a policy that `write` has written.
    pub fn path(&self, policy: SyntheticPolicy) -> PathBuf {
        let folder = self.folder.as_deref().unwrap_or(Path::new(""));
        folder.join(file_name(policy))
    }

    /// Returns the text with the files' names in place of their paths.
    pub fn shorten(&self, text: &str) -> String {
        match &self.folder {
            Some(folder) => text.replace(&format!("{}/", folder.display()), ""),
            None => text.into(),
        }
    }
}

impl Drop for SyntheticFiles {
    fn drop(&mut self) {
        if let Some(folder) = &self.folder {
            // Files that can't be removed stay in the system's folder for temporary files.
            let _ = fs::remove_dir_all(folder);
        }
    }
}

pub fn file_name(policy: SyntheticPolicy) -> String {
    format!("{policy}.nft")
}

/// Creates a new folder in the system's folder for temporary files.
pub fn new_folder() -> anyhow::Result<PathBuf> {
    let name = |number: u32| format!("twinwall-policies-{}-{number}", std::process::id());
    for number in 0.. {
        let folder = std::env::temp_dir().join(name(number));
        match fs::create_dir(&folder) {
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            made => {
                return made
                    .map(|()| folder.clone())
                    .with_context(|| folder.display().to_string())
            }
        }
    }
    unreachable!("there are more numbers than files")
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::process::Command;

    use super::*;

    #[test]
    fn names_come_back_as_they_were_given() {
        for name in [
            "ports-10",
            "addresses-100000",
            "address-set-1",
            "prefix-set-262144",
        ] {
            assert_eq!(name.parse::<SyntheticPolicy>().unwrap().to_string(), name);
        }
        for name in [
            "",
            "ports",
            "ports-",
            "ports-0",
            "ports-50001",
            "port-1",
            "ports-1-1",
        ] {
            assert!(name.parse::<SyntheticPolicy>().is_err(), "{name}");
        }
    }

    #[test]
    fn every_rule_and_element_is_another_one() {
        for kind in KINDS {
            let policy = SyntheticPolicy {
                kind,
                size: kind.largest().min(200_000),
            };
            let text = policy.text();
            let counts =
                |line: &&str| line.ends_with(" drop") && !line.contains('@') || line.ends_with(',');
            let lines: HashSet<&str> = text.lines().filter(counts).collect();
            assert_eq!(lines.len(), policy.size as usize, "{policy}");
        }
    }

    #[test]
    fn the_kernel_takes_every_kind_but_names() {
        let kinds = KINDS
            .into_iter()
            .filter(|kind| *kind != SyntheticKind::Names);
        let sized = |kind| SyntheticPolicy { kind, size: 1000 };
        let files = SyntheticFiles::write(kinds.clone().map(sized)).unwrap();
        for kind in kinds {
            let file = files.path(SyntheticPolicy { kind, size: 1000 });
            let output = Command::new("unshare")
                .args(["-n", "nft", "-c", "-f"])
                .arg(&file)
                .output()
                .unwrap();
            assert!(
                output.status.success(),
                "{}",
                String::from_utf8_lossy(&output.stderr)
            );
        }
        let file = files.path(SyntheticPolicy {
            kind: SyntheticKind::Ports,
            size: 1000,
        });
        let line = format!("--policy {}", file.display());
        assert_eq!(files.shorten(&line), "--policy ports-1000.nft");
        drop(files);
        assert!(!file.exists() && !file.parent().unwrap().exists());
    }
}
