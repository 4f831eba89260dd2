// SPDX-License-Identifier: GPL-2.0-or-later
//! A policy that is replaced, and a control socket beside it.

use testbed::folder::Folder;

/// A folder that anybody may read, since the firewall gives its rights up.
pub struct PolicyFolder(Folder);

impl PolicyFolder {
    pub fn new(policy: &str) -> anyhow::Result<PolicyFolder> {
        let folder = PolicyFolder(Folder::new()?);
        folder.write(policy)?;
        Ok(folder)
    }

    /// Puts another policy in the place of the one that is there, at once: nobody reads a part of it.
    pub fn write(&self, policy: &str) -> anyhow::Result<()> {
        self.0.replace("policy.nft", policy).map(drop)
    }

    /// Where the policy is, as messages name it.
    pub fn policy(&self) -> String {
        self.0.file("policy.nft")
    }

    /// Where the control socket is to be.
    pub fn control(&self) -> String {
        self.0.file("control")
    }
}
