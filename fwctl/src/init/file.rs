// SPDX-License-Identifier: GPL-2.0-or-later
//! The policy's file. It is written as a whole or not at all, in a folder that only root can change. An existing file
//! is replaced only with --force. Links are replaced, not followed.

use std::fs::{self, Permissions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use tempfile::Builder;

use crate::applied::trust;
use crate::failure::{Exit, Failure};

/// Written file, and the path to which the previous file was moved.
pub struct Written {
    path: PathBuf,
    old: Option<PathBuf>,
}

fn is_there(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok()
}

fn refuse_existing(path: &Path) -> Failure {
    let shown = path.display();
    let text =
        format!("{shown} is there: change it and run fwctl apply, or replace it with --force");
    Failure::new(Exit::Usage, text)
}

/// Fails if the policy's file exists.
pub fn check_free(path: &Path) -> Result<(), Failure> {
    match is_there(path) {
        true => Err(refuse_existing(path)),
        false => Ok(()),
    }
}

/// Moves an existing file to PATH.old. Returns the new path; None if there is no file.
fn move_old(path: &Path) -> Result<Option<PathBuf>, Failure> {
    if !is_there(path) {
        return Ok(None);
    }
    let mut old = path.as_os_str().to_owned();
    old.push(".old");
    let old = PathBuf::from(old);
    fs::rename(path, &old).map_err(trust::at(path))?;
    Ok(Some(old))
}

/// Writes the policy.
/// - force: true: an existing file is moved to PATH.old; false: fails if the file exists.
pub fn write(path: &Path, text: &str, force: bool) -> Result<Written, Failure> {
    let parent = path.parent().filter(|parent| *parent != Path::new(""));
    let folder = parent.unwrap_or(Path::new("."));
    trust::folder(folder)?;
    let mut builder = Builder::new();
    builder.permissions(Permissions::from_mode(0o644));
    let mut file = builder.tempfile_in(folder).map_err(trust::at(folder))?;
    // The umask may have cleared bits.
    let readable = file
        .as_file()
        .set_permissions(Permissions::from_mode(0o644));
    let written = readable
        .and_then(|()| file.write_all(text.as_bytes()))
        .and_then(|()| file.as_file().sync_all());
    written.map_err(trust::at(path))?;
    let old = if force { move_old(path)? } else { None };
    match file.persist_noclobber(path) {
        Ok(_) => Ok(Written {
            path: path.to_owned(),
            old,
        }),
        Err(failed) if failed.error.kind() == ErrorKind::AlreadyExists => {
            Err(refuse_existing(path))
        }
        Err(failed) => Err(trust::at(path)(failed.error)),
    }
}

impl Written {
    /// Restores the previous file, or removes the file if there was none.
    pub fn take_back(&self) {
        let _ = match &self.old {
            Some(old) => fs::rename(old, &self.path),
            None => fs::remove_file(&self.path),
        };
    }
}
