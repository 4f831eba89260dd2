// SPDX-License-Identifier: GPL-2.0-or-later
//! Unix sockets of the host's services. A service that acts for its clients (a session bus, a container engine, a
//! resolver) would act outside the cage, so these sockets are covered.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

/// Kernel's list of the Unix sockets of this network namespace. A search of FOLDERS finds the sockets of other
/// namespaces.
const BOUND: &str = "/proc/net/unix";
/// Folders in which services create sockets, and the depth of the search.
const FOLDERS: [(&str, usize); 4] = [("/run", 4), ("/var/run", 4), ("/tmp", 2), ("/var/lib", 2)];
/// Maximum number of folder entries that the search visits, in all folders together.
const ENTRIES_MAX: usize = 20_000;

/// Returns the path in a line of BOUND: the rest from the eighth word on. None if it is no absolute path.
fn path_of(line: &[u8]) -> Option<PathBuf> {
    let mut rest = line;
    for _ in 0..7 {
        let begin = rest.iter().position(|byte| *byte != b' ')?;
        let end = rest[begin..].iter().position(|byte| *byte == b' ')? + begin;
        rest = &rest[end..];
    }
    let begin = rest.iter().position(|byte| *byte != b' ')?;
    let path = PathBuf::from(OsString::from_vec(rest[begin..].to_vec()));
    path.is_absolute().then_some(path)
}

fn look(folder: &Path, depth: usize, left: &mut usize, found: &mut BTreeSet<PathBuf>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if *left == 0 {
            return;
        }
        *left -= 1;
        let Ok(kind) = entry.file_type() else {
            continue;
        };
        if kind.is_socket() {
            found.insert(entry.path());
        } else if kind.is_dir() && depth > 1 {
            look(&entry.path(), depth - 1, left, found);
        }
    }
}

fn is_socket(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|data| data.file_type().is_socket())
}

/// Returns true if a path is one of the paths `left`, or is below one of them.
fn is_left(path: &Path, left: &[PathBuf]) -> bool {
    left.iter().any(|one| path.starts_with(one))
}

/// Returns the Unix sockets that must be covered, so that the command can't connect to them: all sockets that the
/// search finds, except those left open.
/// - left_open: sockets that stay open, and folders whose sockets stay open.
pub fn covered(left_open: &[PathBuf]) -> Vec<PathBuf> {
    let mut found = BTreeSet::new();
    let bound = fs::read(BOUND).unwrap_or_default();
    found.extend(bound.split(|byte| *byte == b'\n').filter_map(path_of));
    let mut left = ENTRIES_MAX;
    for (folder, depth) in FOLDERS {
        look(Path::new(folder), depth, &mut left, &mut found);
    }
    let resolved = found.iter().filter_map(|path| path.canonicalize().ok());
    let sockets: BTreeSet<PathBuf> = resolved
        .filter(|path| is_socket(path) && !is_left(path, left_open))
        .collect();
    sockets.into_iter().collect()
}

/// Returns the caller's own socket folders, in which new sockets may appear at any time. They are covered whole, unless
/// they contain a socket left open.
pub fn emptied(uid: u32, left_open: &[PathBuf]) -> Vec<PathBuf> {
    let mut folders = vec![PathBuf::from(format!("/run/user/{uid}"))];
    if let Some(folder) = std::env::var_os("XDG_RUNTIME_DIR") {
        folders.push(PathBuf::from(folder));
    }
    let mut folders: Vec<PathBuf> = folders
        .iter()
        .filter_map(|folder| folder.canonicalize().ok())
        .collect();
    folders.dedup();
    folders
        .retain(|folder| folder.is_dir() && !left_open.iter().any(|one| one.starts_with(folder)));
    folders
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn a_line_gives_its_path() {
        let line = b"0000000000000000: 00000002 00000000 00010000 0001 01 12345 /run/a b/bus";
        assert_eq!(path_of(line), Some(PathBuf::from("/run/a b/bus")));
        let line = b"0000000000000000: 00000002 00000000 00010000 0001 01 12345 @abstract";
        assert_eq!(path_of(line), None);
        assert_eq!(
            path_of(b"Num       RefCount Protocol Flags    Type St Inode Path"),
            None
        );
        assert_eq!(
            path_of(b"0000000000000000: 00000003 00000000 00000000 0001 03 12345"),
            None
        );
    }

    #[test]
    fn a_socket_is_covered_unless_it_is_left_open() {
        let folder = std::env::temp_dir().join(format!("cage-sockets-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let path = folder.join("bus");
        let listener = UnixListener::bind(&path).unwrap();
        assert!(covered(&[]).contains(&path));
        assert!(!covered(std::slice::from_ref(&folder)).contains(&path));
        drop(listener);
        fs::remove_dir_all(&folder).unwrap();
    }
}
