// SPDX-License-Identifier: GPL-2.0-or-later
//! A policy that is replaced, and a control socket in the same folder.

use testbed::folder::Folder;

/// A folder that every user may read, since the firewall gives its rights up.
pub struct PolicyFolder(Folder);

impl PolicyFolder {
    pub fn new(policy: &str) -> anyhow::Result<PolicyFolder> {
        let folder = PolicyFolder(Folder::new()?);
        folder.write(policy)?;
        Ok(folder)
    }

    /// Replaces the policy atomically: no reader sees a part of it.
    pub fn write(&self, policy: &str) -> anyhow::Result<()> {
        self.0.replace("policy.nft", policy).map(drop)
    }

    /// Returns the path of the policy, as in messages.
    pub fn policy(&self) -> String {
        self.0.file("policy.nft")
    }

    /// Returns the path of the control socket.
    pub fn control(&self) -> String {
        self.0.file("control")
    }
}
