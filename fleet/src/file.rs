// SPDX-License-Identifier: GPL-2.0-or-later
//! Files that have either their old or their new content, whenever they are read.

use std::fs::{self, DirBuilder, File};
use std::io::{Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

use crate::failure::{at, system, Result};

/// Creates a folder and its missing parents, with mode 700.
pub fn make_folder(folder: &Path) -> Result<()> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(folder);
    made.map_err(at(folder))
}

/// Writes a file with mode 600 atomically: after a power cut it has its old or its new content.
pub fn replace(path: &Path, content: &[u8]) -> Result<()> {
    write(path, content, true)
}

/// Writes a file like [`replace`], but does not wait for the disk: after a power cut its content may be anything.
pub fn replace_soon(path: &Path, content: &[u8]) -> Result<()> {
    write(path, content, false)
}

fn write(path: &Path, content: &[u8], is_durable: bool) -> Result<()> {
    let mut part = path.as_os_str().to_owned();
    part.push(".part");
    let part = Path::new(&part);
    let write = || {
        let mut options = File::options();
        options.write(true).create(true).truncate(true).mode(0o600);
        let mut file = options.open(part)?;
        file.write_all(content)?;
        if !is_durable {
            return fs::rename(part, path);
        }
        file.sync_all()?;
        fs::rename(part, path)?;
        File::open(path.parent().unwrap_or(path))?.sync_all()
    };
    let written = write();
    if written.is_err() {
        let _ = fs::remove_file(part);
    }
    written.map_err(at(path))
}

/// Reads a file. Fails if it has more than `most` bytes.
pub fn read_at_most(path: &Path, most: usize) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(at(path))?;
    let read = file.take(most as u64 + 1).read_to_end(&mut bytes);
    read.map_err(at(path))?;
    match bytes.len() > most {
        true => Err(system(format_args!(
            "{}: it has more than {most} bytes: make it smaller",
            path.display()
        ))),
        false => Ok(bytes),
    }
}
