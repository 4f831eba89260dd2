// SPDX-License-Identifier: GPL-2.0-or-later
//! Folder with a policy that is replaced, and a control socket.

use testbed::folder::Folder;

/// Folder that every user may read, since the firewall changes to a user without rights.
pub struct PolicyFolder(Folder);

impl PolicyFolder {
    pub fn new(policy: &str) -> anyhow::Result<PolicyFolder> {
        let folder = PolicyFolder(Folder::new()?);
        folder.write(policy)?;
        Ok(folder)
    }

    /// Replaces the policy atomically: a reader sees the old file or the new file.
    pub fn write(&self, policy: &str) -> anyhow::Result<()> {
        self.0.replace("policy.nft", policy).map(drop)
    }

    /// Returns the path of the policy, as messages show it.
    pub fn policy(&self) -> String {
        self.0.file("policy.nft")
    }

    /// Returns the path of the control socket.
    pub fn control(&self) -> String {
        self.0.file("control")
    }
}
