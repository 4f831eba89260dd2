// SPDX-License-Identifier: GPL-2.0-or-later
//! Temporary folders for the files of a test.

use std::fs;
use std::path::PathBuf;

/// A temporary folder, removed on drop.
pub struct Place(PathBuf);

impl Place {
    pub fn new(name: &str) -> Place {
        let name = format!("twinwall-{name}-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        fs::create_dir_all(&folder).unwrap();
        Place(folder)
    }

    pub fn path(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
