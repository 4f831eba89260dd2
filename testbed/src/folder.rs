// SPDX-License-Identifier: GPL-2.0-or-later
//! Folders for the files of a test.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::Context;

/// A temporary folder, removed on drop with its content. The path of a removed folder is reused, so that messages of two
/// firewalls about their files can be compared.
pub struct Folder(PathBuf);

impl Folder {
    /// Creates a folder that all users may read.
    pub fn new() -> anyhow::Result<Folder> {
        Folder::with_mode(0o755)
    }

    /// Creates a folder that all users may write to: the user that a firewall becomes creates files in it.
    pub fn shared() -> anyhow::Result<Folder> {
        Folder::with_mode(0o777)
    }

    /// Creates a folder that all users may read, and whose path only root can change.
    pub fn of_root() -> anyhow::Result<Folder> {
        Folder::within(Path::new("/run"), 0o755)
    }

    fn with_mode(mode: u32) -> anyhow::Result<Folder> {
        Folder::within(&std::env::temp_dir(), mode)
    }

    fn within(parent: &Path, mode: u32) -> anyhow::Result<Folder> {
        let taken = |error: &io::Error| error.kind() == io::ErrorKind::AlreadyExists;
        let mut number = 0;
        loop {
            let name = format!("twinwall-{}-{number}", std::process::id());
            let path = parent.join(name);
            match fs::create_dir(&path) {
                Err(error) if taken(&error) => number += 1,
                made => {
                    made.with_context(|| path.display().to_string())?;
                    let folder = Folder(path);
                    fs::set_permissions(&folder.0, Permissions::from_mode(mode))?;
                    return Ok(folder);
                }
            }
        }
    }

    /// Returns the folder's path.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Returns the path of a file in the folder. The file need not exist.
    ///
    /// # Panics
    /// If the path of the folder for temporary files is not UTF-8.
    pub fn file(&self, name: &str) -> String {
        let path = self.0.join(name).into_os_string();
        path.into_string().expect("a path in UTF-8")
    }

    /// Writes a file that all users may read; returns its path.
    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) -> anyhow::Result<String> {
        let file = self.file(name);
        fs::write(&file, content).with_context(|| file.clone())?;
        fs::set_permissions(&file, Permissions::from_mode(0o644))?;
        Ok(file)
    }

    /// Replaces a file atomically; returns its path.
    pub fn replace(&self, name: &str, content: impl AsRef<[u8]>) -> anyhow::Result<String> {
        let (aside, file) = (self.write("aside", content)?, self.file(name));
        fs::rename(aside, &file)?;
        Ok(file)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // A leftover does no harm.
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_goes_with_its_value_and_no_other() {
        let (one, other) = (Folder::new().unwrap(), Folder::shared().unwrap());
        let file = one.write("a", "x").unwrap();
        assert_eq!(one.replace("a", "y").unwrap(), file);
        assert_eq!(fs::read(&file).unwrap(), b"y");
        let mode = |folder: &Folder| fs::metadata(folder.path()).unwrap().permissions().mode();
        assert_eq!(
            [&one, &other].map(|folder| mode(folder) & 0o777),
            [0o755, 0o777]
        );
        let path = one.path().to_owned();
        drop(one);
        assert!(!path.exists() && other.path().exists());
        assert_eq!(Folder::new().unwrap().path(), path);
    }
}
