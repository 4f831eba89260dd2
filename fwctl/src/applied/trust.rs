// SPDX-License-Identifier: GPL-2.0-or-later
//! Checks of files and folders that root relies on: they must belong to root, and nobody else may be able to change
//! them.

use std::ffi::OsString;
use std::fs::{self, File, Metadata, Permissions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Component, Path, PathBuf};

use nix::errno::Errno;

use crate::failure::{words, Exit, Failure};

const WRITABLE_BY_OTHERS: u32 = 0o022;
/// Maximum number of links on a path, as in the kernel (MAXSYMLINKS).
const LINKS_MAX: usize = 40;

fn is_roots(data: &Metadata) -> bool {
    data.uid() == 0 && data.mode() & WRITABLE_BY_OTHERS == 0
}

/// Returns the names of a path, the last one first.
fn names(path: &Path) -> Vec<OsString> {
    let names = path.components().filter_map(|part| match part {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        _ => None,
    });
    let mut names: Vec<OsString> = names.collect();
    names.reverse();
    names
}

/// Returns the first folder on a path, or the file itself, that others than root can change. Follows links like the
/// kernel: a link is changed only in its folder. A sticky folder such as /tmp is no exception, since other users can
/// create the file in it as soon as it is missing, at each boot. Returns None if there is no such folder or file before
/// the end of the path, or before its first part that does not exist.
fn weak_part(path: &Path) -> io::Result<Option<PathBuf>> {
    let mut left = names(&std::path::absolute(path)?);
    let (mut at, mut links) = (PathBuf::from("/"), 0);
    if !is_roots(&fs::symlink_metadata(&at)?) {
        return Ok(Some(at));
    }
    while let Some(name) = left.pop() {
        if name == ".." {
            at.pop();
            continue;
        }
        let next = at.join(name);
        let data = match fs::symlink_metadata(&next) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            data => data?,
        };
        if data.is_symlink() {
            links += 1;
            if links > LINKS_MAX {
                return Err(Errno::ELOOP.into());
            }
            let target = fs::read_link(&next)?;
            if target.is_absolute() {
                at = PathBuf::from("/");
            }
            left.extend(names(&target));
        } else if is_roots(&data) {
            at = next;
        } else {
            return Ok(Some(next));
        }
    }
    Ok(None)
}

/// Fails if others than root can change a file or folder, or a folder on its path. Afterwards only root can lead the
/// path elsewhere, so it can be opened by its name.
pub fn check_file(path: &Path) -> Result<(), Failure> {
    let refuse = |text: std::fmt::Arguments| {
        let shown = path.display();
        Err(Failure::new(Exit::Usage, format_args!("{shown}: {text}")))
    };
    match weak_part(path).map_err(at(path))? {
        None => Ok(()),
        Some(part) if part.is_dir() => refuse(format_args!(
            "others than root can change the folder {}: move the file to a folder of root's alone, such as \
             /etc/twinwall",
            part.display()
        )),
        Some(part) => refuse(format_args!(
            "others than root can change it: chown root: {0}; chmod 644 {0}",
            part.display()
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
    apply::store::create_folder(path, 0o755).map_err(at(path))?;
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
        let mut file = options.open(&part)?;
        // The umask may have cleared bits.
        file.set_permissions(Permissions::from_mode(0o644))?;
        file.write_all(text.as_bytes())?;
        fs::rename(&part, path)
    };
    write().map_err(at(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everybody_can_read_a_replaced_file() {
        let folder = tempfile::tempdir().unwrap();
        let (path, part) = (folder.path().join("f.nft"), folder.path().join("f.part"));
        // The mode of a file that a narrow umask has left.
        fs::write(&part, "").unwrap();
        fs::set_permissions(&part, Permissions::from_mode(0o600)).unwrap();
        replace(&path, "x").unwrap();
        let mode = fs::metadata(&path).unwrap().mode() & 0o777;
        assert_eq!(mode, 0o644);
    }
}
