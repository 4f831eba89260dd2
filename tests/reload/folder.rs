// SPDX-License-Identifier: GPL-2.0-or-later
//! A folder with a policy and a control socket, which anybody may read: the firewall gives its rights up.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::Context;

/// Goes away with the value.
pub struct Folder(PathBuf);

impl Folder {
    pub fn new(policy: &str) -> anyhow::Result<Folder> {
        let name = format!("twinwall-reload-{}", std::process::id());
        let folder = Folder(std::env::temp_dir().join(name));
        fs::create_dir(&folder.0)?;
        fs::set_permissions(&folder.0, fs::Permissions::from_mode(0o755))?;
        folder.write(policy)?;
        Ok(folder)
    }

    /// Puts another policy in the place of the one that is there, at once: nobody reads a part of it.
    pub fn write(&self, policy: &str) -> anyhow::Result<()> {
        let aside = self.0.join("aside");
        fs::write(&aside, policy)?;
        fs::rename(&aside, self.0.join("policy.nft"))?;
        Ok(())
    }

    /// Where the policy is, as messages name it.
    pub fn policy(&self) -> anyhow::Result<String> {
        path_in(&self.0, "policy.nft")
    }

    /// Where the control socket is to be.
    pub fn control(&self) -> anyhow::Result<String> {
        path_in(&self.0, "control")
    }
}

fn path_in(folder: &Path, name: &str) -> anyhow::Result<String> {
    let path = folder.join(name);
    Ok(path.to_str().context("a path in UTF-8")?.to_owned())
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
