// SPDX-License-Identifier: GPL-2.0-or-later
//! Policies with names that are split: the kernel decides, and a firewall reports the names of connections to it
//! (docs/STAGE.md). Each policy contains the rules of a generated policy and their set (of kind `names` only the set),
//! after a test of the connection's state and before a rule for port 443, which tests names.
//!
//! For comparison, the kernel's own filter has the same policies without names.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{bail, Context, Result};
use testbed::netns::Namespace;

use crate::synthetic::{new_folder, SyntheticKind, SyntheticPolicy};

/// The tool that splits policies between kernel and firewall, in the folder of programs.
pub const SPLITTER: &str = "fwctl";
/// Hooks of the filter: input on the server, forward on a router between client and server.
const HOOKS: [&str; 2] = ["input", "forward"];
const WITHOUT_NAMES: &str = "without-names.nft";
const WITH_NAMES: &str = "policy.nft";

/// The policies of an experiment, each in a folder of its own, deleted on drop.
pub struct StagedFiles {
    /// Folder with the files; None if the experiment has no split policy.
    folder: Option<PathBuf>,
}

impl StagedFiles {
    /// Writes the policies and splits them by the tool in `bin_dir`.
    pub fn write(policies: &[SyntheticPolicy], bin_dir: &Path) -> Result<StagedFiles> {
        if policies.is_empty() {
            return Ok(StagedFiles { folder: None });
        }
        let files = StagedFiles {
            folder: Some(new_folder()?),
        };
        for policy in policies {
            let folder = files.folder(*policy);
            fs::create_dir(&folder).with_context(|| folder.display().to_string())?;
            fs::write(folder.join(WITHOUT_NAMES), text(*policy, false))?;
            fs::write(folder.join(WITH_NAMES), text(*policy, true))?;
            split(&bin_dir.join(SPLITTER), &folder)?;
        }
        Ok(files)
    }

    fn folder(&self, policy: SyntheticPolicy) -> PathBuf {
        let folder = self.folder.as_deref().unwrap_or(Path::new(""));
        folder.join(policy.to_string())
    }

    /// Loads the policy without its names into the kernel's filter of a namespace.
    pub fn load_without_names(&self, namespace: &Namespace, policy: SyntheticPolicy) -> Result<()> {
        load(namespace, &self.folder(policy).join(WITHOUT_NAMES))
    }

    /// Loads the kernel's part of a split policy, and the rules of its queue.
    pub fn load_kernel(&self, namespace: &Namespace, policy: SyntheticPolicy) -> Result<()> {
        let folder = self.folder(policy);
        load(namespace, &folder.join("kernel.nft"))?;
        let rules = fs::read_to_string(folder.join("iptables.rules"))?;
        for tool in ["iptables-restore", "ip6tables-restore"] {
            namespace.feed(tool, &["--noflush", "-w", "10"], &rules)?;
        }
        Ok(())
    }

    /// Returns the firewall's options for its part of a split policy.
    pub fn options(&self, policy: SyntheticPolicy) -> Result<Vec<String>> {
        let folder = self.folder(policy);
        let mask = fs::read_to_string(folder.join("stage"))?;
        let names = folder.join("names.nft").display().to_string();
        Ok(["--policy", &names, "--stage", mask.trim()]
            .map(String::from)
            .into())
    }

    /// Returns the text with the files' names in place of their paths.
    pub fn shorten(&self, text: &str) -> String {
        match &self.folder {
            Some(folder) => text.replace(&format!("{}/", folder.display()), ""),
            None => text.into(),
        }
    }
}

impl Drop for StagedFiles {
    fn drop(&mut self) {
        if let Some(folder) = &self.folder {
            // Files that can't be removed stay in the system's folder for temporary files.
            let _ = fs::remove_dir_all(folder);
        }
    }
}

/// Returns the command line that splits a policy, without paths.
pub fn split_words(policy: SyntheticPolicy) -> String {
    format!("{SPLITTER} split {policy}/{WITH_NAMES} --queue iptables --write {policy}")
}

fn split(splitter: &Path, folder: &Path) -> Result<()> {
    let output = Command::new(splitter)
        .arg("split")
        .arg(folder.join(WITH_NAMES))
        .args(["--queue", "iptables", "--write"])
        .arg(folder)
        .stdin(Stdio::null())
        .output()
        .with_context(|| splitter.display().to_string())?;
    if !output.status.success() {
        let words = String::from_utf8_lossy(&output.stderr);
        bail!("{} split: {}", splitter.display(), words.trim());
    }
    Ok(())
}

fn load(namespace: &Namespace, file: &Path) -> Result<()> {
    namespace.feed("nft", &["-f", &file.display().to_string()], "")
}

/// Returns the text of a policy, with or without its rules of host names.
fn text(policy: SyntheticPolicy, names: bool) -> String {
    let (listed, rules) = match policy.kind {
        SyntheticKind::Names if names => (policy.listed(), String::new()),
        SyntheticKind::Names => (String::new(), String::new()),
        _ => (policy.listed(), policy.rules()),
    };
    let named = match policy.kind {
        _ if !names => "accept",
        SyntheticKind::Names => "tls sni @listed drop",
        _ => "tls sni \"ads.example\" drop",
    };
    let chain = |hook| {
        format!(
            "\tchain {hook} {{\n\
             \t\ttype filter hook {hook} priority filter; policy accept;\n\
             \t\tct state invalid drop\n\
             {rules}\
             \t\ttcp dport 443 {named}\n\
             \t}}\n"
        )
    };
    let chains: String = HOOKS.map(chain).concat();
    format!("table inet filter {{\n{listed}{chains}}}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_takes_each_policy_without_its_names() {
        for (kind, rules) in [
            (SyntheticKind::Names, 2),
            (SyntheticKind::PrefixSet, 3),
            (SyntheticKind::Addresses, 10),
        ] {
            let policy = SyntheticPolicy { kind, size: 8 };
            let namespace = Namespace::new().unwrap();
            namespace
                .feed("nft", &["-f", "-"], &text(policy, false))
                .unwrap();
            let output = namespace
                .command("nft")
                .args(["list", "chain", "inet", "filter", "forward"])
                .output();
            let listed = String::from_utf8_lossy(&output.unwrap().stdout).into_owned();
            let ends = |line: &&str| line.ends_with(" drop") || line.ends_with(" accept");
            assert_eq!(listed.lines().filter(ends).count(), rules, "{listed}");
            let named = text(policy, true);
            assert_eq!(named.matches("tls sni").count(), HOOKS.len(), "{named}");
        }
    }
}
