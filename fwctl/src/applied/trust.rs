// SPDX-License-Identifier: GPL-2.0-or-later
//! Checks of files and folders that root relies on: they must belong to root, and nobody else may be able to change
//! them.

use std::fs::{self, DirBuilder, File, Metadata};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

use crate::failure::{words, Exit, Failure};

const WRITABLE_BY_OTHERS: u32 = 0o022;

fn is_roots(data: &Metadata) -> bool {
    data.uid() == 0 && data.mode() & WRITABLE_BY_OTHERS == 0
}

/// Fails if others than root can change the file.
pub fn check_file(path: &Path) -> Result<(), Failure> {
    match fs::metadata(path).is_ok_and(|data| is_roots(&data)) {
        true => Ok(()),
        false => Err(Failure::new(
            Exit::Usage,
            format_args!(
                "{0}: others than root can change it: chown root: {0}; chmod 644 {0}",
                path.display()
            ),
        )),
    }
}

/// Returns a function that makes the failure of a file operation at this path.
pub fn at(path: &Path) -> impl Fn(std::io::Error) -> Failure + '_ {
    move |error| {
        Failure::new(
            Exit::Refused,
            format_args!("{}: {}", path.display(), words(&error)),
        )
    }
}

/// Creates a folder that everybody can read, if it is missing. Fails if others than root can change it.
pub fn folder(path: &Path) -> Result<(), Failure> {
    let made = DirBuilder::new().recursive(true).mode(0o755).create(path);
    made.map_err(at(path))?;
    let data = fs::symlink_metadata(path).map_err(at(path))?;
    match data.is_dir() && is_roots(&data) {
        true => Ok(()),
        false => Err(Failure::new(
            Exit::Refused,
            format_args!(
                "{0} is no folder of root's alone: chown root: {0}; chmod 755 {0}",
                path.display()
            ),
        )),
    }
}

/// Replaces a file by a new one that everybody can read.
pub fn replace(path: &Path, text: &str) -> Result<(), Failure> {
    let part = path.with_extension("part");
    let write = || {
        let mut options = File::options();
        options.write(true).create(true).truncate(true).mode(0o644);
        options.open(&part)?.write_all(text.as_bytes())?;
        fs::rename(&part, path)
    };
    write().map_err(at(path))
}
